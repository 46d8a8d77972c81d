/* table_text.c - the text of a table of operations: CSV (RFC 4180), told by
 * its header. Only numbers and distinct texts are kept. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "trace/formats/table.h"
#include "trace/proto/wire.h"
#include "trace/text.h"

enum { MAX_COLUMNS = 64 };

struct column {
	uint8_t field; /* enum tauti_table_field */
	uint8_t digits; /* of times: decimals of the unit down to 1 ns */
	char name[32];
};

struct reader {
	struct tauti_table *t;
	struct column columns[MAX_COLUMNS];
	size_t n_columns;
	char separator;
	uint64_t line; /* number, from 1 */
	const char *wanted; /* of the field that is wrong */
	size_t wrong;       /* its column */
	bool memory;        /* false: out of it */
	TAUT_VEC(char) text; /* a quoted field without its quotes */
};

struct field {
	const char *at;
	size_t len;
};

/* --- the header --------------------------------------------------------------- */

static const struct {
	const char *name;
	enum tauti_table_field field;
} known[] = {
	{ "rank", TAUTI_FIELD_RANK }, { "global_rank", TAUTI_FIELD_RANK },
	{ "step", TAUTI_FIELD_STEP }, { "iteration", TAUTI_FIELD_STEP },
	{ "name", TAUTI_FIELD_NAME }, { "op", TAUTI_FIELD_NAME },
	{ "optype", TAUTI_FIELD_NAME }, { "op_type", TAUTI_FIELD_NAME },
	{ "kind", TAUTI_FIELD_KIND }, { "category", TAUTI_FIELD_KIND },
	{ "lane", TAUTI_FIELD_LANE }, { "stream", TAUTI_FIELD_LANE },
	{ "thread", TAUTI_FIELD_LANE },
	{ "start", TAUTI_FIELD_START }, { "begin", TAUTI_FIELD_START },
	{ "ts", TAUTI_FIELD_START },
	{ "duration", TAUTI_FIELD_DURATION }, { "dur", TAUTI_FIELD_DURATION },
	{ "end", TAUTI_FIELD_END },
	{ "group", TAUTI_FIELD_GROUP }, { "process_group", TAUTI_FIELD_GROUP },
	{ "bytes", TAUTI_FIELD_BYTES }, { "size_bytes", TAUTI_FIELD_BYTES },
	{ "id", TAUTI_FIELD_ID },
	{ "waits", TAUTI_FIELD_WAITS }, { "waits_for", TAUTI_FIELD_WAITS },
	{ "depends_on", TAUTI_FIELD_WAITS },
	{ "peer", TAUTI_FIELD_PEER },
	{ "stage", TAUTI_FIELD_STAGE }, { "pp_rank", TAUTI_FIELD_STAGE },
	{ "dp_rank", TAUTI_FIELD_REPLICA }, { "replica", TAUTI_FIELD_REPLICA },
	{ "micro_batch", TAUTI_FIELD_BATCH }, { "mb_id", TAUTI_FIELD_BATCH },
	{ "microbatch", TAUTI_FIELD_BATCH },
	{ "chunk", TAUTI_FIELD_CHUNK }, { "mc", TAUTI_FIELD_CHUNK },
	{ "model_chunk", TAUTI_FIELD_CHUNK }, { "gmc", TAUTI_FIELD_PLACE },
	{ "global_chunk", TAUTI_FIELD_PLACE },
};

static bool is_time(uint8_t field)
{
	return field == TAUTI_FIELD_START || field == TAUTI_FIELD_DURATION ||
		field == TAUTI_FIELD_END;
}

/* The unit behind the last underscore; *len loses it. 255: none. */
static uint8_t take_unit(const char *name, size_t *len)
{
	static const struct {
		const char *end;
		uint8_t digits;
	} units[] = { { "_ns", 0 }, { "_us", 3 }, { "_ms", 6 }, { "_s", 9 } };
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		size_t n = strlen(units[i].end);
		if (*len > n && !memcmp(name + *len - n, units[i].end, n)) {
			*len -= n;
			return units[i].digits;
		}
	}
	return UINT8_MAX;
}

static uint8_t field_of(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strlen(known[i].name) == len &&
			!memcmp(known[i].name, name, len))
			return (uint8_t)known[i].field;
	return TAUTI_FIELD_OTHER;
}

/* What a column of this name holds. */
static struct column column_of(const char *text, size_t len)
{
	struct column c = { .digits = UINT8_MAX };
	size_t n = 0, bare;
	while (len && *text == ' ')
		text++, len--;
	for (; n < len && n < sizeof c.name - 1; n++)
		c.name[n] = (char)tolower((unsigned char)text[n]);
	while (n && c.name[n - 1] == ' ')
		n--;
	c.name[n] = '\0';
	c.field = field_of(c.name, n);
	if (c.field != TAUTI_FIELD_OTHER && !is_time(c.field))
		return c;
	bare = n;
	c.digits = take_unit(c.name, &bare);
	if (c.digits != UINT8_MAX) {
		uint8_t field = field_of(c.name, bare);
		c.field = is_time(field) ? field : TAUTI_FIELD_OTHER;
	}
	return c;
}

/* start_ts is the published study's: seconds, and so is the duration then. */
static void take_stamps(struct column *columns, size_t n)
{
	bool stamps = false;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(columns[i].name, "start_ts")) {
			columns[i].field = TAUTI_FIELD_START;
			columns[i].digits = 9;
			stamps = true;
		}
	for (size_t i = 0; i < n && stamps; i++)
		if (is_time(columns[i].field) &&
			columns[i].digits == UINT8_MAX)
			columns[i].digits = 9;
}

static size_t split_header(const char *line, size_t len, char separator,
	struct column *columns)
{
	size_t n = 0;
	if (len >= 3 && !memcmp(line, "\xef\xbb\xbf", 3))
		line += 3, len -= 3;
	while (n < MAX_COLUMNS) {
		const char *end = memchr(line, separator, len);
		size_t text = end ? (size_t)(end - line) : len;
		bool quoted = text > 1 && *line == '"' &&
			line[text - 1] == '"';
		columns[n++] = column_of(
			line + quoted, text - 2 * (size_t)quoted);
		if (!end)
			break;
		line += text + 1;
		len -= text + 1;
	}
	take_stamps(columns, n);
	return n;
}

static uint32_t fields_in(const struct column *columns, size_t n)
{
	uint32_t all = 0;
	for (size_t i = 0; i < n; i++)
		all |= UINT32_C(1) << columns[i].field;
	return all;
}

static char separator_of(const char *line, size_t len)
{
	return !memchr(line, ',', len) && memchr(line, '\t', len) ? '\t' : ',';
}

bool tauti_table_is_header(const char *head, size_t len)
{
	struct column columns[MAX_COLUMNS];
	const char *end = memchr(head, '\n', len);
	uint32_t all;
	if (end)
		len = (size_t)(end - head);
	if (len && head[len - 1] == '\r')
		len--;
	if (!len || memchr(head, '{', len))
		return false;
	all = fields_in(columns, split_header(
		head, len, separator_of(head, len), columns));
	return (all >> TAUTI_FIELD_NAME & 1) && (all >> TAUTI_FIELD_START & 1) &&
		((all >> TAUTI_FIELD_DURATION & 1) ||
			(all >> TAUTI_FIELD_END & 1));
}

static taut_status read_header(struct reader *r, const char *line, size_t len,
	struct taut_error *err)
{
	r->separator = separator_of(line, len);
	r->n_columns = split_header(line, len, r->separator, r->columns);
	r->t->columns = fields_in(r->columns, r->n_columns);
	for (size_t i = 0; i < r->n_columns; i++) {
		const struct column *c = &r->columns[i];
		if (is_time(c->field) && c->digits == UINT8_MAX)
			return taut_error_set(err, TAUT_EFORMAT, 0,
				"%s:1: column %zu (%s): expected a unit in "
				"its name, as %s_us, _ms, _s or _ns",
				r->t->builder->path, i + 1, c->name, c->name);
		for (size_t k = 0; k < i && c->field; k++)
			if (r->columns[k].field == c->field)
				return taut_error_set(err, TAUT_EFORMAT, 0,
					"%s:1: column %zu (%s): says the same "
					"as column %zu (%s); expected one",
					r->t->builder->path, i + 1, c->name,
					k + 1, r->columns[k].name);
	}
	return TAUT_OK;
}

/* --- fields ----------------------------------------------------------------------- */

struct decimal {
	uint64_t digits;
	int exponent; /* of ten */
	bool negative;
};

static bool read_exponent(const char *at, const char *end, int *exponent)
{
	bool negative = at < end && *at == '-';
	int value = 0;
	at += at < end && (*at == '-' || *at == '+');
	if (at == end)
		return false;
	for (; at < end; at++) {
		if (*at < '0' || *at > '9' || value > 1000)
			return false;
		value = value * 10 + (*at - '0');
	}
	*exponent += negative ? -value : value;
	return true;
}

/* [-]digits[.digits][e[+-]digits]; digits beyond the 19th, or 18th, are cut off. */
static bool read_decimal(struct field f, struct decimal *d)
{
	const char *at = f.at, *end = f.at + f.len;
	bool point = false, any = false;
	*d = (struct decimal){ .negative = at < end && *at == '-' };
	for (at += d->negative; at < end; at++) {
		unsigned digit = (unsigned)*at - '0';
		if (digit > 9) {
			if (*at != '.' || point)
				break;
			point = true;
			continue;
		}
		any = true;
		if (d->digits < UINT64_C(1800000000000000000)) {
			d->digits = d->digits * 10 + digit;
			d->exponent -= point;
		} else {
			d->exponent += !point;
		}
	}
	if (at < end && any && (*at == 'e' || *at == 'E'))
		return read_exponent(at + 1, end, &d->exponent);
	return any && at == end;
}

/* times 10^shift, towards zero; false: beyond limit. */
static bool scale(struct decimal d, int shift, int64_t limit, int64_t *ret)
{
	uint64_t value = d.digits;
	for (shift += d.exponent; shift > 0 && value; shift--) {
		if (value > (uint64_t)limit / 10)
			return false;
		value *= 10;
	}
	for (; shift < 0 && value; shift++)
		value /= 10;
	if (value > (uint64_t)limit)
		return false;
	*ret = d.negative ? -(int64_t)value : (int64_t)value;
	return true;
}

static bool read_time(struct field f, uint8_t digits, int64_t *ret_ns)
{
	struct decimal d;
	return read_decimal(f, &d) &&
	       scale(d, digits, TAUTI_TIME_LIMIT_NS, ret_ns);
}

/* A whole number, or nothing, which leaves *ret: pandas writes 3.0 and nan
 * where a column has holes. */
static bool read_whole(struct field f, int64_t limit, int64_t *ret)
{
	int64_t value = 0;
	struct decimal d;
	size_t i = 0;
	if (!f.len || (f.len == 3 && !strncasecmp(f.at, "nan", 3)))
		return true;
	for (; i < f.len && i < 17; i++) {
		unsigned digit = (unsigned)f.at[i] - '0';
		if (digit > 9)
			break;
		value = value * 10 + digit;
	}
	if (i == f.len && value <= limit) {
		*ret = value;
		return true;
	}
	if (!read_decimal(f, &d) || !scale(d, 0, limit, &value))
		return false;
	*ret = value < 0 ? -1 : value; /* not told */
	return true;
}

static bool read_small(struct field f, int32_t *ret)
{
	int64_t value = *ret;
	if (!read_whole(f, 99999999, &value))
		return false;
	*ret = (int32_t)value;
	return true;
}

static bool read_name(struct reader *r, struct field f, uint32_t *ret)
{
	*ret = f.len ? tauti_text_name(r->t->names, f.at, f.len) : 0;
	r->memory &= *ret != TAUT_NONE;
	return true;
}

/* Numbers are themselves; texts get numbers far above, by their hash. */
static uint64_t id_of(struct field f)
{
	uint64_t value = 0;
	for (size_t i = 0; i < f.len; i++) {
		unsigned digit = (unsigned)f.at[i] - '0';
		if (digit > 9 || i > 15)
			return tauti_hash(f.at, f.len) | UINT64_C(1) << 63;
		value = value * 10 + digit;
	}
	return value + 1; /* 0 is none */
}

/* Ids with spaces or semicolons between them. */
static bool read_waits(
	struct reader *r, struct field f, struct tauti_table_op *op)
{
	op->first_wait = (uint32_t)r->t->wait_ids.count;
	for (size_t i = 0; i < f.len;) {
		struct field id = { f.at + i, 0 };
		while (i + id.len < f.len && !strchr("; |", id.at[id.len]))
			id.len++;
		i += id.len + 1;
		if (!id.len)
			continue;
		r->memory &= taut_vec_push(&r->t->wait_ids, id_of(id));
		op->n_waits++;
	}
	return true;
}

static const char *const whole_number = "a whole number";

/* False: the field is not what r->wanted says. */
static bool take_field(struct reader *r, const struct column *c,
	struct field f, struct tauti_table_op *op, int64_t *end_ns)
{
	r->wanted = whole_number;
	switch (c->field) {
	case TAUTI_FIELD_RANK:
		return read_small(f, &op->rank);
	case TAUTI_FIELD_STEP:
		return read_small(f, &op->step);
	case TAUTI_FIELD_STAGE:
		return read_small(f, &op->stage);
	case TAUTI_FIELD_REPLICA:
		return read_small(f, &op->replica);
	case TAUTI_FIELD_BATCH:
		return read_small(f, &op->batch);
	case TAUTI_FIELD_CHUNK:
		return read_small(f, &op->chunk);
	case TAUTI_FIELD_PLACE:
		return read_small(f, &op->place);
	case TAUTI_FIELD_PEER:
		return read_small(f, &op->peer);
	case TAUTI_FIELD_BYTES:
		return read_whole(f, (int64_t)1 << 50, &op->bytes);
	case TAUTI_FIELD_ID:
		op->id = f.len ? id_of(f) : 0;
		return true;
	case TAUTI_FIELD_WAITS:
		return read_waits(r, f, op);
	case TAUTI_FIELD_START:
		r->wanted = "a time";
		return read_time(f, c->digits, &op->start_ns);
	case TAUTI_FIELD_DURATION:
		r->wanted = "a duration";
		return read_time(f, c->digits, &op->dur_ns) && op->dur_ns >= 0;
	case TAUTI_FIELD_END:
		r->wanted = "a time";
		return read_time(f, c->digits, end_ns);
	case TAUTI_FIELD_NAME:
		return read_name(r, f, &op->name);
	case TAUTI_FIELD_KIND:
		return read_name(r, f, &op->kind_name);
	case TAUTI_FIELD_LANE:
		return read_name(r, f, &op->lane);
	case TAUTI_FIELD_GROUP:
		return read_name(r, f, &op->group);
	default:
		return true;
	}
}

/* --- lines ------------------------------------------------------------------------- */

/* A field in quotes, without them; false: nothing closes them, or there is no
 * memory. *at moves behind it. */
static bool unquote(struct reader *r, const char **at, const char *end,
	struct field *ret)
{
	taut_vec_clear(&r->text);
	for ((*at)++; *at < end; (*at)++) {
		if (**at == '"') {
			if (*at + 1 == end || (*at)[1] != '"') {
				(*at)++;
				*ret = (struct field){
					r->text.count ? r->text.data : "",
					r->text.count };
				return *at == end || **at == r->separator;
			}
			(*at)++;
		}
		if (!taut_vec_push(&r->text, **at)) {
			r->memory = false;
			return false;
		}
	}
	return false;
}

/* The next field; *at moves to the separator behind it, or to the end. */
static bool next_field(struct reader *r, const char **at, const char *end,
	struct field *ret)
{
	const char *from = *at, *to = from;
	if (from < end && *from == '"')
		return unquote(r, at, end, ret);
	while (to < end && *to != r->separator)
		to++;
	*at = to;
	*ret = (struct field){ from, (size_t)(to - from) };
	return true;
}

static const struct tauti_table_op no_op = { .bytes = -1, .rank = -1,
	.step = -1, .replica = -1, .stage = -1, .chunk = -1, .place = -1,
	.batch = -1, .peer = -1, .seq = -1, .dur_ns = -1 };

static bool is_complete(struct reader *r, struct tauti_table_op *op,
	int64_t end_ns)
{
	if (op->dur_ns < 0 && end_ns != INT64_MIN)
		op->dur_ns = end_ns - op->start_ns;
	r->wanted = !(op->name || op->kind_name) ? "a name or a kind" : op->dur_ns < 0 ?
		"a row whose end is not before its start" :
		"a row with a rank";
	return (op->name || op->kind_name) && op->dur_ns >= 0 &&
	       (op->rank >= 0 || !tauti_table_has(r->t, TAUTI_FIELD_RANK));
}

/* Is what stands at the separator behind the last column nothing but more of
 * them, or of columns that the header has and no room was for? */
static bool is_over(const struct reader *r, const char *at, const char *end)
{
	while (at < end && *at == r->separator)
		at++;
	return at == end || r->n_columns == MAX_COLUMNS || r->t->lenient;
}

/* False: r->wrong is the column that is not what r->wanted says. */
static bool take_line(struct reader *r, const char *line, size_t len)
{
	struct tauti_table_op op = no_op;
	const char *at = line, *end = line + len;
	int64_t end_ns = INT64_MIN;
	op.line = r->line;
	for (r->wrong = 0; r->wrong < r->n_columns; r->wrong++) {
		struct field f;
		r->wanted = "a field that ends where its quotes do";
		if (!next_field(r, &at, end, &f) || !take_field(r,
			&r->columns[r->wrong], f, &op, &end_ns))
			return false;
		r->wanted = "as many fields as the header has";
		if (r->wrong + 1 == r->n_columns ? !is_over(r, at, end) :
			at == end && !r->t->lenient)
			return false;
		if (at == end)
			break;
		at++;
	}
	r->wrong = 0;
	if (r->memory && !is_complete(r, &op, end_ns))
		return false;
	r->memory &= r->memory && taut_vec_push(&r->t->ops, op);
	return true;
}

static taut_status refuse_line(struct reader *r, const char *line, size_t len,
	uint64_t offset, struct taut_error *err)
{
	const struct column *c =
		&r->columns[r->wrong < r->n_columns ? r->wrong : 0];
	char shown[41];
	const char *at = line, *end = line + len;
	struct field f = { "", 0 };
	for (size_t i = 0; i <= r->wrong && at <= end; i++) {
		if (!next_field(r, &at, end, &f))
			break;
		at++;
	}
	if (f.len > sizeof shown - 1)
		f.len = sizeof shown - 1;
	for (size_t i = 0; i < f.len; i++)
		shown[i] = f.at[i] >= ' ' && f.at[i] <= '~' ? f.at[i] : '?';
	shown[f.len] = '\0';
	return taut_error_set(err, TAUT_EFORMAT, (int64_t)offset,
		"%s:%llu: column %zu (%s): expected %s, found '%s'",
		r->t->builder->path, (unsigned long long)r->line,
		r->wrong + 1, c->name, r->wanted, shown);
}

static taut_status read_line(struct reader *r, const char *line, size_t len,
	uint64_t offset, struct taut_error *err)
{
	size_t waits = r->t->wait_ids.count;
	if (len && line[len - 1] == '\r')
		len--;
	r->line++;
	if (r->line == 1)
		return read_header(r, line, len, err);
	if (!len || *line == '#')
		return TAUT_OK;
	r->t->builder->events_seen++;
	if (take_line(r, line, len) || !r->memory)
		return r->memory ? TAUT_OK : TAUT_ENOMEM;
	r->t->wait_ids.count = waits;
	if (!r->t->lenient)
		return refuse_line(r, line, len, offset, err);
	tauti_builder_lose(r->t->builder, TAUTI_LOST_BROKEN, offset);
	return TAUT_OK;
}

/* Where the line ends: at a line feed outside of quotes, which open where a
 * field begins and nowhere else; NULL: not yet. */
static const char *line_end(
	const struct reader *r, const char *line, size_t held)
{
	const char *end = memchr(line, '\n', held);
	bool open = false, may_open = true;
	if (!end || !r->line || *line == '#' ||
		!memchr(line, '"', (size_t)(end - line)))
		return end;
	for (const char *at = line; at < line + held; at++) {
		if (*at == '"' && (open || may_open)) {
			open = !open;
			may_open = true; /* two stand for one */
		} else if (!open && *at == '\n') {
			return at;
		} else if (!open) {
			may_open = *at == r->separator;
		}
	}
	return NULL;
}

taut_status tauti_table_read(struct tauti_table *table,
	struct tauti_stream *stream, struct taut_error *err)
{
	struct reader r = { .t = table, .memory = true };
	struct tauti_feed feed = { 0 };
	size_t want = 1;
	taut_status status = tauti_feed_init(
		&feed, stream, table->builder->window_bytes, err);
	while (status == TAUT_OK) {
		status = tauti_feed_want(&feed, want, err);
		if (status != TAUT_OK || !feed.held)
			break;
		const char *line = (const char *)feed.at;
		const char *end = line_end(&r, line, feed.held);
		if (!end && !feed.ended) {
			want = feed.held + 1;
			continue;
		}
		size_t len = end ? (size_t)(end - line) : feed.held;
		status = read_line(&r, line, len, feed.offset, err);
		tauti_feed_take(&feed, len + (end != NULL));
		want = 1;
	}
	table->builder->bytes_read = feed.offset;
	tauti_feed_fini(&feed);
	taut_vec_free(&r.text);
	return status;
}

/* study.c - the operations of a job, as published with studies of stragglers
 * (StragglerAnalysis): a CSV table of all ranks, of which each row is one
 * operation of one step:
 *
 *     dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc
 *
 * Times are seconds from the beginning of the step. The table tells nothing of
 * what lies between the steps: here each begins when the one before is over on
 * all ranks. A stage sends to its neighbours in the pipeline, of its own place
 * in data parallelism; what the ranks of a stage do together is named after
 * it. A receive blocks its rank; sends go on beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/format.h"
#include "trace/json/string.h"
#include "trace/proto/wire.h"
#include "trace/builder.h"

static const char header[] = "dp_rank,stage,rank,step,optype,start_ts,duration,";

struct op {
	int64_t start_ns, dur_ns;
	int32_t dp, stage, rank, step;
	uint32_t name; /* in names */
};

struct step {
	int32_t number;
	int64_t start_ns, dur_ns;
};

struct study {
	struct tauti_builder *builder; /* of the first rank */
	struct taut_names *names;
	TAUT_VEC(struct op) ops;
	TAUT_VEC(struct step) steps; /* by number */
	int32_t last_stage, dp_size;
};

/* --- lines ------------------------------------------------------------------- */

/* Seconds with a point, as nanoseconds; what is finer is cut off. */
static bool seconds(const char *text, size_t len, int64_t *ret_ns)
{
	int64_t ns = 0;
	int decimals = -1;
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '.' && decimals < 0) {
			decimals = 0;
			continue;
		}
		if (text[i] < '0' || text[i] > '9' ||
			ns > TAUTI_TIME_LIMIT_NS / 100)
			return false;
		if (decimals < 9)
			ns = ns * 10 + (text[i] - '0');
		decimals += decimals >= 0;
	}
	for (int d = decimals < 0 ? 0 : decimals; d < 9; d++) {
		if (ns > TAUTI_TIME_LIMIT_NS / 100)
			return false;
		ns *= 10;
	}
	*ret_ns = ns;
	return len > 0;
}

static bool small(const char *text, size_t len, int32_t *ret_number)
{
	int32_t number = 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9' || i >= 8)
			return false;
		number = number * 10 + (text[i] - '0');
	}
	*ret_number = number;
	return len > 0;
}

static bool take_field(struct study *s, struct op *op, unsigned field,
	const char *text, size_t len, bool *ret_memory)
{
	char clean[TAUTI_STRING_ROOM(64)];
	switch (field) {
	case 0:
		return small(text, len, &op->dp);
	case 1:
		return small(text, len, &op->stage);
	case 2:
		return small(text, len, &op->rank);
	case 3:
		return small(text, len, &op->step);
	case 4:
		if (!len || len > 64)
			return false;
		op->name = taut_names_add(s->names, clean,
			tauti_string_decode(text, len, clean));
		*ret_memory = op->name != TAUT_NONE;
		return true;
	case 5:
		return seconds(text, len, &op->start_ns);
	case 6:
		return seconds(text, len, &op->dur_ns);
	default:
		return true;
	}
}

/* False: no memory. */
static bool take_line(
	struct study *s, const char *line, size_t len, uint64_t offset)
{
	struct op op = { 0 };
	bool good = true, memory = true;
	unsigned field = 0;
	for (size_t i = 0; good && memory && i <= len; field++) {
		const char *comma = memchr(line + i, ',', len - i);
		size_t end = comma ? (size_t)(comma - line) : len;
		good = take_field(s, &op, field, line + i, end - i, &memory);
		i = end + 1;
	}
	s->builder->events_seen++;
	if (!memory)
		return false;
	if (good && field > 6)
		return taut_vec_push(&s->ops, op);
	tauti_builder_lose(s->builder, TAUTI_LOST_BROKEN, offset);
	return true;
}

/* Lines as they come; the first is the header. */
static taut_status read_lines(struct study *s, struct tauti_feed *feed,
	struct taut_error *err)
{
	bool memory = true, first = true;
	taut_status status = TAUT_OK;
	size_t want = 1;
	while (memory && status == TAUT_OK) {
		status = tauti_feed_want(feed, want, err);
		if (status != TAUT_OK || !feed->held)
			break;
		const char *line = (const char *)feed->at;
		const char *end = memchr(line, '\n', feed->held);
		if (!end && !feed->ended) {
			want = feed->held + 1;
			continue;
		}
		size_t len = end ? (size_t)(end - line) : feed->held;
		size_t text = len && line[len - 1] == '\r' ? len - 1 : len;
		if (!first && text)
			memory = take_line(s, line, text, feed->offset);
		first = false;
		tauti_feed_take(feed, len + (end != NULL));
		want = 1;
	}
	s->builder->bytes_read = feed->offset;
	return memory ? status : TAUT_ENOMEM;
}

/* --- steps ------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
	const struct op *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static int by_number(const void *a, const void *b)
{
	const struct step *x = a, *y = b;
	return (x->number > y->number) - (x->number < y->number);
}

static struct step *find_step(struct study *s, int32_t number)
{
	struct step key = { .number = number };
	return bsearch(&key, s->steps.data, s->steps.count, sizeof key,
		by_number);
}

/* One after the other, each as long as its last rank takes. False: no memory,
 * or (*ret_fits) longer than times may be. */
static bool lay_steps(struct study *s, bool *ret_fits)
{
	size_t kept = 0;
	int64_t at = 0;
	*ret_fits = true;
	for (size_t i = 0; i < s->ops.count; i++) {
		struct step step = { .number = s->ops.data[i].step };
		if ((!i || s->ops.data[i - 1].step != step.number) &&
			!taut_vec_push(&s->steps, step))
			return false;
	}
	qsort(s->steps.data, s->steps.count, sizeof *s->steps.data, by_number);
	for (size_t i = 0; i < s->steps.count; i++)
		if (!i || s->steps.data[i].number !=
				s->steps.data[kept - 1].number)
			s->steps.data[kept++] = s->steps.data[i];
	s->steps.count = kept;
	for (size_t i = 0; i < s->ops.count; i++) {
		const struct op *op = &s->ops.data[i];
		struct step *step = find_step(s, op->step);
		if (op->start_ns + op->dur_ns > step->dur_ns)
			step->dur_ns = op->start_ns + op->dur_ns;
	}
	for (size_t i = 0; i < kept && *ret_fits; i++) {
		s->steps.data[i].start_ns = at;
		at += s->steps.data[i].dur_ns;
		*ret_fits = at < TAUTI_TIME_LIMIT_NS / 2;
	}
	return true;
}

/* --- rows --------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);
	return len >= n && strcmp(text + len - n, end) == 0;
}

static uint32_t text_id(struct tauti_builder *b, const char *text)
{
	return taut_names_add(b->names, text, strlen(text));
}

/* The global rank of a stage's neighbour; ranks count through data
 * parallelism first. */
static int32_t rank_at(const struct study *s, const struct op *op, int32_t by)
{
	int32_t stage = op->stage + by;
	return stage < 0 || stage > s->last_stage ? -1 :
						    stage * s->dp_size + op->dp;
}

/* What a communication is, from its name; false: no memory. */
static bool describe(const struct study *s, struct tauti_builder *b,
	const struct op *op, const char *name, struct taut_comm_args *comm)
{
	char group[64] = "";
	int32_t forward = strncmp(name, "forward", 7) == 0 ? 1 : -1;
	const char *what = "all_reduce";
	if (ends_with(name, "-send")) {
		what = "send";
		comm->src_rank = op->rank;
		comm->dst_rank = rank_at(s, op, forward);
	} else if (ends_with(name, "-recv")) {
		what = "recv";
		comm->src_rank = rank_at(s, op, -forward);
		comm->dst_rank = op->rank;
	} else {
		bool ends = strncmp(name, "embedding", 9) == 0;
		what = ends_with(name, "reduce-scatter") ? "reduce_scatter" :
		       ends_with(name, "all-gather") ? "all_gather" : what;
		snprintf(group, sizeof group, "%s %d",
			ends ? "first and last stage of replica" : "stage",
			(int)(ends ? op->dp : op->stage));
		comm->group_size = ends ? 2 : s->dp_size;
	}
	comm->collective = text_id(b, what);
	comm->group_name = *group ? text_id(b, group) : 0;
	return comm->collective != TAUT_NONE && comm->group_name != TAUT_NONE;
}

static bool is_comm(const char *name)
{
	static const char *const ends[] = { "-send", "-recv", "all-reduce",
		"reduce-scatter", "all-gather" };
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (ends_with(name, ends[i]))
			return true;
	return false;
}

static bool add_op(
	struct study *s, struct tauti_builder *b, const struct op *op)
{
	static const struct taut_comm_args nothing = { .in_elements = -1,
		.out_elements = -1, .seq = -1, .comms_id = -1,
		.local_group = -1, .group_size = -1, .src_rank = -1,
		.dst_rank = -1, .rank_start = -1, .rank_stride = -1 };
	const char *name = taut_names_text(s->names, op->name);
	struct taut_comm_args comm = nothing;
	struct tauti_row row = { .args = TAUT_NONE, .kind = TAUT_KIND_OP,
		.dur_ns = op->dur_ns,
		.start_ns = find_step(s, op->step)->start_ns + op->start_ns };
	row.name = text_id(b, name);
	row.lane = tauti_lanes_add(&b->lanes, TAUTI_ROLE_THREAD, 1,
		ends_with(name, "-send") ? 2 : 1);
	if (is_comm(name)) {
		row.kind = TAUT_KIND_COMM;
		row.args = (uint32_t)b->comms.count;
		if (!describe(s, b, op, name, &comm) ||
			!taut_vec_push(&b->comms, comm))
			return false;
	}
	struct tauti_row *kept = tauti_builder_row(b);
	if (!kept || row.name == TAUT_NONE || row.lane == TAUT_NONE)
		return false;
	*kept = row;
	return true;
}

static bool add_steps(const struct study *s, struct tauti_builder *b)
{
	uint32_t lane = tauti_lanes_add(&b->lanes, TAUTI_ROLE_THREAD, 1, 1);
	for (size_t i = 0; i < s->steps.count; i++) {
		char name[32];
		const struct step *step = &s->steps.data[i];
		snprintf(name, sizeof name, "step %d", (int)step->number);
		uint32_t id = text_id(b, name);
		struct tauti_row *row = tauti_builder_row(b);
		if (!row || lane == TAUT_NONE || id == TAUT_NONE)
			return false;
		*row = (struct tauti_row){ .start_ns = step->start_ns,
			.dur_ns = step->dur_ns, .name = id, .lane = lane,
			.sequence = (uint32_t)step->number + 1,
			.args = TAUT_NONE, .kind = TAUT_KIND_STEP };
	}
	return true;
}

/* Operations are by rank. */
static bool add_ranks(struct study *s)
{
	struct tauti_builder *b = NULL;
	int32_t world = (s->last_stage + 1) * s->dp_size;
	for (size_t i = 0; i < s->ops.count; i++) {
		const struct op *op = &s->ops.data[i];
		if (!b || b->rank != op->rank) {
			b = b ? tauti_builder_another(s->builder) : s->builder;
			if (!b)
				return false;
			b->rank = op->rank;
			b->world_size = world;
			b->host = "one clock"; /* of all ranks, as published */
			if (!add_steps(s, b))
				return false;
		}
		if (!add_op(s, b, op))
			return false;
	}
	return true;
}

/* --- the whole ----------------------------------------------------------------- */

static void measure(struct study *s)
{
	for (size_t i = 0; i < s->ops.count; i++) {
		const struct op *op = &s->ops.data[i];
		if (op->stage > s->last_stage)
			s->last_stage = op->stage;
		if (op->dp >= s->dp_size)
			s->dp_size = op->dp + 1;
	}
}

static taut_status settle(struct study *s, struct taut_error *err)
{
	struct tauti_builder *b = s->builder;
	bool fits = true;
	if (!s->ops.count)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: is a table of operations without a readable row",
			b->path);
	qsort(s->ops.data, s->ops.count, sizeof *s->ops.data, by_place);
	measure(s);
	if (!lay_steps(s, &fits))
		return TAUT_ENOMEM;
	if (!fits || s->last_stage >= 1000000 || s->dp_size >= 1000)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: its steps, stages or replicas are more than a job "
			"can have", b->path);
	if (!add_ranks(s))
		return TAUT_ENOMEM;
	if (b->lost[TAUTI_LOST_BROKEN])
		return tauti_builder_note(b, "%llu rows left out (not what the "
			"header says), the first at byte %llu",
			(unsigned long long)b->lost[TAUTI_LOST_BROKEN],
			(unsigned long long)b->lost_at[TAUTI_LOST_BROKEN]);
	return TAUT_OK;
}

static taut_status read_study(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct study s = { .builder = builder, .names = taut_names_create() };
	struct tauti_feed feed = { 0 };
	taut_status status = s.names ?
		tauti_feed_init(&feed, stream, builder->window_bytes, err) :
		TAUT_ENOMEM;
	if (status == TAUT_OK)
		status = read_lines(&s, &feed, err);
	if (status == TAUT_OK)
		status = settle(&s, err);
	if (status == TAUT_ENOMEM)
		taut_error_set(err, status, -1,
			"%s: no memory for %zu operations", builder->path,
			s.ops.count);
	tauti_feed_fini(&feed);
	taut_names_destroy(s.names);
	taut_vec_free(&s.ops);
	taut_vec_free(&s.steps);
	return status;
}

static bool probe_study(const char *head, size_t len)
{
	return len >= sizeof header - 1 &&
	       memcmp(head, header, sizeof header - 1) == 0;
}

const struct tauti_format tauti_format_study = {
	.name = "straggler study",
	.probe = probe_study,
	.read = read_study,
};

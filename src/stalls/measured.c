/* measured.c - what a rank wrote down, read strictly; see measured.h. */
#include "stalls/measured.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stalls/text.h"

enum { WORD_BYTES = 40, MOST_FILE_BYTES = 64 << 20 };
/* Of anything that is added up or goes to a virtual clock: 52 days, a petabyte. */
#define MOST_NS (INT64_C(1) << 52)
#define MOST_BYTES (INT64_C(1) << 50)
#define MOST_COUNT (INT64_C(1) << 40)

enum key {
	RANK, HOST, LOADER, UNIT, WORKERS, DEPTH, BATCH, ITEMS, DEVICE, CORES, FAULT_NS,
	EPOCH,
	KEYS,
	NEEDED = CORES, /* those before it */
};

static const char *const keys[KEYS] = {
	[RANK] = "rank", [HOST] = "host", [LOADER] = "loader", [UNIT] = "unit",
	[WORKERS] = "workers", [DEPTH] = "depth", [BATCH] = "batch", [ITEMS] = "items",
	[DEVICE] = "device", [CORES] = "cores", [FAULT_NS] = "fault_ns",
	[EPOCH] = "epoch",
};
static const char *const loaders[] = { "torch", "tf.data", "mxnet", "taut" };
static const char *const phases[TAUT_STALLS_PHASES] = {
	[TAUT_STALLS_PLACE] = "place", [TAUT_STALLS_HALF] = "half",
	[TAUT_STALLS_CACHED] = "cached", [TAUT_STALLS_PART] = "part",
	[TAUT_STALLS_COLD] = "cold",
};

struct reader {
	const char *name; /* of the file */
	uint64_t line;
	const char *at, *end; /* what is left of the line */
	bool has[KEYS];
	struct tauti_measured *to;
	struct taut_error *err;
};

const char *tauti_measured_phase_name(enum taut_stalls_phase phase)
{
	return phases[phase];
}

/* --- words -----------------------------------------------------------------------------*/

static taut_status expected(const struct reader *r, const char *what, const char *found)
{
	return taut_error_set(r->err, TAUT_EFORMAT, -1,
		"%.250s:%" PRIu64 ": expected %s, found '%s'", r->name, r->line, what,
		found);
}

static taut_status no_memory(const struct reader *r)
{
	return taut_error_set(
		r->err, TAUT_ENOMEM, -1, "%.250s: out of memory", r->name);
}

static char printable(char c)
{
	return c > ' ' && c <= '~' ? c : '?';
}

/* The next one, without what is too long; empty at the end of the line. */
static void next_word(struct reader *r, char word[WORD_BYTES])
{
	size_t n = 0;

	while (r->at < r->end && *r->at == ' ')
		r->at++;
	for (; r->at < r->end && *r->at != ' '; r->at++)
		if (n < WORD_BYTES - 1)
			word[n++] = printable(*r->at);
	word[n] = '\0';
}

static bool is_number(const char *text, int64_t least, int64_t most, int64_t *ret_value)
{
	bool below = text[0] == '-';
	int64_t value = 0;

	text += below;
	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || value > most / 10)
			return false;
		value = value * 10 + (*text - '0');
		if (value > most)
			return false;
	}
	if (below)
		value = -value;
	if (value < least)
		return false;
	*ret_value = value;
	return true;
}

static taut_status read_number(struct reader *r, const char *what, int64_t least,
	int64_t most, int64_t *ret_value)
{
	char word[WORD_BYTES];

	next_word(r, word);
	return is_number(word, least, most, ret_value) ? TAUT_OK :
		expected(r, what, word);
}

static taut_status read_u32(struct reader *r, const char *what, int64_t least,
	int64_t most, uint32_t *ret_value)
{
	int64_t value = 0;
	taut_status status = read_number(r, what, least, most, &value);

	if (!status)
		*ret_value = (uint32_t)value;
	return status;
}

static taut_status read_one_of(struct reader *r, const char *what,
	const char *const *words, size_t n, size_t *ret_index)
{
	char word[WORD_BYTES];

	next_word(r, word);
	for (size_t i = 0; i < n; i++)
		if (!strcmp(word, words[i])) {
			*ret_index = i;
			return TAUT_OK;
		}
	return expected(r, what, word);
}

static taut_status end_line(struct reader *r)
{
	char word[WORD_BYTES];

	next_word(r, word);
	return *word ? expected(r, "the end of the line", word) : TAUT_OK;
}

/* --- header ----------------------------------------------------------------------------*/

static taut_status read_rank(struct reader *r)
{
	static const char *const of[] = { "of" };
	struct tauti_measured *to = r->to;
	size_t unused = 0;
	taut_status status = read_u32(r, "rank R of N: a number below 65536", 0,
		TAUTI_MEASURED_RANKS - 1, &to->rank);

	if (!status)
		status = read_one_of(r, "'of' behind the rank", of, 1, &unused);
	if (!status)
		status = read_u32(r, "more ranks than its number, at most 65536",
			(int64_t)to->rank + 1, TAUTI_MEASURED_RANKS, &to->n_ranks);
	return status;
}

/* The rest of the line. */
static taut_status read_host(struct reader *r)
{
	size_t n;

	while (r->at < r->end && *r->at == ' ')
		r->at++;
	n = (size_t)(r->end - r->at);
	if (!n || n >= sizeof r->to->host)
		return expected(r, "a host's name of 1 to 255 bytes", n ? "more" : "");
	for (size_t i = 0; i < n; i++)
		r->to->host[i] = printable(r->at[i]);
	r->to->host[n] = '\0';
	r->at = r->end;
	return TAUT_OK;
}

static taut_status read_loader(struct reader *r)
{
	size_t i = 0;
	taut_status status = read_one_of(r, "torch, tf.data, mxnet or taut", loaders,
		sizeof loaders / sizeof *loaders, &i);

	if (!status)
		r->to->loader = loaders[i];
	return status;
}

static taut_status read_flag(struct reader *r, const char *what, const char *const words[2],
	bool *ret_flag)
{
	size_t i = 0;
	taut_status status = read_one_of(r, what, words, 2, &i);

	if (!status)
		*ret_flag = i == 1;
	return status;
}

static taut_status read_value(struct reader *r, enum key key)
{
	static const char *const units[] = { "batch", "item" }, *const bits[] = { "0", "1" };
	struct tauti_measured *to = r->to;

	switch (key) {
	case RANK:
		return read_rank(r);
	case HOST:
		return read_host(r);
	case LOADER:
		return read_loader(r);
	case UNIT:
		return read_flag(r, "batch or item", units, &to->by_item);
	case WORKERS:
		return read_u32(r, "0 to 4096 workers", 0, 4096, &to->workers);
	case DEPTH:
		return read_u32(r, "0 to 65536 batches ahead", 0, 65536, &to->depth);
	case BATCH:
		return read_u32(r, "1 to 1048576 samples", 1, 1 << 20, &to->batch);
	case ITEMS:
		return read_number(r, "-1, or up to 2^40 items", -1, MOST_COUNT,
			&to->items);
	case EPOCH:
		return read_number(r, "1 to 2^40 items", 1, MOST_COUNT, &to->epoch);
	case DEVICE:
		return read_flag(r, "0 or 1", bits, &to->on_device);
	case FAULT_NS:
		return read_number(r, "0 to 2^52 ns", 0, MOST_NS, &to->fault_ns);
	default:
		return read_u32(r, "1 to 65536 cores", 1, 65536, &to->cores);
	}
}

static taut_status read_key(struct reader *r, const char *word)
{
	for (int i = 0; i < KEYS; i++) {
		if (strcmp(word, keys[i]) != 0)
			continue;
		if (r->has[i] || r->to->phases.count || r->to->starts.count)
			return expected(r, "each once, before all phases", word);
		r->has[i] = true;
		return read_value(r, (enum key)i);
	}
	return expected(
		r, "phase, step, faults, others, start, end, or a line of the header",
		word);
}

/* Before the first phase, and at the end. */
static taut_status check_header(const struct reader *r)
{
	for (int i = 0; i < NEEDED; i++)
		if (!r->has[i])
			return taut_error_set(r->err, TAUT_EFORMAT, -1,
				"%.250s:%" PRIu64 ": expected a line '%s' before this",
				r->name, r->line, keys[i]);
	return TAUT_OK;
}

/* --- phases ----------------------------------------------------------------------------*/

static taut_status read_which(
	struct reader *r, uint32_t *ret_round, enum taut_stalls_phase *ret_phase)
{
	size_t i = 0;
	taut_status status = read_u32(r, "a round from 0 to 999", 0,
		TAUTI_MEASURED_ROUNDS - 1, ret_round);

	if (!status)
		status = read_one_of(r, "place, half, cached, part or cold", phases,
			TAUT_STALLS_PHASES, &i);
	if (!status)
		*ret_phase = (enum taut_stalls_phase)i;
	return status;
}

/* The last of the line, and only sometimes there. */
static taut_status read_own(struct reader *r, struct tauti_measured_phase *phase)
{
	char word[WORD_BYTES];

	phase->own_cpu_ns = -1;
	next_word(r, word);
	if (!*word || is_number(word, 0, phase->cpu_ns, &phase->own_cpu_ns))
		return TAUT_OK;
	return expected(r, "OWN_CPU_NS: 0 to CPU_NS", word);
}

static taut_status read_sums(struct reader *r, struct tauti_measured_phase *phase)
{
	const struct {
		const char *what;
		int64_t least, most, *to;
	} rows[] = {
		{ "STEPS: 0 to 2^40", 0, MOST_COUNT, &phase->steps },
		{ "SAMPLES: 0 to 2^40", 0, MOST_COUNT, &phase->samples },
		{ "WALL_NS: 0 to 2^52", 0, MOST_NS, &phase->wall_ns },
		{ "WAIT_NS: 0 to 2^52", 0, MOST_NS, &phase->wait_ns },
		{ "CPU_NS: 0 to 2^52", 0, MOST_NS, &phase->cpu_ns },
		{ "RCHAR: 0 to 2^50", 0, MOST_BYTES, &phase->rchar },
		{ "READ_BYTES: -1 to 2^50", -1, MOST_BYTES, &phase->read_bytes },
		{ "OPENED: 0 to 2^40", 0, MOST_COUNT, &phase->opened },
		{ "OPENED_BYTES: 0 to 2^50", 0, MOST_BYTES, &phase->opened_bytes },
	};
	taut_status status = TAUT_OK;

	for (size_t i = 0; i < sizeof rows / sizeof *rows && !status; i++)
		status = read_number(
			r, rows[i].what, rows[i].least, rows[i].most, rows[i].to);
	return status ? status : read_own(r, phase);
}

static taut_status read_phase(struct reader *r)
{
	struct tauti_measured *to = r->to;
	struct tauti_measured_phase phase = { .first_step = to->steps.count,
		.own_faults = -1, .worker_faults = -1 };
	taut_status status = check_header(r);

	if (!status)
		status = read_which(r, &phase.round, &phase.phase);
	if (!status)
		status = read_sums(r, &phase);
	if (status)
		return status;
	for (size_t i = 0; i < to->phases.count; i++)
		if (to->phases.data[i].round == phase.round &&
			to->phases.data[i].phase == phase.phase)
			return expected(r, "a phase once a round", phases[phase.phase]);
	return taut_vec_push(&to->phases, phase) ? TAUT_OK : no_memory(r);
}

/* NULL: there is none. */
static struct tauti_measured_phase *last_phase(const struct reader *r)
{
	size_t n = r->to->phases.count;

	return n ? &r->to->phases.data[n - 1] : NULL;
}

static taut_status read_faults(struct reader *r)
{
	struct tauti_measured_phase *last = last_phase(r);
	int64_t own = 0, workers = 0;
	enum taut_stalls_phase phase;
	uint32_t round;
	taut_status status = read_which(r, &round, &phase);

	if (!status && (!last || last->round != round || last->phase != phase ||
		last->own_faults >= 0))
		return expected(r, "faults once, behind their phase", phases[phase]);
	if (!status)
		status = read_number(r, "OWN: 0 to 2^40", 0, MOST_COUNT, &own);
	if (!status)
		status = read_number(r, "WORKERS: 0 to 2^40", 0, MOST_COUNT, &workers);
	if (status)
		return status;
	last->own_faults = own;
	last->worker_faults = workers;
	return TAUT_OK;
}

static taut_status read_others(struct reader *r)
{
	struct tauti_measured_phase *last = last_phase(r);
	enum taut_stalls_phase phase;
	uint32_t round;
	taut_status status = read_which(r, &round, &phase);

	if (!status && (!last || last->round != round || last->phase != phase ||
		last->others))
		return expected(r, "others once, behind their phase", phases[phase]);
	if (!status)
		status = read_number(
			r, "BATCHES: 1 to 2^40", 1, MOST_COUNT, &last->others);
	return status;
}

static taut_status read_step(struct reader *r)
{
	struct tauti_measured *to = r->to;
	struct tauti_measured_phase *last = last_phase(r);
	struct tauti_measured_step step = { .wall_ns = 0 };
	enum taut_stalls_phase phase;
	uint32_t round;
	taut_status status = read_which(r, &round, &phase);

	if (!status && (!last || last->round != round || last->phase != phase ||
		(int64_t)last->n_steps >= last->steps))
		return expected(r, "no more steps than its phase, and behind it",
			phases[phase]);
	if (!status)
		status = read_number(r, "WALL_NS: 0 to 2^52", 0, MOST_NS, &step.wall_ns);
	if (!status)
		status = read_number(r, "WAIT_NS: 0 to 2^52", 0, MOST_NS, &step.wait_ns);
	if (!status)
		status = read_number(r, "TAKE_NS: -1 to 2^52", -1, MOST_NS, &step.take_ns);
	if (status)
		return status;
	last->n_steps++;
	return taut_vec_push(&to->steps, step) ? TAUT_OK : no_memory(r);
}

static taut_status read_start(struct reader *r)
{
	struct tauti_measured_start start;
	taut_status status = check_header(r);

	if (!status)
		status = read_which(r, &start.round, &start.phase);
	if (!status)
		status = read_number(r, "NS: 0 to 2^52", 0, MOST_NS, &start.ns);
	if (!status && !taut_vec_push(&r->to->starts, start))
		status = no_memory(r);
	return status;
}

/* --- lines -----------------------------------------------------------------------------*/

static taut_status read_first(struct reader *r, const char *word)
{
	char version[WORD_BYTES];

	if (strcmp(word, "taut-stalls") != 0)
		return expected(r, "'taut-stalls 1'", word);
	next_word(r, version);
	return strcmp(version, "1") ? expected(r, "version 1", version) : TAUT_OK;
}

static taut_status read_line(struct reader *r)
{
	char word[WORD_BYTES];
	taut_status status;

	next_word(r, word);
	if (r->line == 1)
		status = read_first(r, word);
	else if (r->to->has_ended)
		status = expected(r, "nothing behind 'end'", word);
	else if (!strcmp(word, "phase"))
		status = read_phase(r);
	else if (!strcmp(word, "step"))
		status = read_step(r);
	else if (!strcmp(word, "faults"))
		status = read_faults(r);
	else if (!strcmp(word, "others"))
		status = read_others(r);
	else if (!strcmp(word, "start"))
		status = read_start(r);
	else if (!strcmp(word, "end"))
		r->to->has_ended = true, status = TAUT_OK;
	else
		status = read_key(r, word);
	return status ? status : end_line(r);
}

taut_status tauti_measured_parse(const char *text, size_t bytes, const char *name,
	struct tauti_measured *measured, struct taut_error *reterr)
{
	struct reader r = { .name = name, .to = measured, .err = reterr };
	taut_status status = TAUT_OK;

	*measured = (struct tauti_measured){ .items = -1 };
	while (!status && bytes) {
		const char *end = memchr(text, '\n', bytes);

		if (!end)
			break;
		r.line++;
		r.at = text;
		r.end = end;
		bytes -= (size_t)(end + 1 - text);
		text = end + 1;
		status = read_line(&r);
	}
	r.line++;
	return status ? status : check_header(&r);
}

taut_status tauti_measured_read(
	const char *path, struct tauti_measured *measured, struct taut_error *reterr)
{
	char *text;
	size_t bytes;
	taut_status status;

	*measured = (struct tauti_measured){ .items = -1 };
	status = tauti_text_read(path, MOST_FILE_BYTES, &text, &bytes, reterr);
	if (status)
		return status;
	if (bytes == MOST_FILE_BYTES)
		status = taut_error_set(reterr, TAUT_EFORMAT, -1,
			"%.250s: expected less than %d bytes", path, MOST_FILE_BYTES);
	else
		status = tauti_measured_parse(text, bytes, path, measured, reterr);
	free(text);
	return status;
}

void tauti_measured_fini(struct tauti_measured *measured)
{
	taut_vec_free(&measured->phases);
	taut_vec_free(&measured->steps);
	taut_vec_free(&measured->starts);
}

const struct tauti_measured_phase *tauti_measured_find(
	const struct tauti_measured *measured, uint32_t round, enum taut_stalls_phase phase)
{
	for (size_t i = 0; i < measured->phases.count; i++) {
		const struct tauti_measured_phase *row = &measured->phases.data[i];

		if (row->round == round && row->phase == phase)
			return row->steps > 0 && row->samples > 0 && row->wall_ns > 0 ?
				row : NULL;
	}
	return NULL;
}

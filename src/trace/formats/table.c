/* table.c - from the rows of a table to the operations of ranks and steps. */
#include "trace/formats/table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* --- what a row is, from its words ----------------------------------------------- */

/* Letters only, in lower case. */
static void bare_word(const char *text, char *word, size_t room)
{
	size_t n = 0;
	for (; *text && n < room - 1; text++)
		if (isalpha((unsigned char)*text))
			word[n++] = (char)tolower((unsigned char)*text);
	word[n] = '\0';
}

static const struct {
	const char *word;
	uint8_t kind;
} kinds[] = { /* whole words of the column kind */
	{ "compute", TAUTI_TABLE_COMPUTE }, { "op", TAUTI_TABLE_COMPUTE },
	{ "host", TAUTI_TABLE_COMPUTE }, { "cpu", TAUTI_TABLE_COMPUTE },
	{ "launch", TAUTI_TABLE_COMPUTE }, { "return", TAUTI_TABLE_COMPUTE },
	{ "forward", TAUTI_TABLE_COMPUTE },
	{ "backward", TAUTI_TABLE_COMPUTE },
	{ "optimizer", TAUTI_TABLE_COMPUTE },
	{ "other", TAUTI_TABLE_COMPUTE },
	{ "kernel", TAUTI_TABLE_DEVICE }, { "gpu", TAUTI_TABLE_DEVICE },
	{ "device", TAUTI_TABLE_DEVICE },
	{ "copy", TAUTI_TABLE_COPY }, { "memcpy", TAUTI_TABLE_COPY },
	{ "memset", TAUTI_TABLE_COPY },
	{ "comm", TAUTI_TABLE_COMM }, { "communication", TAUTI_TABLE_COMM },
	{ "collective", TAUTI_TABLE_COMM }, { "transfer", TAUTI_TABLE_COMM },
	{ "arrive", TAUTI_TABLE_COMM },
	{ "load", TAUTI_TABLE_LOAD }, { "step", TAUTI_TABLE_STEP },
	{ "mark", TAUTI_TABLE_STEP },
};
static const char *const comm_words[] = { "reducescatter", "allreduce",
	"allgather", "alltoall", "broadcast", "barrier", "sendrecv", "reduce",
	"gather", "pushpull" };

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);
	return len >= n && !strcmp(text + len - n, end);
}

/* Of a name, or of a kind that is no word of the table above. */
static uint8_t kind_by_name(const char *word)
{
	if (ends_with(word, "send"))
		return TAUTI_TABLE_SEND;
	if (ends_with(word, "recv") || ends_with(word, "receive"))
		return TAUTI_TABLE_RECV;
	for (size_t i = 0; i < sizeof comm_words / sizeof *comm_words; i++)
		if (strstr(word, comm_words[i]))
			return TAUTI_TABLE_COMM;
	return TAUTI_TABLE_COMPUTE;
}

static uint8_t kind_of(const char *text, bool is_kind)
{
	char word[64];
	bare_word(text, word, sizeof word);
	for (size_t i = 0; is_kind && i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(word, kinds[i].word))
			return kinds[i].kind;
	return kind_by_name(word);
}

static uint8_t role_of(const char *text)
{
	static const struct {
		const char *word;
		uint8_t role;
	} roles[] = {
		{ "forward", TAUTI_FORWARD }, { "backward", TAUTI_BACKWARD },
		{ "forwardcompute", TAUTI_FORWARD },
		{ "backwardcompute", TAUTI_BACKWARD },
		{ "forwardsend", TAUTI_FORWARD_SEND },
		{ "forwardrecv", TAUTI_FORWARD_RECV },
		{ "backwardsend", TAUTI_BACKWARD_SEND },
		{ "backwardrecv", TAUTI_BACKWARD_RECV },
		{ "paramsallgather", TAUTI_PARAMS_GATHER },
		{ "gradsreducescatter", TAUTI_GRADS_SCATTER },
		{ "gc", TAUTI_COLLECT },
		{ "layernormgradsallreduce", TAUTI_NORM_REDUCE },
		{ "embeddinggradsallreduce", TAUTI_EMBED_REDUCE },
		{ "separategradsallreduce", TAUTI_SEPARATE_REDUCE },
		{ "optimizerclipmaingrad", TAUTI_CLIP },
		{ "optimizer", TAUTI_OPTIMIZER },
	};
	char word[64];
	bare_word(text, word, sizeof word);
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		if (!strcmp(word, roles[i].word))
			return roles[i].role;
	return TAUTI_ROLE_NONE;
}

/* Words are judged once each: by id of the table's names. */
static bool judge(struct tauti_table *t)
{
	uint32_t n = taut_names_count(t->names);
	uint8_t *word = malloc((size_t)n * 3 + 1);
	if (!word)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const char *text = taut_names_text(t->names, i);
		word[3 * (size_t)i] = kind_of(text, true);
		word[3 * (size_t)i + 1] = kind_of(text, false);
		word[3 * (size_t)i + 2] = role_of(text);
	}
	for (size_t i = 0; i < t->ops.count; i++) {
		struct tauti_table_op *op = &t->ops.data[i];
		op->kind = op->kind_name ? word[3 * (size_t)op->kind_name] :
					   word[3 * (size_t)op->name + 1];
		op->role = word[3 * (size_t)op->name + 2];
		if (op->role == TAUTI_ROLE_NONE)
			op->role = word[3 * (size_t)op->kind_name + 2];
		if (op->role == TAUTI_CLIP) /* over all ranks */
			op->kind = TAUTI_TABLE_COMM;
	}
	free(word);
	return true;
}

/* --- rows of taut convert ---------------------------------------------------------- */

static bool is_kind(const struct tauti_table *t,
	const struct tauti_table_op *op, const char *text)
{
	return !strcmp(taut_names_text(t->names, op->kind_name), text);
}

static bool is_moving(
	const struct tauti_table *t, const struct tauti_table_op *op)
{
	return is_kind(t, op, "transfer") || is_kind(t, op, "send") ||
	       is_kind(t, op, "recv");
}

static bool same_lane(
	const struct tauti_table_op *a, const struct tauti_table_op *b)
{
	return a->rank == b->rank && a->lane == b->lane;
}

/* taut convert writes a communication as its arrival and its transfer, and a
 * step as two marks on its lane: each two become one. */
static void join_halves(struct tauti_table *t)
{
	struct tauti_table_op *ops = t->ops.data;
	size_t kept = 0, open = SIZE_MAX; /* the step that is open */
	for (size_t i = 0; i < t->ops.count; i++) {
		struct tauti_table_op op = ops[i];
		struct tauti_table_op *next = &ops[i + 1];
		if (i + 1 < t->ops.count && is_kind(t, &op, "arrive") &&
			is_moving(t, next) && same_lane(&op, next)) {
			next->dur_ns += next->start_ns - op.start_ns;
			next->start_ns = op.start_ns;
			continue;
		}
		if (is_kind(t, &op, "mark")) {
			if (open != SIZE_MAX && same_lane(&ops[open], &op) &&
				ops[open].name == op.name) {
				ops[open].dur_ns =
					op.start_ns - ops[open].start_ns;
				open = SIZE_MAX;
				continue;
			}
			open = kept;
		}
		ops[kept++] = op;
	}
	t->ops.count = kept;
}

/* --- order and steps ----------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
	const struct tauti_table_op *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->dur_ns != y->dur_ns)
		return x->dur_ns < y->dur_ns ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

/* Tables mostly come rank by rank and step by step, and each in order of one
 * kind of operation: sorting piece by piece is less work than all at once. */
static void sort_ops(struct tauti_table *t)
{
	struct tauti_table_op *ops = t->ops.data;
	bool pieces = true;
	for (size_t i = 1; i < t->ops.count && pieces; i++)
		pieces = ops[i - 1].rank < ops[i].rank ||
			(ops[i - 1].rank == ops[i].rank &&
				ops[i - 1].step <= ops[i].step);
	if (!pieces) {
		qsort(ops, t->ops.count, sizeof *ops, by_place);
		return;
	}
	for (size_t i = 0, n; i < t->ops.count; i += n) {
		for (n = 1; i + n < t->ops.count &&
			ops[i].rank == ops[i + n].rank &&
			ops[i].step == ops[i + n].step;)
			n++;
		qsort(ops + i, n, sizeof *ops, by_place);
	}
}

static int by_number(const void *a, const void *b)
{
	const struct tauti_table_step *x = a, *y = b;
	return (x->number > y->number) - (x->number < y->number);
}

static bool find_steps(struct tauti_table *t)
{
	size_t kept = 0;
	for (size_t i = 0; i < t->ops.count; i++) {
		struct tauti_table_step step = {
			.number = t->ops.data[i].step };
		if (step.number >= 0 && (!i || t->ops.data[i - 1].step !=
				step.number) &&
			!taut_vec_push(&t->steps, step))
			return false;
	}
	if (t->steps.count)
		qsort(t->steps.data, t->steps.count, sizeof *t->steps.data,
			by_number);
	for (size_t i = 0; i < t->steps.count; i++)
		if (!i || t->steps.data[i].number !=
				t->steps.data[kept - 1].number)
			t->steps.data[kept++] = t->steps.data[i];
	t->steps.count = kept;
	return true;
}

static void number_steps(struct tauti_table *t)
{
	uint32_t last = 0;
	for (size_t i = 0; i < t->ops.count; i++) {
		struct tauti_table_op *op = &t->ops.data[i];
		struct tauti_table_step key = { .number = op->step };
		const struct tauti_table_step *found;
		op->step_index = TAUT_NONE;
		if (op->step < 0)
			continue;
		if (t->steps.data[last].number != op->step) {
			found = bsearch(&key, t->steps.data, t->steps.count,
				sizeof key, by_number);
			last = (uint32_t)(found - t->steps.data);
		}
		op->step_index = last;
	}
}

/* Where times begin anew with each step, one follows the other, each as long
 * as its last rank takes. False: longer than times may be. */
static bool lay_steps(struct tauti_table *t)
{
	int64_t at = 0;
	for (size_t i = 0; i < t->ops.count; i++) {
		const struct tauti_table_op *op = &t->ops.data[i];
		struct tauti_table_step *step;
		if (op->step < 0)
			continue;
		step = &t->steps.data[op->step_index];
		if (op->start_ns + op->dur_ns > step->dur_ns)
			step->dur_ns = op->start_ns + op->dur_ns;
	}
	for (size_t i = 0; i < t->steps.count; i++) {
		t->steps.data[i].start_ns = at;
		at += t->steps.data[i].dur_ns;
		if (at >= TAUTI_TIME_LIMIT_NS / 2)
			return false;
	}
	for (size_t i = 0; i < t->ops.count; i++)
		if (t->ops.data[i].step >= 0)
			t->ops.data[i].start_ns += t->steps.data[
				t->ops.data[i].step_index].start_ns;
	return true;
}

/* --- the whole --------------------------------------------------------------------------- */

/* Stages, and operations of a pipeline: then its rules say what waits for
 * what, unless the table does. */
static bool is_pipeline(const struct tauti_table *t)
{
	if (!tauti_table_has(t, TAUTI_FIELD_STAGE) || t->wait_ids.count)
		return false;
	for (size_t i = 0; i < t->ops.count; i++)
		if (t->ops.data[i].role == TAUTI_FORWARD &&
			t->ops.data[i].stage >= 0)
			return true;
	return false;
}

struct called { /* a row by its id */
	uint64_t id, line;
};

static int by_id(const void *a, const void *b)
{
	const struct called *x = a, *y = b;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

/* Waits for rows of other files are no fault; in a table of several ranks they
 * are worth a note. */
static taut_status note_strangers(const struct tauti_table *t,
	const struct called *rows, size_t n)
{
	size_t strangers = 0;
	for (size_t i = 0; i < t->wait_ids.count; i++) {
		uint64_t id = t->wait_ids.data[i];
		size_t lo = 0, hi = n;
		while (lo < hi) {
			size_t mid = lo + (hi - lo) / 2;
			if (rows[mid].id < id)
				lo = mid + 1;
			else
				hi = mid;
		}
		strangers += lo == n || rows[lo].id != id;
	}
	if (!strangers)
		return TAUT_OK;
	return tauti_builder_note(t->builder,
		"%zu wait%s for a row that is not in the table", strangers,
		strangers == 1 ? "" : "s");
}

/* An id is that of one row. */
static taut_status check_ids(const struct tauti_table *t, struct taut_error *err)
{
	struct called *rows;
	taut_status status = TAUT_OK;
	size_t n = 0;
	if (t->wait_ids.count && !tauti_table_has(t, TAUTI_FIELD_ID))
		return taut_error_set(err, TAUT_EFORMAT, 0,
			"%s: rows wait for others, and no column id says what "
			"they are called", t->builder->path);
	if (!tauti_table_has(t, TAUTI_FIELD_ID))
		return TAUT_OK;
	rows = malloc((t->ops.count + 1) * sizeof *rows);
	if (!rows)
		return TAUT_ENOMEM;
	for (size_t i = 0; i < t->ops.count; i++)
		if (t->ops.data[i].id)
			rows[n++] = (struct called){ t->ops.data[i].id,
				t->ops.data[i].line };
	if (n)
		qsort(rows, n, sizeof *rows, by_id);
	for (size_t i = 1; i < n && !status; i++)
		if (rows[i].id == rows[i - 1].id)
			status = taut_error_set(err, TAUT_EFORMAT, -1,
				"%s:%llu: id is that of line %llu; expected "
				"one of its own", t->builder->path,
				(unsigned long long)rows[i].line,
				(unsigned long long)rows[i - 1].line);
	if (!status)
		status = note_strangers(t, rows, n);
	free(rows);
	return status;
}

static taut_status too_large(const struct tauti_table *t, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EFORMAT, -1,
		"%s: its steps, stages or replicas are more than a job can "
		"have", t->builder->path);
}

static bool fits(const struct tauti_table *t)
{
	for (size_t i = 0; i < t->ops.count; i++)
		if (t->ops.data[i].stage >= 100000 ||
			t->ops.data[i].replica >= 1000000)
			return false;
	return true;
}

/* What a stage waits for is found among the rows of its file. */
static taut_status check_stages(
	const struct tauti_table *t, struct taut_error *err)
{
	int32_t first = INT32_MAX;
	for (size_t i = 0; i < t->ops.count; i++)
		if (t->ops.data[i].stage >= 0 && t->ops.data[i].stage < first)
			first = t->ops.data[i].stage;
	if (!first)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EMATCH, -1,
		"%s: has stage %d of a pipeline, and not stage 0; expected all "
		"ranks of a pipeline in one file, their stages counted from 0",
		t->builder->path, (int)first);
}

taut_status tauti_table_settle(struct tauti_table *t, struct taut_error *err)
{
	struct tauti_builder *b = t->builder;
	taut_status status = check_ids(t, err);
	if (status != TAUT_OK)
		return status;
	if (!t->ops.count)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: is a table of operations without a readable row",
			b->path);
	if (!fits(t))
		return too_large(t, err);
	join_halves(t);
	sort_ops(t);
	if (!judge(t) || !find_steps(t))
		return TAUT_ENOMEM;
	number_steps(t);
	if (t->from_step && !lay_steps(t))
		return too_large(t, err);
	t->pipelined = is_pipeline(t);
	status = t->pipelined ? check_stages(t, err) : TAUT_OK;
	if (status != TAUT_OK)
		return status;
	if ((t->pipelined && !tauti_pipeline_tell(t)) || !tauti_table_write(t))
		return TAUT_ENOMEM;
	if (b->lost[TAUTI_LOST_BROKEN])
		return tauti_builder_note(b, "%llu rows left out (not what the "
			"header says), the first at byte %llu",
			(unsigned long long)b->lost[TAUTI_LOST_BROKEN],
			(unsigned long long)b->lost_at[TAUTI_LOST_BROKEN]);
	return TAUT_OK;
}

taut_status tauti_table_run(struct tauti_table *t, struct tauti_stream *stream,
	struct taut_error *err)
{
	taut_status status = TAUT_ENOMEM;
	t->names = taut_names_create();
	if (t->names)
		status = tauti_table_read(t, stream, err);
	if (status == TAUT_OK)
		status = tauti_table_settle(t, err);
	if (status == TAUT_ENOMEM)
		taut_error_set(err, status, -1,
			"%s: no memory for %zu operations", t->builder->path,
			t->ops.count);
	taut_names_destroy(t->names);
	taut_vec_free(&t->ops);
	taut_vec_free(&t->steps);
	taut_vec_free(&t->wait_ids);
	taut_vec_free(&t->waits);
	return status;
}

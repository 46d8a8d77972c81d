/* table_rows.c - the operations of a table as rows of the ranks' traces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "trace/formats/table.h"

enum { TRACKS = 8 };

struct counter { /* of communication in one group, or with one peer */
	uint32_t step_index;
	int64_t count;
};

struct writer {
	struct tauti_table *t;
	struct tauti_builder *b; /* of the rank that is written */
	size_t begin, end;       /* its ops */
	uint32_t ordinal;        /* of the rank, from 0 */
	uint32_t n_ranks, n_names;
	int32_t last_stage, replicas;
	uint64_t first_id;   /* of those that rows without one get */
	uint32_t *name_of;   /* by name of the table: the rank's */
	uint32_t *lane_of;   /* by name of the table: the rank's lane */
	uint32_t track_lane[TRACKS];
	uint32_t n_lanes, main_lane;
	uint32_t main_name;  /* of the main lane; 0: it is not told */
	uint8_t *wanted;     /* by op: something waits for it by its place */
	TAUT_VEC(uint32_t) lasts; /* of each rank and step the last op of the
	                             main lane, by step */
	size_t last;              /* next of them */
	size_t wait;         /* next of t->waits, which are by op */
	struct taut_names *counted; /* what counters count */
	TAUT_VEC(struct counter) counters;
	uint32_t *group_ranks; /* by name: how many ranks are in it */
	int32_t *group_low;    /* by name: its lowest rank */
};

static struct tauti_table_op *op_at(const struct writer *w, size_t i)
{
	return &w->t->ops.data[i];
}

/* --- texts and lanes ------------------------------------------------------------ */

static uint32_t text_id(struct tauti_builder *b, const char *text)
{
	return taut_names_add(b->names, text, strlen(text));
}

static uint32_t name_id(struct writer *w, uint32_t name)
{
	if (w->name_of[name] == TAUT_NONE)
		w->name_of[name] = taut_names_add(w->b->names,
			taut_names_text(w->t->names, name),
			taut_names_length(w->t->names, name));
	return w->name_of[name];
}

/* Lanes come in the order in which they are asked for. */
static uint32_t add_lane(struct writer *w, enum tauti_role role, uint32_t name)
{
	uint32_t lane = tauti_lanes_add(&w->b->lanes, role, 1,
		(int64_t)++w->n_lanes);
	if (lane != TAUT_NONE)
		w->b->lanes.all.data[lane].name = name;
	return name == TAUT_NONE ? TAUT_NONE : lane;
}

static const char *track_name(const struct writer *w, uint8_t track)
{
	static const char *const of_pipeline[TRACKS] = { "compute",
		"forward sends", "forward receives", "backward sends",
		"backward receives", "data parallel", "", "" };
	static const char *const plain[TRACKS] = { "compute", "collectives",
		"sends", "receives", "", "", "", "" };
	return w->t->pipelined ? of_pipeline[track] : plain[track];
}

/* A lane of device work beside others is a stream; the main one must be a
 * thread, for steps are looked for on threads alone. */
static enum tauti_role lane_role(const struct writer *w, uint32_t lane)
{
	bool device = false, other = false;
	if (lane == w->main_name)
		return TAUTI_ROLE_THREAD;
	for (size_t i = w->begin; i < w->end; i++) {
		const struct tauti_table_op *op = op_at(w, i);
		bool on_device = op->kind == TAUTI_TABLE_DEVICE ||
			op->kind == TAUTI_TABLE_COPY;
		device |= on_device && op->lane == lane;
		other |= !on_device && op->lane != lane;
	}
	return device && other ? TAUTI_ROLE_STREAM : TAUTI_ROLE_THREAD;
}

static uint32_t lane_id(struct writer *w, const struct tauti_table_op *op)
{
	uint32_t *lane = op->lane ? &w->lane_of[op->lane] :
				    &w->track_lane[op->track];
	if (*lane == TAUT_NONE)
		*lane = op->lane ? add_lane(w, lane_role(w, op->lane),
			name_id(w, op->lane)) :
			add_lane(w, TAUTI_ROLE_THREAD,
				text_id(w->b, track_name(w, op->track)));
	return *lane;
}

static bool is_computation(const struct tauti_table_op *op)
{
	return op->kind == TAUTI_TABLE_COMPUTE ||
	       op->kind == TAUTI_TABLE_DEVICE || op->kind == TAUTI_TABLE_COPY;
}

/* Does it run beside computation, as the times have it? */
static bool is_beside(const struct writer *w, size_t i, int64_t busy_until)
{
	const struct tauti_table_op *op = op_at(w, i);
	if (op->start_ns < busy_until)
		return true;
	for (size_t k = i + 1; k < w->end; k++) {
		const struct tauti_table_op *next = op_at(w, k);
		if (next->start_ns >= op->start_ns + op->dur_ns ||
			next->step != op->step)
			return false;
		if (is_computation(next) && next->dur_ns)
			return true;
	}
	return false;
}

/* Without lanes: communication that ever runs beside computation has a lane
 * of its own, and what never does is an operation of the main one. */
static void choose_tracks(struct writer *w)
{
	bool beside[TRACKS] = { false };
	int64_t busy = INT64_MIN;
	for (size_t i = w->begin; i < w->end; i++) {
		struct tauti_table_op *op = op_at(w, i);
		op->track = op->kind == TAUTI_TABLE_COMM ? 1 :
			    op->kind == TAUTI_TABLE_SEND ? 2 :
			    op->kind == TAUTI_TABLE_RECV ? 3 : 0;
		if (op->kind == TAUTI_TABLE_STEP)
			continue;
		if (op->track && !beside[op->track])
			beside[op->track] = is_beside(w, i, busy);
		if (!op->track && op->start_ns + op->dur_ns > busy)
			busy = op->start_ns + op->dur_ns;
	}
	for (size_t i = w->begin; i < w->end; i++)
		if (!beside[op_at(w, i)->track])
			op_at(w, i)->track = 0;
}

/* The lane of the step rows; else that of most computation. */
static uint32_t find_main_lane(struct writer *w)
{
	size_t most = 0;
	uint32_t main = TAUT_NONE;
	size_t *count = calloc(w->n_names + TRACKS, sizeof *count);
	if (!count)
		return TAUT_NONE;
	for (size_t i = w->begin; i < w->end; i++) {
		const struct tauti_table_op *op = op_at(w, i);
		size_t at = op->lane ? op->lane : w->n_names + op->track;
		count[at] += op->kind == TAUTI_TABLE_STEP ? 1u << 30 :
			     op->kind == TAUTI_TABLE_COMPUTE ? 256 : 1;
		if (count[at] > most) {
			most = count[at];
			main = (uint32_t)i;
		}
	}
	free(count);
	if (main == TAUT_NONE)
		return main;
	w->main_name = op_at(w, main)->lane;
	return lane_id(w, op_at(w, main));
}

/* --- communication --------------------------------------------------------------------- */

static const char *collective_of(
	const struct writer *w, const struct tauti_table_op *op)
{
	const char *kind = taut_names_text(w->t->names, op->kind_name);
	if (op->kind == TAUTI_TABLE_SEND)
		return "send";
	if (op->kind == TAUTI_TABLE_RECV)
		return "recv";
	if (op->role == TAUTI_GRADS_SCATTER)
		return "reduce_scatter";
	if (op->role == TAUTI_PARAMS_GATHER)
		return "all_gather";
	if (op->role >= TAUTI_NORM_REDUCE && op->role <= TAUTI_CLIP)
		return "all_reduce";
	if (!strncmp(kind, "comm", 4) || !strncmp(kind, "coll", 4) ||
		!strcmp(kind, "transfer") || !strcmp(kind, "arrive") || !*kind)
		return taut_names_text(w->t->names, op->name);
	return kind;
}

/* The group of what stages do, by their roles. */
static void role_group(const struct writer *w, const struct tauti_table_op *op,
	char *group, size_t room, int32_t *ret_size)
{
	*ret_size = w->replicas;
	switch (op->role) {
	case TAUTI_EMBED_REDUCE:
		snprintf(group, room, "first and last stage of replica %d",
			(int)op->replica);
		*ret_size = w->last_stage ? 2 : 1;
		break;
	case TAUTI_CLIP:
		snprintf(group, room, "all ranks");
		*ret_size = (int32_t)w->n_ranks;
		break;
	case TAUTI_NORM_REDUCE: /* others of it are not in the table */
		snprintf(group, room, "tensor parallel ranks of rank %d",
			(int)op->rank);
		*ret_size = -1;
		break;
	default:
		snprintf(group, room, "stage %d", (int)op->stage);
	}
}

/* The k-th communication of its step in its group (with its peer). */
static int64_t count_comm(struct writer *w, const struct tauti_table_op *op)
{
	char text[64];
	struct counter none = { TAUT_NONE, 0 }, *c;
	int sends = op->kind == TAUTI_TABLE_SEND, even = 0;
	uint32_t id;
	if (op->kind != TAUTI_TABLE_COMM && op->peer < 0)
		even = sends == (op->rank == w->group_low[op->group]);
	id = taut_names_add(w->counted, text, (size_t)snprintf(text,
		sizeof text, "%d %u %d %d", (int)op->rank, (unsigned)op->group,
		(int)op->peer, op->kind == TAUTI_TABLE_COMM ? 2 : sends));
	if (id == TAUT_NONE)
		return -1;
	while (w->counters.count <= id)
		if (!taut_vec_push(&w->counters, none))
			return -1;
	c = &w->counters.data[id];
	if (c->step_index != op->step_index)
		*c = (struct counter){ op->step_index, 0 };
	return tauti_table_seq(op, c->count++ * 2 + even);
}

static bool describe(struct writer *w, const struct tauti_table_op *op,
	struct taut_comm_args *comm)
{
	char group[96] = "";
	const char *what = collective_of(w, op);
	comm->collective = text_id(w->b, what);
	comm->dtype = op->bytes >= 0 ? text_id(w->b, "Byte") : 0;
	comm->in_elements = op->bytes;
	comm->seq = op->seq;
	if (op->kind == TAUTI_TABLE_SEND || op->kind == TAUTI_TABLE_RECV) {
		bool sends = op->kind == TAUTI_TABLE_SEND;
		comm->src_rank = op->peer < 0 ? -1 : sends ? op->rank : op->peer;
		comm->dst_rank = op->peer < 0 ? -1 : sends ? op->peer : op->rank;
	} else if (w->t->pipelined && op->role != TAUTI_ROLE_NONE) {
		role_group(w, op, group, sizeof group, &comm->group_size);
	}
	if (op->group && !*group) {
		comm->group_name = name_id(w, op->group);
		if (w->n_ranks > 1 && op->peer < 0)
			comm->group_size = (int32_t)w->group_ranks[op->group];
	} else if (*group) {
		comm->group_name = text_id(w->b, group);
	}
	if (comm->seq < 0 && (comm->group_name || op->peer >= 0))
		comm->seq = count_comm(w, op);
	return comm->collective != TAUT_NONE && comm->dtype != TAUT_NONE &&
		comm->group_name != TAUT_NONE;
}

static bool add_comm(struct writer *w, const struct tauti_table_op *op,
	struct tauti_row *row)
{
	struct taut_comm_args comm = { .in_elements = -1, .out_elements = -1,
		.seq = -1, .comms_id = -1, .local_group = -1, .group_size = -1,
		.src_rank = -1, .dst_rank = -1, .rank_start = -1,
		.rank_stride = -1 };
	row->kind = TAUT_KIND_COMM;
	row->args = (uint32_t)w->b->comms.count;
	row->flags = op->meets ? TAUT_EVENT_MEETS : 0;
	return describe(w, op, &comm) && taut_vec_push(&w->b->comms, comm);
}

static bool add_copy(struct writer *w, const struct tauti_table_op *op,
	struct tauti_row *row)
{
	struct taut_copy_args copy = { 0, op->bytes };
	row->kind = TAUT_KIND_MEMCPY;
	if (op->bytes < 0)
		return true;
	row->args = (uint32_t)w->b->copies.count;
	return taut_vec_push(&w->b->copies, copy);
}

/* --- ids and waits ------------------------------------------------------------------------ */

/* Where the table has ids of its own, nothing else is waited for. */
static uint64_t op_id(const struct writer *w, size_t op)
{
	return w->t->wait_ids.count ? op_at(w, op)->id : w->first_id + op;
}

static uint64_t step_id(const struct writer *w, uint32_t rank, uint32_t step)
{
	return w->first_id + w->t->ops.count +
		(uint64_t)rank * w->t->steps.count + step;
}

static bool add_ref(uint32_t row, uint64_t id, void *refs)
{
	TAUT_VEC(struct taut_ref) *to = refs;
	struct taut_ref ref = { row, id };
	return taut_vec_push(to, ref);
}

static bool add_waits(struct writer *w, size_t i, uint32_t row)
{
	const struct tauti_table_op *op = op_at(w, i);
	struct tauti_table *t = w->t;
	bool ok = true;
	if (t->wait_ids.count ? op->id != 0 : w->wanted[i])
		ok = add_ref(row, op_id(w, i), &w->b->ids);
	for (uint32_t k = 0; ok && k < op->n_waits; k++)
		ok = add_ref(row, t->wait_ids.data[op->first_wait + k],
			&w->b->waits);
	for (; ok && w->wait < t->waits.count &&
		t->waits.data[w->wait].op == i; w->wait++) {
		uint32_t before = t->waits.data[w->wait].before;
		ok = add_ref(row, before == TAUT_NONE ?
			step_id(w, w->ordinal, op->step_index) :
			op_id(w, before), &w->b->waits);
	}
	return ok;
}

/* --- rows ---------------------------------------------------------------------------------- */

static bool add_op(struct writer *w, size_t i)
{
	const struct tauti_table_op *op = op_at(w, i);
	struct tauti_row row = { .args = TAUT_NONE, .kind = TAUT_KIND_OP,
		.start_ns = op->start_ns, .dur_ns = op->dur_ns,
		.name = name_id(w, op->name), .lane = lane_id(w, op) };
	struct tauti_row *kept;
	bool ok = row.name != TAUT_NONE && row.lane != TAUT_NONE;
	switch (op->kind) {
	case TAUTI_TABLE_COMM:
	case TAUTI_TABLE_SEND:
	case TAUTI_TABLE_RECV:
		ok = ok && add_comm(w, op, &row);
		break;
	case TAUTI_TABLE_COPY:
		ok = ok && add_copy(w, op, &row);
		break;
	case TAUTI_TABLE_DEVICE:
		row.kind = TAUT_KIND_KERNEL;
		break;
	case TAUTI_TABLE_LOAD:
		row.kind = TAUT_KIND_LOAD_WAIT;
		break;
	case TAUTI_TABLE_STEP:
		row.kind = TAUT_KIND_STEP;
		row.sequence = op->step < 0 ? 0 : (uint32_t)op->step + 1;
		break;
	}
	ok = ok && add_waits(w, i, (uint32_t)w->b->n_rows);
	kept = ok ? tauti_builder_row(w->b) : NULL;
	if (!kept)
		return false;
	*kept = row;
	return true;
}

/* Where each step begins anew, all ranks wait for all: the first one for the
 * last operation of each, and the others for the first. */
static bool add_barrier(struct writer *w, uint32_t step, uint32_t row)
{
	if (w->ordinal)
		return add_ref(row, step_id(w, 0, step), &w->b->waits);
	for (; w->last < w->lasts.count; w->last++) {
		uint32_t i = w->lasts.data[w->last];
		if (op_at(w, i)->step_index >= step)
			break;
		if (op_at(w, i)->step_index + 1 == step &&
			!add_ref(row, op_id(w, i), &w->b->waits))
			return false;
	}
	return true;
}

static bool add_step(struct writer *w, uint32_t index, int64_t start_ns,
	int64_t end_ns)
{
	char name[32];
	int32_t number = w->t->steps.data[index].number;
	uint32_t id = taut_names_add(w->b->names, name, (size_t)snprintf(name,
		sizeof name, "step %d", (int)number));
	uint32_t at = (uint32_t)w->b->n_rows;
	struct tauti_row *row = tauti_builder_row(w->b);
	if (!row || id == TAUT_NONE)
		return false;
	row->start_ns = start_ns;
	row->dur_ns = end_ns > start_ns ? end_ns - start_ns : 0;
	row->name = id;
	row->lane = w->main_lane;
	row->sequence = (uint32_t)number + 1;
	row->kind = TAUT_KIND_STEP;
	if (w->t->wait_ids.count)
		return true;
	return add_ref(at, step_id(w, w->ordinal, index), &w->b->ids) &&
		(!w->t->from_step || add_barrier(w, index, at));
}

/* Steps of the rank by the times of their operations: from the first of any
 * lane to the last of the main one. */
static bool add_steps(struct writer *w)
{
	int64_t end_ns = INT64_MIN;
	for (size_t i = w->begin, next; i < w->end; i = next) {
		const struct tauti_table_op *first = op_at(w, i);
		int64_t begin_ns = first->start_ns > end_ns ? first->start_ns :
							      end_ns;
		int64_t last_ns = INT64_MIN;
		for (next = i; next < w->end &&
			op_at(w, next)->step == first->step; next++) {
			const struct tauti_table_op *op = op_at(w, next);
			if (op->start_ns + op->dur_ns > last_ns &&
				lane_id(w, op) == w->main_lane)
				last_ns = op->start_ns + op->dur_ns;
		}
		if (first->step < 0)
			continue;
		end_ns = last_ns > begin_ns ? last_ns : begin_ns;
		if (!add_step(w, first->step_index, begin_ns, end_ns))
			return false;
	}
	return true;
}

static bool has_steps(const struct writer *w)
{
	for (size_t i = w->begin; i < w->end; i++)
		if (op_at(w, i)->kind == TAUTI_TABLE_STEP)
			return true;
	return false;
}

static bool write_steps(struct writer *w)
{
	const struct tauti_table *t = w->t;
	if (has_steps(w))
		return true;
	if (!t->from_step)
		return add_steps(w);
	for (uint32_t i = 0; i < t->steps.count; i++)
		if (!add_step(w, i, t->steps.data[i].start_ns,
			t->steps.data[i].start_ns + t->steps.data[i].dur_ns))
			return false;
	return true;
}

/* --- ranks ------------------------------------------------------------------------------------ */

static bool tell_number(struct tauti_builder *b, const char *key, int32_t number)
{
	char text[16];
	return number < 0 || tauti_builder_fact(b, key, text, (size_t)snprintf(
		text, sizeof text, "%d", (int)number)) == TAUT_OK;
}

static bool write_rank(struct writer *w)
{
	const struct tauti_table_op *first = op_at(w, w->begin);
	struct tauti_builder *b = w->b;
	memset(w->name_of, 0xff, w->n_names * sizeof *w->name_of);
	memset(w->lane_of, 0xff, w->n_names * sizeof *w->lane_of);
	memset(w->track_lane, 0xff, sizeof w->track_lane);
	w->n_lanes = 0;
	b->is_table = true;
	b->rank = first->rank;
	b->world_size = w->n_ranks > 1 ? (int32_t)w->n_ranks : -1;
	if (w->n_ranks > 1)
		b->clock = b->path; /* one table has one */
	if (!tell_number(b, "pipeline.stage", first->stage) ||
		!tell_number(b, "data.rank", first->replica) ||
		(w->t->chunks > 1 &&
		!tell_number(b, "pipeline.chunks", w->t->chunks)))
		return false;
	if (!w->t->pipelined)
		choose_tracks(w);
	w->main_lane = find_main_lane(w);
	if (w->main_lane == TAUT_NONE || !write_steps(w))
		return false;
	for (size_t i = w->begin; i < w->end; i++)
		if (!add_op(w, i))
			return false;
	return true;
}

/* Puts ops into the order of their steps; those of one step stay as they are.
 * False: no memory. */
static bool sort_by_step(const struct tauti_table *t, uint32_t *ops, size_t n)
{
	uint32_t *at = calloc(t->steps.count + 2, sizeof *at);
	uint32_t *sorted = malloc((n + 1) * sizeof *sorted);
	bool ok = at && sorted;
	for (size_t i = 0; ok && i < n; i++)
		at[t->ops.data[ops[i]].step_index + 1]++;
	for (size_t i = 1; ok && i <= t->steps.count; i++)
		at[i] += at[i - 1];
	for (size_t i = 0; ok && i < n; i++)
		sorted[at[t->ops.data[ops[i]].step_index]++] = ops[i];
	if (ok && n)
		memcpy(ops, sorted, n * sizeof *ops);
	free(at);
	free(sorted);
	return ok;
}

/* Of each rank and step the last op on the main lane. */
static bool find_lasts(struct writer *w)
{
	const struct tauti_table *t = w->t;
	uint32_t last = TAUT_NONE;
	for (uint32_t i = 0; i < t->ops.count; i++) {
		const struct tauti_table_op *op = op_at(w, i);
		bool goes_on = i + 1 < t->ops.count &&
			op[1].rank == op->rank && op[1].step == op->step;
		if (!op->track && op->step >= 0)
			last = i;
		if (goes_on || last == TAUT_NONE)
			continue;
		w->wanted[last] = 1;
		if (!taut_vec_push(&w->lasts, last))
			return false;
		last = TAUT_NONE;
	}
	return sort_by_step(t, w->lasts.data, w->lasts.count);
}

static bool find_wanted(struct writer *w)
{
	const struct tauti_table *t = w->t;
	w->wanted = calloc(t->ops.count + 1, 1);
	if (!w->wanted)
		return false;
	for (size_t i = 0; i < t->waits.count; i++)
		if (t->waits.data[i].before != TAUT_NONE)
			w->wanted[t->waits.data[i].before] = 1;
	return !t->from_step || find_lasts(w);
}

static void measure(struct writer *w)
{
	int32_t rank = INT32_MIN;
	for (size_t i = 0; i < w->t->ops.count; i++) {
		const struct tauti_table_op *op = op_at(w, i);
		w->n_ranks += op->rank != rank;
		rank = op->rank;
		if (op->stage > w->last_stage)
			w->last_stage = op->stage;
		if (op->replica >= w->replicas)
			w->replicas = op->replica + 1;
	}
	for (size_t i = 0; i < w->t->ops.count; i++) {
		const struct tauti_table_op *op = op_at(w, i);
		if (!op->group)
			continue;
		if (!w->group_ranks[op->group] ||
			op->rank != w->group_low[op->group])
			w->group_ranks[op->group]++;
		w->group_low[op->group] = op->rank;
	}
	for (size_t i = w->t->ops.count; i-- > 0;) /* the lowest stays */
		w->group_low[op_at(w, i)->group] = op_at(w, i)->rank;
}

static bool writer_init(struct writer *w, struct tauti_table *t)
{
	const char *path = t->builder->path;
	*w = (struct writer){ .t = t, .replicas = 1 };
	/* Far from those of other files of the run. */
	w->first_id = tauti_hash(path, strlen(path)) >> 2 | UINT64_C(1) << 62;
	w->n_names = taut_names_count(t->names);
	w->name_of = malloc(w->n_names * sizeof *w->name_of);
	w->lane_of = malloc(w->n_names * sizeof *w->lane_of);
	w->group_ranks = calloc(w->n_names, sizeof *w->group_ranks);
	w->group_low = calloc(w->n_names, sizeof *w->group_low);
	w->counted = taut_names_create();
	return w->name_of && w->lane_of && w->group_ranks && w->group_low &&
		w->counted && find_wanted(w);
}

static void writer_fini(struct writer *w)
{
	free(w->name_of);
	free(w->lane_of);
	free(w->wanted);
	taut_vec_free(&w->lasts);
	free(w->group_ranks);
	free(w->group_low);
	taut_names_destroy(w->counted);
	taut_vec_free(&w->counters);
}

bool tauti_table_write(struct tauti_table *t)
{
	struct writer w;
	bool ok = writer_init(&w, t);
	if (ok)
		measure(&w);
	for (; ok && w.begin < t->ops.count; w.begin = w.end, w.ordinal++) {
		int32_t rank = op_at(&w, w.begin)->rank;
		w.end = w.begin;
		while (w.end < t->ops.count && op_at(&w, w.end)->rank == rank)
			w.end++;
		w.b = w.ordinal ? tauti_builder_another(t->builder) :
				  t->builder;
		ok = w.b && write_rank(&w);
	}
	writer_fini(&w);
	return ok;
}

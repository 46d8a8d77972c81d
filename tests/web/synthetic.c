/* synthetic.c - see synthetic.h. Each step of each rank: a forward pass of
 * LAYERS layers on the main thread, a backward pass on the autograd thread,
 * an all-reduce a layer on a stream of its own, an optimizer that waits for
 * the last of them. */
#include "tests/web/synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 24, EVENTS_A_STEP = LAYERS * 22 + 6 };
enum { MAIN, AUTOGRAD, COMPUTE, COMM, N_LANES };

struct row {
	int64_t start, dur;
	uint32_t name, correlation, collective;
	uint8_t kind;
};

struct rows {
	struct row *data;
	uint32_t n, capacity;
};

struct rank {
	struct rows lane[N_LANES];
	int64_t now, device; /* host and compute stream, on the common clock */
	double pace;         /* host time takes this many times as long */
	uint32_t correlation;
};

struct maker {
	struct synthetic *s;
	struct rank *ranks;
	uint32_t n_ranks, n_steps, n_collectives;
	uint32_t random;
	int64_t *step_start, *step_end; /* by step * n_ranks + rank */
};

static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static void *array(struct maker *m, size_t n, size_t size)
{
	return must(taut_arena_calloc(m->s->arena, n ? n : 1, size));
}

static uint32_t name(struct maker *m, const char *text)
{
	return taut_names_add(m->s->names, text, strlen(text));
}

/* around, give or take a fifth */
static int64_t about(struct maker *m, double around)
{
	m->random = m->random * 1664525u + 1013904223u;
	return (int64_t)(around * (0.8 + 0.4 * (m->random >> 8) / 16777216.0));
}

static struct row *push(struct rank *r, int lane, uint8_t kind, uint32_t text,
	int64_t start, int64_t dur)
{
	struct rows *rows = &r->lane[lane];

	if (rows->n == rows->capacity) {
		rows->capacity = rows->capacity ? rows->capacity * 2 : 256;
		rows->data = must(realloc(
			rows->data, rows->capacity * sizeof *rows->data));
	}
	rows->data[rows->n] = (struct row){ start, dur, text, 0, TAUT_NONE,
		kind };
	return &rows->data[rows->n++];
}

/* An operator that launches a kernel; the kernel starts when the stream and
 * the launch allow it. */
static void operator(struct maker *m, struct rank *r, int lane, const char *op,
	const char *kernel, double kernel_ns)
{
	int64_t start = r->now, call = start + about(m, 6000 * r->pace);
	int64_t end = call + about(m, 7000 * r->pace);
	int64_t begins = r->device > end ? r->device + 900 : end + 2500;
	int64_t dur = about(m, kernel_ns);

	r->now = end + about(m, 4000 * r->pace);
	push(r, lane, TAUT_KIND_OP, name(m, op), start, r->now - start - 500);
	push(r, lane, TAUT_KIND_RUNTIME, name(m, "cudaLaunchKernel"), call,
		end - call)
		->correlation = ++r->correlation;
	push(r, COMPUTE, TAUT_KIND_KERNEL, name(m, kernel), begins, dur)
		->correlation = r->correlation;
	r->device = begins + dur;
}

static const char
	GEMM[] = "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_tn";
static const char ELEMENTWISE[] =
	"void at::native::vectorized_elementwise_kernel<4, at::native::"
	"GeluCUDAKernelImpl(at::TensorIteratorBase&)::{lambda()#1}, "
	"at::detail::Array<char*, 2> >(int, at::detail::Array<char*, 2>)";

static void forward(struct maker *m, struct rank *r, uint32_t layer)
{
	char text[64];
	uint32_t at = r->lane[MAIN].n;
	int64_t start = r->now;

	snprintf(text, sizeof text, "nn.Module: TransformerLayer_%u", layer);
	push(r, MAIN, TAUT_KIND_PYTHON, name(m, text), start, 0);
	r->now += about(m, 3000 * r->pace);
	operator(m, r, MAIN, "aten::layer_norm",
		"void layer_norm_kernel<c10::BFloat16, float>(int, float)",
		9000);
	operator(m, r, MAIN, "aten::linear", GEMM, 60000);
	operator(m, r, MAIN, "aten::gelu", ELEMENTWISE, 14000);
	r->lane[MAIN].data[at].dur = r->now - start;
	r->now += 800;
}

static void backward(struct maker *m, struct rank *r)
{
	uint32_t at = r->lane[AUTOGRAD].n;
	int64_t start = r->now;

	push(r, AUTOGRAD, TAUT_KIND_OP,
		name(m, "autograd::engine::evaluate_function: AddmmBackward0"),
		start, 0);
	r->now += 1500;
	operator(m, r, AUTOGRAD, "aten::gelu_backward", ELEMENTWISE, 16000);
	operator(m, r, AUTOGRAD, "aten::mm", GEMM, 58000);
	operator(m, r, AUTOGRAD, "aten::mm", GEMM, 61000);
	r->lane[AUTOGRAD].data[at].dur = r->now - start;
	r->now += 700;
}

/* Every rank joins when its gradient is there; bytes move when all have. */
static void all_reduce(struct maker *m)
{
	uint32_t kernel = name(m,
		"ncclDevKernel_AllReduce_Sum_bf16_RING_LL("
		"ncclDevKernelArgsStorage<4096ul>)");
	int64_t last = 0, moves = about(m, 90000);

	for (uint32_t i = 0; i < m->n_ranks; i++) {
		struct rank *r = &m->ranks[i];
		struct rows *comm = &r->lane[COMM];
		int64_t free_at = comm->n ? comm->data[comm->n - 1].start +
				comm->data[comm->n - 1].dur + 1000
					  : 0;
		int64_t start = r->device > free_at ? r->device : free_at;
		struct row *row;

		row = push(r, AUTOGRAD, TAUT_KIND_RUNTIME,
			name(m, "cudaLaunchKernelExC"), r->now, 5000);
		row->correlation = ++r->correlation;
		r->now += 6000;
		row = push(r, COMM, TAUT_KIND_KERNEL, kernel,
			start > r->now ? start : r->now, 0);
		row->correlation = r->correlation;
		row->collective = m->n_collectives;
		if (row->start > last)
			last = row->start;
	}
	for (uint32_t i = 0; i < m->n_ranks; i++) {
		struct rows *comm = &m->ranks[i].lane[COMM];
		struct row *row = &comm->data[comm->n - 1];

		row->dur = last + moves - row->start;
	}
	m->n_collectives++;
}

static void finish_step(struct maker *m, struct rank *r)
{
	const struct row *last = &r->lane[COMM].data[r->lane[COMM].n - 1];
	int64_t wait = r->now;

	if (r->device < last->start + last->dur)
		r->device = last->start + last->dur;
	operator(m, r, MAIN, "Optimizer.step#AdamW.step",
		"void multi_tensor_apply_kernel<TensorListMetadata<4>>",
		220000);
	wait = r->now;
	if (r->device > r->now)
		r->now = r->device + 3000;
	push(r, MAIN, TAUT_KIND_RUNTIME, name(m, "cudaDeviceSynchronize"), wait,
		r->now - wait);
	r->now += 2000;
}

static void step(struct maker *m, uint32_t number)
{
	char text[32];
	uint32_t *mark = must(calloc(m->n_ranks, sizeof *mark));

	snprintf(text, sizeof text, "ProfilerStep#%u", number + 3);
	for (uint32_t i = 0; i < m->n_ranks; i++) {
		struct rank *r = &m->ranks[i];

		mark[i] = r->lane[MAIN].n;
		m->step_start[number * m->n_ranks + i] = r->now;
		push(r, MAIN, TAUT_KIND_STEP, name(m, text), r->now, 0);
		r->now += about(m, 60000);
		push(r, COMPUTE, TAUT_KIND_MEMCPY,
			name(m, "Memcpy HtoD (Pinned -> Device)"),
			r->device > r->now ? r->device : r->now, 30000);
		r->device = r->lane[COMPUTE]
				    .data[r->lane[COMPUTE].n - 1]
				    .start +
			30000;
		for (uint32_t layer = 0; layer < LAYERS; layer++)
			forward(m, r, layer);
	}
	for (uint32_t layer = 0; layer < LAYERS; layer++) {
		for (uint32_t i = 0; i < m->n_ranks; i++)
			backward(m, &m->ranks[i]);
		all_reduce(m);
	}
	for (uint32_t i = 0; i < m->n_ranks; i++) {
		struct rank *r = &m->ranks[i];

		finish_step(m, r);
		m->step_end[number * m->n_ranks + i] = r->now;
		r->lane[MAIN].data[mark[i]].dur = r->now - 1000 -
			r->lane[MAIN].data[mark[i]].start;
	}
	free(mark);
}

static void make_trace(struct maker *m, uint32_t index, struct taut_trace *t)
{
	static const int64_t tids[N_LANES] = { 4001, 4077, 7, 20 };
	struct rank *r = &m->ranks[index];
	struct taut_lane *lanes = array(m, N_LANES, sizeof *lanes);
	uint32_t *begin = array(m, N_LANES + 1, sizeof *begin), n = 0;
	char path[64];

	for (int lane = 0; lane < N_LANES; lane++) {
		lanes[lane] = (struct taut_lane){
			lane < COMPUTE ? TAUT_LANE_THREAD : TAUT_LANE_STREAM,
			lane < COMPUTE ? 4001 : 0, tids[lane],
			name(m,
				lane == MAIN               ? "python"
					: lane == AUTOGRAD ? "pt_autograd_0"
							   : "")
		};
		n += r->lane[lane].n;
		begin[lane + 1] = n;
	}
	int64_t *start = array(m, n, sizeof *start);
	int64_t *dur = array(m, n, sizeof *dur);
	uint32_t *names = array(m, n, sizeof *names);
	uint32_t *lane_of = array(m, n, sizeof *lane_of);
	uint32_t *correlation = array(m, n, sizeof *correlation);
	uint32_t *args = array(m, n, sizeof *args);
	uint8_t *kind = array(m, n, 1);

	for (uint32_t lane = 0, i = 0; lane < N_LANES; lane++) {
		for (uint32_t k = 0; k < r->lane[lane].n; k++, i++) {
			const struct row *row = &r->lane[lane].data[k];

			start[i] = row->start + (int64_t)index * 1000000;
			dur[i] = row->dur;
			names[i] = row->name;
			lane_of[i] = lane;
			correlation[i] = row->correlation;
			args[i] = TAUT_NONE;
			kind[i] = row->kind;
		}
	}
	snprintf(path, sizeof path, "synthetic/rank%u.json", index);
	*t = (struct taut_trace){ .path = taut_arena_strndup(
					  m->s->arena, path, strlen(path)),
		.format = "synthetic",
		.host = index < m->n_ranks / 2 ? "node-a" : "node-b",
		.rank = (int32_t)index,
		.world_size = (int32_t)m->n_ranks,
		.n_events = n,
		.start_ns = start,
		.dur_ns = dur,
		.name = names,
		.lane = lane_of,
		.correlation = correlation,
		.sequence = array(m, n, sizeof(uint32_t)),
		.args = args,
		.kind = kind,
		.flags = array(m, n, 1),
		.n_lanes = N_LANES,
		.lanes = lanes,
		.lane_begin = begin,
		.names = m->s->names,
		.events_seen = n };
}

/* --- the graph: an operation a row, two for a member of a collective ---- */
struct ops {
	int64_t *start, *dur;
	uint32_t *lane, *name, *event, *collective, n;
	uint8_t *kind;
};

static uint32_t op(struct ops *o, uint8_t kind, uint32_t lane, uint32_t row,
	uint32_t text, int64_t start, int64_t dur)
{
	o->kind[o->n] = kind;
	o->lane[o->n] = lane;
	o->event[o->n] = row;
	o->name[o->n] = text;
	o->start[o->n] = start;
	o->dur[o->n] = dur;
	o->collective[o->n] = TAUT_NONE;
	return o->n++;
}

static int64_t last_arrival(const struct maker *m, uint32_t collective)
{
	int64_t last = INT64_MIN;

	for (uint32_t i = 0; i < m->n_ranks; i++) {
		int64_t start = m->ranks[i].lane[COMM].data[collective].start;

		last = start > last ? start : last;
	}
	return last;
}

static void lane_ops(struct maker *m, struct ops *o, uint32_t rank, int lane,
	uint32_t *arrive)
{
	const struct rows *rows = &m->ranks[rank].lane[lane];
	const struct taut_trace *t = &m->s->run.traces[rank];
	uint32_t id = rank * N_LANES + (uint32_t)lane;

	for (uint32_t k = 0; k < rows->n; k++) {
		const struct row *row = &rows->data[k];
		uint32_t at = t->lane_begin[lane] + k;
		int64_t begins;

		if (row->collective == TAUT_NONE) {
			op(o,
				row->kind == TAUT_KIND_KERNEL ? TAUT_OP_KERNEL
							      : TAUT_OP_HOST,
				id, at, row->name, row->start, row->dur);
			continue;
		}
		begins = last_arrival(m, row->collective);
		arrive[row->collective * m->n_ranks + rank] = op(
			o, TAUT_OP_ARRIVE, id, at, row->name, row->start, 0);
		op(o, TAUT_OP_TRANSFER, id, at, row->name, begins,
			row->start + row->dur - begins);
	}
}

static struct taut_collective *make_collectives(struct maker *m, struct ops *o)
{
	struct taut_collective *all = array(m, m->n_collectives, sizeof *all);

	for (uint32_t i = 0; i < m->n_collectives; i++)
		all[i] = (struct taut_collective){ .kind = TAUT_COLL_ALLREDUCE,
			.name = m->ranks[0].lane[COMM].data[i].name,
			.group = name(m, "default_pg"),
			.group_size = (int32_t)m->n_ranks,
			.bytes = 1 << 24,
			.seq = i,
			.first_member = i * m->n_ranks,
			.n_members = m->n_ranks,
			.join_op = op(o, TAUT_OP_JOIN, m->n_ranks * N_LANES,
				TAUT_NONE, 0, last_arrival(m, i), 0) };
	return all;
}

static void make_graph(struct maker *m)
{
	struct taut_graph *g = &m->s->graph;
	uint32_t n_lanes = m->n_ranks * N_LANES + 1, n = m->n_collectives;
	struct taut_graph_lane *lanes = array(m, n_lanes, sizeof *lanes);
	uint32_t *begin = array(m, n_lanes + 1, sizeof *begin);
	uint32_t *arrive = array(
		m, m->n_collectives * m->n_ranks, sizeof *arrive);
	struct taut_clock_row *clocks = array(m, m->n_ranks, sizeof *clocks);
	struct ops o = { .n = 0 };

	for (uint32_t i = 0; i < m->n_ranks; i++)
		n += (uint32_t)m->s->run.traces[i].n_events + m->n_collectives;
	o.start = array(m, n, sizeof *o.start);
	o.dur = array(m, n, sizeof *o.dur);
	o.lane = array(m, n, sizeof *o.lane);
	o.name = array(m, n, sizeof *o.name);
	o.event = array(m, n, sizeof *o.event);
	o.collective = array(m, n, sizeof *o.collective);
	o.kind = array(m, n, 1);
	for (uint32_t i = 0; i < m->n_ranks; i++) {
		clocks[i] = (struct taut_clock_row){ i, -1000.0 * i, 0, 2.5,
			m->n_collectives };
		for (int lane = 0; lane < N_LANES; lane++) {
			uint32_t id = i * N_LANES + (uint32_t)lane;

			lanes[id] = (struct taut_graph_lane){ i, (uint32_t)lane,
				lane < COMPUTE ? TAUT_LANE_THREAD
					       : TAUT_LANE_STREAM,
				lane == MAIN, lane == COMM };
			begin[id] = o.n;
			lane_ops(m, &o, i, lane, arrive);
		}
	}
	lanes[n_lanes - 1].trace = TAUT_NONE;
	begin[n_lanes - 1] = o.n;
	g->collectives = make_collectives(m, &o);
	begin[n_lanes] = o.n;
	*g = (struct taut_graph){ .run = &m->s->run,
		.names = m->s->names,
		.n_ops = o.n,
		.n_lanes = n_lanes,
		.n_collectives = m->n_collectives,
		.start_ns = o.start,
		.dur_ns = o.dur,
		.gap_ns = array(m, o.n, sizeof(int64_t)),
		.lane = o.lane,
		.name = o.name,
		.event = o.event,
		.collective = o.collective,
		.kind = o.kind,
		.edge_begin = array(m, o.n + 1, sizeof(uint32_t)),
		.lanes = lanes,
		.lane_begin = begin,
		.collectives = g->collectives,
		.member_arrive = arrive,
		.clocks = clocks };
}

/* --- the report --------------------------------------------------------- */
static int64_t wait_in(
	const struct maker *m, uint32_t rank, int64_t from, int64_t to)
{
	const struct rows *comm = &m->ranks[rank].lane[COMM];
	int64_t wait = 0;

	for (uint32_t i = 0; i < comm->n; i++) {
		if (comm->data[i].start >= from && comm->data[i].start < to)
			wait += last_arrival(m, i) - comm->data[i].start;
	}
	return wait;
}

static void make_steps(struct maker *m, struct taut_report *r)
{
	struct taut_report_step *steps = array(
		m, (size_t)m->n_ranks * m->n_steps, sizeof *steps);

	for (uint32_t i = 0; i < m->n_ranks * m->n_steps; i++) {
		uint32_t rank = i / m->n_steps, number = i % m->n_steps;
		int64_t start = m->step_start[number * m->n_ranks + rank];
		int64_t end = m->step_end[number * m->n_ranks + rank];
		struct taut_report_step *s = &steps[i];
		int64_t left = end - start;

		*s = (struct taut_report_step){ .rank = (int32_t)rank,
			.id = number + 3,
			.start_ns = start,
			.measured_ns = left,
			.replayed_ns = left + left / 250,
			.overlapped_ns = left / 5 };
		s->ns[TAUT_CAT_COMM_WAIT] = wait_in(m, rank, start, end) / 8;
		s->ns[TAUT_CAT_COMM_EXPOSED] = left / 11;
		s->ns[TAUT_CAT_HOST_BOUND] = (int64_t)(left * 0.05 *
			m->ranks[rank].pace * m->ranks[rank].pace);
		s->ns[TAUT_CAT_DATA] = 60000;
		s->ns[TAUT_CAT_COPY] = 30000;
		s->ns[TAUT_CAT_OTHER] = left / 60;
		for (int c = 0; c < TAUT_CATEGORIES; c++)
			left -= s->ns[c];
		s->ns[TAUT_CAT_COMPUTE] = left;
	}
	r->steps = steps;
	r->n_steps = m->n_ranks * m->n_steps;
	r->steady_ns = steps[m->n_steps - 1].measured_ns;
	r->replay_steady_ns = steps[m->n_steps - 1].replayed_ns;
}

/* The late rank's kernels, then each transfer that it was last for. */
static void make_path(struct maker *m, struct taut_report *r, uint32_t late)
{
	const struct taut_graph *g = &m->s->graph;
	uint32_t lane = late * N_LANES, n = 0;
	uint32_t at[2] = { g->lane_begin[lane + COMPUTE],
		g->lane_begin[lane + COMM] };
	uint32_t end[2] = { g->lane_begin[lane + COMM],
		g->lane_begin[lane + COMM + 1] };
	struct taut_report_segment *path = array(
		m, end[1] - at[0] + 1, sizeof *path);
	int64_t now = 0;

	while (at[0] < end[0] || at[1] < end[1]) {
		int which = at[1] >= end[1] ||
				(at[0] < end[0] &&
					g->start_ns[at[0]] <=
						g->start_ns[at[1]])
			? 0
			: 1;
		uint32_t i = at[which]++;

		if (g->start_ns[i] < now || !g->dur_ns[i])
			continue;
		now = g->start_ns[i] + g->dur_ns[i];
		path[n++] = (struct taut_report_segment){ .rank = (int32_t)late,
			.op = i,
			.lane = which ? "stream 20" : "stream 7",
			.name = taut_names_text(g->names, g->name[i]),
			.module = "",
			.category = which ? TAUT_CAT_COMM_EXPOSED
					  : TAUT_CAT_COMPUTE,
			.start_ns = g->start_ns[i],
			.dur_ns = g->dur_ns[i] };
		r->path_ns[path[n - 1].category] += g->dur_ns[i];
	}
	r->path = path;
	r->n_path = n;
}

static void make_late(struct maker *m, struct taut_report *r, uint32_t late)
{
	struct taut_report_late *rows = array(m, m->n_ranks, sizeof *rows);
	int64_t *wait = array(m, m->n_ranks, sizeof *wait);
	uint32_t *last = array(m, m->n_ranks, sizeof *last);
	int64_t caused = 0;

	for (uint32_t i = 0; i < m->n_ranks; i++)
		caused += wait[i] = wait_in(m, i, INT64_MIN, INT64_MAX);
	for (uint32_t i = 0; i < m->n_ranks; i++) {
		last[i] = i == late ? m->n_collectives : 0;
		rows[i] = (struct taut_report_late){ .rank = (int32_t)i,
			.last_arrivals = last[i],
			.wait_ns = wait[i],
			.caused_ns = i == late && m->n_ranks > 1
				? caused / (m->n_ranks - 1)
				: 0,
			.cause = TAUT_CAT_HOST_BOUND,
			.cause_op = i == late ? "aten::linear" : "",
			.cause_op_ns = i == late ? 41000000 : 0,
			.cause_module = i == late ? "TransformerLayer_4" : "" };
	}
	struct taut_report_late first = rows[0];
	rows[0] = rows[late];
	rows[late] = first;
	r->late = rows;
	r->n_late = m->n_ranks;
	r->coll_wait_ns = wait;
	r->coll_last_arrivals = last;
}

static void make_findings(struct maker *m, struct taut_report *r, uint32_t late)
{
	struct taut_report_finding *f = array(m, 4, sizeof *f);
	int32_t *ranks = array(m, 1, sizeof *ranks);
	const struct taut_report_step *s = &r->steps[late * m->n_steps];
	int64_t start = s->start_ns, end = start + s->measured_ns;

	*ranks = (int32_t)late;
	f[0] = (struct taut_report_finding){ "late-ranks",
		"One rank is late for every all-reduce: its host launches "
		"kernels too slowly. </script> must do no harm here.",
		"last in every collective; host takes 1.6 times as long",
		r->steady_ns / 8, 1, ranks, (int32_t)late,
		start + (end - start) / 4, start + (end - start) / 2 };
	f[1] = (struct taut_report_finding){ "transfer",
		"All-reduce of 24 buckets is not hidden under the backward pass.",
		"24 x 16 MiB, 42 GB/s", r->steady_ns / 15, 0, NULL, 0,
		start + (end - start) / 2, start + (end - start) * 3 / 4 };
	f[2] = (struct taut_report_finding){ "data",
		"Each step begins with a wait for its batch.", "0.06 ms a step",
		60000, 0, NULL, 0, start, start + 90000 };
	f[3] = (struct taut_report_finding){ "page-faults",
		"Memory that is asked for again costs faults.", "12 MB a step",
		50000, 0, NULL, -1, 0, 0 };
	r->findings = f;
	r->n_findings = 4;
}

static void make_tables(struct maker *m, struct taut_report *r)
{
	struct taut_report_coll *c = array(m, 1, sizeof *c);
	struct taut_report_share *ops = array(m, 2, sizeof *ops);
	struct taut_report_removal *gone = array(m, 2, sizeof *gone);
	struct taut_report_clock *clocks = array(m, 2, sizeof *clocks);
	static const char *const notes[] = {
		"rank 0: 2 events could not be read", "this run is made up"
	};

	*c = (struct taut_report_coll){ "all-reduce", "default_pg",
		"ncclDevKernel_AllReduce_Sum_bf16_RING_LL", (int32_t)m->n_ranks,
		m->n_collectives, (int64_t)m->n_collectives << 24,
		(int64_t)m->n_collectives * 90000,
		r->coll_wait_ns[0] * m->n_ranks, 42.5,
		(uint64_t)m->n_collectives * m->n_ranks };
	ops[0] = (struct taut_report_share){ GEMM, TAUT_CAT_COMPUTE, 1000,
		r->path_ns[TAUT_CAT_COMPUTE] };
	ops[1] = (struct taut_report_share){ "all-reduce",
		TAUT_CAT_COMM_EXPOSED, 24, r->path_ns[TAUT_CAT_COMM_EXPOSED] };
	gone[0] = (struct taut_report_removal){ "late-ranks",
		"every rank as fast as the median", r->steady_ns * 7 / 8,
		r->steady_ns / 8 };
	gone[1] = (struct taut_report_removal){ "transfer",
		"transfers take no time", r->steady_ns * 14 / 15,
		r->steady_ns / 15 };
	clocks[0] = (struct taut_report_clock){ "node-a", 0, 0, 0, 480 };
	clocks[1] = (struct taut_report_clock){ "node-b", -1000, 0.4, 2.5,
		480 };
	r->n_colls = 1;
	r->colls = c;
	r->n_path_ops = 2;
	r->path_ops = ops;
	r->n_path_modules = 2;
	r->path_modules = ops;
	r->n_removals = 2;
	r->removals = gone;
	r->n_clocks = 2;
	r->clocks = clocks;
	r->n_notes = 2;
	r->notes = notes;
}

static void make_report(struct maker *m, uint32_t late)
{
	struct taut_report *r = &m->s->report;
	int32_t *ranks = array(m, m->n_ranks, sizeof *ranks);
	const char **hosts = array(m, m->n_ranks, sizeof *hosts);

	for (uint32_t i = 0; i < m->n_ranks; i++) {
		ranks[i] = (int32_t)i;
		hosts[i] = m->s->run.traces[i].host;
	}
	*r = (struct taut_report){ .run = &m->s->run,
		.graph = &m->s->graph,
		.n_ranks = m->n_ranks,
		.ranks = ranks,
		.hosts = hosts,
		.replay_error_pct_max = 0.4,
		.replay_error_pct_mean = 0.2,
		.unexplained_pct = 0.7,
		.coll_count = m->n_collectives,
		.coll_complete = m->n_collectives,
		.coll_transfer_ns = (int64_t)m->n_collectives * 90000 };
	make_steps(m, r);
	make_path(m, r, late);
	make_late(m, r, late);
	make_findings(m, r, late);
	make_tables(m, r);
}

void synthetic_make(struct synthetic *s, uint32_t n_ranks, uint32_t n_events)
{
	struct maker m = { .s = s, .n_ranks = n_ranks, .random = 7 };
	uint32_t late = n_ranks / 3;
	struct taut_trace *traces;

	memset(s, 0, sizeof *s);
	s->arena = must(taut_arena_create());
	s->names = must(taut_names_create());
	m.n_steps = (n_events + EVENTS_A_STEP - 1) / EVENTS_A_STEP;
	m.ranks = must(calloc(n_ranks, sizeof *m.ranks));
	m.step_start = array(&m, (size_t)n_ranks * m.n_steps, sizeof(int64_t));
	m.step_end = array(&m, (size_t)n_ranks * m.n_steps, sizeof(int64_t));
	for (uint32_t i = 0; i < n_ranks; i++)
		m.ranks[i].pace = i == late ? 1.6 : 1.0;
	for (uint32_t i = 0; i < m.n_steps; i++)
		step(&m, i);
	traces = array(&m, n_ranks, sizeof *traces);
	for (uint32_t i = 0; i < n_ranks; i++)
		make_trace(&m, i, &traces[i]);
	s->run = (struct taut_run){
		.path = "synthetic/", .n_traces = n_ranks, .traces = traces
	};
	make_graph(&m);
	make_report(&m, late);
	for (uint32_t i = 0; i < n_ranks; i++) {
		for (int lane = 0; lane < N_LANES; lane++)
			free(m.ranks[i].lane[lane].data);
	}
	free(m.ranks);
}

void synthetic_free(struct synthetic *s)
{
	taut_names_destroy(s->names);
	taut_arena_destroy(s->arena);
}

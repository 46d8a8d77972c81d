/* spans.c - see spans.h. */
#include "whatif/spans.h"

#include <stdlib.h>
#include <string.h>

enum mark_kind { /* of equal times, in this order */
	MARK_STEP,     /* ends what is open */
	MARK_DATA,
	MARK_ZERO,     /* zero_grad() */
	MARK_OPTIMIZER,
	MARK_FORWARD,  /* an operator whose gradient will be wanted */
	MARK_BACKWARD,
};

struct mark {
	int64_t start, end;
	enum mark_kind kind;
};

struct finder {
	const struct taut_graph *graph;
	const struct taut_trace *trace;
	uint32_t index, main_lane;
	TAUT_VEC(struct mark) marks;
};

/* --- rows ------------------------------------------------------------------- */

static bool is_backward(const struct taut_trace *t, uint32_t row)
{
	return t->kind[row] == TAUT_KIND_OP &&
		((t->flags[row] & TAUT_EVENT_BACKWARD) ||
		strstr(taut_trace_name(t, row), "Backward") ||
		!strncmp(taut_trace_name(t, row), "autograd::engine", 16));
}

bool tauti_is_batch(const struct taut_trace *t, uint32_t row)
{
	const char *name = taut_trace_name(t, row);

	if (t->kind[row] == TAUT_KIND_LOAD_WAIT)
		return true;
	if (t->kind[row] != TAUT_KIND_ANNOTATION &&
		t->kind[row] != TAUT_KIND_PYTHON)
		return false;
	return (strstr(name, "DataLoader") && strstr(name, "__next__")) ||
		!strncmp(name, "enumerate(DataLoader)", 21) ||
		!strncmp(name, "enumerate(DataPipe)", 19) ||
		!strncmp(name, "[pl][profile][Strategy]train_dataloader_next",
			44) ||
		(strstr(name, "utils/data/dataloader.py") &&
		strstr(name, "__next__"));
}

bool tauti_is_zero_grad(const struct taut_trace *t, uint32_t row)
{
	return t->kind[row] == TAUT_KIND_ANNOTATION &&
		!strncmp(taut_trace_name(t, row), "Optimizer.zero_grad", 19);
}

/* -1: the row says nothing. */
static int kind_of(const struct taut_trace *t, uint32_t row)
{
	const char *name = taut_trace_name(t, row);

	if (is_backward(t, row))
		return MARK_BACKWARD;
	if (t->kind[row] == TAUT_KIND_OP)
		return t->sequence[row] ? MARK_FORWARD : -1;
	if (tauti_is_batch(t, row))
		return MARK_DATA;
	if (t->kind[row] != TAUT_KIND_ANNOTATION)
		return -1;
	if (tauti_is_zero_grad(t, row))
		return MARK_ZERO;
	return !strncmp(name, "Optimizer.", 10) ? MARK_OPTIMIZER : -1;
}

/* Outermost rows alone: what is within one of another kind belongs to it. Of
 * other threads backward alone counts. */
static bool find_marks(struct finder *f, uint32_t lane)
{
	const struct taut_trace *t = f->trace;
	int64_t covered = INT64_MIN;

	for (uint32_t i = t->lane_begin[lane]; i < t->lane_begin[lane + 1];
		i++) {
		int kind = t->start_ns[i] < covered ? -1 : kind_of(t, i);
		struct mark m;

		if (kind < 0 || (lane != f->main_lane && kind != MARK_BACKWARD))
			continue;
		m.kind = (enum mark_kind)kind;
		m.start = taut_graph_time(f->graph, f->index, t->start_ns[i]);
		m.end = taut_graph_time(
			f->graph, f->index, t->start_ns[i] + t->dur_ns[i]);
		if (!taut_vec_push(&f->marks, m))
			return false;
		covered = t->start_ns[i] + t->dur_ns[i];
	}
	return true;
}

static bool find_steps(struct finder *f)
{
	for (uint32_t s = 0; s < f->graph->n_steps; s++) {
		const struct taut_step *step = &f->graph->steps[s];
		struct mark m = { step->start_ns, step->start_ns, MARK_STEP };

		if (step->trace == f->index && !taut_vec_push(&f->marks, m))
			return false;
	}
	return true;
}

static int by_start(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

/* --- spans -------------------------------------------------------------------- */

static enum tauti_phase phase_of(enum mark_kind kind)
{
	return kind == MARK_DATA ? TAUTI_PHASE_DATA :
		kind == MARK_BACKWARD ? TAUTI_PHASE_BACKWARD :
		TAUTI_PHASE_OPTIMIZER;
}

/* Backward goes on from its first row to its last, until anything else
 * begins. */
static bool join_marks(const struct finder *f, struct tauti_spans *to)
{
	size_t open = SIZE_MAX;

	for (size_t i = 0; i < f->marks.count; i++) {
		const struct mark *m = &f->marks.data[i];
		struct tauti_span span = { m->start, m->end,
			phase_of(m->kind), m->kind == MARK_DATA ||
			m->kind == MARK_ZERO };

		if (m->kind == MARK_BACKWARD && open != SIZE_MAX) {
			if (m->end > to->spans.data[open].end)
				to->spans.data[open].end = m->end;
			continue;
		}
		open = m->kind == MARK_BACKWARD ? to->spans.count : SIZE_MAX;
		to->has_backward |= m->kind == MARK_BACKWARD;
		if (m->kind != MARK_STEP && m->kind != MARK_FORWARD &&
			!taut_vec_push(&to->spans, span))
			return false;
	}
	return true;
}

static bool find_all(struct finder *f, struct tauti_spans *to)
{
	for (uint32_t lane = 0; lane < f->trace->n_lanes; lane++) {
		size_t before = f->marks.count;

		if (f->trace->lanes[lane].kind != TAUT_LANE_THREAD)
			continue;
		if (!find_marks(f, lane))
			return false;
		to->autograd[lane] = lane != f->main_lane &&
			f->marks.count > before;
	}
	return find_steps(f);
}

taut_status tauti_spans_find(const struct taut_graph *graph, uint32_t trace,
	uint32_t main_lane, struct tauti_spans *ret_spans,
	struct taut_error *err)
{
	struct finder f = { .graph = graph, .trace = &graph->run->traces[trace],
		.index = trace, .main_lane = main_lane };
	struct tauti_spans spans = { .autograd = calloc(
		f.trace->n_lanes + 1, sizeof *spans.autograd) };
	bool ok = spans.autograd && find_all(&f, &spans);

	if (ok && f.marks.count)
		qsort(f.marks.data, f.marks.count, sizeof *f.marks.data,
			by_start);
	ok = ok && join_marks(&f, &spans);
	taut_vec_free(&f.marks);
	if (!ok) {
		tauti_spans_free(&spans);
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"%s: no memory for the phases of its steps",
			f.trace->path);
	}
	*ret_spans = spans;
	return TAUT_OK;
}

void tauti_spans_free(struct tauti_spans *spans)
{
	taut_vec_free(&spans->spans);
	free(spans->autograd);
	spans->autograd = NULL;
}

/* The first span that starts behind `at`. */
static size_t behind(const struct tauti_spans *s, int64_t at)
{
	size_t lo = 0, hi = s->spans.count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->spans.data[mid].start <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

enum tauti_phase tauti_phase_at(
	const struct tauti_spans *spans, int64_t at, int64_t step_end)
{
	size_t next = behind(spans, at);

	if (next && at < spans->spans.data[next - 1].end)
		return spans->spans.data[next - 1].phase;
	for (; next < spans->spans.count; next++) {
		const struct tauti_span *s = &spans->spans.data[next];

		if (s->start >= step_end)
			break;
		if (!s->aside)
			return s->phase == TAUTI_PHASE_BACKWARD ?
				TAUTI_PHASE_FORWARD : TAUTI_PHASE_NONE;
	}
	return TAUTI_PHASE_NONE;
}

/* waits.c - the part of a batch's preparation that waits for storage.
 *
 * Of the time of a batch, the thread that prepared it was on a core, waited for
 * one, or waited for something else. The latter is taken for storage, unless
 * other threads of its process computed meanwhile: what they did, it may have
 * waited for. Then half of that is taken for storage, and all or nothing of it
 * are the ends of a doubt. */
#include "whatif/compute.h"

/* --- of one batch ------------------------------------------------------------- */

struct parts {
	double all, core, queue, least, most; /* nanoseconds */
};

static double above(double x, double least)
{
	return x > least ? x : least;
}

static struct parts parts_of(
	const struct taut_trace *t, const struct taut_load_args *load)
{
	struct parts p = { .all = (double)t->dur_ns[load->event],
		.core = (double)load->cpu_ns,
		.queue = above((double)load->queued_ns, 0) };

	p.most = above(p.all - p.core - p.queue, 0);
	p.least = above(p.most - above((double)load->others_ns, 0), 0);
	return p;
}

static double wait_of(const struct parts *p)
{
	return (p->least + p->most) / 2;
}

/* The batch whose preparation a row is, or is within; NULL. */
static const struct taut_load_args *load_around(
	const struct taut_trace *t, uint32_t row)
{
	const struct taut_load_args *load;
	size_t lo = 0, hi = t->n_loads;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->loads[mid].event <= row)
			lo = mid + 1;
		else
			hi = mid;
	}
	load = lo ? &t->loads[lo - 1] : NULL;
	return load && t->lane[load->event] == t->lane[row] &&
		t->start_ns[row] - t->start_ns[load->event] <
		above((double)t->dur_ns[load->event], 1) ? load : NULL;
}

static double usual_share(const struct taut_trace *t)
{
	double all = 0, wait = 0;

	for (size_t i = 0; i < t->n_loads; i++) {
		struct parts p = parts_of(t, &t->loads[i]);

		all += p.all;
		wait += wait_of(&p);
	}
	return all > 0 ? wait / all : 0;
}

static const struct taut_trace *trace_of(
	const struct tauti_whatif *w, uint32_t rank)
{
	const struct taut_run *run = w->graph->run;
	uint32_t like = taut_edit_rank_like(w->edit, rank);

	return run && like < run->n_traces ? &run->traces[like] : NULL;
}

/* Of a batch that was laid anew, and then copied with its rank. */
static double share_of_copy(
	const struct tauti_whatif *w, const struct taut_op *op)
{
	uint32_t rank = tauti_op_rank(w, op);
	const struct taut_trace *t = rank == TAUT_NONE ? NULL :
		trace_of(w, rank);

	return t && tauti_is_load_lane(w, op->lane) ? usual_share(t) : 0;
}

double tauti_wait_share(const struct tauti_whatif *w, uint32_t op)
{
	const struct taut_load_args *load;
	const struct taut_trace *t;
	struct taut_op is;
	struct parts p;
	uint32_t row;

	if (op < w->waits_room && w->waits[op] > 0)
		return w->waits[op] - 1;
	if (!taut_edit_op(w->edit, op, &is))
		return 0;
	if (is.like == TAUT_NONE)
		return share_of_copy(w, &is);
	t = tauti_op_trace(w, is.like, &row);
	load = t ? load_around(t, row) : NULL;
	if (!load)
		return 0;
	p = parts_of(t, load);
	return p.all > 0 ? wait_of(&p) / p.all : 0;
}

taut_status tauti_set_wait_share(struct tauti_whatif *w, uint32_t op,
	double share, struct taut_error *err)
{
	if (op >= w->waits_room) {
		uint32_t room = op + op / 2 + 64;
		double *waits = TAUT_ARENA_ARRAY(w->arena, double, room);

		if (!waits)
			return tauti_no_memory(err, "batches");
		if (w->waits_room)
			memcpy(waits, w->waits,
				w->waits_room * sizeof *waits);
		w->waits = waits;
		w->waits_room = room;
	}
	w->waits[op] = 1 + share;
	return TAUT_OK;
}

/* Of a batch; with less, workers talk to the main thread, and read no data. */
static const double least_bytes = 4096;

/* --- of all ---------------------------------------------------------------------- */

static void add(struct tauti_waits *sum, const struct taut_trace *t)
{
	for (size_t i = 0; i < t->n_loads; i++) {
		const struct taut_load_args *load = &t->loads[i];
		struct parts p = parts_of(t, load);

		sum->n++;
		sum->all_ns += p.all;
		sum->core_ns += p.core;
		sum->queue_ns += p.queue;
		sum->wait_ns += wait_of(&p);
		sum->least_ns += p.least;
		sum->most_ns += p.most;
		sum->read_bytes += above((double)load->read_bytes, 0);
		sum->storage_bytes += above((double)load->storage_bytes, 0);
		sum->samples += above((double)load->samples, 0);
		sum->queue_told &= load->queued_ns >= 0;
	}
}

static taut_status refuse(const struct tauti_change *c,
	const struct taut_trace *t, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EINVAL, -1, "%s: the recording of rank "
		"%d tells how long its batches took to prepare, but not what "
		"they waited for; 'taut record' of this version does", c->text,
		t ? (int)t->rank : -1);
}

taut_status tauti_waits_find(struct tauti_whatif *w,
	const struct tauti_change *c, struct tauti_waits *ret,
	struct taut_error *err)
{
	struct tauti_waits sum = { .queue_told = true };
	taut_status status = TAUT_OK;

	for (uint32_t r = 0; !status && r < taut_edit_ranks(w->edit); r++) {
		struct tauti_batches b;
		const struct taut_trace *t;

		if (!taut_edit_has_rank(w->edit, r))
			continue;
		status = tauti_batches_find(w, r, &b, err);
		if (status)
			return status;
		t = trace_of(w, r);
		if (!b.takes.count || b.blind)
			status = tauti_batches_refuse(c, &b, err);
		else if (!t || !t->n_loads)
			status = refuse(c, t, err);
		else
			add(&sum, t);
		tauti_batches_end(&b);
	}
	if (sum.read_bytes < least_bytes * sum.n)
		sum.read_bytes = 0;
	if (!status)
		*ret = sum;
	return status;
}

/* --- otherwise --------------------------------------------------------------------- */

/* The share that waits, where all waits together are times as much. */
static double believed(double share, double times)
{
	return share * times < 1 ? share * times : 1;
}

/* The main thread's own work for a batch. */
static taut_status scale_own(struct tauti_whatif *w,
	const struct tauti_take *take, double times, double factor,
	struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = take->first; !status;
		i = taut_edit_next(w->edit, i)) {
		double share = believed(tauti_wait_share(w, i), times);
		double now = 1 - share + share * factor;
		struct taut_op op;

		if (share > 0 && taut_edit_op(w->edit, i, &op)) {
			status = tauti_scale_op(w, i, &op, now, err);
			if (!status && now > 0)
				status = tauti_set_wait_share(w, i,
					share * factor / now, err);
		}
		if (i == take->last)
			break;
	}
	return status;
}

static taut_status scale_rank(struct tauti_whatif *w, struct tauti_batches *b,
	double times, double factor, struct taut_error *err)
{
	int64_t *dur_ns;
	taut_status status = tauti_batches_times(w, b, &dur_ns, err);

	for (size_t i = 0; !status && i < b->takes.count; i++) {
		double share = believed(b->wait[i], times);
		double now = 1 - share + share * factor;

		dur_ns[i] = tauti_ns((double)dur_ns[i] * now);
		b->wait[i] = now > 0 ? share * factor / now : 0;
		if (!b->workers)
			status = scale_own(
				w, &b->takes.data[i], times, factor, err);
	}
	if (status || !b->workers)
		return status;
	return tauti_batches_spread(
		w, b, b->workers, b->under_way, dur_ns, err);
}

/* Less is the faster end where waits get longer. */
static double doubt(const struct tauti_whatif *w,
	const struct tauti_waits *are, double factor)
{
	double least, most;

	if (are->wait_ns <= 0 || are->most_ns - are->least_ns <
		are->wait_ns / 100)
		return 1;
	least = are->least_ns / are->wait_ns;
	most = are->most_ns / are->wait_ns;
	return factor < 1 ? tauti_range(w, most, 1, least) :
		tauti_range(w, least, 1, most);
}

taut_status tauti_waits_scale(struct tauti_whatif *w,
	const struct tauti_change *c, const struct tauti_waits *are,
	double factor, struct taut_error *err)
{
	double times = doubt(w, are, factor), n = are->n * 1e6;
	taut_status status = tauti_note(w, err, "%s: of the %.3g ms that a "
		"batch took to prepare, it computed for %.3g ms%s and waited "
		"for storage for %.3g ms", c->text, are->all_ns / n,
		(are->core_ns + are->queue_ns) / n, are->queue_told ? "" :
		" (or waited for a core, which was not recorded)",
		are->wait_ns / n);

	for (uint32_t r = 0; !status && r < taut_edit_ranks(w->edit); r++) {
		struct tauti_batches b;

		if (!taut_edit_has_rank(w->edit, r))
			continue;
		status = tauti_batches_find(w, r, &b, err);
		if (status)
			return status;
		status = scale_rank(w, &b, times, factor, err);
		tauti_batches_end(&b);
	}
	return status;
}

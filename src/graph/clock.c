/* clock.c - one clock for all ranks, from the ends of collectives.
 *
 * The ranks of a collective finish within microseconds of each other, so the
 * difference of two ranks' ends is their clocks' difference plus noise of
 * either sign. For each rank the differences d_k at times t_k to a rank that
 * is already on the common clock are fitted by
 *
 *     d_k = offset + drift * (t_k - origin)
 *
 * with medians throughout (Siegel's repeated medians would do as well; here
 * the slope is the median over pairs half the samples apart), which up to
 * half the samples may spoil. What the fit leaves, as 1.4826 * median
 * absolute deviation, is the stated uncertainty: below it the ends of
 * collectives cannot tell clocks apart, and an offset that is not clearly
 * above it is taken for zero. Where there is no drift, the offset must also
 * let no rank end before another has begun: these bounds hold however the
 * ends scatter (over TCP they scatter by milliseconds). Ranks that name the
 * same host share its clock, unless these bounds prove otherwise.
 *
 * Where ranks compared their clocks with rank 0's while they were recorded
 * (exchange.c), those rows come first, and what collectives say only moves
 * them within what the comparison left open. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/meets.h"
#include "graph/pairs.h"

enum {
	MIN_SAMPLES = 3,
	MIN_FOR_DRIFT = 16,
};
#define HOST_WEIGHT ((uint64_t)1 << 40)
static const double resolution_us = 1.0; /* of the recorders' stamps */
static const double min_span_s = 0.5;    /* for a drift to mean anything */
static const double max_drift_ppm = 1000; /* no clock is that bad */
static const double clear_factor = 4.0;  /* of the uncertainty */
static const double common_bias_us = 20.0; /* ranks of one collective may end
                                              so far apart, always alike */

struct sample {
	double t_s, d_us;
};

struct fit {
	double offset_us, drift_ppm, spread_us;
};

/* Offsets for which no rank ends before another has begun, with no drift. */
struct bounds {
	double low_us, high_us;
};

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double median(double *v, size_t n)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof *v, by_value);
	return n & 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double intercept(const struct sample *s, size_t n, double drift,
	double *buffer)
{
	for (size_t i = 0; i < n; i++)
		buffer[i] = s[i].d_us - drift * s[i].t_s;
	return median(buffer, n);
}

static double spread(const struct sample *s, size_t n, double offset,
	double drift, double *buffer)
{
	for (size_t i = 0; i < n; i++)
		buffer[i] = fabs(s[i].d_us - offset - drift * s[i].t_s);
	return 1.4826 * median(buffer, n);
}

/* Samples are in time order. A drift is kept only where it explains more
 * than the scatter over the whole span. */
static struct fit fit_line(const struct sample *s, size_t n, double *buffer)
{
	struct fit f = { 0 };
	size_t half = n / 2;
	double span = n ? s[n - 1].t_s - s[0].t_s : 0, drift, offset, left;

	f.offset_us = intercept(s, n, 0, buffer);
	f.spread_us = spread(s, n, f.offset_us, 0, buffer);
	if (n < MIN_FOR_DRIFT || span < min_span_s)
		return f;
	for (size_t i = 0; i < n - half; i++)
		buffer[i] = s[i + half].t_s > s[i].t_s ?
			(s[i + half].d_us - s[i].d_us) /
			(s[i + half].t_s - s[i].t_s) : 0;
	drift = median(buffer, n - half);
	offset = intercept(s, n, drift, buffer);
	left = spread(s, n, offset, drift, buffer);
	if (fabs(drift) <= max_drift_ppm &&
		fabs(drift) * span > clear_factor * (left + resolution_us))
		f = (struct fit) { offset, drift, left };
	return f;
}

/* Of a collective that levels: the last of the settled ranks to begin, and the
 * first to end. */
struct settled_part {
	int64_t last_begin, first_end;
};

struct aligner {
	const struct tauti_rank *ranks;
	uint32_t n_ranks;
	const struct tauti_match *match;
	struct tauti_meets meets;
	int64_t origin;
	struct taut_clock_row *rows;
	bool *settled;
	bool *exchanged; /* its row is from its own comparisons */
	bool *by_pairs;  /* only sends and receives tell of it */
	uint32_t *root;  /* the rank that its row follows, by collectives or
	                    a clock of the same name: itself, or one of by_pairs */
	struct settled_part *parts; /* by collective */
	struct sample *samples;
	struct bounds bounds; /* of the rank being settled */
	double *buffer;
};

static int64_t absolute(const struct aligner *a, uint32_t rank, int64_t t)
{
	return t + a->ranks[rank].trace->base_ns;
}

/* On the common clock, as far as the rank's row is known. */
static int64_t common(const struct aligner *a, uint32_t rank, int64_t t)
{
	return tauti_clock_apply(
		&a->rows[rank], absolute(a, rank, t), a->origin);
}

static void tighten(struct bounds *b, double low, double high)
{
	if (low > b->low_us)
		b->low_us = low;
	if (high < b->high_us)
		b->high_us = high;
}

static int by_time(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	return x->t_s < y->t_s ? -1 : x->t_s > y->t_s;
}

/* What one shared operation says: y's rank is the anchor. A receive cannot
 * end before its send has begun; of a collective that holds both ways. */
static void bound(struct aligner *a, const struct taut_collective *c,
	uint32_t rank, uint32_t anchor, const struct tauti_comm *x,
	const struct tauti_comm *y)
{
	int64_t x0 = common(a, rank, x->start), x1 = common(a, rank, x->end);
	int64_t y0 = common(a, anchor, y->start);
	int64_t y1 = common(a, anchor, y->end);
	bool both = taut_coll_levels(c->kind);

	if (both || x->dst == a->ranks[rank].trace->rank)
		tighten(&a->bounds, (double)(y0 - x1) / 1e3, INFINITY);
	if (both || y->dst == a->ranks[anchor].trace->rank)
		tighten(&a->bounds, -INFINITY, (double)(y1 - x0) / 1e3);
}

/* One operation in which both had part. Returns the samples that are now there. */
static size_t take_sample(struct aligner *a, uint32_t rank, uint32_t anchor,
	const struct tauti_meet *of_rank, const struct tauti_meet *of_anchor, size_t n)
{
	const struct taut_collective *c =
		&a->match->collectives.data[of_rank->coll];
	const struct tauti_comm *x = &a->ranks[rank].comms.data[of_rank->comm];
	const struct tauti_comm *y = &a->ranks[anchor].comms.data[of_anchor->comm];
	int64_t tx, ty;

	bound(a, c, rank, anchor, x, y);
	if (!taut_coll_levels(c->kind))
		return n;
	tx = common(a, rank, x->end);
	ty = common(a, anchor, y->end);
	a->samples[n] = (struct sample) {
		(double)(tx - a->origin) / 1e9, (double)(ty - tx) / 1e3 };
	return n + 1;
}

static size_t take_samples(struct aligner *a, uint32_t rank, uint32_t anchor)
{
	const struct tauti_meet *meets = a->meets.meets;
	uint32_t i = a->meets.begin[rank], k = a->meets.begin[anchor];
	size_t n = 0;

	a->bounds = (struct bounds) { -INFINITY, INFINITY };
	while (i < a->meets.begin[rank + 1] && k < a->meets.begin[anchor + 1]) {
		if (meets[i].coll < meets[k].coll) {
			i++;
		} else if (meets[i].coll > meets[k].coll) {
			k++;
		} else {
			n = take_sample(a, rank, anchor, &meets[i++],
				&meets[k++], n);
		}
	}
	qsort(a->samples, n, sizeof *a->samples, by_time);
	return n;
}

static bool same_host(const struct aligner *a, uint32_t x, uint32_t y)
{
	const char *host = a->ranks[x].trace->host;

	return host && *host && a->ranks[y].trace->host &&
		!strcmp(host, a->ranks[y].trace->host);
}

static bool same_clock(const struct aligner *a, uint32_t x, uint32_t y)
{
	const char *clock = a->ranks[x].trace->clock;

	return clock && *clock && a->ranks[y].trace->clock &&
		!strcmp(clock, a->ranks[y].trace->clock);
}

/* What is known of a rank's clock holds for all that have the same one. */
static void spread_clock(struct aligner *a, uint32_t rank)
{
	a->settled[rank] = true;
	for (uint32_t r = 0; r < a->n_ranks; r++) {
		if (a->settled[r] || !same_clock(a, r, rank))
			continue;
		a->rows[r] = a->rows[rank];
		a->rows[r].trace = r;
		a->rows[r].samples++;
		a->root[r] = a->root[rank];
		a->settled[r] = true;
	}
}

/* The settled rank that shares most collectives with this one; one of its own
 * host before all others. */
static uint32_t find_anchor(const struct aligner *a, uint32_t rank,
	uint32_t *shared)
{
	uint32_t best = TAUT_NONE;
	uint64_t best_count = 0;

	memset(shared, 0, a->n_ranks * sizeof *shared);
	tauti_meets_count(&a->meets, rank, shared);
	for (uint32_t r = 0; r < a->n_ranks; r++) {
		uint64_t count = shared[r] + (shared[r] && same_host(a, rank, r) ?
			HOST_WEIGHT : 0);

		if (a->settled[r] && r != rank && count > best_count) {
			best = r;
			best_count = count;
		}
	}
	return best;
}

/* One host has one clock, unless the ranks prove otherwise: is the anchor's row this
 * rank's as well? */
static bool has_hosts_clock(struct aligner *a, uint32_t rank, uint32_t anchor)
{
	struct taut_clock_row *row = &a->rows[rank], alone = *row;
	const struct taut_clock_row *of = &a->rows[anchor];

	if (!same_host(a, rank, anchor))
		return false;
	row->offset_us = of->offset_us;
	row->drift_ppm = of->drift_ppm;
	row->uncertainty_us = of->uncertainty_us + resolution_us;
	row->samples = (uint32_t)take_samples(a, rank, anchor);
	if (a->bounds.low_us <= 0 && a->bounds.high_us >= 0)
		return true;
	*row = alone;
	return false;
}

static void settle(struct aligner *a, uint32_t rank, uint32_t anchor)
{
	struct taut_clock_row *row = &a->rows[rank];
	const struct taut_clock_row *of = &a->rows[anchor];
	double spread_us;
	struct fit f;
	size_t n;

	a->root[rank] = a->root[anchor];
	if (has_hosts_clock(a, rank, anchor))
		return;
	n = take_samples(a, rank, anchor);
	f = fit_line(a->samples, n, a->buffer);
	spread_us = f.spread_us > resolution_us ? f.spread_us : resolution_us;
	row->samples = (uint32_t)n;
	row->uncertainty_us = of->uncertainty_us;
	if (n < MIN_SAMPLES) { /* settle_pairs() */
		a->by_pairs[rank] = true;
		a->root[rank] = rank;
		return;
	}
	row->uncertainty_us += spread_us;
	if (f.drift_ppm == 0 && fabs(f.offset_us) <= clear_factor * spread_us +
		common_bias_us && a->bounds.low_us <= 0 &&
		a->bounds.high_us >= 0) {
		if (fabs(f.offset_us) > row->uncertainty_us)
			row->uncertainty_us = fabs(f.offset_us);
		return; /* not told apart from the common clock */
	}
	if (f.drift_ppm == 0 && a->bounds.low_us <= a->bounds.high_us)
		f.offset_us = fmin(fmax(f.offset_us, a->bounds.low_us),
			a->bounds.high_us);
	row->offset_us = f.offset_us;
	row->drift_ppm = f.drift_ppm;
}

/* --- ranks that only sends and receives tell of ----------------------------
 *
 * All that follow one of them, a pipeline stage with collectives of its own, say,
 * move with it: what messages to any of them say bounds their root. */

static int by_pair(const void *a, const void *b)
{
	const struct tauti_pair_bound *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return x->low_us > y->low_us ? -1 : x->low_us < y->low_us;
}

/* What one message, or one collective for two of its ranks, says. */
static void pair_bound(const struct aligner *a, const struct taut_collective *c,
	uint32_t i, uint32_t k, struct tauti_pair_bound *ret_bound)
{
	uint32_t from = a->match->member_rank.data[c->first_member + i];
	uint32_t to = a->match->member_rank.data[c->first_member + k];
	const struct tauti_comm *x = &a->ranks[from].comms.data[
		a->match->member_comm.data[c->first_member + i]];
	const struct tauti_comm *y = &a->ranks[to].comms.data[
		a->match->member_comm.data[c->first_member + k]];

	ret_bound->from = a->root[from];
	ret_bound->to = a->root[to];
	ret_bound->low_us = (double)(common(a, from, x->start) -
		common(a, to, y->end)) / 1e3;
}

static bool goes(const struct aligner *a, const struct taut_collective *c,
	uint32_t i, uint32_t k)
{
	uint32_t to = a->match->member_rank.data[c->first_member + k];
	const struct tauti_comm *y = &a->ranks[to].comms.data[
		a->match->member_comm.data[c->first_member + k]];

	return i != k && (taut_coll_levels(c->kind) ||
		y->dst == a->ranks[to].trace->rank);
}

/* Are its ranks of several roots, and one of these not settled? */
static bool joins_roots(const struct aligner *a, const struct taut_collective *c)
{
	const uint32_t *rank = &a->match->member_rank.data[c->first_member];
	bool open = false, several = false;

	for (uint32_t i = 0; i < c->n_members; i++) {
		open |= a->by_pairs[a->root[rank[i]]];
		several |= a->root[rank[i]] != a->root[rank[0]];
	}
	return open && several;
}

/* The tightest bound of each pair of roots of which one is not settled. */
static bool collect_pairs(const struct aligner *a,
	struct tauti_pair_bound **ret_bounds, size_t *ret_n)
{
	TAUT_VEC(struct tauti_pair_bound) all = { 0 };
	size_t kept = 0;
	bool ok = true;

	for (size_t n = 0; ok && n < a->match->collectives.count; n++) {
		const struct taut_collective *c = &a->match->collectives.data[n];

		if (!tauti_tells_time(c) || !joins_roots(a, c))
			continue;
		for (uint32_t i = 0; ok && i < c->n_members; i++)
			for (uint32_t k = 0; ok && k < c->n_members; k++) {
				struct tauti_pair_bound b;

				if (!goes(a, c, i, k))
					continue;
				pair_bound(a, c, i, k, &b);
				if (b.from != b.to && (a->by_pairs[b.from] ||
					a->by_pairs[b.to]))
					ok = taut_vec_push(&all, b);
			}
	}
	if (all.count)
		qsort(all.data, all.count, sizeof *all.data, by_pair);
	for (size_t i = 0; i < all.count; i++)
		if (!kept || all.data[kept - 1].from != all.data[i].from ||
			all.data[kept - 1].to != all.data[i].to)
			all.data[kept++] = all.data[i];
	*ret_bounds = all.data;
	*ret_n = kept;
	return ok;
}

/* A clock that its bounds do not prove wrong is left as it was recorded. */
static bool needs_moving(const struct tauti_pairs *p)
{
	for (size_t i = 0; i < p->n_bounds; i++)
		if (p->bounds[i].low_us > 0)
			return true;
	return false;
}

static bool settle_pairs(struct aligner *a)
{
	double *x = malloc((a->n_ranks + 1) * sizeof *x);
	double *open = malloc((a->n_ranks + 1) * sizeof *open);
	bool *fixed = calloc(a->n_ranks + 1, sizeof *fixed);
	struct tauti_pair_bound *bounds = NULL;
	struct tauti_pairs pairs = { .n_ranks = a->n_ranks, .fixed = fixed };
	bool ok = x && open && fixed &&
		collect_pairs(a, &bounds, &pairs.n_bounds);

	for (uint32_t r = 0; ok && r < a->n_ranks; r++)
		fixed[r] = !a->by_pairs[r];
	pairs.bounds = bounds;
	ok = ok && tauti_pairs_solve(&pairs, x, open);
	for (uint32_t r = 0; ok && r < a->n_ranks; r++) {
		struct taut_clock_row *row = &a->rows[r];
		uint32_t root = a->root[r];

		if (!a->by_pairs[root])
			continue;
		row->uncertainty_us = isfinite(open[root]) ?
			row->uncertainty_us + open[root] : TAUTI_UNKNOWN_US;
		if (needs_moving(&pairs))
			row->offset_us += x[root];
	}
	free(x);
	free(open);
	free(fixed);
	free(bounds);
	return ok;
}

/* --- rows from the ranks' own comparisons ---------------------------------*/

static void take_part(struct aligner *a, uint32_t rank)
{
	for (uint32_t i = a->meets.begin[rank]; i < a->meets.begin[rank + 1]; i++) {
		const struct tauti_meet *meet = &a->meets.meets[i];
		const struct tauti_comm *y =
			&a->ranks[rank].comms.data[meet->comm];
		struct settled_part *part = &a->parts[meet->coll];
		int64_t begin = common(a, rank, y->start);
		int64_t end = common(a, rank, y->end);

		if (begin > part->last_begin)
			part->last_begin = begin;
		if (end < part->first_end)
			part->first_end = end;
	}
}

static void bound_by_part(struct aligner *a, uint32_t rank,
	const struct settled_part *part, const struct tauti_comm *x)
{
	if (part->last_begin == INT64_MIN)
		return; /* none of its ranks is settled */
	tighten(&a->bounds,
		(double)(part->last_begin - common(a, rank, x->end)) / 1e3,
		(double)(part->first_end - common(a, rank, x->start)) / 1e3);
}

/* What all shared operations with settled ranks let this rank be moved by. */
static void take_bounds(struct aligner *a, uint32_t rank)
{
	a->bounds = (struct bounds) { -INFINITY, INFINITY };
	for (uint32_t i = a->meets.begin[rank]; i < a->meets.begin[rank + 1]; i++) {
		const struct tauti_meet *meet = &a->meets.meets[i];
		const struct taut_collective *c =
			&a->match->collectives.data[meet->coll];
		const struct tauti_comm *x =
			&a->ranks[rank].comms.data[meet->comm];

		if (taut_coll_levels(c->kind)) {
			bound_by_part(a, rank, &a->parts[meet->coll], x);
			continue;
		}
		for (uint32_t k = 0; k < c->n_members; k++) {
			uint32_t at = c->first_member + k;
			uint32_t other = a->match->member_rank.data[at];

			if (other != rank && a->settled[other])
				bound(a, c, rank, other, x, &a->ranks[other]
					.comms.data[a->match->member_comm
					.data[at]]);
		}
	}
}

/* A move within what the comparison left open: the ends of collectives where
 * they tell the time better than it does, and then no receive before its
 * send. */
static void refine(struct aligner *a, uint32_t rank, uint32_t anchor)
{
	struct taut_clock_row *row = &a->rows[rank];
	double open_us = row->uncertainty_us + resolution_us, move = 0;

	row->samples = (uint32_t)a->ranks[rank].trace->n_clock_samples;

	if (anchor != TAUT_NONE) {
		size_t n = take_samples(a, rank, anchor);
		struct fit f = fit_line(a->samples, n, a->buffer);

		row->samples += (uint32_t)n;
		if (n >= MIN_SAMPLES && f.drift_ppm == 0 &&
			f.spread_us + common_bias_us < open_us / 2 &&
			fabs(f.offset_us) <= open_us) {
			move = f.offset_us;
			row->uncertainty_us = f.spread_us + common_bias_us;
		}
	}
	take_bounds(a, rank);
	if (a->bounds.low_us <= a->bounds.high_us)
		move = fmin(fmax(move, a->bounds.low_us), a->bounds.high_us);
	if (fabs(move) <= open_us)
		row->offset_us += move;
}

/* Ranks that compared clocks, and rank 0, to which they did. */
static bool settle_exchanged(struct aligner *a, uint32_t *shared)
{
	bool any = false;

	for (uint32_t r = 0; r < a->n_ranks; r++) {
		const struct taut_trace *t = a->ranks[r].trace;

		a->exchanged[r] = t->rank != 0 &&
			tauti_clock_exchanged(t, a->origin, &a->rows[r]);
		any |= a->exchanged[r];
	}
	for (size_t i = 0; i < a->match->collectives.count; i++)
		a->parts[i] = (struct settled_part) { INT64_MIN, INT64_MAX };
	for (uint32_t r = 0; any && r < a->n_ranks; r++)
		if (a->ranks[r].trace->rank == 0) {
			a->settled[r] = true;
			take_part(a, r);
		}
	for (uint32_t r = 0; r < a->n_ranks; r++)
		if (a->exchanged[r]) {
			refine(a, r, find_anchor(a, r, shared));
			a->settled[r] = true;
			take_part(a, r);
		}
	for (uint32_t r = 0; r < a->n_ranks; r++)
		if (a->settled[r])
			spread_clock(a, r);
	return any;
}

/* A rank of a host that compared its clock by another rank. */
static void settle_hosts(struct aligner *a)
{
	for (uint32_t r = 0; r < a->n_ranks; r++)
		for (uint32_t other = 0; !a->settled[r] && other < a->n_ranks;
			other++) {
			if (!a->exchanged[other] || !same_host(a, r, other))
				continue;
			a->rows[r] = a->rows[other];
			a->rows[r].trace = r;
			a->settled[r] = true;
		}
}

static bool any(const bool *of, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (of[i])
			return true;
	return false;
}

taut_status tauti_clock_align(const struct tauti_rank *ranks, uint32_t n_ranks,
	const struct tauti_match *match, int64_t origin_ns,
	struct taut_clock_row *rows, struct taut_error *err)
{
	struct aligner a = { .ranks = ranks, .n_ranks = n_ranks,
		.match = match, .origin = origin_ns, .rows = rows };
	size_t n = match->collectives.count + 1;
	uint32_t *shared = calloc(n_ranks + 1, sizeof *shared);
	bool progress = true, ok;

	a.settled = calloc(n_ranks + 1, sizeof *a.settled);
	a.by_pairs = calloc(n_ranks + 1, sizeof *a.by_pairs);
	a.root = malloc((n_ranks + 1) * sizeof *a.root);
	a.exchanged = calloc(n_ranks + 1, sizeof *a.exchanged);
	a.parts = malloc(n * sizeof *a.parts);
	a.samples = malloc(n * sizeof *a.samples);
	a.buffer = malloc(n * sizeof *a.buffer);
	ok = shared && a.settled && a.exchanged && a.by_pairs && a.root &&
		a.parts && a.samples && a.buffer;
	ok = tauti_meets_init(&a.meets, match, n_ranks) && ok;
	for (uint32_t i = 0; ok && i < n_ranks; i++) {
		rows[i] = (struct taut_clock_row) { .trace = i };
		a.root[i] = i;
	}
	if (ok && n_ranks && settle_exchanged(&a, shared))
		settle_hosts(&a);
	else if (ok && n_ranks)
		spread_clock(&a, 0);
	while (ok && progress) {
		progress = false;
		for (uint32_t r = 0; r < n_ranks; r++) {
			uint32_t anchor = a.settled[r] ? TAUT_NONE :
				find_anchor(&a, r, shared);

			if (anchor == TAUT_NONE)
				continue;
			settle(&a, r, anchor);
			spread_clock(&a, r);
			progress = true;
		}
	}
	if (ok && any(a.by_pairs, n_ranks))
		ok = settle_pairs(&a);
	for (uint32_t r = 0; ok && r < n_ranks; r++)
		if (!a.settled[r])
			rows[r].uncertainty_us = TAUTI_UNKNOWN_US;
	free(shared);
	free(a.settled);
	free(a.exchanged);
	free(a.by_pairs);
	free(a.root);
	tauti_meets_fini(&a.meets);
	free(a.parts);
	free(a.samples);
	free(a.buffer);
	return ok ? TAUT_OK : taut_error_set(err, TAUT_ENOMEM, -1,
		"no memory to align clocks");
}

int64_t tauti_clock_apply(const struct taut_clock_row *row, int64_t t,
	int64_t origin_ns)
{
	double s = (double)(t - origin_ns) / 1e9;

	if (row->drift_ppm == 0 && row->offset_us == 0)
		return t;
	return t + (int64_t)llround((row->offset_us + row->drift_ppm * s) * 1e3);
}

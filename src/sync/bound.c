/* bound.c - what letting the next forward pass begin layer by layer can give, and in
 * pieces of which size.
 *
 * One link that can be divided at will, no latency. With f + b + u + C passes of the
 * two resources, compute is busy for f + b + u and the link for C. Overlapped: nothing
 * is sent in the forward pass nor in the update, so that f + u is added to the longer
 * of b and C. Crossed: both may always be busy, and the busier one is the bound, but
 * for gradients that come late and are needed early. Without updates the quotient is
 * at most, at C = f + b, (f + C) / C = 1 + f / (f + b).
 *
 * Real links have latency, and the gradients that come last begin last: a step
 * that waits shows more exposed time than C - b. What was measured of it counts. */
#include <stdlib.h>

#include <taut/sync.h>

static int64_t at_most(int64_t ns)
{
	const int64_t most = INT64_MAX / 5; /* four can be added up */

	return ns < 0 ? 0 : ns > most ? most : ns;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

struct taut_sync_bound taut_sync_bound(const struct taut_sync_times *times)
{
	int64_t f = at_most(times->forward_ns), b = at_most(times->backward_ns);
	int64_t u = at_most(times->update_ns), e = at_most(times->exposed_ns);
	int64_t c = at_most(times->communication_ns);
	struct taut_sync_bound bound = {
		.overlapped_ns = f + larger(b + e, c) + u,
		.crossed_ns = larger(larger(f + b + u, c),
			at_most(times->window_ns)),
		.most_gain = 1,
	};

	if (bound.crossed_ns && bound.overlapped_ns > bound.crossed_ns)
		bound.most_gain = (double)bound.overlapped_ns /
			(double)bound.crossed_ns;
	return bound;
}

/* Windows. X(k, o) is when step k has made o of its computation. Let i be what the
 * link carries last of a step's gradients that are ready at r or later and due at d
 * or earlier, S ns in all: it is updated, and only then needed, so that
 *     X(k+1, need i) >= X(k, r) + S + update i, and by computation from there to r
 *     X(k+1, r) >= X(k+1, need i) + r - need i >= X(k, r) + S + r - d:
 * each step is that long, however gradients are ordered and wherever anything waits.
 *
 * Without updates nothing more can be said. Let all waiting of steps of length T be at
 * their begin. A link that always serves what is due first is late only if some window
 * holds more than its length (Baruah, Rosier, Howell, Real-Time Systems 2, 1990); one
 * that ends a step later holds at most C more, and is T >= C longer. Heads and tails of
 * what goes through one machine, as r and update here: Carlier,
 * European Journal of Operational Research 11, 1982. */
static int64_t due(const struct taut_sync_demand *d)
{
	return d->need_ns - d->update_ns;
}

static int by_due(const void *a, const void *b)
{
	const struct taut_sync_demand *x = a, *y = b;

	if (due(x) != due(y))
		return due(x) < due(y) ? -1 : 1;
	return (x->ready_ns > y->ready_ns) - (x->ready_ns < y->ready_ns);
}

/* The largest of those that begin at ready_ns. */
static struct taut_sync_window window_from(int64_t ready_ns,
	const struct taut_sync_demand *demands, size_t n)
{
	struct taut_sync_window best = { 0 };
	int64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		const struct taut_sync_demand *d = &demands[i];

		if (d->ready_ns < ready_ns || d->need_ns > ready_ns)
			continue;
		sum = at_most(sum + d->communication_ns);
		if (sum + ready_ns - due(d) > best.bound_ns)
			best = (struct taut_sync_window){
				.bound_ns = sum + ready_ns - due(d),
				.ready_ns = ready_ns,
				.due_ns = due(d),
				.communication_ns = sum,
			};
	}
	return best;
}

struct taut_sync_window taut_sync_window(
	struct taut_sync_demand *demands, size_t n_demands)
{
	struct taut_sync_window best = { 0 };

	for (size_t i = 0; i < n_demands; i++) {
		struct taut_sync_demand *d = &demands[i];

		d->communication_ns = at_most(d->communication_ns);
		d->update_ns = at_most(d->update_ns);
		d->need_ns = at_most(d->need_ns);
		d->ready_ns = at_most(d->ready_ns);
	}
	if (n_demands)
		qsort(demands, n_demands, sizeof *demands, by_due);
	for (size_t i = 0; i < n_demands; i++) {
		struct taut_sync_window from = window_from(
			demands[i].ready_ns, demands, n_demands);

		if (from.bound_ns > best.bound_ns)
			best = from;
	}
	return best;
}

uint64_t taut_sync_piece_bytes(uint64_t bytes, int64_t communication_ns)
{
	const double piece_ns = 2.5e6, sqrt_2 = 1.4142135623730951;
	const uint64_t least = UINT64_C(32) << 10, most = UINT64_C(1) << 20;
	uint64_t piece = least;
	double wanted;

	if (!bytes || communication_ns <= 0)
		return most;
	wanted = (double)bytes * piece_ns / (double)communication_ns;
	while (piece < most && (double)piece * sqrt_2 < wanted)
		piece *= 2;
	return piece;
}

bool taut_sync_takes_rows(uint64_t n_looked_up, uint64_t n_rows)
{
	return n_looked_up <= n_rows / 2;
}

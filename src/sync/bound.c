/* bound.c - what letting the next forward pass begin layer by layer can give, and in
 * pieces of which size.
 *
 * One link that can be divided at will, no latency. With f + b + C passes of the
 * two resources, compute is busy for f + b and the link for C. Overlapped: nothing
 * is sent in the forward pass, so that f is added to the longer of b and C.
 * Crossed: both may always be busy, and the busier one is the bound. The quotient
 * is largest at C = f + b, where it is (f + C) / C = 1 + f / (f + b).
 *
 * Real links have latency, and the gradients that come last begin last: a step
 * that waits shows more exposed time than C - b. What was measured of it counts. */
#include <taut/sync.h>

static int64_t at_most(int64_t ns)
{
	const int64_t most = INT64_MAX / 4; /* three can be added up */

	return ns < 0 ? 0 : ns > most ? most : ns;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

struct taut_sync_bound taut_sync_bound(int64_t forward_ns, int64_t backward_ns,
	int64_t communication_ns, int64_t exposed_ns)
{
	int64_t f = at_most(forward_ns), b = at_most(backward_ns);
	int64_t c = at_most(communication_ns), e = at_most(exposed_ns);
	struct taut_sync_bound bound = {
		.overlapped_ns = f + larger(b + e, c),
		.crossed_ns = larger(f + b, c),
		.most_gain = 1,
	};

	if (bound.crossed_ns)
		bound.most_gain = (double)bound.overlapped_ns /
			(double)bound.crossed_ns;
	return bound;
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

/* fit.h - the numbers of a store, as taut/feed.h has it, from how fast it was read.
 *
 * n threads read one file after the other, so that n reads are always asked for. Of those
 * min(n, n_served) are served: their bytes come one after the other at the rate, and each
 * ends the latency after its last byte. What that gives is played, over the sizes that were
 * read; the numbers are those whose logarithm of reads a second is nearest to the measured
 * one, by least squares of what is told from doubt.
 *
 * Two of the numbers may say the same: a store that gives no more to eight than to four may
 * have come to its rate, or serve four at a time. Sizes that differ tell them apart where one
 * thread reads; where nothing does, it is the rate, and n_served as many as were tried.
 *
 * Threads: any; nothing is shared. No memory is taken. */
#ifndef TAUT_STALLS_FIT_H
#define TAUT_STALLS_FIT_H

#include <stdbool.h>
#include <stdint.h>

enum { TAUTI_FIT_SIZES = 256, TAUTI_FIT_POINTS = 10 };

struct tauti_fit_point {
	uint32_t n_threads;
	uint32_t n_sizes;               /* 1 .. TAUTI_FIT_SIZES */
	double sizes[TAUTI_FIT_SIZES];  /* bytes, in an order without one */
	double reads_s;                 /* above 0 */
	double doubt;  /* how far off that may be, as a share: one deviation. Above 0 */
	bool is_part;  /* of another point: no part of error */
};

struct tauti_fit {
	double rate_bytes_s, latency_ns;
	uint32_t n_served;
	double error; /* at the points: mean of |played / measured - 1| */
};

/* As many sizes as there is room for stand for all n of them: of each part of the sorted
 * ones the middle, together of their mean. Sorts bytes. n is at least 1. */
void tauti_fit_sizes(struct tauti_fit_point *point, uint64_t *bytes, uint32_t n);

/* What n_threads of point would get of such a store. */
double tauti_fit_reads_s(
	const struct tauti_fit *store, const struct tauti_fit_point *point);

/* A store whose rate is a limit that is kept by turns gives one who reads alone much at once
 * and then lets him wait: most reads are far quicker than their mean. What comes from one
 * wait to the next is the burst, and what a quick read takes is the latency. ns: of each of n
 * reads one after the other; false: it is not so. */
bool tauti_fit_burst(const double *ns, const double *bytes, uint32_t n,
	double *ret_burst_bytes, double *ret_quick_ns);

/* n is 1 .. TAUTI_FIT_POINTS; the first point is of one thread. */
struct tauti_fit tauti_fit_store(const struct tauti_fit_point *points, uint32_t n);

#endif /* TAUT_STALLS_FIT_H */

/* reduce_rate.c - how fast the reductions are, beside a copy.
 *
 *     reduce_rate [REDUCTION]    default sum
 *
 * GB/s of results (one array, which is also the first input), medians of RUNS,
 * for arrays that lie in the first and second cache and in memory. Each set of
 * kernels that this processor can run. A copy reads one array and writes one;
 * a reduction reads two and writes one. Behind them casts between float32 and 16
 * bits, in GB/s of the float32. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/reduce.h"

enum { RUNS = 15, PLACES = 3 };

/* Of one array; there are two. */
static const size_t place_bytes[PLACES] = { 8 << 10, 128 << 10, 64 << 20 };

static int64_t now_ns(void)
{
	struct taut_clock clock = taut_clock_monotonic();

	return clock.now_ns(clock.state);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* kernel NULL: a copy. Returns GB/s. */
static double rate(tauti_reduce_kernel *kernel, size_t element_bytes,
	void *to, const void *from, size_t bytes)
{
	size_t turns = ((size_t)64 << 20) / bytes;
	double of_runs[RUNS];

	for (int run = -1; run < RUNS; run++) {
		int64_t begin = now_ns();

		for (size_t i = 0; i < turns; i++) {
			if (kernel)
				kernel(to, to, from, bytes / element_bytes);
			else
				memcpy(to, from, bytes);
			__asm__ volatile("" : : "r"(to) : "memory");
		}
		of_runs[run < 0 ? 0 : run] = (double)(turns * bytes) /
			(double)(now_ns() - begin);
	}
	qsort(of_runs, RUNS, sizeof *of_runs, by_size);
	return of_runs[RUNS / 2];
}

static void measure(const char *type, const char *set,
	tauti_reduce_kernel *kernel, size_t element_bytes, char *to,
	char *from)
{
	printf("%-9s %-8s", type, set);
	for (int place = 0; place < PLACES; place++) {
		/* Ones and twos of float32; any bits for the others. */
		memset(to, 0x3f, place_bytes[place]);
		memset(from, 0x40, place_bytes[place]);
		printf(" %8.1f", rate(kernel, element_bytes, to, from,
			place_bytes[place]));
	}
	printf("\n");
	fflush(stdout);
}

/* --- casts ---------------------------------------------------------------------------*/

/* Of one turn each over the array. */
static double cast_rate(const struct tauti_reduce_kernels *set, int type,
	bool narrows, char *wide, char *narrow, size_t bytes)
{
	size_t turns = ((size_t)64 << 20) / bytes;
	double of_runs[RUNS];

	for (int run = -1; run < RUNS; run++) {
		int64_t begin = now_ns();

		for (size_t i = 0; i < turns; i++) {
			if (narrows)
				set->narrow[type](narrow, wide, bytes / 4, 0.5f);
			else
				set->widen[type](wide, narrow, bytes / 4);
			__asm__ volatile("" : : "r"(wide), "r"(narrow) :
				"memory");
		}
		of_runs[run < 0 ? 0 : run] = (double)(turns * bytes) /
			(double)(now_ns() - begin);
	}
	qsort(of_runs, RUNS, sizeof *of_runs, by_size);
	return of_runs[RUNS / 2];
}

static void measure_casts(const struct tauti_reduce_kernels *set, int type,
	char *wide, char *narrow)
{
	for (int narrows = 1; narrows >= 0; narrows--) {
		printf("%-9s %-8s", taut_type_name((enum taut_type)type),
			set->name);
		for (int place = 0; place < PLACES; place++) {
			memset(wide, 0x3f, place_bytes[place]);
			memset(narrow, 0x3c, place_bytes[place] / 2);
			printf(" %8.1f", cast_rate(set, type, narrows, wide,
				narrow, place_bytes[place]));
		}
		printf("   %s\n", narrows ? "narrowed" : "widened");
		fflush(stdout);
	}
}

static int find_reduction(const char *name)
{
	for (int r = 0; r < TAUT_REDUCTIONS; r++)
		if (!strcmp(name, taut_reduction_name((enum taut_reduction)r)))
			return r;
	fprintf(stderr, "reduce_rate: no reduction '%s'\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	int reduction = argc > 1 ? find_reduction(argv[1]) : TAUT_SUM;
	const struct tauti_reduce_kernels *set;
	char *to = aligned_alloc(4096, place_bytes[PLACES - 1]);
	char *from = aligned_alloc(4096, place_bytes[PLACES - 1]);

	if (!to || !from) {
		fprintf(stderr, "reduce_rate: out of memory\n");
		return 1;
	}
	printf("%-9s %-8s %8s %8s %8s   GB/s\n",
		taut_reduction_name((enum taut_reduction)reduction), "kernels",
		"8 KiB", "128 KiB", "64 MiB");
	measure("copy", "memcpy", NULL, 1, to, from);
	for (int type = 0; type < TAUT_CARRIED_TYPES; type++)
		for (size_t i = 0; (set = tauti_reduce_set(i)) != NULL; i++)
			if (set->of[type][reduction])
				measure(taut_type_name((enum taut_type)type),
					set->name, set->of[type][reduction],
					taut_type_bytes((enum taut_type)type),
					to, from);
	for (int type = 0; type < TAUT_CARRIED_TYPES; type++)
		for (size_t i = 0; (set = tauti_reduce_set(i)) != NULL; i++)
			if (set->narrow[type])
				measure_casts(set, type, to, from);
	free(to);
	free(from);
	return 0;
}

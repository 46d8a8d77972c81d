/* synthetic.h - a run, its graph and its report, made up: as many ranks and
 * events as a test wants, with a late rank, waits, a critical path and
 * findings. The same arguments give the same run. Only for tests: memory
 * that cannot be had ends the process, and nothing is freed but all. */
#ifndef TAUT_TESTS_WEB_SYNTHETIC_H
#define TAUT_TESTS_WEB_SYNTHETIC_H

#include <taut/report.h>

struct synthetic {
	struct taut_run run;
	struct taut_graph graph;
	struct taut_report report;
	struct taut_arena *arena;
	struct taut_names *names;
};

/* About n_events a rank; rank n_ranks / 3 is late. Each rank's own clock is
 * off by rank * 1 ms, which the graph has put right. */
void synthetic_make(struct synthetic *s, uint32_t n_ranks, uint32_t n_events);
void synthetic_free(struct synthetic *s);

#endif /* TAUT_TESTS_WEB_SYNTHETIC_H */

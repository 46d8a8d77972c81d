/* meter.h - counts work that several threads do, and tells the caller's
 * progress how far it is, not more often than somebody can read.
 * Threads: any thread may add; update() is called from one at a time. */
#ifndef TAUT_BASE_METER_H
#define TAUT_BASE_METER_H

#include <pthread.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

struct tauti_meter {
	struct taut_progress progress;
	struct taut_clock clock;
	const char *what;     /* the caller's; outlives the meter */
	uint64_t done, total; /* total 0: not known */
	int64_t told_ns;
	pthread_mutex_t lock;
};

/* Progress without an update function costs no lock and no clock. */
void tauti_meter_init(struct tauti_meter *meter, struct taut_progress progress,
	struct taut_clock clock, const char *what, uint64_t total);
void tauti_meter_add(struct tauti_meter *meter, uint64_t amount);
/* Tells the last state once more, whenever it was told before. */
void tauti_meter_fini(struct tauti_meter *meter);

TAUT_END_DECLS
#endif /* TAUT_BASE_METER_H */

/* meter.c - see meter.h. */
#include "base/meter.h"

#define TELL_EVERY_NS 50000000 /* 20 times a second */

void tauti_meter_init(struct tauti_meter *meter, struct taut_progress progress,
	struct taut_clock clock, const char *what, uint64_t total)
{
	*meter = (struct tauti_meter){
		.progress = progress,
		.clock = clock,
		.what = what,
		.total = total,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	if (progress.update)
		meter->told_ns = clock.now_ns(clock.state);
}

static void tell(struct tauti_meter *meter)
{
	meter->progress.update(
		meter->progress.state, meter->what, meter->done, meter->total);
}

void tauti_meter_add(struct tauti_meter *meter, uint64_t amount)
{
	if (!meter->progress.update)
		return;
	pthread_mutex_lock(&meter->lock);
	meter->done += amount;
	if (meter->total && meter->done > meter->total)
		meter->done = meter->total;
	int64_t now_ns = meter->clock.now_ns(meter->clock.state);
	if (now_ns - meter->told_ns >= TELL_EVERY_NS) {
		meter->told_ns = now_ns;
		tell(meter);
	}
	pthread_mutex_unlock(&meter->lock);
}

void tauti_meter_fini(struct tauti_meter *meter)
{
	if (meter->progress.update)
		tell(meter);
	pthread_mutex_destroy(&meter->lock);
}

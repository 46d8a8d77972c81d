/* waits.h - requests of an engine that a test waits for. */
#ifndef TAUT_TESTS_WAITS_H
#define TAUT_TESTS_WAITS_H

#include <stdbool.h>

#include "coll/coll.h"

struct wait {
	struct taut_coll_request request; /* first */
	taut_status status;
	bool over;
};

static inline void wait_done(struct taut_coll_request *request, taut_status status)
{
	struct wait *wait = (struct wait *)request;

	wait->status = status;
	wait->over = true;
}

static inline void wait_init(struct wait *wait)
{
	*wait = (struct wait){ .request.done = wait_done };
}

/* Until n are over. Sleeps, so a message that wakes nobody hangs the test. */
static inline taut_status until_over(const struct tauti_engine *engine,
	struct wait *waits, uint32_t n, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < n; i++)
		while (status == TAUT_OK && !waits[i].over) {
			status = engine->table->progress(engine->context, err);
			if (status == TAUT_OK && !waits[i].over)
				status = engine->table->wait(
					engine->context, -1, err);
		}
	for (uint32_t i = 0; i < n && status == TAUT_OK; i++)
		if (waits[i].status != TAUT_OK)
			status = taut_error_set(err, waits[i].status, -1,
				"request %u ended with %d", i, waits[i].status);
	return status;
}

#endif /* TAUT_TESTS_WAITS_H */

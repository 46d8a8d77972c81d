/* turns.h - threads that work beside others who must not be delayed.
 *
 * Linux gives cores in turns. Who wakes while all of them are taken waits for the end of one,
 * some 3 ms, unless it asks for shorter turns than whoever has the core (6.12 on). So a thread
 * that only works asks for long ones: it is given as much of the cores as before, and whoever
 * wakes beside it has one at once. Where the system does not know of that, nothing happens. */
#ifndef TAUT_BASE_TURNS_H
#define TAUT_BASE_TURNS_H

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* struct sched_attr of the system, which not all C libraries declare. */
struct tauti_turns {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t turn_ns;
	uint64_t deadline_ns, period_ns;
};

/* Of the calling thread, as the system has it; turn_ns 0: it does not tell. */
static inline struct tauti_turns tauti_turns_now(void)
{
	struct tauti_turns turns = { .size = 0 };

	if (syscall(SYS_sched_getattr, 0, &turns, sizeof turns, 0))
		turns = (struct tauti_turns){ .size = 0 };
	return turns;
}

/* The calling thread, if it is scheduled as usual. */
static inline void tauti_take_long_turns(void)
{
	struct tauti_turns turns = tauti_turns_now();

	if (!turns.size || turns.policy)
		return;
	turns.turn_ns = 10000000;
	(void)syscall(SYS_sched_setattr, 0, &turns, 0);
}

#endif /* TAUT_BASE_TURNS_H */

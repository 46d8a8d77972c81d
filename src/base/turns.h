/* turns.h - threads that work beside others who must not be delayed.
 *
 * Linux gives cores in turns. Who wakes while all of them are taken waits for the end of one,
 * some 3 ms, unless it asks for shorter turns than whoever has the core (6.12 on). So a thread
 * that only works asks for long ones: it is given as much of the cores as before, and whoever
 * wakes beside it has one at once. Where the system does not know of that, nothing happens.
 *
 * Who wakes another may lose its own core to it, and then waits for it as long. That does not
 * happen where the one that is woken only works, and says so (SCHED_BATCH). */
#ifndef TAUT_BASE_TURNS_H
#define TAUT_BASE_TURNS_H

#include <sched.h>
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

/* turn_ns 0: as long as they are. */
static inline void tauti_turns_set(uint64_t turn_ns)
{
	struct tauti_turns turns = tauti_turns_now();

	if (!turns.size || turns.policy)
		return;
	turns.policy = SCHED_BATCH;
	if (turn_ns)
		turns.turn_ns = turn_ns;
	(void)syscall(SYS_sched_setattr, 0, &turns, 0);
}

/* The calling thread, if it is scheduled as usual: it takes no core of who wakes it, and
 * leaves its own to who wakes. */
static inline void tauti_take_long_turns(void)
{
	tauti_turns_set(10000000);
}

/* The same, but for its turns: it has little to do whenever it wakes. */
static inline void tauti_wake_behind(void)
{
	tauti_turns_set(0);
}

#endif /* TAUT_BASE_TURNS_H */

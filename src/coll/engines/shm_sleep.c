/* shm_sleep.c - waiting for what others publish, and waking them.
 *
 * Who goes to sleep says so in its bell and then looks once more; who publishes
 * does so and then looks at the bell. One of both sees the other, if each of the
 * two orders its write before its read. For who publishes, that fence would
 * double the cost of a small message; so who goes to sleep has the kernel make
 * one on every core that runs one of us (membarrier), where it can. */
#include "coll/engines/shm.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/now.h"

enum { LOOKS_A_TIME = 64 };

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

bool tauti_shm_order_from_outside(void)
{
	return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

static void pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

/* --- waking -------------------------------------------------------------------------*/

static void wake_bell(struct tauti_shm_bell *bell)
{
	if (atomic_exchange(&bell->sleep, TAUTI_SHM_AWAKE) != TAUTI_SHM_AWAKE)
		syscall(SYS_futex, &bell->sleep, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void tauti_shm_ring(const struct tauti_shm *it, struct tauti_shm_bell *bell,
	enum tauti_shm_sleep what)
{
	if (it->map.fenced)
		__sync_synchronize();
	else
		atomic_signal_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&bell->sleep, memory_order_relaxed) &
		(uint32_t)what)
		wake_bell(bell);
}

void tauti_shm_wake(void *engine)
{
	struct tauti_shm *it = engine;

	atomic_store(&it->woken, 1);
	__sync_synchronize();
	if (atomic_load(&it->bell->sleep) != TAUTI_SHM_AWAKE)
		wake_bell(it->bell);
}

/* --- waiting ------------------------------------------------------------------------*/

static bool any_message(const struct tauti_shm *it)
{
	for (uint32_t i = 0; i < it->n_peers; i++)
		if (i != it->map.index && tauti_shm_any(&it->peers[i].in))
			return true;
	return false;
}

static bool anything(struct tauti_shm *it)
{
	return any_message(it) ||
		atomic_load_explicit(&it->woken, memory_order_relaxed) ||
		tauti_shm_flushable(it) || tauti_shm_owes(it) ||
		(it->flats && tauti_shm_flat_kept(it));
}

/* Looks for so long, and then some, whether there is anything. The clock is read
 * only when there is nothing for a while. */
static bool look_for(struct tauti_shm *it, int64_t spin_ns)
{
	int64_t begin_ns = -1, at_ns;

	for (;;) {
		for (int i = 0; i < LOOKS_A_TIME; i++) {
			if (anything(it))
				return true;
			pause_core();
		}
		at_ns = tauti_now_ns();
		if (begin_ns < 0)
			begin_ns = at_ns;
		if (at_ns - begin_ns >= spin_ns)
			return false;
	}
}

/* Lets others have the core, some of whom may send. */
static bool yield_for(struct tauti_shm *it)
{
	for (uint32_t i = 0; i < it->n_yields; i++) {
		sched_yield();
		if (anything(it))
			return true;
	}
	return false;
}

static void sleep_on(struct tauti_shm *it, int64_t timeout_ns)
{
	struct timespec limit = { .tv_sec = timeout_ns / 1000000000,
		.tv_nsec = timeout_ns % 1000000000 };
	uint32_t depth = TAUTI_SHM_ASLEEP | (it->n_queued ? TAUTI_SHM_FULL : 0) |
		(it->come.n > 0 ? TAUTI_SHM_HOLDS : 0);

	atomic_store(&it->bell->sleep, depth);
	__sync_synchronize();
	if (!it->map.fenced)
		membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
	if (!anything(it))
		syscall(SYS_futex, &it->bell->sleep, FUTEX_WAIT, depth,
			timeout_ns < 0 ? NULL : &limit, NULL, 0);
	atomic_store(&it->bell->sleep, TAUTI_SHM_AWAKE);
}

taut_status tauti_shm_wait(void *engine, int64_t timeout_ns,
	struct taut_error *err)
{
	struct tauti_shm *it = engine;
	int64_t spin_ns = it->spin_ns;

	if (it->broken.code != TAUT_OK) {
		if (err)
			*err = it->broken;
		return it->broken.code;
	}
	it->n_looks = UINT32_MAX; /* what ends this is drained */
	if (timeout_ns >= 0 && spin_ns > timeout_ns)
		spin_ns = timeout_ns;
	if (!anything(it) && timeout_ns != 0 &&
		!(spin_ns > 0 ? look_for(it, spin_ns) : yield_for(it)) &&
		timeout_ns != spin_ns)
		sleep_on(it, timeout_ns < 0 ? -1 : timeout_ns - spin_ns);
	if (atomic_load_explicit(&it->woken, memory_order_relaxed))
		atomic_exchange(&it->woken, 0);
	return TAUT_OK;
}

/* comm.c - what is known of an MPI communicator: kept as an attribute of it, so that
 * it goes when the communicator goes. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "mpi/mpi.h"

/* What this thread looked up last. */
static __thread struct {
	tauti_form_handle handle;
	uint32_t n_freed;
	struct tauti_form_comm *comm;
} last __attribute__((tls_model("initial-exec")));

/* --- making -------------------------------------------------------------------------------*/

static void list(struct tauti_form_comm *it)
{
	struct tauti_form_state *all = &tauti_mpi_form;

	pthread_mutex_lock(&all->lock);
	it->older = all->newest;
	*(it->older ? &it->older->newer : &all->oldest) = it;
	all->newest = it;
	pthread_mutex_unlock(&all->lock);
}

static void unlist(struct tauti_form_comm *it)
{
	struct tauti_form_state *all = &tauti_mpi_form;

	pthread_mutex_lock(&all->lock);
	*(it->older ? &it->older->newer : &all->oldest) = it->newer;
	*(it->newer ? &it->newer->older : &all->newest) = it->older;
	pthread_mutex_unlock(&all->lock);
}

/* Of a group's ranks 0 to n - 1, those in MPI_COMM_WORLD; -1: it cannot be told. */
static int count_in_world(tauti_form_handle group, int n)
{
	const struct tauti_form_real *real = &tauti_mpi_form.real;
	int *ranks = calloc((size_t)n, 2 * sizeof *ranks), found = 0;
	tauti_form_handle world = 0;

	if (!ranks || real->comm_group(tauti_mpi_form.abi->comm_world, &world)) {
		free(ranks);
		return -1;
	}
	for (int i = 0; i < n; i++)
		ranks[i] = i;
	if (real->group_translate_ranks(group, n, ranks,
		tauti_form_load(&world), ranks + n))
		found = -1;
	for (int i = 0; i < n && found >= 0; i++)
		found += ranks[n + i] >= 0;
	real->group_free(&world);
	free(ranks);
	return found;
}

/* 1, 0: the same answer on all ranks of it; -1: it cannot be told. */
static int may_be_ours(tauti_form_handle comm, int n_ranks)
{
	const struct tauti_form_real *real = &tauti_mpi_form.real;
	tauti_form_handle group = 0;
	int inter = 1, found;

	if (real->comm_test_inter(comm, &inter))
		return -1;
	if (inter || n_ranks < 2 || n_ranks > TAUT_COLL_RANKS)
		return 0;
	if (real->comm_group(comm, &group))
		return -1;
	found = count_in_world(tauti_form_load(&group), n_ranks);
	real->group_free(&group);
	return found < 0 ? -1 : found == n_ranks;
}

static struct tauti_form_comm *make(tauti_form_handle comm)
{
	const struct tauti_form_real *real = &tauti_mpi_form.real;
	struct tauti_form_comm *it = calloc(1, sizeof *it);
	int rank, n_ranks, ours = -1;

	if (it && !real->comm_rank(comm, &rank) &&
		!real->comm_size(comm, &n_ranks))
		ours = may_be_ours(comm, n_ranks);
	if (ours < 0) {
		free(it);
		return NULL;
	}
	it->handle = comm;
	it->last_op = &it->ops;
	it->rank = (uint32_t)rank;
	it->n_ranks = (uint32_t)n_ranks;
	if (!ours)
		it->phase = TAUTI_FORM_NEVER;
	pthread_mutex_init(&it->lock, NULL);
	pthread_cond_init(&it->work, NULL);
	list(it);
	if (!real->comm_set_attr(comm, tauti_mpi_form.keyval, it))
		return it;
	unlist(it);
	free(it);
	return NULL;
}

struct tauti_form_comm *tauti_form_comm_known(tauti_form_handle handle)
{
	tauti_form_handle comm = tauti_form_clean(handle);
	struct tauti_form_comm *it = NULL;
	int known = 0;

	if (last.handle == comm && last.comm && last.n_freed ==
		atomic_load_explicit(&tauti_mpi_form.n_freed, memory_order_acquire))
		return last.comm;
	return tauti_mpi_form.real.comm_get_attr(comm, tauti_mpi_form.keyval,
		&it, &known) || !known ? NULL : it;
}

struct tauti_form_comm *tauti_form_comm_of(tauti_form_handle handle)
{
	tauti_form_handle comm = tauti_form_clean(handle);
	uint32_t n_freed = atomic_load_explicit(
		&tauti_mpi_form.n_freed, memory_order_acquire);
	struct tauti_form_comm *it = tauti_form_comm_known(comm);

	if (it && it == last.comm && comm == last.handle &&
		n_freed == last.n_freed)
		return it;
	if (!it)
		it = make(comm);
	last.handle = comm;
	last.n_freed = n_freed;
	last.comm = it;
	return it;
}

/* --- who is in it -------------------------------------------------------------------------*/

void tauti_form_enter(struct tauti_form_comm *it)
{
	if (!it->has_thread) {
		pthread_mutex_lock(&it->lock);
		return;
	}
	atomic_fetch_add(&it->n_wanted, 1);
	/* Else the thread is not in there. */
	if (it->n_begun && !atomic_load(&it->broken))
		tauti_mpi_form.taut.wake(it->taut);
	pthread_mutex_lock(&it->lock);
	atomic_fetch_sub(&it->n_wanted, 1);
}

void tauti_form_leave(struct tauti_form_comm *it)
{
	pthread_mutex_unlock(&it->lock);
}

/* Mutexes are not fair: who waits for this one would wait on. */
static void let_others_in(struct tauti_form_comm *it)
{
	pthread_mutex_unlock(&it->lock);
	while (atomic_load(&it->n_wanted))
		sched_yield();
	pthread_mutex_lock(&it->lock);
}

static void *move(void *context)
{
	const struct tauti_form_taut *taut = &tauti_mpi_form.taut;
	struct tauti_form_comm *it = context;
	const int64_t look_ns = 100000000, copy_ns = 10000;
	struct tauti_form_aside aside = { NULL, 0 };
	bool moves;

	pthread_mutex_lock(&it->lock);
	while (!it->ends) {
		if (!it->n_begun) {
			pthread_cond_wait(&it->work, &it->lock);
			continue;
		}
		if (atomic_load(&it->n_wanted)) {
			let_others_in(it);
			continue;
		}
		/* A failure ends all that was begun. */
		moves = it->taut && !taut->progress(it->taut, &it->why);
		if (it->ops && !aside.gpu)
			aside = tauti_form_aside_begin(
				atomic_load(&tauti_mpi_form.gpu));
		if (it->ops)
			tauti_form_ops_move(it);
		if (it->broken)
			tauti_form_break(it);
		else if (moves && it->n_begun)
			(void)!taut->wait(it->taut, it->n_copies ? copy_ns :
				look_ns, &it->why);
	}
	pthread_mutex_unlock(&it->lock);
	return NULL;
}

bool tauti_form_has_mover(struct tauti_form_comm *it)
{
	sigset_t all, before;

	if (it->has_thread)
		return true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	it->has_thread = !pthread_create(&it->thread, NULL, move, it);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return it->has_thread;
}

/* --- the end ------------------------------------------------------------------------------*/

static bool is_idle(struct tauti_form_comm *it)
{
	bool idle;

	tauti_form_enter(it);
	idle = !it->n_begun;
	tauti_form_leave(it);
	return idle;
}

/* A communicator may be freed before what was begun over it is over; another rank
 * may wait for a message of this one, before it begins the same. */
static void end(struct tauti_form_comm *it)
{
	struct tauti_gpu *gpu = atomic_load(&tauti_mpi_form.gpu);
	struct tauti_form_aside aside;

	for (uint32_t turns = 0; it->has_thread && !is_idle(it); turns++) {
		tauti_form_poke_mpi();
		tauti_form_nap(turns);
	}
	if (it->has_thread) {
		tauti_form_enter(it);
		it->ends = true;
		pthread_cond_signal(&it->work);
		tauti_form_leave(it);
		pthread_join(it->thread, NULL);
		it->has_thread = false;
	}
	aside = tauti_form_aside_begin(gpu);
	tauti_form_part_peers(it);
	tauti_form_unmake(it);
	if (gpu && it->phase == TAUTI_FORM_READY)
		tauti_gpu_lanes_drop(gpu); /* others pin theirs anew */
	tauti_form_aside_end(&aside);
	it->phase = TAUTI_FORM_NEVER;
}

/* MPI calls it when the communicator goes. Requests keep what they need. */
int tauti_form_forget(
	tauti_form_handle comm, int keyval, void *value, void *extra)
{
	struct tauti_form_comm *it = value;

	(void)comm, (void)keyval, (void)extra;
	atomic_fetch_add_explicit(
		&tauti_mpi_form.n_freed, 1, memory_order_release);
	end(it);
	tauti_form_disown(it);
	unlist(it);
	pthread_cond_destroy(&it->work);
	pthread_mutex_destroy(&it->lock);
	free(it);
	return 0;
}

void tauti_form_end(void)
{
	const struct tauti_form_real *real = &tauti_mpi_form.real;
	tauti_form_handle alone = tauti_mpi_form.alone;
	struct tauti_form_aside aside;

	if (!atomic_exchange(&tauti_mpi_form.on, false))
		return;
	for (struct tauti_form_comm *it = tauti_mpi_form.oldest; it;
		it = it->newer)
		end(it);
	aside = tauti_form_aside_begin(atomic_load(&tauti_mpi_form.gpu));
	if (atomic_load(&tauti_mpi_form.gpu))
		tauti_gpu_release(tauti_mpi_form.gpu);
	tauti_form_aside_end(&aside);
	real->cancel(&tauti_mpi_form.idle);
	real->wait(&tauti_mpi_form.idle,
		(void *)tauti_mpi_form.abi->status_ignore);
	real->comm_free(&alone);
}

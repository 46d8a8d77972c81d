/* tell.c - the lock around every call, and the callbacks, which are made
 * without it.
 *
 * One thread at a time makes callbacks: the one that found nobody doing so. It
 * goes on until none is due, so what others note meanwhile, or what a callback
 * notes by calling back, is told by it, in order. A round goes first: its few words
 * would wait behind a piece in the link's queue as long as that takes, and other
 * ranks with them; then pieces, for a link may be idle; then what is done. */
#include "sched/sched.h"

taut_status tauti_sched_enter(struct taut_sched *sched)
{
	pthread_mutex_lock(&sched->lock);
	return sched->failed ? sched->failure.code : TAUT_OK;
}

void tauti_sched_fail(struct taut_sched *sched, const struct taut_error *why)
{
	if (sched->failed)
		return;
	sched->failed = true;
	sched->failure = *why;
}

void tauti_sched_fail_memory(struct taut_sched *sched)
{
	struct taut_error err;

	taut_error_set(&err, TAUT_ENOMEM, -1, "scheduler: out of memory");
	tauti_sched_fail(sched, &err);
}

/* An engine said no; its line, or one that says who it was. */
static void fail_engine(struct taut_sched *sched, const char *what,
	taut_status status, struct taut_error *err)
{
	if (!err->message[0])
		taut_error_set(err, status, -1, "scheduler: the engine's "
			"%s() failed: %s", what, taut_status_name(status));
	err->code = status;
	tauti_sched_fail(sched, err);
}

static bool start_pieces(struct taut_sched *sched)
{
	struct taut_error err = { .offset = -1 };
	const struct tauti_flight *flight = &sched->flight;
	taut_status status;
	size_t n = 0;

	if (sched->started == flight->end)
		return false;
	do
		sched->together[n++] =
			tauti_flight_row(flight, sched->started++)->piece;
	while (sched->started < flight->end &&
		tauti_flight_row(flight, sched->started)->joined);
	sched->counts.starts++;
	pthread_mutex_unlock(&sched->lock);
	status = sched->engine.start(sched->context, sched->together, n, &err);
	pthread_mutex_lock(&sched->lock);
	if (status)
		fail_engine(sched, "start", status, &err);
	return true;
}

static bool enter_round(struct taut_sched *sched)
{
	struct taut_error err = { .offset = -1 };
	struct tauti_rounds *rounds = &sched->rounds;
	const uint64_t *words;
	uint64_t round = rounds->next;
	size_t n;
	taut_status status;

	if (!tauti_rounds_due(sched))
		return false;
	if (!tauti_rounds_enter(sched)) {
		tauti_sched_fail_memory(sched);
		return true;
	}
	words = rounds->words;
	n = rounds->n_words;
	pthread_mutex_unlock(&sched->lock);
	status = sched->engine.agree(sched->context, round, words, n, &err);
	pthread_mutex_lock(&sched->lock);
	if (status)
		fail_engine(sched, "agree", status, &err);
	return true;
}

static void tell(struct taut_sched *sched, uint32_t task, taut_status status)
{
	struct tauti_task *it = &sched->tasks.data[task];
	uint32_t iteration = ++it->told;

	sched->tasks.data[it->root].n_left--;
	sched->n_left--;
	pthread_mutex_unlock(&sched->lock);
	sched->engine.done(sched->context, task, iteration, status);
	pthread_mutex_lock(&sched->lock);
}

static bool tell_done(struct taut_sched *sched)
{
	uint32_t task = sched->first_done;

	if (task == TAUT_NONE)
		return false;
	sched->first_done = sched->tasks.data[task].next_done;
	tell(sched, task, TAUT_OK);
	return true;
}

static bool tell_failed(struct taut_sched *sched)
{
	const struct tauti_task *tasks = sched->tasks.data;

	while (sched->next_failed < sched->tasks.count) {
		uint32_t task = sched->next_failed++;

		if (tasks[task].told == tasks[tasks[task].root].begun)
			continue;
		tell(sched, task, sched->failure.code);
		return true;
	}
	return false;
}

static bool call_next(struct taut_sched *sched)
{
	if (sched->failed)
		return tell_done(sched) || tell_failed(sched);
	return enter_round(sched) || start_pieces(sched) || tell_done(sched);
}

taut_status tauti_sched_leave(
	struct taut_sched *sched, taut_status status, struct taut_error *reterr)
{
	if (!sched->calling) {
		sched->calling = true;
		while (call_next(sched))
			;
		sched->calling = false;
	}
	if (sched->failed) {
		status = sched->failure.code;
		if (reterr)
			*reterr = sched->failure;
	}
	pthread_mutex_unlock(&sched->lock);
	return status;
}

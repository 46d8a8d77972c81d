/* loader_user.c - what the job calls: batches, where it is, how it goes. */
#include "load/loader.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"

/* --- batches -----------------------------------------------------------------------------*/
static struct tauti_load_slot *front(struct taut_load *load)
{
	return &load->slots[load->ready[load->first_ready].slot];
}

/* The next batch is there, or its fault. */
static bool is_told(struct taut_load *load)
{
	return load->n_ready && (front(load)->turn == TAUTI_LOAD_DONE ||
		front(load)->turn == TAUTI_LOAD_FAULTY);
}

/* until_ns: of the monotonic clock; INT64_MAX: none. TAUT_EAGAIN: it is over. */
static taut_status wait_for_news(struct taut_load *load, int64_t until_ns)
{
	struct timespec until = { until_ns / 1000000000, until_ns % 1000000000 };
	int64_t now_ns = tauti_now_ns(), from_ns = now_ns;
	int code;

	if (now_ns >= until_ns)
		return TAUT_EAGAIN;
	tauti_load_mark(load, now_ns);
	load->is_waiting = true;
	if (until_ns == INT64_MAX)
		code = pthread_cond_wait(&load->news, &load->lock);
	else
		code = pthread_cond_timedwait(&load->news, &load->lock, &until);
	now_ns = tauti_now_ns();
	tauti_load_mark(load, now_ns);
	load->is_waiting = false;
	load->counts.waited_ns += now_ns - from_ns;
	return code == ETIMEDOUT && !is_told(load) ? TAUT_EAGAIN : TAUT_OK;
}

/* A list is over, or there was none yet. */
static bool has_no_more(const struct taut_load *load)
{
	return load->is_unsaid ||
		(load->list && tauti_supply_over(load->supply));
}

static taut_status pass_up(const struct taut_error *why, struct taut_error *reterr)
{
	if (reterr)
		*reterr = *why;
	return why->code;
}

/* With none ready: why none will be. */
static taut_status check_hope(const struct taut_load *load, int64_t until_ns,
	struct taut_error *reterr)
{
	if (load->has_failed)
		return pass_up(&load->failure, reterr);
	if (has_no_more(load))
		return taut_error_set(reterr, TAUT_EINVAL, -1, "loader: "
			"nothing to go through: expected a list, or a seek");
	if (load->n_held == load->options.depth && until_ns == INT64_MAX)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"loader: all %u batches are held: none can come "
			"before one is released", load->options.depth);
	return TAUT_OK;
}

static taut_status wait_ready(
	struct taut_load *load, int64_t until_ns, struct taut_error *reterr)
{
	while (!is_told(load)) {
		taut_status status = load->n_ready ? TAUT_OK :
			check_hope(load, until_ns, reterr);

		if (status != TAUT_OK)
			return status;
		if (wait_for_news(load, until_ns) != TAUT_OK)
			return taut_error_set(reterr, TAUT_EAGAIN, -1,
				"loader: no batch within the time");
	}
	if (front(load)->turn == TAUTI_LOAD_FAULTY)
		return pass_up(&front(load)->why, reterr);
	return TAUT_OK;
}

static struct taut_batch *take(struct taut_load *load)
{
	const struct tauti_supply_batch *told = &load->ready[load->first_ready];
	struct tauti_load_slot *slot = &load->slots[told->slot];
	taut_status status = tauti_supply_took(load->supply, NULL, NULL);

	assert(status == TAUT_OK);
	(void)status;
	load->first_ready = (load->first_ready + 1) % load->options.depth;
	load->n_ready--;
	load->is_epoch_over = told->last;
	load->counts.batches++;
	load->counts.samples += slot->batch.count;
	slot->batch.n_held = ++load->n_held;
	atomic_store_explicit(&slot->holders, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&load->holders, 1, memory_order_relaxed);
	return &slot->batch;
}

static int64_t deadline_ns(int64_t timeout_ns)
{
	int64_t now_ns;

	if (timeout_ns < 0)
		return INT64_MAX;
	now_ns = tauti_now_ns();
	return timeout_ns < INT64_MAX - now_ns ? now_ns + timeout_ns : INT64_MAX - 1;
}

taut_status taut_load_next(struct taut_load *load, int64_t timeout_ns,
	struct taut_batch **ret_batch, struct taut_error *reterr)
{
	taut_status status = tauti_load_refuse_copy(load, reterr);

	if (status != TAUT_OK)
		return status;
	pthread_mutex_lock(&load->lock);
	if (load->is_epoch_over) {
		load->is_epoch_over = false;
		*ret_batch = NULL;
	} else {
		status = wait_ready(load, deadline_ns(timeout_ns), reterr);
		if (status == TAUT_OK)
			*ret_batch = take(load);
		tauti_load_leave(load);
	}
	pthread_mutex_unlock(&load->lock);
	return status;
}

void taut_batch_hold(struct taut_batch *batch)
{
	struct tauti_load_slot *slot = (struct tauti_load_slot *)batch;

	atomic_fetch_add_explicit(&slot->holders, 1, memory_order_relaxed);
}

static void give_back(struct taut_load *load, uint32_t slot)
{
	taut_status status;

	pthread_mutex_lock(&load->lock);
	load->n_held--;
	if (!load->is_closed) {
		status = tauti_supply_release(load->supply, slot, NULL);
		assert(status == TAUT_OK);
		(void)status;
		pthread_cond_broadcast(&load->news);
		tauti_load_leave(load);
	}
	pthread_mutex_unlock(&load->lock);
}

void taut_batch_release(struct taut_batch *batch)
{
	struct tauti_load_slot *slot = (struct tauti_load_slot *)batch;
	struct taut_load *load;

	if (!batch || tauti_origin_is_copy(&slot->load->origin))
		return;
	load = slot->load;
	if (atomic_fetch_sub_explicit(&slot->holders, 1, memory_order_acq_rel) != 1)
		return;
	give_back(load, (uint32_t)(slot - load->slots));
	tauti_load_let_go(load);
}

/* --- where it is -------------------------------------------------------------------------*/
taut_status taut_load_state(struct taut_load *load, struct taut_load_state *ret_state,
	struct taut_error *reterr)
{
	struct taut_load_state state = { 0 };
	taut_status status = tauti_load_refuse_copy(load, reterr);

	if (status != TAUT_OK)
		return status;
	state.seed = load->options.seed;
	state.n_items = load->share.n_items;
	state.fingerprint = taut_set_fingerprint(load->set);
	pthread_mutex_lock(&load->lock);
	tauti_supply_state(load->supply, &state.epoch, &state.position);
	if (load->list)
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "loader: a list "
			"has no state: who made it knows where it goes on");
	pthread_mutex_unlock(&load->lock);
	if (status == TAUT_OK)
		*ret_state = state;
	return status;
}

/* Stopped; what is under way has ended. The lock is held. */
static void pause_works(struct taut_load *load)
{
	tauti_supply_stop(load->supply);
	load->is_pausing = true;
	while (tauti_supply_under_way(load->supply) || load->is_beginning ||
		load->n_staging)
		pthread_cond_wait(&load->calm, &load->lock);
	load->is_pausing = false;
	pthread_cond_broadcast(&load->work); /* what was ready waits for its stage */
}

/* The supply is elsewhere now. */
static void begin_anew(struct taut_load *load)
{
	tauti_load_forget_tickets(load);
	load->n_ready = load->n_to_stage = 0;
	load->n_batch_skipped = 0;
	load->has_failed = false;
	load->is_epoch_over = false;
	load->is_unsaid = false;
}

/* A list of the loader's, or NULL. */
static void keep_list(struct taut_load *load, uint64_t *list)
{
	free(load->list);
	load->list = list;
}

static taut_status go_to(struct taut_load *load, uint64_t epoch, uint64_t position,
	struct taut_error *reterr)
{
	taut_status status;

	pthread_mutex_lock(&load->lock);
	pause_works(load);
	status = tauti_supply_seek(load->supply, epoch, position, 0, reterr);
	if (status == TAUT_OK) {
		begin_anew(load);
		keep_list(load, NULL);
		tauti_load_share_go(load, epoch, position);
	}
	tauti_supply_start(load->supply);
	tauti_load_settle(load);
	pthread_mutex_unlock(&load->lock);
	return status;
}

taut_status taut_load_resume(struct taut_load *load,
	const struct taut_load_state *state, struct taut_error *reterr)
{
	struct tauti_share rest = load->share;
	taut_status status = tauti_load_refuse_copy(load, reterr);

	if (status != TAUT_OK)
		return status;
	if (state->n_items != rest.n_items ||
		state->fingerprint != taut_set_fingerprint(load->set))
		return taut_error_set(reterr, TAUT_EMATCH, -1, "loader: the state is "
			"of another set (%llu items, %llu here)",
			(unsigned long long)state->n_items,
			(unsigned long long)rest.n_items);
	if (state->seed != load->options.seed)
		return taut_error_set(reterr, TAUT_EMATCH, -1,
			"loader: the state is of seed %llu, expected %llu",
			(unsigned long long)state->seed,
			(unsigned long long)load->options.seed);
	rest.first_position = state->position;
	status = tauti_share_check(&rest, reterr);
	if (status != TAUT_OK)
		return status;
	if (tauti_share_batches(&rest))
		return go_to(load, state->epoch, state->position, reterr);
	/* Nothing is left of that epoch but its end. */
	status = go_to(load, state->epoch + 1, 0, reterr);
	if (status == TAUT_OK)
		load->is_epoch_over = true;
	return status;
}

static bool is_at_beginning(struct taut_load *load, uint64_t epoch)
{
	uint64_t at_epoch, position;
	bool is;

	pthread_mutex_lock(&load->lock);
	tauti_supply_state(load->supply, &at_epoch, &position);
	is = at_epoch == epoch && position == 0 && !load->has_failed &&
		!load->list && !load->is_unsaid;
	if (is)
		load->is_epoch_over = false;
	pthread_mutex_unlock(&load->lock);
	return is;
}

taut_status taut_load_seek(
	struct taut_load *load, uint64_t epoch, struct taut_error *reterr)
{
	taut_status status = tauti_load_refuse_copy(load, reterr);

	if (status != TAUT_OK || is_at_beginning(load, epoch))
		return status;
	return go_to(load, epoch, 0, reterr);
}

static taut_status check_list(const struct taut_load *load, const uint64_t *items,
	uint64_t n_items, struct taut_error *reterr)
{
	if (load->options.share_bytes)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "loader: others share "
			"its samples in the order of the seed: expected no list");
	for (uint64_t i = 0; i < n_items; i++)
		if (items[i] >= load->share.n_items)
			return taut_error_set(reterr, TAUT_EINVAL, -1,
				"loader: item %llu in the list, expected one below "
				"%llu", (unsigned long long)items[i],
				(unsigned long long)load->share.n_items);
	return TAUT_OK;
}

static taut_status copy_list(const uint64_t *items, uint64_t n_items,
	uint64_t **ret_list, struct taut_error *reterr)
{
	uint64_t *list = calloc(n_items ? n_items : 1, sizeof *list);

	if (!list)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"loader: no memory for a list of %llu items",
			(unsigned long long)n_items);
	if (n_items)
		memcpy(list, items, n_items * sizeof *list);
	*ret_list = list;
	return TAUT_OK;
}

/* The list is the loader's then. */
static taut_status follow(struct taut_load *load, uint64_t epoch, uint64_t *list,
	uint64_t n_items, struct taut_error *reterr)
{
	taut_status status;

	pthread_mutex_lock(&load->lock);
	pause_works(load);
	status = tauti_supply_follow(load->supply, epoch, list, n_items, reterr);
	if (status == TAUT_OK) {
		begin_anew(load);
		keep_list(load, list);
	}
	tauti_supply_start(load->supply);
	tauti_load_settle(load);
	pthread_mutex_unlock(&load->lock);
	return status;
}

taut_status taut_load_follow(struct taut_load *load, uint64_t epoch,
	const uint64_t *items, uint64_t n_items, struct taut_error *reterr)
{
	taut_status status = tauti_load_refuse_copy(load, reterr);
	uint64_t *list = NULL;

	if (status == TAUT_OK)
		status = check_list(load, items, n_items, reterr);
	if (status == TAUT_OK)
		status = copy_list(items, n_items, &list, reterr);
	if (status != TAUT_OK)
		return status;
	status = follow(load, epoch, list, n_items, reterr);
	if (status != TAUT_OK)
		free(list);
	return status;
}

uint64_t taut_load_batches(const struct taut_load *load)
{
	return load->n_batches;
}

/* --- how it goes -------------------------------------------------------------------------*/
void taut_load_counts(struct taut_load *load, struct taut_load_counts *ret_counts)
{
	struct tauti_supply_counts supply;

	memset(ret_counts, 0, sizeof *ret_counts);
	if (tauti_origin_is_copy(&load->origin))
		return;
	pthread_mutex_lock(&load->lock);
	tauti_supply_counts(load->supply, &supply);
	*ret_counts = load->counts;
	if (load->common)
		supply.here -= load->common->n_here;
	pthread_mutex_unlock(&load->lock);
	ret_counts->hits = supply.here;
	ret_counts->n_workers = load->options.n_workers;
}

bool taut_load_skipped(struct taut_load *load, uint64_t n, uint64_t *ret_item,
	struct taut_error *ret_why)
{
	bool is_known;

	if (tauti_origin_is_copy(&load->origin))
		return false;
	pthread_mutex_lock(&load->lock);
	is_known = load->skips && n < load->counts.skipped &&
		load->counts.skipped - n <= TAUTI_LOAD_SKIPPED;
	if (is_known) {
		const struct tauti_load_skip *skip =
			&load->skips[n % TAUTI_LOAD_SKIPPED];

		*ret_item = skip->item;
		if (ret_why)
			*ret_why = skip->why;
	}
	pthread_mutex_unlock(&load->lock);
	return is_known;
}

const char *taut_load_store(const struct taut_load *load, const char **ret_note)
{
	if (ret_note)
		*ret_note = load->store.note;
	return load->store.table->name;
}

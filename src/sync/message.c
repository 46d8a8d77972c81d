/* message.c - pieces to collectives, and what is finished by them. */
#include "sync/sync.h"

#include <stdlib.h>

/* --- what there is of them ---------------------------------------------------------*/

static struct tauti_message *take(struct taut_sync *sync)
{
	struct tauti_message *message = sync->free;

	if (message)
		sync->free = message->next;
	else
		message = calloc(1, sizeof *message);
	if (message) {
		message->sync = sync;
		message->n = 0;
		message->next = NULL;
	}
	return message;
}

static void give_back(struct taut_sync *sync, struct tauti_message *message)
{
	tauti_staging_give_back(sync, message);
	message->next = sync->free;
	sync->free = message;
}

static void free_message(struct tauti_message *message)
{
	free(message->pieces);
	free(message->staging);
	free(message);
}

void tauti_message_free_all(struct taut_sync *sync)
{
	struct tauti_message *message;

	while ((message = sync->free) != NULL) {
		sync->free = message->next;
		free_message(message);
	}
	while ((message = sync->oldest) != NULL) {
		sync->oldest = message->newer;
		free_message(message);
	}
	tauti_staging_free_all(sync);
}

/* To those under way, as the newest. */
static void add_under_way(
	struct taut_sync *sync, struct tauti_message *message)
{
	message->older = sync->newest_message;
	message->newer = NULL;
	if (message->older)
		message->older->newer = message;
	else
		sync->oldest = message;
	sync->newest_message = message;
}

static void remove_under_way(
	struct taut_sync *sync, struct tauti_message *message)
{
	if (message->newer)
		message->newer->older = message->older;
	else
		sync->newest_message = message->older;
	if (message->older)
		message->older->newer = message->newer;
	else
		sync->oldest = message->newer;
}

/* What callers are told of it. */
static void count_begun(struct taut_sync *sync)
{
	pthread_mutex_lock(&sync->lock);
	sync->counts.messages++;
	if (!sync->n_busy++)
		sync->busy_since_ns = tauti_now_ns();
	pthread_mutex_unlock(&sync->lock);
}

/* All of both sides; of half an all-reduce all of one and a block of the other. */
static uint64_t staged_bytes(const struct tauti_message *message, uint64_t bytes)
{
	return message->verb == TAUT_ALLREDUCE ? 2 * bytes :
		bytes + bytes / message->sync->n_ranks;
}

static void count_ended(
	struct taut_sync *sync, const struct tauti_message *message)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < message->n; i++)
		bytes += message->pieces[i].bytes;
	pthread_mutex_lock(&sync->lock);
	if (!--sync->n_busy)
		sync->counts.busy_ns +=
			tauti_now_ns() - sync->busy_since_ns;
	if (message->verb != TAUT_ALLGATHER)
		sync->counts.bytes += bytes;
	if (message->wire != message->type)
		sync->counts.cast_bytes += staged_bytes(message, bytes);
	else if (message->staging)
		sync->counts.copied_bytes += staged_bytes(message, bytes);
	tauti_watch_keep(sync, message);
	pthread_mutex_unlock(&sync->lock);
}

/* --- its parts -----------------------------------------------------------------------*/

static const struct tauti_task_of_sync *task_of(
	const struct tauti_message *message, size_t i)
{
	const struct taut_sync *sync = message->sync;

	return &sync->tasks.data[
		tauti_sync_task(sync, message->pieces[i].task)];
}

/* Pieces are of bytes on the wire. */
uint64_t tauti_message_count(const struct tauti_message *message, size_t i)
{
	return message->pieces[i].bytes / taut_type_bytes(message->wire);
}

/* Of its task, the numbers before the piece. */
static uint64_t first_of(const struct tauti_message *message, size_t i)
{
	return message->pieces[i].first_byte / taut_type_bytes(message->wire) *
		taut_type_numbers(message->wire);
}

char *tauti_message_data(const struct tauti_message *message, size_t i)
{
	return (char *)task_of(message, i)->data +
		first_of(message, i) * taut_type_bytes(message->type);
}

uint64_t tauti_message_numbers(const struct tauti_message *message, size_t i)
{
	const struct tauti_task_of_sync *task = task_of(message, i);
	uint64_t all = task->part ? task->part : task->count;
	uint64_t numbers = tauti_message_count(message, i) *
		taut_type_numbers(message->wire);
	uint64_t left = all - first_of(message, i);

	return numbers < left ? numbers : left;
}

/* An all-gather brings sums, which have been multiplied. */
double tauti_message_factor(const struct tauti_message *message, size_t i)
{
	return message->verb == TAUT_ALLGATHER ? 1 : task_of(message, i)->factor;
}

/* Do they lie one behind the other, as they go? Then they are one in memory already. */
static bool is_contiguous(const struct tauti_message *message)
{
	if (message->wire != message->type)
		return false;
	for (size_t i = 1; i < message->n; i++) {
		const char *end = (const char *)task_of(message, i - 1)->data +
			message->pieces[i - 1].bytes;

		if (task_of(message, i)->data != end)
			return false;
	}
	return message->n == 1 || message->verb == TAUT_ALLREDUCE;
}

/* --- beginning ---------------------------------------------------------------------*/

static enum taut_coll_verb verb_of(
	const struct taut_sync *sync, const struct taut_sched_piece *piece)
{
	if (!sync->options.halves)
		return TAUT_ALLREDUCE;
	return piece->task % 2 ? TAUT_ALLGATHER : TAUT_REDUCE_SCATTER;
}

/* What may go in one message has the same. */
static uint32_t kind_of(
	const struct taut_sync *sync, const struct taut_sched_piece *piece)
{
	enum taut_type type =
		sync->tasks.data[tauti_sync_task(sync, piece->task)].type;

	return (uint32_t)verb_of(sync, piece) * TAUT_TYPES + (uint32_t)type;
}

static bool add_pieces(struct tauti_message *message,
	const struct taut_sched_piece *pieces, size_t n)
{
	const struct taut_sync *sync = message->sync;
	uint32_t kind = kind_of(sync, &pieces[0]);

	if (n > message->capacity) {
		void *grown = realloc(
			message->pieces, n * sizeof *message->pieces);

		if (!grown)
			return false;
		message->pieces = grown;
		message->capacity = n;
	}
	for (size_t i = 0; i < n; i++)
		if (kind_of(sync, &pieces[i]) == kind)
			message->pieces[message->n++] = pieces[i];
	message->verb = verb_of(sync, &pieces[0]);
	message->type = (enum taut_type)(kind % TAUT_TYPES);
	message->wire = task_of(message, 0)->wire;
	message->n_blocks =
		message->verb == TAUT_ALLREDUCE ? 1 : sync->n_ranks;
	return true;
}

static void over(void *context, taut_status status)
{
	struct tauti_message *message = context;
	struct taut_sync *sync = message->sync;

	message->status = status;
	message->next = NULL;
	if (sync->first_ended)
		sync->last_ended->next = message;
	else
		sync->first_ended = message;
	sync->last_ended = message;
}

/* Each piece is multiplied where it lies. */
static void scale_in_place(const struct tauti_message *message)
{
	for (size_t i = 0; i < message->n; i++) {
		char *data = tauti_message_data(message, i);

		tauti_sync_scale(message->type, data, data,
			tauti_message_count(message, i),
			tauti_message_factor(message, i));
	}
}

static taut_status send(struct tauti_message *message, struct taut_error *err)
{
	struct taut_sync *sync = message->sync;
	const struct tauti_carry *carry = &sync->carry;
	struct taut_coll_call call = { .verb = message->verb,
		.type = message->wire, .reduction = TAUT_SUM,
		.ordered = sync->options.ordered };

	message->start_ns = tauti_now_ns();
	if (carry->way == TAUT_WAY_AUTO ||
		taut_coll_has(message->verb, carry->way)) {
		call.way = carry->way;
		call.pass_bytes = carry->pass_bytes;
		call.passes_at_once = carry->passes_at_once;
	}
	if (message->staging) {
		tauti_staging_gather(message);
		call.output = tauti_staging_data(message);
		call.count = message->n_blocks * message->block_count;
	} else {
		scale_in_place(message);
		call.output = tauti_message_data(message, 0);
		for (size_t i = 0; i < message->n; i++)
			call.count += tauti_message_count(message, i);
	}
	message->number = sync->n_messages;
	return taut_comm_start(sync->pieces, &call, over, message, err);
}

/* The pieces of the kind of the first. */
static taut_status send_together(struct taut_sync *sync,
	const struct taut_sched_piece *pieces, size_t n, struct taut_error *err)
{
	struct tauti_message *message;
	taut_status status = tauti_round_may_begin(sync, err);

	if (status)
		return status;
	status = TAUT_ENOMEM;
	message = take(sync);
	if (!message || !add_pieces(message, pieces, n))
		goto no_memory;
	if (!is_contiguous(message) && !tauti_staging_reserve(message))
		goto no_memory;
	add_under_way(sync, message);
	status = send(message, err);
	if (!status) {
		count_begun(sync);
		sync->n_messages++;
		return TAUT_OK;
	}
	remove_under_way(sync, message);
	give_back(sync, message);
	return status;

no_memory:
	if (message)
		give_back(sync, message);
	return taut_error_set(err, status, -1, "sync: out of memory");
}

taut_status tauti_message_start(void *context,
	const struct taut_sched_piece *pieces, size_t n, struct taut_error *err)
{
	struct taut_sync *sync = context;
	taut_status status = TAUT_OK;
	uint64_t seen = 0;

	for (size_t i = 0; i < n && !status; i++) {
		uint64_t kind = UINT64_C(1) << kind_of(sync, &pieces[i]);

		if (!(seen & kind))
			status = send_together(sync, pieces + i, n - i, err);
		seen |= kind;
	}
	return status;
}

/* --- ending ------------------------------------------------------------------------*/

static taut_status end(struct tauti_message *message, struct taut_error *err)
{
	struct taut_sync *sync = message->sync;
	taut_status status = message->status;

	if (status)
		return tauti_sync_comm_failed(sync, status, err);
	if (message->staging)
		tauti_staging_scatter(message);
	remove_under_way(sync, message);
	count_ended(sync, message);
	for (size_t i = 0; i < message->n && !status; i++)
		status = taut_sched_finished(
			sync->sched, message->pieces[i].number, err);
	give_back(sync, message);
	return status;
}

taut_status tauti_message_end_all(
	struct taut_sync *sync, bool *moved, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	while (sync->first_ended && !status) {
		struct tauti_message *message = sync->first_ended;

		sync->first_ended = message->next;
		*moved = true;
		status = end(message, err);
	}
	return status;
}

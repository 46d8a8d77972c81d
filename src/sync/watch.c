/* watch.c - what was carried when, of a recording. */
#include "sync/sync.h"

#include <stdlib.h>

taut_status taut_sync_watch(
	struct taut_sync *sync, uint32_t most, struct taut_error *reterr)
{
	taut_status status = tauti_sync_check_origin(sync, reterr);
	struct taut_sync_piece *pieces = NULL, *before;

	if (status)
		return status;
	if (most)
		pieces = calloc(most, sizeof *pieces);
	if (most && !pieces)
		return taut_error_set(
			reterr, TAUT_ENOMEM, -1, "sync: out of memory");
	pthread_mutex_lock(&sync->lock);
	before = sync->watch.pieces;
	sync->watch = (struct tauti_watch){ .pieces = pieces, .room = most };
	pthread_mutex_unlock(&sync->lock);
	free(before);
	return TAUT_OK;
}

uint32_t taut_sync_watched(struct taut_sync *sync,
	struct taut_sync_piece *ret_pieces, uint32_t room)
{
	const struct tauti_watch *w = &sync->watch;
	uint32_t n;

	if (tauti_sync_check_origin(sync, NULL))
		return 0;
	pthread_mutex_lock(&sync->lock);
	n = w->n < room ? w->n : room;
	for (uint32_t i = 0; i < n; i++)
		ret_pieces[i] = w->pieces[(w->next - w->n + i) % w->room];
	pthread_mutex_unlock(&sync->lock);
	return n;
}

void tauti_watch_keep(
	struct taut_sync *sync, const struct tauti_message *message)
{
	struct tauti_watch *w = &sync->watch;
	int64_t now_ns;

	if (!w->pieces || message->verb == TAUT_ALLGATHER)
		return;
	now_ns = tauti_now_ns();
	for (size_t i = 0; i < message->n; i++) {
		const struct taut_sched_piece *piece = &message->pieces[i];

		w->pieces[w->next++ % w->room] = (struct taut_sync_piece){
			.message = message->number,
			.task = tauti_sync_task(sync, piece->task),
			.first_byte = piece->first_byte,
			.bytes = piece->bytes,
			.start_ns = message->start_ns,
			.end_ns = now_ns };
		w->n += w->n < w->room;
	}
}

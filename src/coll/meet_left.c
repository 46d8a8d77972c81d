/* meet_left.c - who has left in peace; see coll.h and meet.h.
 *
 * Rank 0 keeps a list of those that have left, itself among them, in the order in
 * which it heard; each of the others is told all of it, in that order. */
#include "coll/meet.h"

#include <string.h>
#include <time.h>

enum { LEFT_BYTES = 4 + 4 * TAUTI_REACHED };
static const int64_t heard_ns = 1000000000;

static void pack(uint8_t *to, const uint32_t *reached)
{
	for (int i = 0; i < TAUTI_REACHED; i++)
		tauti_put32(to + 4 * i, reached[i]);
}

static void unpack(uint32_t *reached, const uint8_t *from)
{
	for (int i = 0; i < TAUTI_REACHED; i++)
		reached[i] = tauti_get32(from + 4 * i);
}

/* --- saying so -----------------------------------------------------------------------*/

static void list(struct tauti_meet *meet, const struct tauti_left *left)
{
	if (meet->n_left < meet->n_ranks)
		meet->left[meet->n_left++] = *left;
}

/* False: not now, the link is full. */
static bool say_left(struct tauti_link *link, const struct tauti_left *left)
{
	uint8_t body[LEFT_BYTES];

	tauti_put32(body, left->rank);
	pack(body + 4, left->reached);
	return tauti_link_put(link, TAUTI_LEFT, body, sizeof body);
}

/* Rank 0: to each what it does not know yet. */
static void tell_all(struct tauti_meet *meet)
{
	for (uint32_t i = 1; i < meet->n_ranks; i++) {
		struct tauti_link *link = &meet->links[i];

		while (link->fd >= 0 && link->told < meet->n_left) {
			const struct tauti_left *left =
				&meet->left[link->told];

			if (left->rank != i && !say_left(link, left))
				break;
			link->told++;
			(void)tauti_link_write(link);
		}
	}
}

/* The others know, or will when they look. */
static bool is_heard(const struct tauti_meet *meet)
{
	if (meet->rank != 0)
		return meet->said_leave && meet->links[0].fd < 0;
	for (uint32_t i = 1; i < meet->n_ranks; i++)
		if (meet->links[i].fd >= 0 &&
			(meet->links[i].told < meet->n_left ||
				!tauti_link_idle(&meet->links[i])))
			return false;
	return meet->said_leave;
}

void tauti_left_heard(struct tauti_meet *meet, bool over)
{
	if (meet->told_heard || (!over && !is_heard(meet)))
		return;
	meet->told_heard = true;
	pthread_mutex_lock(&meet->mutex);
	meet->left_heard = true;
	pthread_cond_broadcast(&meet->heard);
	pthread_mutex_unlock(&meet->mutex);
}

static void say_leave(struct tauti_meet *meet, const struct tauti_left *own)
{
	struct tauti_link *link = &meet->links[0];
	uint8_t body[4 * TAUTI_REACHED];

	if (meet->rank == 0) {
		list(meet, own);
		meet->stay_until_ns = tauti_meet_now_ns() + meet->lost_after_ns;
		meet->said_leave = true;
		return;
	}
	pack(body, own->reached);
	meet->said_leave = link->fd < 0 ||
		tauti_link_put(link, TAUTI_LEAVE, body, sizeof body);
	(void)tauti_link_write(link);
}

void tauti_left_say(struct tauti_meet *meet)
{
	struct tauti_left own;
	bool leaves;

	pthread_mutex_lock(&meet->mutex);
	own = meet->own_left;
	leaves = meet->leaves;
	pthread_mutex_unlock(&meet->mutex);
	if (leaves && !meet->said_leave)
		say_leave(meet, &own);
	if (meet->rank == 0)
		tell_all(meet);
	tauti_left_heard(meet, false);
}

/* --- hearing it ------------------------------------------------------------------------*/

static void hear(struct tauti_meet *meet, const struct tauti_left *left)
{
	if (meet->rank == 0) {
		list(meet, left);
		tell_all(meet);
	}
	meet->any_left = true;
	meet->left_last = left->rank;
	if (left->rank == 0)
		meet->host_left = true;
	if (meet->watch.left)
		meet->watch.left(meet->watch.context, left->rank, left->reached);
}

bool tauti_left_take(struct tauti_meet *meet, uint32_t peer,
	const struct tauti_frame *frame)
{
	struct tauti_left left = { .rank = peer };

	if (frame->kind == TAUTI_SETTLED) {
		meet->links[peer].settled = true;
		return true;
	}
	if (frame->kind == TAUTI_LEFT) {
		left.rank = tauti_get32(frame->body);
		if (left.rank >= meet->n_ranks || left.rank == meet->rank)
			return false;
		unpack(left.reached, frame->body + 4);
	} else {
		if (frame->bytes == 4 * TAUTI_REACHED)
			unpack(left.reached, frame->body);
	}
	hear(meet, &left);
	if (frame->kind == TAUTI_LEAVE) /* which is how it knows */
		tauti_link_close(&meet->links[peer]);
	return true;
}

/* --- afterwards ------------------------------------------------------------------------*/

static void say_settled(struct tauti_meet *meet)
{
	struct tauti_link *link = &meet->links[0];

	if (meet->said_settled || !meet->host_left)
		return;
	meet->said_settled = tauti_link_put(link, TAUTI_SETTLED, NULL, 0);
	(void)tauti_link_write(link);
}

taut_status tauti_left_look(struct tauti_meet *meet, int64_t now_ns)
{
	const struct tauti_watch *watch = &meet->watch;
	enum tauti_need need = TAUTI_NEEDS_NOTHING;
	bool alone = meet->host_left && meet->links[0].fd < 0;

	if (!meet->any_left || meet->said_leave)
		return TAUT_EAGAIN;
	if (watch->needs)
		need = watch->needs(watch->context);
	if (need == TAUTI_NEEDS_NOTHING)
		say_settled(meet);
	if (need != TAUTI_NEEDS_LEFT && (need != TAUTI_NEEDS_NOW || !alone))
		meet->stuck_since_ns = 0;
	else if (!meet->stuck_since_ns)
		meet->stuck_since_ns = now_ns;
	if (!meet->stuck_since_ns ||
		now_ns - meet->stuck_since_ns < meet->lost_after_ns)
		return TAUT_EAGAIN;
	taut_error_set(&meet->fault, TAUT_EIO, -1, "rank %u has left, and what "
		"is under way on rank %u did not end within %.3g s after that",
		meet->left_last, meet->rank, (double)meet->lost_after_ns / 1e9);
	tauti_meet_tell(meet, meet->rank);
	return TAUT_EIO;
}

bool tauti_left_expects_close(const struct tauti_meet *meet)
{
	return meet->rank != 0 && (meet->host_left || meet->said_leave);
}

bool tauti_left_may_go(const struct tauti_meet *meet, int64_t now_ns)
{
	if (!meet->said_leave)
		return false;
	if (meet->rank != 0 || now_ns >= meet->stay_until_ns)
		return true;
	for (uint32_t i = 1; i < meet->n_ranks; i++)
		if (meet->links[i].fd >= 0 && !meet->links[i].settled)
			return false;
	return true;
}

static void await_heard(struct tauti_meet *meet)
{
	int64_t until_ns = tauti_meet_now_ns() + heard_ns;
	struct timespec until = { .tv_sec = until_ns / 1000000000,
		.tv_nsec = until_ns % 1000000000 };

	pthread_mutex_lock(&meet->mutex);
	while (meet->watching && !meet->left_heard)
		if (pthread_cond_timedwait(&meet->heard, &meet->mutex, &until))
			break;
	pthread_mutex_unlock(&meet->mutex);
}

void tauti_meet_leave(
	struct tauti_meet *meet, const uint32_t reached[TAUTI_REACHED])
{
	pthread_mutex_lock(&meet->mutex);
	if (!meet->leaves) {
		meet->own_left.rank = meet->rank;
		memcpy(meet->own_left.reached, reached,
			sizeof meet->own_left.reached);
		meet->leaves = true;
	}
	pthread_mutex_unlock(&meet->mutex);
	tauti_meet_ring(meet);
	await_heard(meet);
}

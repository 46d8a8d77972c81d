/* by_size.c - one engine for short messages, another for longer ones.
 *
 * Both sides know how long a message is, so both pick alike, and each message goes by one
 * engine as if there were no other. Ranks that do not call the same may pick differently:
 * then what one waits for lies unasked for in the other engine. Whoever is about to sleep
 * looks there, and who does not sleep looks now and then; such a receive ends as one of
 * another length does.
 *
 * An engine that has nothing under way is asked now and then alone: what the other one
 * does is not to cost what looking at both would. Before sleep both have moved what can
 * be moved. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "coll/coll.h"

enum {
	LINGER = 16,      /* calls of progress() for which what has ended still counts */
	SELDOM = 16,      /* then each so many-th one */
	LOOK_EACH = 1024, /* calls of progress() */
};

struct half;

/* A message under way. */
struct op {
	struct taut_coll_request own; /* first: what its engine ends */
	struct op *next, *previous;   /* of receives; unused: next alone */
	struct half *half;
	struct taut_coll_request *request;
	uint64_t tag;  /* of a receive */
	uint32_t peer; /* of a receive */
	bool is_receive;
};

struct half {
	struct tauti_engine engine;
	struct by_size *both;
	struct op receives; /* a ring */
	uint32_t n_under_way;
	uint32_t quiet; /* calls of progress() since something was under way */
	bool armed;     /* and nothing was asked of it since */
	bool due;       /* it may have something to move */
};

struct by_size {
	struct taut_coll_engine table;
	char name[24];
	struct half small, large;
	size_t most_bytes; /* of what goes by small */
	struct op *unused;
	uint32_t turn; /* calls of progress() */
	int epoll_fd;  /* tells of both */
	int wake_fd;
};

/* --- messages -------------------------------------------------------------------------*/

static void op_end(struct op *op)
{
	struct by_size *both = op->half->both;

	op->half->n_under_way--;
	if (op->is_receive) {
		op->next->previous = op->previous;
		op->previous->next = op->next;
	}
	op->next = both->unused;
	both->unused = op;
}

static void note_done(struct taut_coll_request *own, taut_status status)
{
	struct op *op = (struct op *)own;
	struct taut_coll_request *request = op->request;

	op_end(op);
	request->done(request, status);
}

static struct op *op_begin(struct by_size *both, size_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct half *half = bytes <= both->most_bytes ? &both->small : &both->large;
	struct op *op = both->unused;

	if (op)
		both->unused = op->next;
	else
		op = malloc(sizeof *op);
	if (!op) {
		(void)taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
		return NULL;
	}
	*op = (struct op){ .own.done = note_done, .half = half, .request = request };
	half->n_under_way++;
	half->armed = false;
	return op;
}

static taut_status by_size_send(void *engine, const uint32_t *peers, uint32_t n_peers,
	uint64_t tag, const void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct op *op = op_begin(engine, bytes, request, err);
	struct tauti_engine one;
	taut_status status;

	if (!op)
		return TAUT_ENOMEM;
	one = op->half->engine;
	status = one.table->send(
		one.context, peers, n_peers, tag, data, bytes, &op->own, err);
	if (status)
		op_end(op);
	return status;
}

static taut_status by_size_recv(void *engine, uint32_t peer, uint64_t tag, void *data,
	size_t bytes, struct taut_coll_request *request, struct taut_error *err)
{
	struct op *op = op_begin(engine, bytes, request, err), *first;
	struct tauti_engine one;
	taut_status status;

	if (!op)
		return TAUT_ENOMEM;
	first = &op->half->receives;
	op->is_receive = true;
	op->peer = peer;
	op->tag = tag;
	op->next = first;
	op->previous = first->previous;
	op->previous->next = op;
	first->previous = op;
	one = op->half->engine;
	status = one.table->recv(one.context, peer, tag, data, bytes, &op->own, err);
	if (status)
		op_end(op);
	return status;
}

static bool by_size_arrived(void *engine, uint64_t tag, uint64_t mask)
{
	struct by_size *both = engine;
	struct tauti_engine small = both->small.engine, large = both->large.engine;

	return small.table->arrived(small.context, tag, mask) ||
		large.table->arrived(large.context, tag, mask);
}

/* --- what comes by the other engine ---------------------------------------------------*/

/* The peer is asked for, too: another's message with that tag may be of another length. */
static bool end_one_of(struct half *half, struct half *other)
{
	struct tauti_engine here = half->engine, there = other->engine;
	struct op *op = half->receives.next;

	if (op == &half->receives || !there.table->arrived(there.context, 0, 0))
		return false;
	while (op != &half->receives &&
		!there.table->discard(there.context, op->peer, op->tag))
		op = op->next;
	if (op == &half->receives)
		return false;
	half->armed = other->armed = false;
	half->due = other->due = true;
	here.table->withdraw(here.context, &op->own);
	return true;
}

/* True: something ended. */
static bool end_mismatches(struct by_size *both)
{
	bool ended = false;

	while (end_one_of(&both->small, &both->large) ||
		end_one_of(&both->large, &both->small))
		ended = true;
	return ended;
}

/* --- moving on and sleeping -----------------------------------------------------------*/

static bool is_due(struct half *half)
{
	if (half->n_under_way || half->due)
		half->quiet = 0;
	else
		half->quiet++;
	half->due = false;
	return half->quiet < LINGER || half->quiet % SELDOM == 0;
}

static taut_status progress_half(struct half *half, struct taut_error *err)
{
	if (!is_due(half))
		return TAUT_OK;
	half->armed = false;
	return half->engine.table->progress(half->engine.context, err);
}

static taut_status by_size_progress(void *engine, struct taut_error *err)
{
	struct by_size *both = engine;
	taut_status status = progress_half(&both->small, err);

	if (!status)
		status = progress_half(&both->large, err);
	if (!status && ++both->turn % LOOK_EACH == 0)
		(void)end_mismatches(both);
	return status;
}

/* One that nothing was asked of since is armed still. */
static taut_status arm_half(struct half *half, struct taut_error *err)
{
	taut_status status = half->armed ? TAUT_OK :
		half->engine.table->arm(half->engine.context, err);

	half->armed = status == TAUT_OK;
	if (status == TAUT_EAGAIN)
		half->due = true;
	return status;
}

/* TAUT_EAGAIN: there is something already, or something ended. */
static taut_status arm_both(struct by_size *both, struct taut_error *err)
{
	taut_status small = arm_half(&both->small, err), large;

	if (small && small != TAUT_EAGAIN)
		return small;
	large = arm_half(&both->large, err);
	if (large)
		return large;
	return small || end_mismatches(both) ? TAUT_EAGAIN : TAUT_OK;
}

/* Who polls the descriptor does not say which of both it told of. */
static taut_status by_size_arm(void *engine, struct taut_error *err)
{
	struct by_size *both = engine;
	taut_status status = arm_both(both, err);

	both->small.due = both->large.due = true;
	return status;
}

static int by_size_fd(void *engine)
{
	return ((struct by_size *)engine)->epoll_fd;
}

static void sleep_on_both(struct by_size *both, int64_t timeout_ns)
{
	struct tauti_engine small = both->small.engine, large = both->large.engine;
	struct pollfd fds[] = { { .fd = small.table->fd(small.context), .events = POLLIN },
		{ .fd = large.table->fd(large.context), .events = POLLIN },
		{ .fd = both->wake_fd, .events = POLLIN } };
	struct timespec timeout = { timeout_ns / 1000000000, timeout_ns % 1000000000 };
	uint64_t count;

	if (ppoll(fds, 3, timeout_ns < 0 ? NULL : &timeout, NULL) <= 0)
		return;
	both->small.due |= fds[0].revents != 0;
	both->large.due |= fds[1].revents != 0;
	if (fds[2].revents)
		(void)!read(both->wake_fd, &count, sizeof count);
}

static taut_status by_size_wait(void *engine, int64_t timeout_ns, struct taut_error *err)
{
	struct by_size *both = engine;
	taut_status status = arm_both(both, err);

	if (status && status != TAUT_EAGAIN)
		return status;
	/* A wake() that came is taken in any case. */
	sleep_on_both(both, status == TAUT_EAGAIN ? 0 : timeout_ns);
	return TAUT_OK;
}

static void by_size_wake(void *engine)
{
	const struct by_size *both = engine;
	uint64_t one = 1;

	while (write(both->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
		;
}

/* --- life -----------------------------------------------------------------------------*/

static void by_size_free(struct by_size *both)
{
	while (both->unused) {
		struct op *op = both->unused;

		both->unused = op->next;
		free(op);
	}
	if (both->epoll_fd >= 0)
		close(both->epoll_fd);
	if (both->wake_fd >= 0)
		close(both->wake_fd);
	free(both);
}

/* The large one first: what it sent may take a while to leave, and a connection of the
 * small one that closes tells that this rank is gone. */
static void by_size_destroy(void *engine)
{
	struct by_size *both = engine;
	struct tauti_engine small = both->small.engine, large = both->large.engine;

	large.table->destroy(large.context);
	small.table->destroy(small.context);
	by_size_free(both);
}

/* No recv_reduce, as the large one has none: a schedule then asks for what comes before
 * it can be reduced. */
static void fill_table(struct by_size *both)
{
	const struct taut_coll_engine *large = both->large.engine.table;

	snprintf(both->name, sizeof both->name, "%s+%s", both->small.engine.table->name,
		large->name);
	both->table = (struct taut_coll_engine){
		.name = both->name,
		.max_message_bytes = large->max_message_bytes,
		.send = by_size_send,
		.recv = by_size_recv,
		.progress = by_size_progress,
		.wait = by_size_wait,
		.wake = by_size_wake,
		.fd = by_size_fd,
		.arm = by_size_arm,
		.arrived = by_size_arrived,
		.destroy = by_size_destroy,
	};
}

static void half_init(struct half *half, struct by_size *both, struct tauti_engine engine)
{
	half->engine = engine;
	half->both = both;
	half->receives.next = half->receives.previous = &half->receives;
	half->due = true;
}

static bool watch(struct by_size *both, struct tauti_engine engine)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(both->epoll_fd, EPOLL_CTL_ADD,
		engine.table->fd(engine.context), &event) == 0;
}

taut_status tauti_by_size_create(size_t most_bytes, struct tauti_engine small,
	struct tauti_engine large, struct tauti_engine *ret_engine,
	struct taut_error *reterr)
{
	struct by_size *both = calloc(1, sizeof *both);

	if (!both)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	both->most_bytes = most_bytes;
	half_init(&both->small, both, small);
	half_init(&both->large, both, large);
	both->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	both->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (both->epoll_fd < 0 || both->wake_fd < 0 || !watch(both, small) ||
		!watch(both, large)) {
		by_size_free(both);
		return taut_error_set(reterr, TAUT_EIO, -1,
			"no descriptor to sleep at, of two engines");
	}
	fill_table(both);
	*ret_engine = (struct tauti_engine){ &both->table, both };
	return TAUT_OK;
}

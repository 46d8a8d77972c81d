/* ucx.c - messages by UCX: TCP, RDMA; whatever it finds, or the user's UCX_*
 * variables ask for. See ucx.h. */
#include "coll/engines/ucx.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOVES_AT_ONCE = 16 };
/* What came before a connection broke may still be on its way by another, and who
 * watches the ranks may say better what has happened. */
static const int64_t doubt_ns = 300000000;

taut_status tauti_ucx_fault(const struct tauti_ucx *ucx, ucs_status_t status,
	const char *what, struct taut_error *err)
{
	return taut_error_set(err, status == UCS_ERR_NO_MEMORY ? TAUT_ENOMEM :
		TAUT_EIO, -1, "UCX: %s: %s", what,
		ucx->call.ucs_status_string(status));
}

/* --- what is under way ----------------------------------------------------------------*/

static struct tauti_ucx_op *op_begin(struct tauti_ucx *ucx,
	struct taut_coll_request *request)
{
	struct tauti_ucx_op *op = ucx->unused ? ucx->unused : malloc(sizeof *op);

	if (!op)
		return NULL;
	if (op == ucx->unused)
		ucx->unused = op->next;
	/* One part more, so that it cannot end before all of it began. */
	*op = (struct tauti_ucx_op){ .ucx = ucx, .request = request, .pending = 1,
		.next = &ucx->under_way, .previous = ucx->under_way.previous };
	op->previous->next = op;
	op->next->previous = op;
	return op;
}

/* It never began: request->done() is not called. */
static void op_forget(struct tauti_ucx_op *op)
{
	op->next->previous = op->previous;
	op->previous->next = op->next;
	op->next = op->ucx->unused;
	op->ucx->unused = op;
}

static void op_end_part(struct tauti_ucx_op *op, taut_status status)
{
	struct taut_coll_request *request = op->request;

	if (op->status == TAUT_OK)
		op->status = status;
	if (--op->pending)
		return;
	status = op->status;
	op_forget(op);
	request->done(request, status);
}

static taut_status status_of(ucs_status_t status)
{
	switch (status) {
	case UCS_OK:
		return TAUT_OK;
	case UCS_ERR_NO_MEMORY:
		return TAUT_ENOMEM;
	case UCS_ERR_MESSAGE_TRUNCATED:
		return TAUT_EMATCH;
	default:
		return TAUT_EIO;
	}
}

/* A part is over; one that UCX could not carry stays, as a fault of all. */
static void settle(struct tauti_ucx_op *op, ucs_status_t status, taut_status said)
{
	if (said != TAUT_EIO || op->ucx->ends)
		op_end_part(op, said);
	else
		op->ucx->failed = status;
}

static void on_sent(void *handle, ucs_status_t status, void *context)
{
	struct tauti_ucx_op *op = context;

	op->ucx->call.ucp_request_free(handle);
	settle(op, status, status_of(status));
}

static void on_received(void *handle, ucs_status_t status,
	const ucp_tag_recv_info_t *info, void *context)
{
	struct tauti_ucx_op *op = context;

	op->handle = NULL;
	op->ucx->call.ucp_request_free(handle);
	if ((status == UCS_OK && info->length != op->bytes) ||
		(status == UCS_ERR_CANCELED && op->withdrawn))
		op_end_part(op, TAUT_EMATCH);
	else
		settle(op, status, status_of(status));
}

/* Called from inside progress: only takes notice. */
void tauti_ucx_on_broken(void *context, ucp_ep_h endpoint, ucs_status_t status)
{
	struct tauti_ucx_peer *peer = context;

	(void)endpoint;
	(void)status;
	peer->gone = true;
	peer->ucx->lost_some = true;
}

static taut_status say_gone(struct taut_error *err, uint32_t rank)
{
	return taut_error_set(err, TAUT_EIO, -1,
		"rank %u is gone: UCX's connection to it broke", rank);
}

/* The first that is gone, or TAUT_NONE. */
static uint32_t first_gone(const struct tauti_ucx *ucx)
{
	for (uint32_t i = 0; i < ucx->n_ranks; i++)
		if (ucx->peers[i].gone)
			return i;
	return TAUT_NONE;
}

/* Whether something cannot go on; then err says why. */
static bool is_stuck(const struct tauti_ucx *ucx, struct taut_error *err)
{
	const struct tauti_ucx_op *op = ucx->under_way.next;
	uint32_t gone = first_gone(ucx);

	for (; op != &ucx->under_way; op = op->next)
		if (op->is_receive && ucx->peers[op->peer].gone) {
			say_gone(err, op->peer);
			return true;
		}
	if (ucx->failed == UCS_OK)
		return false;
	if (gone != TAUT_NONE)
		say_gone(err, gone);
	else
		tauti_ucx_fault(ucx, ucx->failed, "a message was lost", err);
	return true;
}

static void see_lost(struct tauti_ucx *ucx)
{
	struct taut_error why;

	if (ucx->fault.code)
		return;
	if (!is_stuck(ucx, &why)) {
		ucx->lost_some = false;
		ucx->fault_at_ns = 0;
	} else if (!ucx->fault_at_ns) {
		ucx->fault_at_ns = tauti_now_ns() + doubt_ns;
	} else if (tauti_now_ns() >= ucx->fault_at_ns) {
		ucx->fault = why;
	}
}

/* --- the engine -----------------------------------------------------------------------*/

static uint64_t full_tag(uint32_t sender, uint64_t tag)
{
	return (uint64_t)sender << TAUT_COLL_TAG_BITS | tag;
}

/* Begins one part; a fault ends it at once. */
static void send_to(struct tauti_ucx *ucx, struct tauti_ucx_op *op,
	uint32_t to, uint64_t tag, const void *data, size_t bytes)
{
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
			UCP_OP_ATTR_FIELD_USER_DATA,
		.cb.send = on_sent, .user_data = op };
	ucs_status_ptr_t handle;

	op->pending++;
	if (ucx->peers[to].gone) {
		settle(op, UCS_ERR_CONNECTION_RESET, TAUT_EIO);
		return;
	}
	handle = ucx->call.ucp_tag_send_nbx(ucx->peers[to].endpoint, data, bytes,
		full_tag(ucx->rank, tag), &param);
	if (!handle || UCS_PTR_IS_ERR(handle))
		settle(op, UCS_PTR_STATUS(handle),
			status_of(UCS_PTR_STATUS(handle)));
}

static taut_status ucx_send(void *engine, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, size_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct tauti_ucx *ucx = engine;
	struct tauti_ucx_op *op = op_begin(ucx, request);

	if (!op)
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	for (uint32_t i = 0; i < n_peers; i++)
		send_to(ucx, op, peers[i], tag, data, bytes);
	op_end_part(op, TAUT_OK);
	return TAUT_OK;
}

static taut_status ucx_recv(void *engine, uint32_t peer, uint64_t tag,
	void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct tauti_ucx *ucx = engine;
	struct tauti_ucx_op *op = op_begin(ucx, request);
	/* No end before the return: 1.13 then tells no length. */
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
			UCP_OP_ATTR_FIELD_USER_DATA |
			UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
		.cb.recv = on_received, .user_data = op };
	ucs_status_ptr_t handle;

	if (!op)
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	op->is_receive = true;
	op->peer = peer;
	op->bytes = bytes;
	op->pending++;
	handle = ucx->call.ucp_tag_recv_nbx(ucx->worker, data, bytes,
		full_tag(peer, tag), UINT64_MAX, &param);
	if (UCS_PTR_IS_ERR(handle))
		settle(op, UCS_PTR_STATUS(handle),
			status_of(UCS_PTR_STATUS(handle)));
	else if (op->pending == 2) /* else on_received() was called */
		op->handle = handle;
	/* What came before the peer went is still received. */
	if (op->handle && ucx->peers[peer].gone)
		ucx->lost_some = true;
	op_end_part(op, TAUT_OK);
	return TAUT_OK;
}

static taut_status fault_of(const struct tauti_ucx *ucx, struct taut_error *err)
{
	if (ucx->fault.code && err)
		*err = ucx->fault;
	return ucx->fault.code;
}

static bool move(struct tauti_ucx *ucx)
{
	bool moved = false;

	for (int i = 0; i < MOVES_AT_ONCE; i++) {
		if (!ucx->call.ucp_worker_progress(ucx->worker))
			break;
		moved = true;
	}
	if (ucx->lost_some || ucx->failed != UCS_OK)
		see_lost(ucx);
	return moved;
}

static taut_status ucx_progress(void *engine, struct taut_error *err)
{
	struct tauti_ucx *ucx = engine;

	move(ucx);
	return fault_of(ucx, err);
}

/* UCX tells its descriptor only of what comes after all else was moved. */
static taut_status arm(struct tauti_ucx *ucx, struct taut_error *err)
{
	ucs_status_t status;

	if (move(ucx))
		return TAUT_EAGAIN;
	if (ucx->fault.code)
		return fault_of(ucx, err);
	status = ucx->call.ucp_worker_arm(ucx->worker);
	if (status == UCS_ERR_BUSY)
		return TAUT_EAGAIN;
	return status == UCS_OK ? TAUT_OK :
		tauti_ucx_fault(ucx, status, "cannot sleep", err);
}

/* Where there is doubt there is no sleep: a descriptor cannot tell its end. */
static taut_status ucx_arm(void *engine, struct taut_error *err)
{
	struct tauti_ucx *ucx = engine;
	taut_status status = arm(ucx, err);

	return status == TAUT_OK && ucx->fault_at_ns ? TAUT_EAGAIN : status;
}

static int ucx_fd(void *engine)
{
	struct tauti_ucx *ucx = engine;

	return ucx->event_fd;
}

/* Of a timeout, < 0 for none, and what is left until another time. */
static int64_t earlier(int64_t timeout_ns, int64_t left_ns)
{
	if (left_ns < 0)
		left_ns = 0;
	return timeout_ns < 0 || left_ns < timeout_ns ? left_ns : timeout_ns;
}

static taut_status ucx_wait(void *engine, int64_t timeout_ns,
	struct taut_error *err)
{
	struct tauti_ucx *ucx = engine;
	struct pollfd fds[] = { { .fd = ucx->event_fd, .events = POLLIN },
		{ .fd = ucx->wake_fd, .events = POLLIN } };
	taut_status status = arm(ucx, err);
	struct timespec timeout;
	uint64_t count;

	if (status == TAUT_EAGAIN)
		timeout_ns = 0;
	else if (status != TAUT_OK)
		return status;
	if (ucx->fault_at_ns)
		timeout_ns = earlier(timeout_ns, ucx->fault_at_ns - tauti_now_ns());
	if (timeout_ns) {
		timeout.tv_sec = timeout_ns / 1000000000;
		timeout.tv_nsec = timeout_ns % 1000000000;
		ppoll(fds, 2, timeout_ns < 0 ? NULL : &timeout, NULL);
	}
	(void)!read(ucx->wake_fd, &count, sizeof count);
	return TAUT_OK;
}

static void ucx_wake(void *engine)
{
	struct tauti_ucx *ucx = engine;
	uint64_t one = 1;

	while (write(ucx->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
		;
}

static bool ucx_arrived(void *engine, uint64_t tag, uint64_t mask)
{
	struct tauti_ucx *ucx = engine;
	ucp_tag_recv_info_t info;

	return ucx->call.ucp_tag_probe_nb(ucx->worker, tag,
		mask & (((uint64_t)1 << TAUT_COLL_TAG_BITS) - 1), 0, &info);
}

static void do_nothing(struct taut_coll_request *request, taut_status status)
{
	(void)request;
	(void)status;
}

/* Received into no bytes, which ends it and its sender's part. */
static bool ucx_discard(void *engine, uint32_t peer, uint64_t tag)
{
	struct tauti_ucx *ucx = engine;
	ucp_tag_recv_info_t info;

	if (!ucx->call.ucp_tag_probe_nb(ucx->worker, full_tag(peer, tag), UINT64_MAX,
		0, &info))
		return false;
	ucx->nobody.done = do_nothing;
	return !ucx_recv(ucx, peer, tag, NULL, 0, &ucx->nobody, NULL);
}

static void ucx_withdraw(void *engine, struct taut_coll_request *request)
{
	struct tauti_ucx *ucx = engine;
	struct tauti_ucx_op *op = ucx->under_way.next;

	while (op != &ucx->under_way && op->request != request)
		op = op->next;
	if (op == &ucx->under_way || !op->handle)
		return;
	op->withdrawn = true; /* one that UCX does not cancel ends by itself */
	ucx->call.ucp_request_cancel(ucx->worker, op->handle);
}

void tauti_ucx_end_rest(struct tauti_ucx *ucx)
{
	while (ucx->under_way.next != &ucx->under_way) {
		ucx->under_way.next->pending = 1;
		op_end_part(ucx->under_way.next, TAUT_EIO);
	}
	while (ucx->unused) {
		struct tauti_ucx_op *op = ucx->unused;

		ucx->unused = op->next;
		free(op);
	}
}

const struct taut_coll_engine tauti_ucx_engine = {
	.name = "ucx",
	.send = ucx_send,
	.recv = ucx_recv,
	.progress = ucx_progress,
	.wait = ucx_wait,
	.wake = ucx_wake,
	.fd = ucx_fd,
	.arm = ucx_arm,
	.arrived = ucx_arrived,
	.discard = ucx_discard,
	.withdraw = ucx_withdraw,
	.destroy = tauti_ucx_destroy,
};


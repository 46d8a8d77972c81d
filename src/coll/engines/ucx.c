/* ucx.c - messages by UCX: TCP, RDMA, the memory of a host; whatever it finds,
 * or the user's UCX_* variables ask for.
 *
 * A tag of UCX is the sender (16 bits) and the tag (48). Each rank has an endpoint
 * to each other; UCX tells of one that broke. Where something is under way with
 * that rank, progress() names it a little later, and what cannot go on ends with
 * destroy(). A rank that nothing is under way with may go: it has finished. */
#include "coll/engines/ucx_load.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "coll/coll.h"

enum { MOVES_AT_ONCE = 16 };
static const int64_t close_ns = 2000000000; /* for what was sent to leave */
/* What came before a connection broke may still be on its way by another, and who
 * watches the ranks may say better what has happened. */
static const int64_t doubt_ns = 300000000;

struct ucx;

/* One request: a receive, or the sends of one message to several. */
struct op {
	struct op *next, *previous; /* of those under way; next: of those unused */
	struct ucx *ucx;
	struct taut_coll_request *request;
	void *handle;      /* of a receive, to be cancelled by */
	size_t bytes;      /* of a receive */
	uint32_t peer;     /* of a receive */
	uint32_t pending;  /* parts that have not ended */
	taut_status status;
	bool is_receive;
};

struct peer {
	ucp_ep_h endpoint;
	struct ucx *ucx;
	bool gone;
};

struct ucx {
	struct tauti_ucx_calls call;
	ucp_context_h context;
	ucp_worker_h worker;
	struct peer *peers;
	uint32_t rank, n_ranks;
	int event_fd; /* UCX's own */
	int wake_fd;
	struct op under_way; /* a ring */
	struct op *unused;
	bool lost_some;      /* one is gone, and it is yet to be seen what with it */
	ucs_status_t failed; /* why a message did not go; UCS_OK: none */
	int64_t fault_at_ns; /* when that becomes a fault; 0: there is none */
	bool ends;           /* in destroy() */
	struct taut_error fault;
};

static taut_status fail_status(const struct ucx *ucx, ucs_status_t status,
	const char *what, struct taut_error *err)
{
	return taut_error_set(err, status == UCS_ERR_NO_MEMORY ? TAUT_ENOMEM :
		TAUT_EIO, -1, "UCX: %s: %s", what,
		ucx->call.ucs_status_string(status));
}

/* --- what is under way ----------------------------------------------------------------*/

static struct op *op_begin(struct ucx *ucx, struct taut_coll_request *request)
{
	struct op *op = ucx->unused ? ucx->unused : malloc(sizeof *op);

	if (!op)
		return NULL;
	if (op == ucx->unused)
		ucx->unused = op->next;
	/* One part more, so that it cannot end before all of it began. */
	*op = (struct op){ .ucx = ucx, .request = request, .pending = 1,
		.next = &ucx->under_way, .previous = ucx->under_way.previous };
	op->previous->next = op;
	op->next->previous = op;
	return op;
}

/* It never began: request->done() is not called. */
static void op_forget(struct op *op)
{
	op->next->previous = op->previous;
	op->previous->next = op->next;
	op->next = op->ucx->unused;
	op->ucx->unused = op;
}

static void op_end_part(struct op *op, taut_status status)
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
static void settle(struct op *op, ucs_status_t status, taut_status said)
{
	if (said != TAUT_EIO || op->ucx->ends)
		op_end_part(op, said);
	else
		op->ucx->failed = status;
}

static void on_sent(void *handle, ucs_status_t status, void *context)
{
	struct op *op = context;

	op->ucx->call.ucp_request_free(handle);
	settle(op, status, status_of(status));
}

static void on_received(void *handle, ucs_status_t status,
	const ucp_tag_recv_info_t *info, void *context)
{
	struct op *op = context;

	op->handle = NULL;
	op->ucx->call.ucp_request_free(handle);
	if (status == UCS_OK && info->length != op->bytes)
		op_end_part(op, TAUT_EMATCH);
	else
		settle(op, status, status_of(status));
}

/* Called from inside progress: only takes notice. */
static void on_broken(void *context, ucp_ep_h endpoint, ucs_status_t status)
{
	struct peer *peer = context;

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
static uint32_t first_gone(const struct ucx *ucx)
{
	for (uint32_t i = 0; i < ucx->n_ranks; i++)
		if (ucx->peers[i].gone)
			return i;
	return TAUT_NONE;
}

/* Whether something cannot go on; then err says why. */
static bool is_stuck(const struct ucx *ucx, struct taut_error *err)
{
	const struct op *op = ucx->under_way.next;
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
		fail_status(ucx, ucx->failed, "a message was lost", err);
	return true;
}

static int64_t now_ns(void)
{
	struct taut_clock clock = taut_clock_monotonic();

	return clock.now_ns(clock.state);
}

static void see_lost(struct ucx *ucx)
{
	struct taut_error why;

	if (ucx->fault.code)
		return;
	if (!is_stuck(ucx, &why)) {
		ucx->lost_some = false;
		ucx->fault_at_ns = 0;
	} else if (!ucx->fault_at_ns) {
		ucx->fault_at_ns = now_ns() + doubt_ns;
	} else if (now_ns() >= ucx->fault_at_ns) {
		ucx->fault = why;
	}
}

/* --- the engine -----------------------------------------------------------------------*/

static uint64_t full_tag(uint32_t sender, uint64_t tag)
{
	return (uint64_t)sender << TAUT_COLL_TAG_BITS | tag;
}

/* Begins one part; a fault ends it at once. */
static void send_to(struct ucx *ucx, struct op *op, uint32_t to, uint64_t tag,
	const void *data, size_t bytes)
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
	struct ucx *ucx = engine;
	struct op *op = op_begin(ucx, request);

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
	struct ucx *ucx = engine;
	struct op *op = op_begin(ucx, request);
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

static taut_status fault_of(const struct ucx *ucx, struct taut_error *err)
{
	if (ucx->fault.code && err)
		*err = ucx->fault;
	return ucx->fault.code;
}

static bool move(struct ucx *ucx)
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
	struct ucx *ucx = engine;

	move(ucx);
	return fault_of(ucx, err);
}

/* UCX tells its descriptor only of what comes after all else was moved. */
static taut_status arm(struct ucx *ucx, struct taut_error *err)
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
		fail_status(ucx, status, "cannot sleep", err);
}

/* Where there is doubt there is no sleep: a descriptor cannot tell its end. */
static taut_status ucx_arm(void *engine, struct taut_error *err)
{
	struct ucx *ucx = engine;
	taut_status status = arm(ucx, err);

	return status == TAUT_OK && ucx->fault_at_ns ? TAUT_EAGAIN : status;
}

static int ucx_fd(void *engine)
{
	struct ucx *ucx = engine;

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
	struct ucx *ucx = engine;
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
		timeout_ns = earlier(timeout_ns, ucx->fault_at_ns - now_ns());
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
	struct ucx *ucx = engine;
	uint64_t one = 1;

	while (write(ucx->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
		;
}

static bool ucx_arrived(void *engine, uint64_t tag, uint64_t mask)
{
	struct ucx *ucx = engine;
	ucp_tag_recv_info_t info;

	return ucx->call.ucp_tag_probe_nb(ucx->worker, tag,
		mask & (((uint64_t)1 << TAUT_COLL_TAG_BITS) - 1), 0, &info);
}

/* --- the end --------------------------------------------------------------------------*/

/* Begins to close one endpoint; NULL: it is closed. */
static void *close_one(struct ucx *ucx, struct peer *peer, uint32_t flags)
{
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
		.flags = peer->gone ? UCP_EP_CLOSE_FLAG_FORCE : flags };
	ucs_status_ptr_t handle;

	if (!peer->endpoint)
		return NULL;
	handle = ucx->call.ucp_ep_close_nbx(peer->endpoint, &param);
	peer->endpoint = NULL;
	return UCS_PTR_IS_ERR(handle) ? NULL : handle;
}

/* A send has ended when its bytes were taken, not when they have left: the
 * endpoints are closed one and all, and what is in them flows out meanwhile. */
static void close_all(struct ucx *ucx, uint32_t flags)
{
	int64_t until_ns = now_ns() + close_ns;
	void **handles = calloc(ucx->n_ranks, sizeof *handles);
	uint32_t left = 0;

	for (uint32_t i = 0; i < ucx->n_ranks; i++) {
		void *handle = close_one(ucx, &ucx->peers[i],
			handles ? flags : UCP_EP_CLOSE_FLAG_FORCE);

		if (handle && handles)
			handles[left++] = handle;
		else if (handle)
			ucx->call.ucp_request_free(handle);
	}
	while (left && now_ns() < until_ns) {
		ucx->call.ucp_worker_progress(ucx->worker);
		while (left && ucx->call.ucp_request_check_status(
			handles[left - 1]) != UCS_INPROGRESS)
			ucx->call.ucp_request_free(handles[--left]);
	}
	while (left)
		ucx->call.ucp_request_free(handles[--left]);
	free(handles);
}

static void end_receives(struct ucx *ucx)
{
	struct op *op, *next;

	for (op = ucx->under_way.next; op != &ucx->under_way; op = next) {
		next = op->next;
		if (op->handle)
			ucx->call.ucp_request_cancel(ucx->worker, op->handle);
	}
}

/* What UCX did not end, when it is no more. */
static void end_rest(struct ucx *ucx)
{
	while (ucx->under_way.next != &ucx->under_way) {
		ucx->under_way.next->pending = 1;
		op_end_part(ucx->under_way.next, TAUT_EIO);
	}
	while (ucx->unused) {
		struct op *op = ucx->unused;

		ucx->unused = op->next;
		free(op);
	}
}

static void ucx_destroy(void *engine)
{
	struct ucx *ucx = engine;
	bool in_peace = ucx->under_way.next == &ucx->under_way &&
		!ucx->fault.code;

	ucx->ends = true;
	if (ucx->worker) {
		end_receives(ucx);
		close_all(ucx, in_peace ? 0 : UCP_EP_CLOSE_FLAG_FORCE);
		ucx->call.ucp_worker_destroy(ucx->worker);
	}
	end_rest(ucx);
	if (ucx->context)
		ucx->call.ucp_cleanup(ucx->context);
	if (ucx->wake_fd >= 0)
		close(ucx->wake_fd);
	tauti_ucx_unload(&ucx->call);
	free(ucx->peers);
	free(ucx);
}

static const struct taut_coll_engine ucx_engine = {
	.name = "ucx",
	.send = ucx_send,
	.recv = ucx_recv,
	.progress = ucx_progress,
	.wait = ucx_wait,
	.wake = ucx_wake,
	.fd = ucx_fd,
	.arm = ucx_arm,
	.arrived = ucx_arrived,
	.destroy = ucx_destroy,
};

/* --- the beginning --------------------------------------------------------------------*/

static taut_status start_context(struct ucx *ucx, struct taut_error *reterr)
{
	const ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES |
			UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
		.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
		.estimated_num_eps = ucx->n_ranks };
	ucp_config_t *config = NULL;
	ucs_status_t status = ucx->call.ucp_config_read(NULL, NULL, &config);

	if (status != UCS_OK)
		return fail_status(ucx, status, "its UCX_ variables", reterr);
	status = ucx->call.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR,
		&params, config, &ucx->context);
	ucx->call.ucp_config_release(config);
	if (status != UCS_OK) {
		ucx->context = NULL;
		return fail_status(ucx, status, "cannot begin", reterr);
	}
	return TAUT_OK;
}

static taut_status start_worker(struct ucx *ucx, struct taut_error *reterr)
{
	const ucp_worker_params_t params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SERIALIZED };
	ucs_status_t status = ucx->call.ucp_worker_create(ucx->context, &params,
		&ucx->worker);

	if (status != UCS_OK) {
		ucx->worker = NULL;
		return fail_status(ucx, status, "no worker", reterr);
	}
	status = ucx->call.ucp_worker_get_efd(ucx->worker, &ucx->event_fd);
	if (status != UCS_OK)
		return fail_status(ucx, status, "no descriptor to sleep at",
			reterr);
	ucx->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return ucx->wake_fd >= 0 ? TAUT_OK : taut_error_set(reterr, TAUT_EIO,
		-1, "no eventfd: %s", strerror(errno));
}

/* All addresses, of *ret_bytes each. */
static taut_status exchange(struct ucx *ucx, struct tauti_meet *meet,
	const void *mine, uint32_t bytes, uint8_t **ret_all, size_t *ret_bytes,
	struct taut_error *reterr)
{
	uint32_t *sizes = calloc(ucx->n_ranks, sizeof *sizes), most = 0;
	uint8_t *all = NULL, *padded = NULL;
	taut_status status = TAUT_ENOMEM;

	if (sizes)
		status = tauti_meet_gather(meet, &bytes, sizeof bytes, sizes,
			reterr);
	else
		taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	for (uint32_t i = 0; i < ucx->n_ranks && status == TAUT_OK; i++)
		most = sizes[i] > most ? sizes[i] : most;
	free(sizes);
	if (status != TAUT_OK)
		return status;
	all = calloc(ucx->n_ranks, most);
	padded = calloc(1, most);
	if (all && padded) {
		memcpy(padded, mine, bytes);
		status = tauti_meet_gather(meet, padded, most, all, reterr);
	} else {
		status = taut_error_set(reterr, TAUT_ENOMEM, -1,
			"out of memory");
	}
	free(padded);
	if (status != TAUT_OK) {
		free(all);
		return status;
	}
	*ret_all = all;
	*ret_bytes = most;
	return TAUT_OK;
}

static taut_status connect_all(struct ucx *ucx, const uint8_t *addresses,
	size_t bytes, struct taut_error *reterr)
{
	for (uint32_t i = 0; i < ucx->n_ranks; i++) {
		struct peer *peer = &ucx->peers[i];
		const ucp_ep_params_t params = {
			.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
				UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
				UCP_EP_PARAM_FIELD_ERR_HANDLER,
			.address = (const void *)(addresses + i * bytes),
			.err_mode = UCP_ERR_HANDLING_MODE_PEER,
			.err_handler = { on_broken, peer } };
		ucs_status_t status;

		peer->ucx = ucx;
		if (i == ucx->rank)
			continue;
		status = ucx->call.ucp_ep_create(ucx->worker, &params,
			&peer->endpoint);
		if (status == UCS_OK)
			continue;
		peer->endpoint = NULL;
		return taut_error_set(reterr, TAUT_EIO, -1,
			"UCX: no way to rank %u: %s%s", i,
			ucx->call.ucs_status_string(status),
			getenv("UCX_TLS") ? " (UCX_TLS must leave it one that "
			"tells of lost peers, as tcp)" : "");
	}
	return TAUT_OK;
}

static taut_status start_peers(struct ucx *ucx, struct tauti_meet *meet,
	struct taut_error *reterr)
{
	ucp_address_t *mine = NULL;
	uint8_t *all = NULL;
	size_t bytes = 0;
	taut_status status;
	ucs_status_t got = ucx->call.ucp_worker_get_address(ucx->worker, &mine,
		&bytes);

	if (got != UCS_OK)
		return fail_status(ucx, got, "no address", reterr);
	status = exchange(ucx, meet, mine, (uint32_t)bytes, &all, &bytes, reterr);
	ucx->call.ucp_worker_release_address(ucx->worker, mine);
	if (status == TAUT_OK)
		status = connect_all(ucx, all, bytes, reterr);
	free(all);
	return status;
}

taut_status tauti_ucx_create(struct tauti_meet *meet, uint32_t rank,
	uint32_t n_ranks, struct tauti_engine *ret_engine,
	struct taut_error *reterr)
{
	struct ucx *ucx = calloc(1, sizeof *ucx);
	taut_status status;

	if (!ucx)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	ucx->rank = rank;
	ucx->n_ranks = n_ranks;
	ucx->wake_fd = -1;
	ucx->under_way.next = ucx->under_way.previous = &ucx->under_way;
	ucx->peers = calloc(n_ranks, sizeof *ucx->peers);
	status = ucx->peers ? tauti_ucx_load("libucp.so.0", &ucx->call, reterr) :
		taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	if (status == TAUT_OK)
		status = start_context(ucx, reterr);
	if (status == TAUT_OK)
		status = start_worker(ucx, reterr);
	if (status == TAUT_OK)
		status = start_peers(ucx, meet, reterr);
	if (status != TAUT_OK) {
		ucx_destroy(ucx);
		return status;
	}
	*ret_engine = (struct tauti_engine){ &ucx_engine, ucx };
	return TAUT_OK;
}

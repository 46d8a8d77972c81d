/* ucx_open.c - the engine over UCX, its beginning and its end; see ucx.h. */
#include "coll/engines/ucx.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const int64_t close_ns = 2000000000; /* for what was sent to leave */

/* --- the end --------------------------------------------------------------------------*/

/* Begins to close one endpoint; NULL: it is closed. */
static void *close_one(struct tauti_ucx *ucx, struct tauti_ucx_peer *peer,
	uint32_t flags)
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
static void close_all(struct tauti_ucx *ucx, uint32_t flags)
{
	int64_t until_ns = tauti_now_ns() + close_ns;
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
	while (left && tauti_now_ns() < until_ns) {
		if (!ucx->call.ucp_worker_progress(ucx->worker))
			poll(NULL, 0, 1);
		while (left && ucx->call.ucp_request_check_status(
			handles[left - 1]) != UCS_INPROGRESS)
			ucx->call.ucp_request_free(handles[--left]);
	}
	while (left)
		ucx->call.ucp_request_free(handles[--left]);
	free(handles);
}

static void end_receives(struct tauti_ucx *ucx)
{
	struct tauti_ucx_op *op, *next;

	for (op = ucx->under_way.next; op != &ucx->under_way; op = next) {
		next = op->next;
		if (op->handle)
			ucx->call.ucp_request_cancel(ucx->worker, op->handle);
	}
}

/* All that its context is the beginning of. */
static void stop(struct tauti_ucx *ucx)
{
	bool in_peace = ucx->under_way.next == &ucx->under_way &&
		!ucx->fault.code;

	ucx->ends = true;
	if (ucx->worker) {
		end_receives(ucx);
		close_all(ucx, in_peace ? 0 : UCP_EP_CLOSE_FLAG_FORCE);
		ucx->call.ucp_worker_destroy(ucx->worker);
	}
	tauti_ucx_end_rest(ucx);
	if (ucx->context)
		ucx->call.ucp_cleanup(ucx->context);
	if (ucx->wake_fd >= 0)
		close(ucx->wake_fd);
	free(ucx->greetings);
}

void tauti_ucx_destroy(void *engine)
{
	struct tauti_ucx *ucx = engine;

	stop(ucx);
	tauti_ucx_unload(&ucx->call);
	free(ucx->peers);
	free(ucx);
}

/* --- the beginning --------------------------------------------------------------------*/

bool tauti_has_rdma(void)
{
	DIR *devices = opendir("/sys/class/infiniband");
	const struct dirent *entry = NULL;

	while (devices && (entry = readdir(devices)) && entry->d_name[0] == '.')
		;
	if (devices)
		closedir(devices);
	return entry != NULL;
}

/* Over TCP alone, messages of any length go at once. Before a long one UCX would ask
 * its receiver first; question, answer and receipt stand behind all that is under
 * way in both directions, and the link is idle meanwhile. What that is to save is
 * a copy where nobody has asked for the message yet, and who receives asks early. */
static void send_at_once(struct tauti_ucx *ucx, ucp_config_t *config)
{
	if (!getenv("UCX_RNDV_THRESH") && !tauti_has_rdma())
		(void)ucx->call.ucp_config_modify(
			config, "RNDV_THRESH", "inf");
}

/* What UCX's TCP hands to the system, and takes from it, in one call. Its own 8 and 64 KiB
 * cost a third of the rate where a core, and not the link, is the limit. Each connection
 * has one of the latter, so many connections have it as it was. Names are without their
 * prefix; UCX warns of one that no transport knows, so it is asked only where TCP is. */
static void take_more_at_once(struct tauti_ucx *ucx, ucp_config_t *config)
{
	enum { MOST_RANKS = 64 };
	const char *transports = getenv("UCX_TLS");

	if (ucx->n_ranks > MOST_RANKS || tauti_has_rdma() ||
		(transports && !strstr(transports, "tcp")))
		return;
	if (!getenv("UCX_TCP_TX_SEG_SIZE"))
		(void)ucx->call.ucp_config_modify(config, "TX_SEG_SIZE", "64k");
	if (!getenv("UCX_TCP_RX_SEG_SIZE"))
		(void)ucx->call.ucp_config_modify(config, "RX_SEG_SIZE", "256k");
}

/* UCX's own shared memory tells of no lost peers, so no message goes by it; but each
 * worker would take 4 MiB of /dev/shm for it, and as much of System V's. The version
 * before 1.11 takes a list of transports, and none of those to be left out. */
static void leave_out_shared(struct tauti_ucx *ucx, ucp_config_t *config)
{
	unsigned major, minor, release;

	ucx->call.ucp_get_version(&major, &minor, &release);
	if (!getenv("UCX_TLS") && (major > 1 || minor > 10))
		(void)ucx->call.ucp_config_modify(
			config, "TLS", "^posix,sysv");
}

/* UCX reads what devices there are as its context begins, and takes the fastest. */
static void choose_devices(struct tauti_ucx *ucx, ucp_config_t *config)
{
	if (ucx->devices[0])
		(void)ucx->call.ucp_config_modify(
			config, "NET_DEVICES", ucx->devices);
}

static taut_status start_context(struct tauti_ucx *ucx, struct taut_error *reterr)
{
	const ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES |
			UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
		.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
		.estimated_num_eps = ucx->n_ranks };
	ucp_config_t *config = NULL;
	ucs_status_t status = ucx->call.ucp_config_read(NULL, NULL, &config);

	if (status != UCS_OK)
		return tauti_ucx_fault(ucx, status, "its UCX_ variables", reterr);
	send_at_once(ucx, config);
	take_more_at_once(ucx, config);
	leave_out_shared(ucx, config);
	choose_devices(ucx, config);
	status = ucx->call.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR,
		&params, config, &ucx->context);
	ucx->call.ucp_config_release(config);
	if (status != UCS_OK) {
		ucx->context = NULL;
		return tauti_ucx_fault(ucx, status, "cannot begin", reterr);
	}
	return TAUT_OK;
}

static taut_status start_worker(struct tauti_ucx *ucx, struct taut_error *reterr)
{
	const ucp_worker_params_t params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SERIALIZED };
	ucs_status_t status = ucx->call.ucp_worker_create(ucx->context, &params,
		&ucx->worker);

	if (status != UCS_OK) {
		ucx->worker = NULL;
		return tauti_ucx_fault(ucx, status, "no worker", reterr);
	}
	status = ucx->call.ucp_worker_get_efd(ucx->worker, &ucx->event_fd);
	if (status != UCS_OK)
		return tauti_ucx_fault(ucx, status, "no descriptor to sleep at",
			reterr);
	ucx->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return ucx->wake_fd >= 0 ? TAUT_OK : taut_error_set(reterr, TAUT_EIO,
		-1, "no eventfd: %s", strerror(errno));
}

static taut_status start(struct tauti_ucx *ucx, struct taut_error *reterr)
{
	taut_status status = start_context(ucx, reterr);

	return status ? status : start_worker(ucx, reterr);
}

static void set_out(struct tauti_ucx *ucx)
{
	for (uint32_t i = 0; i < ucx->n_ranks; i++)
		ucx->peers[i] = (struct tauti_ucx_peer){ .endpoint = NULL };
	ucx->context = NULL;
	ucx->worker = NULL;
	ucx->greetings = NULL;
	ucx->wake_fd = -1;
	ucx->under_way.next = ucx->under_way.previous = &ucx->under_way;
	ucx->lost_some = ucx->ends = false;
	ucx->failed = UCS_OK;
	ucx->fault_at_ns = 0;
	ucx->fault.code = TAUT_OK;
}

taut_status tauti_ucx_open(uint32_t n_ranks, struct tauti_ucx **ret_ucx,
	struct taut_error *reterr)
{
	struct tauti_ucx *ucx = calloc(1, sizeof *ucx);
	taut_status status;

	if (!ucx)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	ucx->peers = calloc(n_ranks, sizeof *ucx->peers);
	if (!ucx->peers) {
		free(ucx);
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	}
	ucx->n_ranks = n_ranks;
	set_out(ucx);
	status = tauti_ucx_load("libucp.so.0", &ucx->call, reterr);
	if (status == TAUT_OK)
		status = start(ucx, reterr);
	if (status != TAUT_OK) {
		tauti_ucx_destroy(ucx);
		return status;
	}
	*ret_ucx = ucx;
	return TAUT_OK;
}

/* --- another try ----------------------------------------------------------------------*/

enum { TRIES = 3 };
static const int64_t pause_ns = 100000000; /* for a device that is going to be gone */

/* A device that came and went while ranks told each other their addresses leaves
 * one that nobody can reach. Where it is TCP, and the user did not choose, what has
 * brought the ranks together is a way that works. */
static void prefer_devices_of(
	struct tauti_ucx *ucx, const struct tauti_meet *meet)
{
	if (tauti_has_rdma() || getenv("UCX_NET_DEVICES") || !tauti_meet_devices(
		meet, ucx->devices, sizeof ucx->devices))
		ucx->devices[0] = '\0';
}

static taut_status begin_anew(struct tauti_ucx *ucx,
	const struct tauti_meet *meet, struct taut_error *reterr)
{
	taut_status status;

	ucx->fault.code = TAUT_EIO; /* nothing that was begun is waited for */
	stop(ucx);
	set_out(ucx);
	poll(NULL, 0, pause_ns / 1000000);
	prefer_devices_of(ucx, meet);
	status = start(ucx, reterr);
	if (status != TAUT_EIO || !ucx->devices[0])
		return status;
	stop(ucx);
	set_out(ucx);
	ucx->devices[0] = '\0';
	return start(ucx, reterr);
}

taut_status tauti_ucx_meet(struct tauti_ucx *ucx, struct tauti_meet *meet,
	uint32_t rank, struct tauti_engine *ret_engine,
	struct taut_error *reterr)
{
	taut_status status;
	bool again;

	ucx->rank = rank;
	status = tauti_ucx_connect(ucx, meet, &again, reterr);
	for (int tries = 1; status && again && tries < TRIES; tries++) {
		status = begin_anew(ucx, meet, reterr);
		again = false;
		if (status == TAUT_OK)
			status = tauti_ucx_connect(ucx, meet, &again, reterr);
	}
	if (status != TAUT_OK) {
		ucx->fault.code = status;
		tauti_ucx_destroy(ucx);
		return status;
	}
	*ret_engine = (struct tauti_engine){ &tauti_ucx_engine, ucx };
	return TAUT_OK;
}

taut_status tauti_ucx_create(struct tauti_meet *meet, uint32_t rank,
	uint32_t n_ranks, struct tauti_engine *ret_engine,
	struct taut_error *reterr)
{
	struct tauti_ucx *ucx;
	taut_status status = tauti_ucx_open(n_ranks, &ucx, reterr);

	return status ? status :
		tauti_ucx_meet(ucx, meet, rank, ret_engine, reterr);
}

/* ucx_load.h - UCX, looked for at run time: a table of what is called.
 *
 * A library that is loaded into other people's processes must not change them.
 * UCX does, as it is loaded: it takes SIGHUP, SIGSEGV and others for itself, and
 * it prints. The signals go back to who had them. What it prints is turned off
 * where we brought it into the process, and the user set no UCX_LOG_LEVEL. */
#ifndef TAUT_COLL_UCX_LOAD_H
#define TAUT_COLL_UCX_LOAD_H

#include <ucp/api/ucp.h>

#include <taut/base.h>

#define TAUTI_UCX_CALLS(X) \
	X(ucp_get_version) \
	X(ucp_config_read) \
	X(ucp_config_modify) \
	X(ucp_config_release) \
	X(ucp_init_version) \
	X(ucp_cleanup) \
	X(ucp_worker_create) \
	X(ucp_worker_destroy) \
	X(ucp_worker_get_address) \
	X(ucp_worker_release_address) \
	X(ucp_worker_get_efd) \
	X(ucp_worker_arm) \
	X(ucp_worker_progress) \
	X(ucp_ep_create) \
	X(ucp_ep_close_nbx) \
	X(ucp_tag_send_nbx) \
	X(ucp_tag_recv_nbx) \
	X(ucp_tag_probe_nb) \
	X(ucp_request_cancel) \
	X(ucp_request_check_status) \
	X(ucp_request_free) \
	X(ucs_status_string)

struct tauti_ucx_calls {
	void *library; /* for dlclose() */
#define TAUTI_UCX_FIELD(name) __typeof__(&name) name;
	TAUTI_UCX_CALLS(TAUTI_UCX_FIELD)
#undef TAUTI_UCX_FIELD
};

/* TAUT_EIO: it is not there, or too old. */
TAUT_NODISCARD taut_status tauti_ucx_load(const char *name,
	struct tauti_ucx_calls *ret_calls, struct taut_error *reterr);
void tauti_ucx_unload(struct tauti_ucx_calls *calls);

#endif /* TAUT_COLL_UCX_LOAD_H */

/* ucx.h - what the files of the engine over UCX share.
 *
 *     ucx_load.c     the library
 *     ucx.c          messages: what is under way, what is lost, sleep
 *     ucx_open.c     its beginning and its end
 *     ucx_connect.c  connections between all ranks
 *
 * A tag of UCX is the sender (16 bits) and the tag (48). Each rank has an endpoint
 * to each other; UCX tells of one that broke. Where something is under way with
 * that rank, progress() names it a little later, and what cannot go on ends with
 * destroy(). A rank that nothing is under way with may go: it has finished. */
#ifndef TAUT_COLL_UCX_H
#define TAUT_COLL_UCX_H

#include "base/now.h"
#include "coll/coll.h"
#include "coll/engines/ucx_load.h"

/* One request: a receive, or the sends of one message to several. */
struct tauti_ucx_op {
	struct tauti_ucx_op *next, *previous; /* of those under way; unused:
	                                         next alone */
	struct tauti_ucx *ucx;
	struct taut_coll_request *request;
	void *handle;      /* of a receive, to be cancelled by */
	size_t bytes;      /* of a receive */
	uint32_t peer;     /* of a receive */
	uint32_t pending;  /* parts that have not ended */
	taut_status status;
	bool is_receive;
	bool withdrawn;
};

struct tauti_ucx_peer {
	ucp_ep_h endpoint; /* NULL: none (yet) */
	struct tauti_ucx *ucx;
	bool gone;
};

struct tauti_ucx {
	struct tauti_ucx_calls call;
	ucp_context_h context;
	ucp_worker_h worker;
	struct tauti_ucx_peer *peers;
	struct tauti_ucx_greeting *greetings; /* by rank, while they connect */
	char devices[256]; /* of the network, that it may use; "": all */
	uint32_t rank, n_ranks;
	int event_fd; /* UCX's own */
	int wake_fd;
	struct tauti_ucx_op under_way; /* a ring */
	struct tauti_ucx_op *unused;
	bool lost_some;      /* one is gone, and it is yet to be seen what with it */
	ucs_status_t failed; /* why a message did not go; UCS_OK: none */
	int64_t fault_at_ns; /* when that becomes a fault; 0: there is none */
	bool ends;           /* in destroy() */
	struct taut_coll_request nobody; /* whose what is discarded is */
	struct taut_error fault;
};

extern const struct taut_coll_engine tauti_ucx_engine; /* of a struct tauti_ucx */

/* Fills err with what UCX says; TAUT_ENOMEM or TAUT_EIO. */
taut_status tauti_ucx_fault(const struct tauti_ucx *ucx, ucs_status_t status,
	const char *what, struct taut_error *err);
/* The error handler of an endpoint; context: its peer. */
void tauti_ucx_on_broken(void *context, ucp_ep_h endpoint, ucs_status_t status);
/* Connects this rank with all others. All ranks call it, and end alike; when it
 * returns TAUT_OK all connections stand, and nothing is under way. *ret_again: a
 * rank found no way to another, and all may begin anew. */
TAUT_NODISCARD taut_status tauti_ucx_connect(struct tauti_ucx *ucx,
	struct tauti_meet *meet, bool *ret_again, struct taut_error *reterr);
/* Ends what UCX did not, when it is no more, and gives the memory back. */
void tauti_ucx_end_rest(struct tauti_ucx *ucx);

#endif /* TAUT_COLL_UCX_H */

/* nccl_host.h - stands in for NCCL: calls a profiler plugin as each version of
 * the interface is called. Events are laid out here by numbers, which were
 * computed from NCCL's own headers, and not by the plugin's declarations.
 *
 * Owner:   the caller; a host holds nothing that must be freed.
 * Threads: one host may be used by any, after host_init(). */
#ifndef TAUT_TESTS_NCCL_HOST_H
#define TAUT_TESTS_NCCL_HOST_H

#include <stddef.h>
#include <stdint.h>

enum { HOST_VERSIONS = 7, HOST_EVENT_BYTES = 160 };

enum { /* types of events */
	HOST_GROUP = 1, HOST_COLL = 2, HOST_P2P = 4, HOST_OP = 8,
	HOST_STEP = 16, HOST_CTRL = 32, HOST_KERNEL = 64,
};

enum { /* states */
	HOST_OP_SEND_POSTED = 0, HOST_OP_SEND_FIFO = 1,
	HOST_OP_SEND_TRANSMITTED = 2, HOST_OP_SEND_DONE = 3,
	HOST_OP_RECV_POSTED = 4, HOST_OP_RECV_RECEIVED = 5,
	HOST_SEND_GPU = 8, HOST_SEND_WAIT = 9, HOST_RECV_WAIT = 10,
	HOST_RECV_FLUSH = 11, HOST_RECV_GPU = 12, HOST_IN_PROGRESS = 19,
	HOST_SEND_PEER = 20, HOST_KERNEL_STOP = 22,
};

/* Where the fields are; -1: this version has none. */
struct host_layout {
	int type_bytes, parent, rank, body;
	int coll_name, coll_hash, coll_seq, coll_func, coll_count, coll_root,
		coll_dtype, coll_channels, coll_algo, coll_proto;
	int p2p_name, p2p_hash, p2p_func, p2p_dtype, p2p_count, p2p_peer,
		p2p_channels;
	int kernel_timer; /* -1: no kernel events, or no timer */
	int event_bytes;
};
extern const struct host_layout host_layouts[HOST_VERSIONS + 1];

struct host {
	int version;
	const void *plugin; /* the structure that the plugin exports */
	void *context;
	int mask;
	int rank; /* in the communicator */
	const char *name;
	uint64_t hash;
};

/* plugin: the structure ncclProfiler_v<version>. Each call returns what the
 * plugin returned, 0 for success. */
int host_init(struct host *host, const void *plugin, int version,
	const char *name, uint64_t hash, int ranks, int rank);
int host_finalize(struct host *host);

void *host_group(struct host *host);
/* func, dtype, algo, proto: numbers of v1; texts are made of them for others. */
void *host_coll(struct host *host, uint64_t seq, int func, size_t count,
	int dtype, int root, int channels, int algo, int proto);
void *host_p2p(struct host *host, int func, size_t count, int dtype, int peer);
void *host_op(struct host *host, void *parent, int pid, int channel, int peer,
	int sends);
void *host_step(struct host *host, void *parent, int step);
void *host_kernel(struct host *host, void *parent, int channel,
	uint64_t gpu_ns);
/* Any bytes as an event. */
void *host_start(struct host *host, const void *event);
int host_stop(struct host *host, void *handle);
/* moved: bytes, or the GPU's time. */
int host_state(
	struct host *host, void *handle, int state, uint64_t moved, int steps);
int host_state_bare(struct host *host, void *handle, int state); /* NULL update */

#endif /* TAUT_TESTS_NCCL_HOST_H */

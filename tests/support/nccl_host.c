/* nccl_host.c - stands in for NCCL. */
#include "tests/support/nccl_host.h"

#include <string.h>

const struct host_layout host_layouts[HOST_VERSIONS + 1] = {
	[1] = { 1, 8, 16, 24, 24, 32, 40, 48, 72, 80, 84, 104, 106, 107,
		24, 32, 40, 56, 64, 72, -1, -1, 120 },
	[2] = { 1, 8, 16, 24, 24, 32, 40, 48, 72, 80, 88, 104, 112, 120,
		24, 32, 40, 56, 64, 72, -1, -1, 128 },
	[3] = { 1, 8, 16, 24, 24, 32, 40, 48, 72, 80, 88, 96, 104, 112,
		24, 32, 40, 56, 64, 72, -1, -1, 120 },
	[4] = { 1, 8, 16, 24, -1, -1, 24, 32, 56, 64, 72, 80, 88, 96,
		-1, -1, 24, 40, 48, 56, 60, 32, 104 },
	[5] = { 8, 8, 16, 24, -1, -1, 24, 32, 56, 64, 72, 80, 88, 96,
		-1, -1, 24, 40, 48, 56, 60, 32, 112 },
	[6] = { 8, 8, 16, 24, -1, -1, 24, 32, 56, 64, 72, 80, 88, 96,
		-1, -1, 24, 40, 48, 56, 60, 32, 112 },
	[7] = { 8, 8, 16, 24, -1, -1, 24, 32, 56, 64, 72, 80, 88, 96,
		-1, -1, 24, 40, 48, 56, 60, 32, 136 },
};

static const char *const funcs[] = { "Broadcast", "Reduce", "AllGather",
	"ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv" };
static const char *const dtypes[] = { "ncclInt8", "ncclUint8", "ncclInt32",
	"ncclUint32", "ncclInt64", "ncclUint64", "ncclFloat16", "ncclFloat32",
	"ncclFloat64", "ncclBfloat16" };
static const char *const algos[] = { "TREE", "RING" };
static const char *const protos[] = { "LL", "LL128", "SIMPLE" };

/* The six words of every plugin: name, init, start, stop, state, finalize. */
typedef void (*any_fn)(void); /* to be cast */
static any_fn function_of(const struct host *host, int word)
{
	any_fn function;

	memcpy(&function, (const char *)host->plugin + 8 * word,
		sizeof function);
	return function;
}

typedef void (*debug_fn)(int, unsigned long, const char *, int, const char *,
	...);
typedef int (*init_v1)(void **, int *);
typedef int (*init_v4)(void **, int *, const char *, uint64_t, int, int, int,
	debug_fn);
typedef int (*init_v5)(void **, uint64_t, int *, const char *, int, int, int,
	debug_fn);
typedef int (*start_fn)(void *, void **, void *);
typedef int (*stop_fn)(void *);
typedef int (*state_fn)(void *, int, void *);

static void debug(int level, unsigned long flags, const char *file, int line,
	const char *format, ...)
{
	(void)level, (void)flags, (void)file, (void)line, (void)format;
}

int host_init(struct host *host, const void *plugin, int version,
	const char *name, uint64_t hash, int ranks, int rank)
{
	any_fn init;

	*host = (struct host) { .version = version, .plugin = plugin,
		.rank = rank, .name = name, .hash = hash, .mask = -1 };
	init = function_of(host, 1);
	if (version < 4)
		return ((init_v1)init)(&host->context, &host->mask);
	if (version == 4)
		return ((init_v4)init)(&host->context, &host->mask, name, hash,
			2, ranks, rank, debug);
	return ((init_v5)init)(&host->context, hash, &host->mask, name, 2,
		ranks, rank, debug);
}

int host_finalize(struct host *host)
{
	return ((stop_fn)function_of(host, 5))(host->context);
}

/* --- events -----------------------------------------------------------------------*/

static const struct host_layout *layout_of(const struct host *host)
{
	return &host_layouts[host->version];
}

static void put(void *event, int at, const void *value, size_t size)
{
	if (at >= 0)
		memcpy((char *)event + at, value, size);
}

static void put_int(void *event, int at, int value)
{
	put(event, at, &value, sizeof value);
}

static void put_byte(void *event, int at, int value)
{
	uint8_t byte = (uint8_t)value;

	put(event, at, &byte, 1);
}

static void put_word(void *event, int at, uint64_t value)
{
	put(event, at, &value, sizeof value);
}

/* A number in v1, a text in all others. */
static void put_name(const struct host *host, void *event, int at,
	const char *const *names, int number)
{
	if (host->version == 1)
		put_byte(event, at, number);
	else
		put(event, at, &names[number], sizeof names[number]);
}

static void begin(
	const struct host *host, void *event, uint64_t type, void *parent)
{
	const struct host_layout *l = layout_of(host);

	memset(event, 0xa5, HOST_EVENT_BYTES);
	put(event, 0, &type, (size_t)l->type_bytes);
	put(event, l->parent, &parent, sizeof parent);
	put_int(event, l->rank, host->rank);
}

void *host_start(struct host *host, const void *event)
{
	void *handle = NULL;
	char copy[HOST_EVENT_BYTES];

	memcpy(copy, event, sizeof copy);
	if (((start_fn)function_of(host, 2))(host->context, &handle, copy))
		return (void *)-1;
	return handle;
}

void *host_group(struct host *host)
{
	char event[HOST_EVENT_BYTES];

	begin(host, event, HOST_GROUP, NULL);
	return host_start(host, event);
}

void *host_coll(struct host *host, uint64_t seq, int func, size_t count,
	int dtype, int root, int channels, int algo, int proto)
{
	const struct host_layout *l = layout_of(host);
	char event[HOST_EVENT_BYTES];

	begin(host, event, HOST_COLL, NULL);
	put(event, l->coll_name, &host->name, sizeof host->name);
	put_word(event, l->coll_hash, host->hash);
	put_word(event, l->coll_seq, seq);
	put_name(host, event, l->coll_func, funcs, func);
	put_word(event, l->coll_count, count);
	put_int(event, l->coll_root, root);
	put_name(host, event, l->coll_dtype, dtypes, dtype);
	put_byte(event, l->coll_channels, channels);
	put_name(host, event, l->coll_algo, algos, algo);
	put_name(host, event, l->coll_proto, protos, proto);
	return host_start(host, event);
}

void *host_p2p(struct host *host, int func, size_t count, int dtype, int peer)
{
	const struct host_layout *l = layout_of(host);
	char event[HOST_EVENT_BYTES];

	begin(host, event, HOST_P2P, NULL);
	put(event, l->p2p_name, &host->name, sizeof host->name);
	put_word(event, l->p2p_hash, host->hash);
	put_name(host, event, l->p2p_func, funcs, func);
	put_name(host, event, l->p2p_dtype, dtypes, dtype);
	put_word(event, l->p2p_count, count);
	put_int(event, l->p2p_peer, peer);
	put_byte(event, l->p2p_channels, 2);
	return host_start(host, event);
}

void *host_op(struct host *host, void *parent, int pid, int channel, int peer,
	int sends)
{
	char event[HOST_EVENT_BYTES];
	int at = layout_of(host)->body;

	begin(host, event, HOST_OP, parent);
	put_int(event, at, pid);
	put_byte(event, at + 4, channel);
	put_int(event, at + 8, peer);
	put_int(event, at + 12, 4);      /* steps */
	put_int(event, at + 16, 524288); /* bytes of a chunk */
	put_int(event, at + 20, sends);
	return host_start(host, event);
}

void *host_step(struct host *host, void *parent, int step)
{
	char event[HOST_EVENT_BYTES];

	begin(host, event, HOST_STEP, parent);
	put_int(event, layout_of(host)->body, step);
	return host_start(host, event);
}

void *host_kernel(struct host *host, void *parent, int channel,
	uint64_t gpu_ns)
{
	char event[HOST_EVENT_BYTES];

	begin(host, event, HOST_KERNEL, parent);
	put_byte(event, layout_of(host)->body, channel);
	put_word(event, layout_of(host)->kernel_timer, gpu_ns);
	return host_start(host, event);
}

int host_stop(struct host *host, void *handle)
{
	return ((stop_fn)function_of(host, 3))(handle);
}

int host_state(
	struct host *host, void *handle, int state, uint64_t moved, int steps)
{
	struct {
		uint64_t moved;
		int steps;
	} update = { moved, steps };

	return ((state_fn)function_of(host, 4))(handle, state, &update);
}

int host_state_bare(struct host *host, void *handle, int state)
{
	return ((state_fn)function_of(host, 4))(handle, state, NULL);
}

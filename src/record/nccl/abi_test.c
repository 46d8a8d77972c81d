/* abi_test.c - our declarations have every field where NCCL has it. The numbers
 * were computed from NCCL's own headers: 2.23.4 (v1), 2.24.3 (v2), 2.26.2 (v3),
 * 2.27.3 (v4), 2.28.3 (v5), 2.29.2 (v6) and 2.31 (v7). */
#include <taut/trace.h>

#include "base/log_format.h"
#include "record/nccl/abi_v1.h"
#include "record/nccl/abi_v2.h"
#include "record/nccl/abi_v3.h"
#include "record/nccl/abi_v4.h"
#include "record/nccl/abi_v5.h"
#include "record/nccl/abi_v6.h"
#include "record/nccl/abi_v7.h"
#include "tests/support/nccl_host.h"
#include "tests/support/unit.h"

#define AT(version, field, offset, bytes) \
	_Static_assert(offsetof(struct tauti_nccl_event_v##version, field) == \
		(offset), "v" #version " " #field " is elsewhere"); \
	_Static_assert( \
		sizeof(((struct tauti_nccl_event_v##version *)0)->field) == \
		(bytes), "v" #version " " #field " has another size")

#define HEAD(version, type_bytes) \
	AT(version, type, 0, type_bytes); \
	AT(version, parent, 8, 8); \
	AT(version, rank, 16, 4); \
	AT(version, u.op.pid, 24, 4); \
	AT(version, u.op.channel, 28, 1); \
	AT(version, u.op.peer, 32, 4); \
	AT(version, u.op.n_steps, 36, 4); \
	AT(version, u.op.chunk_bytes, 40, 4); \
	AT(version, u.op.sends, 44, 4); \
	AT(version, u.step.step, 24, 4)

HEAD(1, 1);
AT(1, u.coll.comm_name, 24, 8);
AT(1, u.coll.comm_hash, 32, 8);
AT(1, u.coll.seq, 40, 8);
AT(1, u.coll.func, 48, 1);
AT(1, u.coll.count, 72, 8);
AT(1, u.coll.root, 80, 4);
AT(1, u.coll.dtype, 84, 1);
AT(1, u.coll.op, 88, 4);
AT(1, u.coll.traffic_bytes, 96, 8);
AT(1, u.coll.channels, 104, 1);
AT(1, u.coll.warps, 105, 1);
AT(1, u.coll.algo, 106, 1);
AT(1, u.coll.proto, 107, 1);
AT(1, u.p2p.comm_name, 24, 8);
AT(1, u.p2p.comm_hash, 32, 8);
AT(1, u.p2p.func, 40, 1);
AT(1, u.p2p.at, 48, 8);
AT(1, u.p2p.dtype, 56, 1);
AT(1, u.p2p.count, 64, 8);
AT(1, u.p2p.peer, 72, 4);
_Static_assert(sizeof(struct tauti_nccl_event_v1) == 120, "v1");

#define NAMED(version) \
	AT(version, u.coll.comm_name, 24, 8); \
	AT(version, u.coll.comm_hash, 32, 8); \
	AT(version, u.coll.seq, 40, 8); \
	AT(version, u.coll.func, 48, 8); \
	AT(version, u.coll.count, 72, 8); \
	AT(version, u.coll.root, 80, 4); \
	AT(version, u.coll.dtype, 88, 8); \
	AT(version, u.p2p.comm_name, 24, 8); \
	AT(version, u.p2p.comm_hash, 32, 8); \
	AT(version, u.p2p.func, 40, 8); \
	AT(version, u.p2p.at, 48, 8); \
	AT(version, u.p2p.dtype, 56, 8); \
	AT(version, u.p2p.count, 64, 8); \
	AT(version, u.p2p.peer, 72, 4)

HEAD(2, 1);
NAMED(2);
AT(2, u.coll.traffic_bytes, 96, 8);
AT(2, u.coll.channels, 104, 1);
AT(2, u.coll.warps, 105, 1);
AT(2, u.coll.algo, 112, 8);
AT(2, u.coll.proto, 120, 8);
_Static_assert(sizeof(struct tauti_nccl_event_v2) == 128, "v2");

HEAD(3, 1);
NAMED(3);
AT(3, u.coll.channels, 96, 1);
AT(3, u.coll.warps, 97, 1);
AT(3, u.coll.algo, 104, 8);
AT(3, u.coll.proto, 112, 8);
AT(3, u.kernel.channel, 24, 1);
_Static_assert(sizeof(struct tauti_nccl_event_v3) == 120, "v3");

#define SINCE_V4(version) \
	AT(version, u.coll.seq, 24, 8); \
	AT(version, u.coll.func, 32, 8); \
	AT(version, u.coll.count, 56, 8); \
	AT(version, u.coll.root, 64, 4); \
	AT(version, u.coll.dtype, 72, 8); \
	AT(version, u.coll.channels, 80, 1); \
	AT(version, u.coll.warps, 81, 1); \
	AT(version, u.coll.algo, 88, 8); \
	AT(version, u.coll.proto, 96, 8); \
	AT(version, u.p2p.func, 24, 8); \
	AT(version, u.p2p.at, 32, 8); \
	AT(version, u.p2p.dtype, 40, 8); \
	AT(version, u.p2p.count, 48, 8); \
	AT(version, u.p2p.peer, 56, 4); \
	AT(version, u.p2p.channels, 60, 1); \
	AT(version, u.kernel.channel, 24, 1); \
	AT(version, u.kernel.gpu_ns, 32, 8)

HEAD(4, 1);
SINCE_V4(4);
HEAD(5, 8);
SINCE_V4(5);
HEAD(6, 8);
SINCE_V4(6);
HEAD(7, 8);
SINCE_V4(7);

#define PLUGIN(version) \
	_Static_assert(offsetof(struct tauti_nccl_v##version, init) == 8 && \
		offsetof(struct tauti_nccl_v##version, start_event) == 16 && \
		offsetof(struct tauti_nccl_v##version, stop_event) == 24 && \
		offsetof(struct tauti_nccl_v##version, record_event_state) \
			== 32 && \
		offsetof(struct tauti_nccl_v##version, finalize) == 40 && \
		offsetof(struct tauti_nccl_v##version, tail) == 48, \
		"v" #version " has other functions")

PLUGIN(1);
PLUGIN(2);
PLUGIN(3);
PLUGIN(4);
PLUGIN(5);
PLUGIN(6);
PLUGIN(7);

_Static_assert(offsetof(union tauti_nccl_update, op.moved_bytes) == 0 &&
	offsetof(union tauti_nccl_update, op.steps) == 8 &&
	offsetof(union tauti_nccl_update, step.bytes) == 0 &&
	offsetof(union tauti_nccl_update, kernel.gpu_ns) == 0,
	"updates are elsewhere");
_Static_assert(offsetof(struct tauti_nccl_tail, magic) == 32 &&
	offsetof(struct tauti_nccl_tail, recording) == 40,
	"docs/recording.md says where the switch is");

_Static_assert((int)TAUT_KIND_COMM == TAUTI_LOG_KIND_COMM &&
	(int)TAUT_KIND_CHUNK == TAUTI_LOG_KIND_CHUNK, "other kinds");

/* No version's event is longer than what the tests hand over. */
static void events_fit(void **state)
{
	(void)state;
	for (int v = 1; v <= HOST_VERSIONS; v++) {
		assert_true(host_layouts[v].event_bytes >= 104);
		assert_true(host_layouts[v].event_bytes <= HOST_EVENT_BYTES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

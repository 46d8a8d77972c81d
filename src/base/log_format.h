/* log_format.h - the event log: what Taut's own recorders write and its
 * reader reads. docs/recording.md tells who writes which log.
 *
 * A log is a file of one header and `capacity` records of equal size, mapped
 * into the process that is being recorded, so that what was written is in the
 * file however the process ends. Its size is reserved on the disk before the
 * first event: a disk that is full says so at the start and never later.
 *
 *   writer: slot = reserved++ (atomic); fills the record; stores type last.
 *           Of a TEXT the type comes before the bytes in the next slots, so
 *           that nobody takes them for records; the events that name a text
 *           come after all of it. The file is locked (flock) while the writer
 *           has it open, and cut to what was used when it closes.
 *   reader: takes the records below min(reserved, capacity) whose type is
 *           not zero; believes nothing else (lengths, ids, order).
 *
 * Everything is little-endian and naturally aligned; times are CLOCK_REALTIME
 * nanoseconds of the writing host. */
#ifndef TAUT_BASE_LOG_FORMAT_H
#define TAUT_BASE_LOG_FORMAT_H

#include <stdint.h>

#define TAUTI_LOG_MAGIC "TAUTLOG1" /* 8 bytes, no zero */

enum {
	TAUTI_LOG_HEADER_BYTES = 4096,
	TAUTI_LOG_RECORD_BYTES = 128,
};

struct tauti_log_header {
	char magic[8];
	uint32_t header_bytes, record_bytes;
	int32_t rank, world_size; /* -1 not known (yet) */
	int32_t local_rank, pid;
	uint64_t capacity; /* records */
	uint64_t reserved; /* may run past capacity: those were lost */
	int64_t opened_ns;
	int64_t closed_ns; /* 0: the process ended without closing */
	char source[32];   /* "torch", "mpi", "nccl", "loader", "server" */
	char host[64];
	char clock[64]; /* names the clock: equal texts, one clock. The kernel's
	                   boot id, '/' and the host's name or a hash of it */
	char state[256]; /* one line: what the recorder is doing or why not */
	/* the rest of header_bytes is zero */
};

/* Two of enum taut_kind, for writers, who are below trace.h; a test compares. */
enum { TAUTI_LOG_KIND_COMM = 12, TAUTI_LOG_KIND_CHUNK = 13 };

enum tauti_log_type {
	TAUTI_LOG_UNUSED,
	TAUTI_LOG_TEXT,  /* id = name, n = u.text.bytes; the next (n + 127) / 128
	                    slots hold the bytes. Id 0 is the empty text */
	TAUTI_LOG_LANE,  /* name of lane `lane`, for the report; kind is
	                    TAUTI_LOG_KIND_CHUNK if chunks are on it, else 0 */
	TAUTI_LOG_SPAN,  /* an event without arguments */
	TAUTI_LOG_COMM,  /* an event with arguments: u.comm */
	TAUTI_LOG_CHUNK, /* one chunk of a collective: u.chunk; kind is 0 */
	TAUTI_LOG_CLOCK, /* a comparison with rank 0's clock: u.clock; made at
	                    start_ns = end_ns */
	TAUTI_LOG_FACT,  /* key = name, value = text u.fact.value */
	TAUTI_LOG_LOAD,  /* an event of a loader: u.load */
	TAUTI_LOG_GRADIENT, /* that an exchange sums: u.gradient; no event */
	TAUTI_LOG_SUM_CALL, /* a call that hands one over, or waits for one:
	                       u.sum_call */
	TAUTI_LOG_PIECE, /* of a gradient, in a message that was under way from
	                    start_ns to end_ns: u.piece; no lane */
};

/* An event is on lane `lane`: a thread's number in the operating system, or
 * any other number that a LANE record names. */
struct tauti_log_record {
	uint32_t type; /* enum tauti_log_type; stored last */
	uint32_t name; /* text id */
	int64_t start_ns, end_ns;
	int64_t lane;
	uint32_t kind; /* enum taut_kind of trace.h */
	uint32_t correlation; /* 0 none */
	union {
		struct {
			uint32_t bytes;
		} text;
		struct {
			uint32_t collective; /* text: "allreduce", "send" */
			uint32_t group, group_ranks; /* texts */
			uint32_t dtype; /* text: "Float" */
			int64_t in_elements, out_elements; /* -1 not known */
			int64_t seq; /* in the group; of a send or receive:
			                among those of the same pair; -1 */
			int32_t group_size;
			int32_t src, dst; /* global ranks; -1 */
			int32_t root; /* global rank; -1 */
		} comm;
		struct {
			int32_t peer, channel, step, sends;
			int64_t bytes;
			int64_t gpu_late_ns, peer_late_ns, network_ns;
		} chunk;
		struct {
			int64_t offset_ns, half_width_ns;
		} clock;
		struct {
			uint32_t value;
		} fact;
		struct { /* as struct taut_load_args of trace.h */
			int64_t cpu_ns, queued_ns, others_ns;
			int64_t read_bytes, storage_bytes;
			int32_t samples;
		} load;
		struct { /* exchange: any number, of this log */
			uint32_t exchange, task;
			uint32_t dtype; /* text: "Float" */
			int64_t elements;
		} gradient;
		struct {
			uint32_t exchange, task, waits;
		} sum_call;
		struct {
			uint32_t exchange, task;
			uint32_t group, group_ranks; /* texts, as in comm */
			int64_t message, bytes;
			int32_t group_size;
		} piece;
		unsigned char room[88];
	} u;
};

_Static_assert(sizeof(struct tauti_log_header) <= TAUTI_LOG_HEADER_BYTES,
	"the header fits its page");
_Static_assert(sizeof(struct tauti_log_record) == TAUTI_LOG_RECORD_BYTES,
	"records are of one size");

#endif /* TAUT_BASE_LOG_FORMAT_H */

/* taut/record.h - writing down what a process does, from inside of it.
 *
 * This is the part of Taut that rides in other people's processes, as
 * libtaut-record.so: the Python package calls it, the MPI interposer and the
 * NCCL plugin are built of it. It takes all its memory and disk when a log
 * is opened, never prints, and no call after that can fail: what has no room
 * is counted and left out.
 *
 * Owner:   who opens a log closes it.
 * Threads: any thread may write to an open log; open and close alone.
 *          Writing is wait-free but for taut_log_text(), which locks. A child
 *          made by fork() must open a log of its own.
 * Units:   CLOCK_REALTIME nanoseconds. */
#ifndef TAUT_RECORD_H
#define TAUT_RECORD_H

#include <taut/base.h>

TAUT_BEGIN_DECLS

struct taut_log;

struct taut_log_options { /* zero is every field's default */
	const char *source; /* "mpi"; at most 31 bytes count */
	int32_t rank, world_size, local_rank; /* -1 not known yet */
	uint32_t capacity;  /* records of 128 bytes; 0: 131072 (16 MiB) */
};

/* Creates the file path, which must not exist, and reserves its room on the
 * disk. TAUT_EIO: it cannot be created or reserved (and is gone then);
 * TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_log_open(const char *path,
	const struct taut_log_options *options, struct taut_log **ret_log,
	struct taut_error *reterr);
/* Writes the end and gives back the room that was not used; NULL is fine. */
TAUT_API void taut_log_close(struct taut_log *log);

TAUT_API int64_t taut_log_now(void);

/* The ranks, once they are known; -1 leaves what is there. */
TAUT_API void taut_log_ranks(struct taut_log *log, int32_t rank,
	int32_t world_size, int32_t local_rank);
/* One line that says what is going on: it is what a person reads when the
 * process was killed. At most 255 bytes count. */
TAUT_API void taut_log_state(struct taut_log *log, const char *line);

/* The id of a text, written when it is new; 0: empty, or no room. */
TAUT_API uint32_t taut_log_text(struct taut_log *log, const char *text);

TAUT_API void taut_log_lane(
	struct taut_log *log, int64_t lane, const char *name);
/* The same of a lane that chunks are on. */
TAUT_API void taut_log_chunk_lane(
	struct taut_log *log, int64_t lane, const char *name);
/* kind: enum taut_kind of taut/trace.h. lane: the thread (gettid) or any
 * number that taut_log_lane() names. */
TAUT_API void taut_log_span(struct taut_log *log, uint32_t name, uint32_t kind,
	int64_t lane, int64_t start_ns, int64_t end_ns, uint32_t correlation);

struct taut_log_comm { /* texts are ids; numbers are -1 when not known */
	uint32_t collective, group, group_ranks, dtype;
	int64_t in_elements, out_elements, seq;
	int32_t group_size, src, dst, root;
};
/* As taut_log_span, of communication. */
TAUT_API void taut_log_comm(struct taut_log *log, uint32_t name, uint32_t kind,
	int64_t lane, int64_t start_ns, int64_t end_ns, uint32_t correlation,
	const struct taut_log_comm *comm);

struct taut_log_chunk { /* as struct taut_chunk_args of taut/trace.h */
	int32_t peer, channel, step, sends;
	int64_t bytes, gpu_late_ns, peer_late_ns, network_ns;
};
/* correlation: that of the collective's event. */
TAUT_API void taut_log_chunk(struct taut_log *log, uint32_t name, int64_t lane,
	int64_t start_ns, int64_t end_ns, uint32_t correlation,
	const struct taut_log_chunk *chunk);

struct taut_log_load { /* as struct taut_load_args of taut/trace.h */
	int64_t cpu_ns, queued_ns, others_ns;
	int64_t read_bytes, storage_bytes;
	int32_t samples;
};
/* As taut_log_span, of kinds LOAD and LOAD_WAIT. */
TAUT_API void taut_log_load(struct taut_log *log, uint32_t name, uint32_t kind,
	int64_t lane, int64_t start_ns, int64_t end_ns, uint32_t correlation,
	const struct taut_log_load *load);

/* --- gradients that an exchange sums (taut/sync.h) --------------------------
 * exchange: any number, so that a process may have several. Messages become
 * collectives when the log is read, each with what posted it and who waited. */
TAUT_API void taut_log_gradient(struct taut_log *log, uint32_t exchange,
	uint32_t task, uint32_t dtype, int64_t elements);
/* A call on a thread (lane) that hands the task's gradient over, or waits for
 * its sum. */
TAUT_API void taut_log_sum_call(struct taut_log *log, uint32_t exchange,
	uint32_t task, int waits, int64_t lane, int64_t start_ns, int64_t end_ns);

struct taut_log_piece { /* texts are ids */
	uint32_t exchange, task;
	uint32_t group, group_ranks; /* together the same on all ranks of the exchange,
	                                and no other's */
	int32_t group_size;
	int64_t message, bytes; /* as struct taut_sync_piece */
};
/* A piece of a gradient; the times are its message's. */
TAUT_API void taut_log_piece(struct taut_log *log, int64_t start_ns,
	int64_t end_ns, const struct taut_log_piece *piece);

TAUT_API void taut_log_fact(
	struct taut_log *log, const char *key, const char *value);

/* --- clocks ---------------------------------------------------------------
 * Rank 0's host answers; every other host asks it, at the start and at the
 * end of a recording. Of many exchanges the one of least delay counts: the
 * true offset lies within half its round trip of the middle (RFC 5905,
 * section 8). Over UDP, one datagram a time. */
struct taut_clock_server;

/* Binds a port of its own choice on all addresses (IPv4 and IPv6, where the
 * system has them) and answers from a thread of its own until stopped. */
TAUT_API TAUT_NODISCARD taut_status taut_clock_serve(
	struct taut_clock_server **ret_server, uint16_t *ret_port,
	struct taut_error *reterr);
TAUT_API void taut_clock_stop(struct taut_clock_server *server);

struct taut_clock_offset {
	int64_t at_ns;         /* own clock */
	int64_t offset_ns;     /* add to the own clock to get the server's */
	int64_t half_width_ns; /* half the round trip */
	uint32_t answers;
};
/* Asks up to `rounds` times (0: 256), for at most timeout_ms (0: 2000) in all.
 * TAUT_EIO: no answer came. Blocks. */
TAUT_API TAUT_NODISCARD taut_status taut_clock_ask(const char *host,
	uint16_t port, uint32_t rounds, uint32_t timeout_ms,
	struct taut_clock_offset *ret_offset, struct taut_error *reterr);
TAUT_API void taut_log_clock(
	struct taut_log *log, const struct taut_clock_offset *offset);

TAUT_END_DECLS
#endif /* TAUT_RECORD_H */

/* wrap_pair.c - sends and receives. */
#include "record/mpi/wrap.h"

typedef tauti_mpi_handle handle;

/* Where a status goes: the program's, or one of ours when it wants none. */
struct status {
	char room[64]; /* no library's is larger */
	void *at;
};

static void *status_for(struct status *own, void *theirs, bool outer)
{
	own->at = outer && (!theirs ||
		(uintptr_t)theirs == tauti_mpi.abi->status_ignore) ?
		own->room : theirs;
	return own->at;
}

#define MESSAGE(name, n, type, peer, tag, comm) \
	struct tauti_mpi_message name = { n, type, comm, peer, tag }

/* --- sends --------------------------------------------------------------------- */

#define SEND(name, count) \
	TAUTI_MPI_WRAP(name, (buf, n, type, dst, tag, comm), \
		const void *buf, count n, handle type, int dst, int tag, \
		handle comm) \
	{ \
		MESSAGE(m, n, type, dst, tag, comm); \
		struct tauti_mpi_span span; \
		int rc; \
\
		tauti_mpi_enter(&span); \
		rc = next(buf, n, type, dst, tag, comm); \
		tauti_mpi_leave(&span); \
		if (span.outer && !rc) \
			tauti_mpi_send("MPI_" #name, &span, &m); \
		return rc; \
	}

#define BEGIN_SEND(name, count, persistent) \
	TAUTI_MPI_WRAP(name, (buf, n, type, dst, tag, comm, request), \
		const void *buf, count n, handle type, int dst, int tag, \
		handle comm, void *request) \
	{ \
		MESSAGE(m, n, type, dst, tag, comm); \
		struct tauti_mpi_span span; \
		int rc; \
\
		tauti_mpi_enter(&span); \
		rc = next(buf, n, type, dst, tag, comm, request); \
		tauti_mpi_leave(&span); \
		if (span.outer && !rc) \
			tauti_mpi_begun("MPI_" #name, &span, &m, NULL, \
				tauti_mpi_load(request, 0), persistent); \
		return rc; \
	}

#define SENDS(kind, begins) \
	SEND(kind, int) \
	SEND(kind##_c, int64_t) \
	BEGIN_SEND(begins, int, false) \
	BEGIN_SEND(begins##_c, int64_t, false) \
	BEGIN_SEND(kind##_init, int, true) \
	BEGIN_SEND(kind##_init_c, int64_t, true)

SENDS(Send, Isend)
SENDS(Bsend, Ibsend)
SENDS(Ssend, Issend)
SENDS(Rsend, Irsend)

/* --- receives ------------------------------------------------------------------- */

#define RECV(name, count) \
	TAUTI_MPI_WRAP(name, (buf, n, type, src, tag, comm, status), \
		void *buf, count n, handle type, int src, int tag, \
		handle comm, void *status) \
	{ \
		MESSAGE(m, n, type, src, tag, comm); \
		struct tauti_mpi_span span; \
		struct status own; \
		int rc; \
\
		tauti_mpi_enter(&span); \
		rc = next(buf, n, type, src, tag, comm, \
			status_for(&own, status, span.outer)); \
		tauti_mpi_leave(&span); \
		if (span.outer && !rc) \
			tauti_mpi_recv("MPI_" #name, &span, &m, own.at); \
		return rc; \
	}
RECV(Recv, int)
RECV(Recv_c, int64_t)

#define BEGIN_RECV(name, count, persistent) \
	TAUTI_MPI_WRAP(name, (buf, n, type, src, tag, comm, request), \
		void *buf, count n, handle type, int src, int tag, \
		handle comm, void *request) \
	{ \
		MESSAGE(m, n, type, src, tag, comm); \
		struct tauti_mpi_span span; \
		int rc; \
\
		tauti_mpi_enter(&span); \
		rc = next(buf, n, type, src, tag, comm, request); \
		tauti_mpi_leave(&span); \
		if (span.outer && !rc) \
			tauti_mpi_begun("MPI_" #name, &span, NULL, &m, \
				tauti_mpi_load(request, 0), persistent); \
		return rc; \
	}
BEGIN_RECV(Irecv, int, false)
BEGIN_RECV(Irecv_c, int64_t, false)
BEGIN_RECV(Recv_init, int, true)
BEGIN_RECV(Recv_init_c, int64_t, true)

/* --- both at once ------------------------------------------------------------------ */

#define SENDRECV(name, count) \
	TAUTI_MPI_WRAP(name, (out, n_out, out_type, dst, out_tag, in, n_in, \
		in_type, src, in_tag, comm, status), \
		const void *out, count n_out, handle out_type, int dst, \
		int out_tag, void *in, count n_in, handle in_type, int src, \
		int in_tag, handle comm, void *status) \
	{ \
		MESSAGE(s, n_out, out_type, dst, out_tag, comm); \
		MESSAGE(r, n_in, in_type, src, in_tag, comm); \
		struct tauti_mpi_span span; \
		struct status own; \
		int rc; \
\
		tauti_mpi_enter(&span); \
		rc = next(out, n_out, out_type, dst, out_tag, in, n_in, \
			in_type, src, in_tag, comm, \
			status_for(&own, status, span.outer)); \
		tauti_mpi_leave(&span); \
		if (span.outer && !rc) \
			tauti_mpi_sendrecv("MPI_" #name, &span, &s, &r, \
				own.at); \
		return rc; \
	}
SENDRECV(Sendrecv, int)
SENDRECV(Sendrecv_c, int64_t)

#define SENDRECV_REPLACE(name, count) \
	TAUTI_MPI_WRAP(name, (buf, n, type, dst, out_tag, src, in_tag, comm, \
		status), \
		void *buf, count n, handle type, int dst, int out_tag, \
		int src, int in_tag, handle comm, void *status) \
	{ \
		MESSAGE(s, n, type, dst, out_tag, comm); \
		MESSAGE(r, n, type, src, in_tag, comm); \
		struct tauti_mpi_span span; \
		struct status own; \
		int rc; \
\
		tauti_mpi_enter(&span); \
		rc = next(buf, n, type, dst, out_tag, src, in_tag, comm, \
			status_for(&own, status, span.outer)); \
		tauti_mpi_leave(&span); \
		if (span.outer && !rc) \
			tauti_mpi_sendrecv("MPI_" #name, &span, &s, &r, \
				own.at); \
		return rc; \
	}
SENDRECV_REPLACE(Sendrecv_replace, int)
SENDRECV_REPLACE(Sendrecv_replace_c, int64_t)

#define ISENDRECV(name, count) \
	TAUTI_MPI_WRAP(name, (out, n_out, out_type, dst, out_tag, in, n_in, \
		in_type, src, in_tag, comm, request), \
		const void *out, count n_out, handle out_type, int dst, \
		int out_tag, void *in, count n_in, handle in_type, int src, \
		int in_tag, handle comm, void *request) \
	{ \
		MESSAGE(s, n_out, out_type, dst, out_tag, comm); \
		MESSAGE(r, n_in, in_type, src, in_tag, comm); \
		struct tauti_mpi_span span; \
		int rc; \
\
		tauti_mpi_enter(&span); \
		rc = next(out, n_out, out_type, dst, out_tag, in, n_in, \
			in_type, src, in_tag, comm, request); \
		tauti_mpi_leave(&span); \
		if (span.outer && !rc) \
			tauti_mpi_begun("MPI_" #name, &span, &s, &r, \
				tauti_mpi_load(request, 0), false); \
		return rc; \
	}
ISENDRECV(Isendrecv, int)
ISENDRECV(Isendrecv_c, int64_t)

#define ISENDRECV_REPLACE(name, count) \
	TAUTI_MPI_WRAP(name, (buf, n, type, dst, out_tag, src, in_tag, comm, \
		request), \
		void *buf, count n, handle type, int dst, int out_tag, \
		int src, int in_tag, handle comm, void *request) \
	{ \
		MESSAGE(s, n, type, dst, out_tag, comm); \
		MESSAGE(r, n, type, src, in_tag, comm); \
		struct tauti_mpi_span span; \
		int rc; \
\
		tauti_mpi_enter(&span); \
		rc = next(buf, n, type, dst, out_tag, src, in_tag, comm, \
			request); \
		tauti_mpi_leave(&span); \
		if (span.outer && !rc) \
			tauti_mpi_begun("MPI_" #name, &span, &s, &r, \
				tauti_mpi_load(request, 0), false); \
		return rc; \
	}
ISENDRECV_REPLACE(Isendrecv_replace, int)
ISENDRECV_REPLACE(Isendrecv_replace_c, int64_t)

/* --- probes that take the message, and its receive ----------------------------------- */

static void probe_done(const struct tauti_mpi_span *span, const char *name,
	bool found, int src, int tag, handle comm, const void *message,
	const void *status)
{
	if (!span->outer || !found)
		return;
	tauti_mpi_probed(
		comm, src, tag, tauti_mpi_load(message, 0), status);
	tauti_mpi_lock();
	tauti_mpi_write_runtime(name, span, 0);
	tauti_mpi_unlock();
}

TAUTI_MPI_WRAP(Mprobe, (src, tag, comm, message, status),
	int src, int tag, handle comm, void *message, void *status)
{
	struct tauti_mpi_span span;
	struct status own;
	int rc;

	tauti_mpi_enter(&span);
	rc = next(src, tag, comm, message,
		status_for(&own, status, span.outer));
	tauti_mpi_leave(&span);
	probe_done(&span, "MPI_Mprobe", !rc, src, tag, comm, message, own.at);
	return rc;
}

TAUTI_MPI_WRAP(Improbe, (src, tag, comm, flag, message, status),
	int src, int tag, handle comm, int *flag, void *message, void *status)
{
	struct tauti_mpi_span span;
	struct status own;
	int rc;

	tauti_mpi_enter(&span);
	rc = next(src, tag, comm, flag, message,
		status_for(&own, status, span.outer));
	tauti_mpi_leave(&span);
	probe_done(&span, "MPI_Improbe", !rc && *flag, src, tag, comm,
		message, own.at);
	return rc;
}

TAUTI_MPI_WRAP(Probe, (src, tag, comm, status),
	int src, int tag, handle comm, void *status)
{
	struct tauti_mpi_span span;
	int rc;

	tauti_mpi_enter(&span);
	rc = next(src, tag, comm, status);
	tauti_mpi_leave(&span);
	if (span.outer && !rc) {
		tauti_mpi_lock();
		tauti_mpi_write_runtime("MPI_Probe", &span, 0);
		tauti_mpi_unlock();
	}
	return rc;
}

#define MRECV(name, count) \
	TAUTI_MPI_WRAP(name, (buf, n, type, message, status), \
		void *buf, count n, handle type, void *message, \
		void *status) \
	{ \
		struct tauti_mpi_span span; \
		struct status own; \
		handle taken = 0; \
		int rc; \
\
		tauti_mpi_enter(&span); \
		if (span.outer) \
			taken = tauti_mpi_load(message, 0); \
		rc = next(buf, n, type, message, \
			status_for(&own, status, span.outer)); \
		tauti_mpi_leave(&span); \
		if (span.outer && !rc) \
			tauti_mpi_mrecv("MPI_" #name, &span, taken, n, type, \
				own.at, 0, false); \
		return rc; \
	}
MRECV(Mrecv, int)
MRECV(Mrecv_c, int64_t)

#define IMRECV(name, count) \
	TAUTI_MPI_WRAP(name, (buf, n, type, message, request), \
		void *buf, count n, handle type, void *message, \
		void *request) \
	{ \
		struct tauti_mpi_span span; \
		handle taken = 0; \
		int rc; \
\
		tauti_mpi_enter(&span); \
		if (span.outer) \
			taken = tauti_mpi_load(message, 0); \
		rc = next(buf, n, type, message, request); \
		tauti_mpi_leave(&span); \
		if (span.outer && !rc) \
			tauti_mpi_mrecv("MPI_" #name, &span, taken, n, type, \
				NULL, tauti_mpi_load(request, 0), true); \
		return rc; \
	}
IMRECV(Imrecv, int)
IMRECV(Imrecv_c, int64_t)

/* wrap_wait.c - requests: their start, and who sees their end. */
#include <stdlib.h>

#include "record/mpi/wrap.h"

enum { ON_STACK = 32, STATUS_ROOM = 64 };

/* What a call on several requests needs: their handles, which the call takes
 * away, and statuses where the program wants none. */
struct several {
	struct waited {
		tauti_mpi_handle request;
		uint64_t serial; /* 0: of no other thread's */
	} on_stack[ON_STACK], *handles;
	_Alignas(8) char room[ON_STACK * STATUS_ROOM];
	char *own_room;
	void *statuses; /* the program's, ours, or none */
	uint32_t stride;
	int n;
};

/* While they are the caller's. */
static void look_up(struct several *s, const void *requests)
{
	tauti_mpi_lock();
	for (int i = 0; i < s->n; i++) {
		struct waited *at = &s->handles[i];

		at->request = tauti_mpi_load(requests, (size_t)i);
		at->serial = tauti_mpi.locks ?
			tauti_mpi_op_newest(
				tauti_mpi_clean(at->request)) : 0;
		if (tauti_mpi.locks && !at->serial)
			at->request = tauti_mpi.abi->request_null;
	}
	tauti_mpi_unlock();
}

static bool several_init(struct several *s,
	const struct tauti_mpi_span *span, int n, const void *requests,
	void *statuses, bool one_status)
{
	size_t n_statuses = one_status ? 1 : (size_t)(n > 0 ? n : 0);

	s->own_room = NULL;
	s->handles = s->on_stack;
	s->statuses = statuses;
	s->n = n > 0 ? n : 0;
	if (!span->outer)
		return false;
	s->stride = tauti_mpi.abi->status_bytes;
	if (n > ON_STACK)
		s->handles = malloc((size_t)n * sizeof *s->handles);
	if (!s->handles)
		return false;
	look_up(s, requests);
	if (statuses && (uintptr_t)statuses != tauti_mpi.abi->status_ignore)
		return true;
	if (n_statuses > ON_STACK)
		s->own_room = malloc(n_statuses * s->stride);
	if (n_statuses <= ON_STACK)
		s->statuses = s->room;
	else if (s->own_room)
		s->statuses = s->own_room;
	return true;
}

/* The i-th status; NULL: the program wanted none and we had no room. */
static const void *status_at(const struct several *s, int i)
{
	if (!s->statuses ||
		(uintptr_t)s->statuses == tauti_mpi.abi->status_ignore)
		return NULL;
	return (const char *)s->statuses + (size_t)i * s->stride;
}

static void several_fini(struct several *s)
{
	if (s->handles != s->on_stack)
		free(s->handles);
	free(s->own_room);
}

/* One call saw the ends of n requests; where[] (NULL: 0, 1, ...) are their
 * places in the program's array, and statuses are in the order of where[]. */
static void ended(const char *name, const struct tauti_mpi_span *span,
	const struct several *s, const int *where, int n)
{
	uint32_t correlation = tauti_mpi_correlation();
	bool ours = false;

	tauti_mpi_lock();
	for (int i = 0; i < n; i++) {
		int at = where ? where[i] : i;

		if (at >= 0 && at < s->n)
			ours |= tauti_mpi_completed(span,
				s->handles[at].request, s->handles[at].serial,
				status_at(s, i), correlation);
	}
	tauti_mpi_write_runtime(name, span, ours ? correlation : 0);
	tauti_mpi_unlock();
}

/* After an error, only some have ended: those whose request is gone. */
static void all_ended(const char *name, const struct tauti_mpi_span *span,
	struct several *s, const void *requests, int rc)
{
	for (int i = 0; rc && i < s->n; i++)
		if (tauti_mpi_load(requests, (size_t)i) !=
			tauti_mpi.abi->request_null)
			s->handles[i].request = tauti_mpi.abi->request_null;
	ended(name, span, s, NULL, s->n);
}

/* --- one ---------------------------------------------------------------------- */

TAUTI_MPI_WRAP(Wait, (request, status), void *request, void *status)
{
	struct tauti_mpi_span span;
	struct several s;
	bool told;
	int rc;

	tauti_mpi_enter(&span);
	told = several_init(&s, &span, 1, request, status, true);
	rc = next(request, s.statuses);
	tauti_mpi_leave(&span);
	if (told)
		ended("MPI_Wait", &span, &s, NULL, 1);
	several_fini(&s);
	return rc;
}

TAUTI_MPI_WRAP(Test, (request, flag, status),
	void *request, int *flag, void *status)
{
	struct tauti_mpi_span span;
	struct several s;
	bool told;
	int rc;

	tauti_mpi_enter(&span);
	told = several_init(&s, &span, 1, request, status, true);
	rc = next(request, flag, s.statuses);
	tauti_mpi_leave(&span);
	if (told && (rc || *flag))
		all_ended("MPI_Test", &span, &s, request, rc);
	several_fini(&s);
	return rc;
}

/* --- all ------------------------------------------------------------------------ */

/* An error that the program gets back, of a call that tells no place or not
 * all: those whose request is gone have ended, or their successors with the
 * same request would be taken for them. */
static void failed(const char *name, const struct tauti_mpi_span *span,
	struct several *s, const void *requests)
{
	s->statuses = NULL;
	all_ended(name, span, s, requests, 1);
}

TAUTI_MPI_WRAP(Waitall, (n, requests, statuses),
	int n, void *requests, void *statuses)
{
	struct tauti_mpi_span span;
	struct several s;
	bool told;
	int rc;

	tauti_mpi_enter(&span);
	told = several_init(&s, &span, n, requests, statuses, false);
	rc = next(n, requests, s.statuses);
	tauti_mpi_leave(&span);
	if (told)
		all_ended("MPI_Waitall", &span, &s, requests, rc);
	several_fini(&s);
	return rc;
}

TAUTI_MPI_WRAP(Testall, (n, requests, flag, statuses),
	int n, void *requests, int *flag, void *statuses)
{
	struct tauti_mpi_span span;
	struct several s;
	bool told;
	int rc;

	tauti_mpi_enter(&span);
	told = several_init(&s, &span, n, requests, statuses, false);
	rc = next(n, requests, flag, s.statuses);
	tauti_mpi_leave(&span);
	if (told && (rc || *flag))
		all_ended("MPI_Testall", &span, &s, requests, rc);
	several_fini(&s);
	return rc;
}

/* --- any -------------------------------------------------------------------------- */

TAUTI_MPI_WRAP(Waitany, (n, requests, where, status),
	int n, void *requests, int *where, void *status)
{
	struct tauti_mpi_span span;
	struct several s;
	bool told;
	int rc;

	tauti_mpi_enter(&span);
	told = several_init(&s, &span, n, requests, status, true);
	rc = next(n, requests, where, s.statuses);
	tauti_mpi_leave(&span);
	if (told && rc)
		failed("MPI_Waitany", &span, &s, requests);
	else if (told)
		ended("MPI_Waitany", &span, &s, where, 1);
	several_fini(&s);
	return rc;
}

TAUTI_MPI_WRAP(Testany, (n, requests, where, flag, status),
	int n, void *requests, int *where, int *flag, void *status)
{
	struct tauti_mpi_span span;
	struct several s;
	bool told;
	int rc;

	tauti_mpi_enter(&span);
	told = several_init(&s, &span, n, requests, status, true);
	rc = next(n, requests, where, flag, s.statuses);
	tauti_mpi_leave(&span);
	if (told && rc)
		failed("MPI_Testany", &span, &s, requests);
	else if (told && *flag)
		ended("MPI_Testany", &span, &s, where, 1);
	several_fini(&s);
	return rc;
}

/* --- some --------------------------------------------------------------------------- */

#define SOME(name) \
	TAUTI_MPI_WRAP(name, (n, requests, n_out, where, statuses), \
		int n, void *requests, int *n_out, int *where, \
		void *statuses) \
	{ \
		struct tauti_mpi_span span; \
		struct several s; \
		bool told; \
		int rc; \
\
		tauti_mpi_enter(&span); \
		told = several_init(&s, &span, n, requests, statuses, \
			false); \
		rc = next(n, requests, n_out, where, s.statuses); \
		tauti_mpi_leave(&span); \
		if (told && rc) \
			failed("MPI_" #name, &span, &s, requests); \
		else if (told && *n_out > 0) \
			ended("MPI_" #name, &span, &s, where, *n_out); \
		several_fini(&s); \
		return rc; \
	}
SOME(Waitsome)
SOME(Testsome)

/* --- start and end --------------------------------------------------------------------- */

/* Start begins the operation, so it is numbered in this order; the request
 * of a persistent one stays what it is. */
static void started(const char *name, const struct tauti_mpi_span *span,
	int n, const void *requests)
{
	tauti_mpi_lock();
	for (int i = 0; i < n; i++)
		tauti_mpi_started(
			span, tauti_mpi_load(requests, (size_t)i));
	tauti_mpi_write_runtime(name, span, 0);
	tauti_mpi_unlock();
}

TAUTI_MPI_WRAP(Start, (request), void *request)
{
	struct tauti_mpi_span span;
	int rc;

	tauti_mpi_enter(&span);
	rc = next(request);
	tauti_mpi_leave(&span);
	if (span.outer && !rc)
		started("MPI_Start", &span, 1, request);
	return rc;
}

TAUTI_MPI_WRAP(Startall, (n, requests), int n, void *requests)
{
	struct tauti_mpi_span span;
	int rc;

	tauti_mpi_enter(&span);
	rc = next(n, requests);
	tauti_mpi_leave(&span);
	if (span.outer && !rc)
		started("MPI_Startall", &span, n, requests);
	return rc;
}

TAUTI_MPI_WRAP(Request_free, (request), void *request)
{
	struct tauti_mpi_span span;
	tauti_mpi_handle freed = 0;
	int rc;

	tauti_mpi_enter(&span);
	if (span.outer)
		freed = tauti_mpi_load(request, 0);
	rc = next(request);
	tauti_mpi_leave(&span);
	if (span.outer && !rc)
		tauti_mpi_request_freed(&span, freed);
	return rc;
}

TAUTI_MPI_WRAP(Cancel, (request), void *request)
{
	struct tauti_mpi_span span;
	int rc;

	tauti_mpi_enter(&span);
	if (span.outer)
		tauti_mpi_request_cancelled(tauti_mpi_load(request, 0));
	rc = next(request);
	tauti_mpi_leave(&span);
	return rc;
}

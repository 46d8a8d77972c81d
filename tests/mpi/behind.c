/* behind.c - what may stand behind Taut's object, on some ranks alone.
 * TOOL: one that looks at all-reduces, and hands them on by their profiling names.
 * NEWER: functions of MPI 4.1, as a library of that has them, in one of before.
 * NO_THREAD: the first thread that Taut's object wants is not to be had. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#ifdef TOOL
#include <mpi.h>

int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op,
	MPI_Comm comm)
{
	return PMPI_Allreduce(in, out, n, type, op, comm);
}

int MPI_Iallreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op,
	MPI_Comm comm, MPI_Request *request)
{
	return PMPI_Iallreduce(in, out, n, type, op, comm, request);
}
#endif

#ifdef NEWER
#include <mpi.h>

static int library_looks(MPI_Request request)
{
	int (*looks)(MPI_Request request, int *flag, MPI_Status *status);
	void *found = dlsym(RTLD_NEXT, "PMPI_Request_get_status");
	int flag = 0;

	memcpy(&looks, &found, sizeof looks);
	return !looks(request, &flag, MPI_STATUS_IGNORE) && flag;
}

static int find(int n, const MPI_Request requests[], int indices[])
{
	int n_done = 0;

	for (int i = 0; i < n; i++)
		if (library_looks(requests[i]))
			indices[n_done++] = i;
	return n_done;
}

int MPI_Request_get_status_some(int n, const MPI_Request requests[], int *n_done,
	int indices[], MPI_Status statuses[])
{
	*n_done = find(n, requests, indices);
	return MPI_SUCCESS;
}

int MPI_Request_get_status_any(int n, const MPI_Request requests[], int *index,
	int *flag, MPI_Status *status)
{
	int indices[64], n_done = find(n, requests, indices);

	*flag = n_done > 0;
	*index = n_done ? indices[0] : MPI_UNDEFINED;
	return MPI_SUCCESS;
}

int MPI_Request_get_status_all(
	int n, const MPI_Request requests[], int *flag, MPI_Status statuses[])
{
	int indices[64];

	*flag = find(n, requests, indices) == n;
	return MPI_SUCCESS;
}
#endif

#ifdef NO_THREAD
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
	void *(*run)(void *context), void *context)
{
	static int wanted;
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
		void *);
	void *found = dlsym(RTLD_NEXT, "pthread_create");
	Dl_info caller;

	memcpy(&next, &found, sizeof next);
	if (dladdr(__builtin_return_address(0), &caller) &&
		strstr(caller.dli_fname, "libtaut-mpi-coll") && !wanted++)
		return EAGAIN;
	return next(thread, attributes, run, context);
}
#endif

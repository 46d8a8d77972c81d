/* device.c - what an MPI program may do with memory of a device in all-reduces, one part a
 * word, over the fake driver, or a real one (real.c). Each part checks itself; rank 0 says which are done. What is
 * summed is whole and small, so that any order of sums has the same bits.
 * Built LATE, the driver is loaded by the part "late" alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/gpu/fake.h"
#include "tests/mpi/job.h"

enum { LARGE = 100003 };

static tauti_gpu_context contexts[2];
static int most_left; /* blocks of memory, in the end */

/* Two contexts, of two devices where there are so many. */
static void load(void)
{
	int devices = 0;

#ifdef LATE
	check(dlopen(getenv("TAUT_FAKE_CUDA"), RTLD_NOW | RTLD_GLOBAL) != NULL,
		"the driver");
#endif
	check(!cuInit(0) && !cuDeviceGetCount(&devices) &&
		!cuCtxCreate_v2(&contexts[1], 0, devices > 1) &&
		!cuCtxCreate_v2(&contexts[0], 0, 0), "contexts");
}

/* --- memory of all kinds ------------------------------------------------------------------*/

enum where { HOST, DEVICE, OTHER_DEVICE, MANAGED, POOL, PINNED, KINDS };

static void *make(enum where where, size_t bytes)
{
	tauti_gpu_address at = 0;
	tauti_gpu_context popped;
	void *pinned;

	switch (where) {
	case DEVICE:
		check(!cuMemAlloc_v2(&at, bytes), "memory");
		break;
	case OTHER_DEVICE:
		check(!cuCtxPushCurrent_v2(contexts[1]), "context");
		check(!cuMemAlloc_v2(&at, bytes), "memory");
		cuCtxPopCurrent_v2(&popped);
		break;
	case MANAGED:
		check(!cuMemAllocManaged(&at, bytes, 1), "memory");
		break;
	case POOL:
		check(!cuMemAllocAsync(&at, bytes, NULL), "memory");
		break;
	case PINNED:
		check(!cuMemHostAlloc(&pinned, bytes, 1), "memory");
		return pinned;
	default:
		return malloc(bytes);
	}
	return (void *)(uintptr_t)at;
}

static void unmake(enum where where, void *at)
{
	if (where == HOST)
		free(at);
	else if (where == PINNED)
		check(!cuMemFreeHost(at), "free");
	else if (where == POOL)
		check(!cuMemFreeAsync((uintptr_t)at, NULL), "free");
	else
		check(!cuMemFree_v2((uintptr_t)at), "free");
}

static int is_host(enum where where)
{
	return where == HOST || where == PINNED;
}

static void put(enum where where, void *at, const void *from, size_t bytes)
{
	if (is_host(where))
		memcpy(at, from, bytes);
	else
		check(!cuMemcpyHtoD_v2((uintptr_t)at, from, bytes), "put");
}

static void get(enum where where, void *to, const void *at, size_t bytes)
{
	if (is_host(where))
		memcpy(to, at, bytes);
	else
		check(!cuMemcpyDtoH_v2(to, (uintptr_t)at, bytes), "get");
}

/* --- numbers ------------------------------------------------------------------------------*/

static const struct {
	MPI_Datatype type;
	int bytes;
	char kind; /* f, i */
} types[] = {
	{ MPI_FLOAT, 4, 'f' }, { MPI_DOUBLE, 8, 'f' }, { MPI_INT8_T, 1, 'i' },
	{ MPI_UINT8_T, 1, 'i' }, { MPI_INT, 4, 'i' }, { MPI_INT64_T, 8, 'i' },
	{ MPI_UINT64_T, 8, 'i' },
};
static const struct {
	MPI_Op op;
	char sign;
} ops[] = { { MPI_SUM, '+' }, { MPI_PROD, '*' }, { MPI_MIN, '<' },
	{ MPI_MAX, '>' }, { MPI_BAND, '&' }, { MPI_BOR, '|' },
	{ MPI_BXOR, '^' } };

static int64_t number_of(int of, int i, int seed, char sign)
{
	return sign == '*' ? 1 + (i + of + seed) % 2 :
		(i * 7 + of * 13 + seed) % 20;
}

static int64_t join(int64_t a, int64_t b, char sign)
{
	switch (sign) {
	case '+': return a + b;
	case '*': return a * b;
	case '<': return a < b ? a : b;
	case '>': return a > b ? a : b;
	case '&': return a & b;
	case '|': return a | b;
	default: return a ^ b;
	}
}

static void store(void *data, int i, int bytes, char kind, int64_t value)
{
	float f = (float)value;
	double d = (double)value;

	memcpy((char *)data + (size_t)i * bytes, kind == 'i' ? (void *)&value :
		bytes == 4 ? (void *)&f : (void *)&d, bytes);
}

static void fill(void *data, size_t t, size_t o, int n, int seed)
{
	for (int i = 0; i < n; i++)
		store(data, i, types[t].bytes, types[t].kind,
			number_of(rank, i, seed, ops[o].sign));
}

static void expect(void *data, size_t t, size_t o, int n, int seed)
{
	for (int i = 0; i < n; i++) {
		int64_t value = number_of(0, i, seed, ops[o].sign);

		for (int of = 1; of < size; of++)
			value = join(value, number_of(
				of, i, seed, ops[o].sign), ops[o].sign);
		store(data, i, types[t].bytes, types[t].kind, value);
	}
}

/* --- one call -----------------------------------------------------------------------------*/

struct call {
	enum where in_where, out_where;
	void *in, *out;
	size_t t, o;
	int n, seed, in_place;
	MPI_Request request;
};

static struct call prepared(enum where in_where, enum where out_where,
	int in_place, size_t t, size_t o, int n, int seed)
{
	struct call call = { in_where, out_where, NULL, NULL, t, o, n, seed,
		in_place, MPI_REQUEST_NULL };
	size_t bytes = (size_t)n * types[t].bytes;
	char *host = malloc(bytes + 16);

	memset(host + bytes, 77, 16);
	fill(host, t, o, n, seed);
	call.out = make(out_where, bytes + 16);
	if (in_place) {
		put(out_where, call.out, host, bytes + 16);
	} else {
		call.in = make(in_where, bytes);
		put(in_where, call.in, host, bytes);
		memset(host, 99, bytes);
		put(out_where, call.out, host, bytes + 16);
	}
	free(host);
	return call;
}

static void checked(struct call *call, const char *what)
{
	size_t bytes = (size_t)call->n * types[call->t].bytes;
	char *got = malloc(bytes + 16), *want = malloc(bytes + 16);

	get(call->out_where, got, call->out, bytes + 16);
	memset(want + bytes, 77, 16);
	expect(want, call->t, call->o, call->n, call->seed);
	check(!memcmp(got, want, bytes + 16), what);
	if (!call->in_place) {
		get(call->in_where, got, call->in, bytes);
		fill(want, call->t, call->o, call->n, call->seed);
		check(!memcmp(got, want, bytes), "the input");
		unmake(call->in_where, call->in);
	}
	unmake(call->out_where, call->out);
	free(got);
	free(want);
}

static int run(struct call *call, MPI_Comm comm)
{
	return MPI_Allreduce(call->in_place ? MPI_IN_PLACE : call->in,
		call->out, call->n, types[call->t].type, ops[call->o].op, comm);
}

static void one(enum where in_where, enum where out_where, int in_place,
	size_t t, size_t o, int n, const char *what)
{
	struct call call = prepared(
		in_where, out_where, in_place, t, o, n, (int)(t + 3 * o));

	check(run(&call, MPI_COMM_WORLD) == MPI_SUCCESS, what);
	checked(&call, what);
}

/* --- parts --------------------------------------------------------------------------------*/

static void kinds(void)
{
	warm(MPI_COMM_WORLD);
	for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
		for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++)
			if (types[t].kind == 'i' || o < 4)
				one(DEVICE, DEVICE, (int)(t + o) % 2, t, o,
					20011, "a kind");
}

static void sizes(void)
{
	static const int counts[] = { 1024, 1025, 4096, 16384, 16385, 65536,
		LARGE, 1000003, 4200001 };

	warm(MPI_COMM_WORLD);
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
		one(DEVICE, DEVICE, i % 2, i % 2 ? 0 : 4, 0, counts[i], "a size");
}

/* Each rank has its memory elsewhere. */
static void places(void)
{
	warm(MPI_COMM_WORLD);
	for (int in = 0; in < KINDS; in++)
		for (int out = 0; out < KINDS; out++) {
			one((in + rank) % KINDS, (out + rank) % KINDS, 0, 4, 0,
				LARGE, "a place");
			one((in + rank) % KINDS, (out + rank) % KINDS, in == out,
				4, 3, 1500, "a small place");
		}
}

static void no_context(void)
{
	struct call call;
	tauti_gpu_context popped, now;

	warm(MPI_COMM_WORLD);
	call = prepared(DEVICE, OTHER_DEVICE, 0, 0, 0, LARGE, 5);
	cuCtxPopCurrent_v2(&popped);
	run(&call, MPI_COMM_WORLD);
	cuCtxGetCurrent(&now);
	check(now != popped, "the context");
	cuCtxPushCurrent_v2(popped);
	checked(&call, "a call without a context");
}

enum { MANY = 8 };

/* After two like it a call pins nothing: short, and longer than all lanes that wait. */
static void steady(void)
{
	static const int counts[] = { 1500, 17000003, 1500 };

	warm(MPI_COMM_WORLD);
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		struct call call = prepared(
			DEVICE, DEVICE, 0, 0, 0, counts[i], (int)i);
		int pins = 0;

		for (int turn = 0; turn < 3; turn++) {
			pins = fake_counts().pins;
			check(run(&call, MPI_COMM_WORLD) == MPI_SUCCESS,
				"a call again");
		}
		check(fake_counts().pins == pins, "memory that is pinned anew");
		checked(&call, "a call again");
	}
}

static void begun(void)
{
	struct call calls[MANY], between;

	warm(MPI_COMM_WORLD);
	for (int turn = 0; turn < 6; turn++) {
		for (int k = 0; k < MANY; k++)
			calls[k] = prepared((k + rank) % 2 ? HOST : DEVICE,
				(k + turn) % 3 ? DEVICE : HOST, k % 2, 4, 0,
				k % 3 ? LARGE : 3000, k);
		between = prepared(turn % 2 ? DEVICE : HOST, DEVICE, 0, 0, 3,
			40000, turn);
		for (int k = 0; k < MANY; k++) {
			MPI_Iallreduce(calls[k].in_place ? MPI_IN_PLACE :
				calls[k].in, calls[k].out, calls[k].n,
				types[4].type, MPI_SUM, MPI_COMM_WORLD,
				&calls[k].request);
			if (k == MANY / 2)
				run(&between, MPI_COMM_WORLD);
		}
		for (int k = MANY - 1; k >= 0; k--)
			MPI_Wait(&calls[k].request, MPI_STATUS_IGNORE);
		for (int k = 0; k < MANY; k++)
			checked(&calls[k], "a call that was begun");
		checked(&between, "a call between");
	}
}

/* What the program put into the null stream, and does not wait for, comes before a call's
 * copies: into its input, and over its output. */
static void null_stream(void)
{
	static int got[LARGE];
	int right = 1, sum = size * (size + 1) / 2;

	warm(MPI_COMM_WORLD);
	for (int turn = 0; turn < 8; turn++) {
		int n = turn / 2 % 2 ? LARGE : 1500;
		struct call call = prepared(
			DEVICE, DEVICE, turn % 2, 4, 0, n, turn);

		check(!cuMemsetD32_v2((uintptr_t)call.out, rank + 1, n) &&
			(!call.in || !cuMemsetD32_v2(
				(uintptr_t)call.in, rank + 1, n)), "a fill");
		check(run(&call, MPI_COMM_WORLD) == MPI_SUCCESS, "a call");
		get(DEVICE, got, call.out, n * sizeof *got);
		for (int i = 0; i < n; i++)
			right &= got[i] == sum;
		check(right, "a sum of what the null stream made");
		if (call.in)
			unmake(DEVICE, call.in);
		unmake(DEVICE, call.out);
	}
}

/* Another thread captures a graph, on rank 0, while this one sums. */
static void captured_beside(void)
{
	struct call calls[3];
	MPI_Comm copy;

	for (int k = 0; k < 3; k++)
		calls[k] = prepared(DEVICE, DEVICE, 1, 4, 0, LARGE + k, k);
	fake_capture(!rank);
	run(&calls[0], MPI_COMM_WORLD);
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	warm(copy);
	run(&calls[1], copy);
	MPI_Iallreduce(MPI_IN_PLACE, calls[2].out, calls[2].n, types[4].type,
		MPI_SUM, copy, &calls[2].request);
	MPI_Wait(&calls[2].request, MPI_STATUS_IGNORE);
	MPI_Comm_free(&copy);
	fake_capture(false);
	for (int k = 0; k < 3; k++)
		checked(&calls[k], "a call beside another thread's capture");
}

/* Rank 0 captures a graph while its calls are under way; they cannot end before, as the
 * others begin theirs later. */
static void captured(void)
{
	struct call calls[MANY];
	char word = 0;

	warm(MPI_COMM_WORLD);
	for (int k = 0; k < MANY; k++)
		calls[k] = prepared(DEVICE, DEVICE, k % 2, 4, 0, LARGE, k);
	if (rank)
		MPI_Recv(&word, 1, MPI_CHAR, 0, 5, MPI_COMM_WORLD,
			MPI_STATUS_IGNORE);
	for (int k = 0; k < MANY; k++)
		MPI_Iallreduce(calls[k].in_place ? MPI_IN_PLACE : calls[k].in,
			calls[k].out, LARGE, types[4].type, MPI_SUM,
			MPI_COMM_WORLD, &calls[k].request);
	if (!rank)
		fake_capture(true);
	for (int to = 1; to < size && !rank; to++)
		MPI_Send(&word, 1, MPI_CHAR, to, 5, MPI_COMM_WORLD);
	for (int k = 0; k < MANY; k++)
		MPI_Wait(&calls[k].request, MPI_STATUS_IGNORE);
	fake_capture(false);
	for (int k = 0; k < MANY; k++)
		checked(&calls[k], "a call beside a capture");
	captured_beside();
}

/* The same address, now of this device, now of that, now half as long. */
static void reuse(void)
{
	void *last = NULL;
	int again = 0;

	warm(MPI_COMM_WORLD);
	for (int turn = 0; turn < 40; turn++) {
		enum where where = turn % 3 ? DEVICE : OTHER_DEVICE;
		struct call call = prepared(
			where, where, 1, 4, 0, turn % 2 ? 5000 : 2500, turn);

		again += call.out == last;
		last = call.out;
		run(&call, MPI_COMM_WORLD);
		checked(&call, "memory that was used before");
	}
	check(!fake_is_there() || again > 20, "the test: addresses come again");
}

static void communicators(void)
{
	for (int turn = 0; turn < 4; turn++) {
		MPI_Comm copy;
		struct call call;

		MPI_Comm_dup(MPI_COMM_WORLD, &copy);
		warm(copy);
		call = prepared(DEVICE, DEVICE, 0, 0, 0, LARGE, turn);
		run(&call, copy);
		checked(&call, "another communicator");
		MPI_Comm_free(&copy);
		check(!fake_counts().pinned, "pinned memory is given back");
	}
}

/* Of the run-time that is linked into a program nobody sees this by its name. */
static void reset_unseen(int device)
{
	tauti_gpu_result (*hidden)(int) = NULL;
	void *library = dlopen(
		getenv("TAUT_FAKE_CUDA"), RTLD_NOW | RTLD_NOLOAD);
	void *found = library ? dlsym(library, "cuDevicePrimaryCtxReset_v2") :
		NULL;

	memcpy(&hidden, &found, sizeof found);
	check(hidden && !hidden(device), "a reset");
}

/* Memory of a primary context, that is reset between calls and used again. */
static void resets(void)
{
	tauti_gpu_context primary, popped;
	struct call calls[2];

	warm(MPI_COMM_WORLD);
	check(!cuDevicePrimaryCtxReset_v2(0), "a reset of what is not there");
	check(!fake_counts().primaries, "a reset makes no context");
	for (int turn = 0; turn < 6; turn++) {
		check(!cuDevicePrimaryCtxRetain(&primary, 0) &&
			!cuCtxPushCurrent_v2(primary), "a context");
		for (int k = 0; k < 2; k++) {
			calls[k] = prepared(
				DEVICE, DEVICE, k, 4, 0, LARGE, turn + k);
			run(&calls[k], MPI_COMM_WORLD);
			checked(&calls[k], "memory of a primary context");
		}
		cuCtxPopCurrent_v2(&popped);
		if (turn % 2)
			check(!cuDevicePrimaryCtxReset_v2(0), "a reset");
		else
			reset_unseen(0);
		if (turn == 2) /* somebody else keeps a reference */
			check(!cuDevicePrimaryCtxRetain(&primary, 0), "a context");
		check(!cuDevicePrimaryCtxRelease_v2(0), "a release");
	}
	check(!cuDevicePrimaryCtxRelease_v2(0), "a release");
}

/* CUDA is loaded, by a part of MPI's say, and nobody has begun to use it. */
static void idle_driver(void)
{
	warm(MPI_COMM_WORLD);
	one(HOST, HOST, 0, 4, 0, LARGE, "a call of the host's");
}

static void late(void)
{
	warm(MPI_COMM_WORLD);
	load();
	one(DEVICE, DEVICE, 0, 0, 0, LARGE, "a late driver");
	one(rank ? HOST : DEVICE, DEVICE, 0, 0, 0, LARGE, "a late driver");
}

static int begin(struct call *call, MPI_Comm comm)
{
	return MPI_Iallreduce(call->in_place ? MPI_IN_PLACE : call->in,
		call->out, call->n, types[call->t].type, ops[call->o].op, comm,
		&call->request);
}

/* What a call gave; its sums are right where it says so. */
static int ended(struct call *call, int rc)
{
	if (rc == MPI_SUCCESS) {
		checked(call, "a call that did not fail");
		return rc;
	}
	if (call->in)
		unmake(call->in_where, call->in);
	unmake(call->out_where, call->out);
	return rc;
}

static int ended_wait(struct call *call, int rc)
{
	return ended(call, rc != MPI_SUCCESS ? rc :
		MPI_Wait(&call->request, MPI_STATUS_IGNORE));
}

/* Where ranks do not meet as a communicator ends, each leaves what others may have open. */
static void end_apart(void)
{
	most_left += fake_counts().peers > 0;
}

/* Rank 0 ends, and the others do something else for longer than it waits for them. */
static void ends_first(void)
{
	warm(MPI_COMM_WORLD);
	one(DEVICE, DEVICE, 0, 4, 0, LARGE, "a call before the end");
	end_apart();
	if (rank)
		sleep(6);
}

/* The driver fails on a rank; all of them are told. */
static void fails(void)
{
	struct call call;
	int rc = 0;

	warm(MPI_COMM_WORLD);
	end_apart();
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (rank == 1)
		fake_fail(getenv("WISH"), 3, 700);
	for (int turn = 0; turn < 20 && !rc; turn++) {
		call = prepared(DEVICE, DEVICE, turn % 2, 0, 0, LARGE, turn);
		rc = ended(&call, run(&call, MPI_COMM_WORLD));
	}
	fake_fail(NULL, 0, 0);
	check(rc != MPI_SUCCESS, "the error");
	call = prepared(DEVICE, DEVICE, 1, 0, 0, LARGE, 0);
	check(run(&call, MPI_COMM_WORLD) != MPI_SUCCESS, "the next");
	unmake(call.out_where, call.out);
}

/* Over a communicator that returns errors, while MPI_COMM_WORLD ends the job: it is told
 * where its own requests end, and nowhere else. */
static void fails_begun(void)
{
	struct call calls[MANY], again;
	MPI_Request other[2];
	MPI_Comm copy;
	int failed = 0, word = rank, got = -1, begun[MANY];

	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
	warm(copy);
	if (rank == 1)
		fake_fail("cuMemcpyHtoDAsync_v2", 3, 700);
	for (int k = 0; k < MANY; k++) {
		calls[k] = prepared(DEVICE, DEVICE, 1, 0, 0, LARGE, k);
		begun[k] = begin(&calls[k], copy);
	}
	MPI_Irecv(&got, 1, MPI_INT, rank, 6, MPI_COMM_WORLD, &other[0]);
	usleep(200000); /* for those to fail that will */
	check(MPI_Isend(&word, 1, MPI_INT, rank, 6, MPI_COMM_WORLD, &other[1]) ==
		MPI_SUCCESS && MPI_Waitall(2, other, MPI_STATUSES_IGNORE) ==
		MPI_SUCCESS && got == rank, "a message beside a failure");
	for (int k = 0; k < MANY; k++)
		failed += ended_wait(&calls[k], begun[k]) != MPI_SUCCESS;
	fake_fail(NULL, 0, 0);
	check(failed > 0, "an error of those begun");
	again = prepared(DEVICE, DEVICE, 1, 0, 0, LARGE, 0);
	check(ended_wait(&again, begin(&again, copy)) != MPI_SUCCESS,
		"the next");
	check(again.request == MPI_REQUEST_NULL, "the request of the next");
	check(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS, "a barrier");
	MPI_Comm_free(&copy);
}

/* The first copy of a call that only begins fails at once on rank 1, which leaves: nobody
 * waits for it, and none of its later calls meets what the others have of that one. */
static void fails_at_once(void)
{
	struct call call, next;
	MPI_Comm copy;

	alarm(30);
	for (int turn = 0; turn < 2; turn++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &copy);
		MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
		warm(copy);
		call = prepared(DEVICE, DEVICE, 1, 0, 0, 300, 1);
		end_apart();
		next = prepared(HOST, HOST, 1, 0, 0, 300, 2);
		if (rank == 1)
			fake_fail(getenv("WISH"), 1, 700);
		check(ended_wait(&call, begin(&call, copy)) != MPI_SUCCESS,
			"the error of a call that began");
		fake_fail(NULL, 0, 0);
		if (!turn)
			MPI_Barrier(MPI_COMM_WORLD);
		check(ended(&next, run(&next, copy)) != MPI_SUCCESS, "the next");
		MPI_Comm_free(&copy);
	}
}

/* The copy of a call's last part fails on rank 1, where a call of as many numbers waits
 * in line, loaded: it is not summed with what the others have of that part. */
static void one_fails_in_line(void)
{
	enum { PART = 65536 / sizeof(float), PARTS = 4, REST = 300 };
	struct call calls[2];
	char word = 0;
	int begun[2];
	MPI_Comm copy;

	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
	warm(copy);
	calls[0] = prepared(DEVICE, DEVICE, 1, 0, 0, PARTS * PART + REST, 1);
	calls[1] = prepared(HOST, HOST, 1, 0, 0, REST, 2);
	if (!rank)
		MPI_Recv(&word, 1, MPI_CHAR, 1, 5, MPI_COMM_WORLD,
			MPI_STATUS_IGNORE);
	for (int k = 0; k < 2; k++)
		begun[k] = begin(&calls[k], copy);
	if (rank) { /* four parts wait for the other rank; the last for them */
		fake_fail("cuMemcpyDtoHAsync_v2", 1, 700);
		MPI_Send(&word, 1, MPI_CHAR, 0, 5, MPI_COMM_WORLD);
	}
	for (int k = 0; k < 2; k++)
		check(ended_wait(&calls[k], begun[k]) != MPI_SUCCESS,
			"the error of a call in line");
	fake_fail(NULL, 0, 0);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Comm_free(&copy);
}

static void fails_in_line(void)
{
	for (int turn = 0; turn < 10; turn++)
		one_fails_in_line();
}

/* --- all ----------------------------------------------------------------------------------*/

static void nothing_is_left(void)
{
	struct fake_counts c = fake_counts();
	int begun = contexts[0] && fake_is_there() ? 2 : 0;

	if (c.streams || c.events || c.pinned || c.modules || c.peers ||
		c.blocks > most_left || c.faults || c.depth != begun ||
		c.contexts != begun) {
		fprintf(stderr, "rank %d: left: streams %d events %d pinned %d "
			"modules %d peers %d blocks %d faults %d depth %d "
			"contexts %d\n", rank, c.streams, c.events, c.pinned,
			c.modules, c.peers, c.blocks, c.faults, c.depth,
			c.contexts);
		exit(8);
	}
	if (getenv("TELL") && !rank)
		printf("copies %s launches %s\n", c.copies ? "some" : "none",
			c.launches ? "some" : "none");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = { { "kinds", kinds }, { "sizes", sizes },
		{ "places", places }, { "no_context", no_context },
		{ "steady", steady }, { "begun", begun }, { "reuse", reuse },
		{ "communicators", communicators }, { "resets", resets },
		{ "captured", captured }, { "null_stream", null_stream }, { "idle_driver", idle_driver },
		{ "late", late }, { "ends_first", ends_first },
		{ "fails", fails }, { "fails_begun", fails_begun },
		{ "fails_at_once", fails_at_once },
		{ "fails_in_line", fails_in_line } };

	alarm(100);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
#ifndef LATE
	if (!getenv("IDLE"))
		load();
#endif
	for (int i = 1; i < argc; i++)
		for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
			if (!strcmp(argv[i], parts[k].name)) {
				parts[k].run();
				if (!rank)
					printf("%s done\n", argv[i]);
			}
	MPI_Finalize();
	nothing_is_left();
	return 0;
}

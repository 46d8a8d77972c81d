/* allreduce.c - what an MPI program may do with all-reduces, one part a word; each
 * checks itself, against what MPI_Reduce and MPI_Bcast say. Rank 0 says which parts
 * are done. The same program must do the same with Taut before the library and
 * without. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job.h"

enum { LARGE = WARM };

/* --- types and reductions -----------------------------------------------------------------*/

static const struct {
	const char *name;
	MPI_Datatype type;
	int bytes;
	char kind; /* f, s, u: float, signed, unsigned */
} types[] = {
	{ "float", MPI_FLOAT, 4, 'f' }, { "double", MPI_DOUBLE, 8, 'f' },
	{ "int", MPI_INT, 4, 's' }, { "unsigned", MPI_UNSIGNED, 4, 'u' },
	{ "long", MPI_LONG, 8, 's' },
	{ "unsigned long", MPI_UNSIGNED_LONG, 8, 'u' },
	{ "long long", MPI_LONG_LONG_INT, 8, 's' },
	{ "unsigned long long", MPI_UNSIGNED_LONG_LONG, 8, 'u' },
	{ "signed char", MPI_SIGNED_CHAR, 1, 's' },
	{ "unsigned char", MPI_UNSIGNED_CHAR, 1, 'u' },
	{ "short", MPI_SHORT, 2, 's' },
	{ "unsigned short", MPI_UNSIGNED_SHORT, 2, 'u' },
	{ "int8", MPI_INT8_T, 1, 's' }, { "uint8", MPI_UINT8_T, 1, 'u' },
	{ "int16", MPI_INT16_T, 2, 's' }, { "int32", MPI_INT32_T, 4, 's' },
	{ "uint32", MPI_UINT32_T, 4, 'u' }, { "int64", MPI_INT64_T, 8, 's' },
	{ "uint64", MPI_UINT64_T, 8, 'u' },
};
static const struct {
	const char *name;
	MPI_Op op;
	int bits, exact;
} ops[] = {
	{ "sum", MPI_SUM, 0, 0 }, { "prod", MPI_PROD, 0, 0 },
	{ "min", MPI_MIN, 0, 1 }, { "max", MPI_MAX, 0, 1 },
	{ "band", MPI_BAND, 1, 1 }, { "bor", MPI_BOR, 1, 1 },
	{ "bxor", MPI_BXOR, 1, 1 }, { "land", MPI_LAND, 1, 1 },
	{ "lor", MPI_LOR, 1, 1 }, { "lxor", MPI_LXOR, 1, 1 },
};

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* What overflows is nobody's to say: Open MPI's sums of int8 then stop at the
 * largest. And MPICH 4.0 compares uint64_t as if it had a sign, as Open MPI 4.1 does
 * unsigned long: the highest bit stays clear. */
static uint64_t small_for(size_t o, int bytes, char kind, uint64_t r)
{
	if (ops[o].op == MPI_SUM || ops[o].op == MPI_PROD)
		return ops[o].op == MPI_SUM ? r % 16 : r % 3;
	return kind == 'u' ? r & (UINT64_MAX >> (65 - 8 * bytes)) : r;
}

static void fill(void *data, int n, int bytes, char kind, size_t o, uint64_t seed)
{
	uint64_t state = seed * 0x9e3779b97f4a7c15u + (uint64_t)rank + 1;

	for (int i = 0; i < n; i++) {
		uint64_t r = next_random(&state);
		double value = (double)(int64_t)r / 9.3e18;

		r = small_for(o, bytes, kind, r);

		if (kind != 'f')
			memcpy((char *)data + (size_t)i * bytes, &r, bytes);
		else if (bytes == 4)
			((float *)data)[i] = (float)value;
		else
			((double *)data)[i] = value;
	}
}

static double value_of(const void *data, int i, int bytes)
{
	return bytes == 4 ? ((const float *)data)[i] :
		((const double *)data)[i];
}

/* Any two orders of n - 1 additions of x differ by at most twice (n-1) u sum|x|, u
 * half an epsilon (Higham, Accuracy and Stability, 4.2); of products alike. */
static void check_floats(const void *got, const void *want, const void *mine,
	int n, int bytes, int product, const char *what)
{
	double unit = (bytes == 4 ? FLT_EPSILON : DBL_EPSILON) / 2;
	double *large = malloc((size_t)n * sizeof *large);

	for (int i = 0; i < n; i++)
		large[i] = fabs(value_of(mine, i, bytes));
	MPI_Allreduce(MPI_IN_PLACE, large, n, MPI_DOUBLE,
		product ? MPI_PROD : MPI_SUM, MPI_COMM_SELF);
	/* what all have, by the library's other calls */
	double *all = malloc((size_t)n * sizeof *all);
	MPI_Reduce(large, all, n, MPI_DOUBLE, product ? MPI_PROD : MPI_SUM, 0,
		MPI_COMM_WORLD);
	MPI_Bcast(all, n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++)
		check(fabs(value_of(got, i, bytes) -
			value_of(want, i, bytes)) <= 2 * (size - 1) * unit *
			all[i] * 1.0001 + (product ? 1e-44 : 0), what);
	free(all);
	free(large);
}

static void one_kind(size_t t, size_t o, int n, int in_place)
{
	size_t bytes = (size_t)n * types[t].bytes;
	char *in = malloc(bytes + 8), *got = malloc(bytes + 8);
	char *want = malloc(bytes + 8), what[64];

	snprintf(what, sizeof what, "%s of %d %s", ops[o].name, n,
		types[t].name);
	fill(in, n, types[t].bytes, types[t].kind, o, t * 100 + o);
	memset(got + bytes, 77, 8);
	if (in_place)
		memcpy(got, in, bytes);
	check(MPI_Allreduce(in_place ? MPI_IN_PLACE : in, got, n,
		types[t].type, ops[o].op, MPI_COMM_WORLD) == MPI_SUCCESS, what);
	for (int i = 0; i < 8; i++)
		check(got[bytes + i] == 77, "what lies beside");
	MPI_Reduce(in, want, n, types[t].type, ops[o].op, 0, MPI_COMM_WORLD);
	MPI_Bcast(want, n, types[t].type, 0, MPI_COMM_WORLD);
	if (types[t].kind != 'f' || ops[o].exact) {
		for (size_t i = 0; i < bytes; i++)
			if (got[i] != want[i]) {
				fprintf(stderr, "rank %d: %s: byte %zu: %d, "
					"expected %d\n", rank, what, i, got[i],
					want[i]);
				check(0, what);
			}
	} else {
		check_floats(got, want, in, n, types[t].bytes,
			ops[o].op == MPI_PROD, what);
	}
	free(in);
	free(got);
	free(want);
}

static void kinds(void)
{
	warm(MPI_COMM_WORLD);
	for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
		for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++)
			if (types[t].kind != 'f' || !ops[o].bits) {
				one_kind(t, o, 5003, 0);
				one_kind(t, o, 5003, 1);
			}
}

static void sizes(void)
{
	static const int counts[] = { 0, 1, 2, 3, 31, 127, 128, 129, 255, 256,
		1000, 1023, 1024, 1025, 4096, 65537, 1000003 };

	warm(MPI_COMM_WORLD);
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		one_kind(0, 0, counts[i], 0);
		one_kind(2, 0, counts[i], 1);
	}
}

/* Counts of 64 bits, as far as the library has them. */
static void large_counts(void)
{
#if MPI_VERSION >= 4
	int *data = calloc(LARGE, sizeof *data);
	MPI_Request request;

	warm(MPI_COMM_WORLD);
	data[LARGE - 1] = rank;
	MPI_Allreduce_c(MPI_IN_PLACE, data, LARGE, MPI_INT, MPI_SUM,
		MPI_COMM_WORLD);
	check(data[LARGE - 1] == size * (size - 1) / 2, "large count");
	MPI_Iallreduce_c(MPI_IN_PLACE, data, LARGE, MPI_INT, MPI_MAX,
		MPI_COMM_WORLD, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	check(data[LARGE - 1] == size * (size - 1) / 2, "large count begun");
	free(data);
#endif
}

/* --- what goes to MPI ---------------------------------------------------------------------*/

static void larger(void *in, void *into, int *n, MPI_Datatype *type)
{
	float *a = in, *b = into;

	(void)type;
	for (int i = 0; i < *n; i++)
		b[i] = 10 * b[i] > a[i] ? b[i] : a[i];
}

static void own_op(void)
{
	float *data = calloc(LARGE, sizeof *data);
	MPI_Op op;

	warm(MPI_COMM_WORLD);
	MPI_Op_create(larger, 1, &op);
	for (int i = 0; i < LARGE; i++)
		data[i] = (float)(rank + 1);
	MPI_Allreduce(MPI_IN_PLACE, data, LARGE, MPI_FLOAT, op, MPI_COMM_WORLD);
	check(data[0] >= 1 && data[0] <= (float)size && data[7] == data[0],
		"own reduction");
	MPI_Op_free(&op);
	free(data);
}

/* Pairs of a value and a place, and a type that is derived. */
static void add_pairs(void *in, void *into, int *n, MPI_Datatype *type)
{
	int *a = in, *b = into;

	(void)type;
	for (int i = 0; i < 2 * *n; i++)
		b[i] += a[i];
}

static void own_type(void)
{
	struct { double value; int at; } *data = calloc(LARGE, 16);
	int *pairs = calloc(2 * LARGE, sizeof *pairs);
	MPI_Datatype type;
	MPI_Op op;

	warm(MPI_COMM_WORLD);
	for (int i = 0; i < LARGE; i++) {
		data[i].value = (rank * 7 + i) % 11;
		data[i].at = rank;
	}
	MPI_Allreduce(MPI_IN_PLACE, data, LARGE, MPI_DOUBLE_INT, MPI_MAXLOC,
		MPI_COMM_WORLD);
	check(data[0].at >= 0 && data[0].at < size, "place of the largest");
	MPI_Type_contiguous(2, MPI_INT, &type);
	MPI_Type_commit(&type);
	MPI_Op_create(add_pairs, 1, &op);
	for (int i = 0; i < 2 * LARGE; i++)
		pairs[i] = i + rank;
	MPI_Allreduce(MPI_IN_PLACE, pairs, LARGE, type, op, MPI_COMM_WORLD);
	for (int i = 0; i < 2 * LARGE; i++)
		check(pairs[i] == size * i + size * (size - 1) / 2, "pairs");
	MPI_Type_free(&type);
	MPI_Op_free(&op);
	free(data);
	free(pairs);
}

static void inter(void)
{
	MPI_Comm half, both;
	int side = rank % 2, mine = side ? size / 2 : (size + 1) / 2;
	int *data = calloc(LARGE, sizeof *data), *sum = calloc(LARGE, sizeof *sum);

	MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !side, 3, &both);
	for (int i = 0; i < LARGE; i++)
		data[i] = side + 1;
	for (int i = 0; i < ENOUGH; i++)
		MPI_Allreduce(data, sum, LARGE, MPI_INT, MPI_SUM, both);
	check(sum[5] == (2 - side) * (size - mine), "the other side's sum");
	MPI_Barrier(both);
	MPI_Comm_free(&both);
	MPI_Comm_free(&half);
	free(data);
	free(sum);
}

static void self(void)
{
	int *data = calloc(LARGE, sizeof *data), *sum = calloc(LARGE, sizeof *sum);

	for (int i = 0; i < LARGE; i++)
		data[i] = i;
	for (int i = 0; i < ENOUGH; i++)
		MPI_Allreduce(data, sum, LARGE, MPI_INT, MPI_SUM, MPI_COMM_SELF);
	check(!memcmp(data, sum, LARGE * sizeof *data), "sum of one");
	free(data);
	free(sum);
}

/* --- calls that only begin ----------------------------------------------------------------*/

enum { MANY = 8 };

static void check_sums(int *const *data, int n)
{
	for (int k = 0; k < n; k++) {
		for (int i = 0; i < LARGE; i += 97)
			check(data[k][i] == size * (i + k) +
				size * (size - 1) / 2, "sum that was begun");
		free(data[k]);
	}
}

static void begin(int **data, MPI_Request *requests, int n)
{
	for (int k = 0; k < n; k++) {
		data[k] = malloc(LARGE * sizeof **data);
		for (int i = 0; i < LARGE; i++)
			data[k][i] = i + k + rank;
		MPI_Iallreduce(MPI_IN_PLACE, data[k], LARGE, MPI_INT, MPI_SUM,
			MPI_COMM_WORLD, &requests[k]);
	}
}

static void begun(void)
{
	int *data[MANY], flag, index, n_done, indices[MANY], left;
	MPI_Request requests[MANY];
	MPI_Status status, statuses[MANY];

	warm(MPI_COMM_WORLD);
	begin(data, requests, MANY);
	for (int k = MANY - 1; k >= 0; k--)
		MPI_Wait(&requests[k], &status);
	check(requests[0] == MPI_REQUEST_NULL, "request after its wait");
	check_sums(data, MANY);
	begin(data, requests, MANY);
	MPI_Waitall(MANY, requests, statuses);
	check_sums(data, MANY);
	begin(data, requests, MANY);
	for (int k = 0; k < MANY; k++)
		for (flag = 0; !flag;)
			MPI_Test(&requests[k], &flag, MPI_STATUS_IGNORE);
	check_sums(data, MANY);
	begin(data, requests, MANY);
	for (flag = 0; !flag;)
		MPI_Testall(MANY, requests, &flag, MPI_STATUSES_IGNORE);
	check_sums(data, MANY);
	begin(data, requests, MANY);
	for (int k = 0; k < MANY; k++) {
		MPI_Waitany(MANY, requests, &index, &status);
		check(index >= 0 && index < MANY, "index");
	}
	MPI_Waitany(MANY, requests, &index, &status);
	check(index == MPI_UNDEFINED, "index of none");
	check_sums(data, MANY);
	begin(data, requests, MANY);
	for (left = MANY; left; left -= n_done)
		MPI_Waitsome(MANY, requests, &n_done, indices, statuses);
	check_sums(data, MANY);
	begin(data, requests, MANY);
	for (left = MANY; left;) {
		MPI_Testany(MANY, requests, &index, &flag, &status);
		left -= flag && index != MPI_UNDEFINED;
	}
	check_sums(data, MANY);
	begin(data, requests, MANY);
	for (left = MANY; left; left -= n_done)
		MPI_Testsome(MANY, requests, &n_done, indices, statuses);
	check_sums(data, MANY);
	begin(data, requests, 1);
	for (flag = 0; !flag;)
		MPI_Request_get_status(requests[0], &flag, &status);
	MPI_Wait(&requests[0], &status);
	check_sums(data, 1);
}

static void *newer(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	check(found != NULL, name);
	return found;
}

/* What MPI 4.1 has to look at several requests, and nothing else. */
static void looked_at(void)
{
	int (*all)(int, const MPI_Request *, int *, MPI_Status *) =
		newer("MPI_Request_get_status_all");
	int (*any)(int, const MPI_Request *, int *, int *, MPI_Status *) =
		newer("MPI_Request_get_status_any");
	int (*some)(int, const MPI_Request *, int *, int *, MPI_Status *) =
		newer("MPI_Request_get_status_some");
	int *data[MANY], flag, index, n_done, indices[MANY];
	MPI_Request requests[MANY];

	alarm(60);
	warm(MPI_COMM_WORLD);
	for (int way = 0; way < 3; way++) {
		begin(data, requests, MANY);
		for (flag = 0; !flag;) {
			if (way == 0)
				all(MANY, requests, &flag, MPI_STATUSES_IGNORE);
			else if (way == 1)
				any(MANY, requests, &index, &flag,
					MPI_STATUS_IGNORE);
			else
				some(MANY, requests, &n_done, indices,
					MPI_STATUSES_IGNORE);
			flag |= way == 2 && n_done > 0;
		}
		MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
		check_sums(data, MANY);
	}
	alarm(0);
}

/* A program whose all-reduces only begin, and which has barriers. */
static void only_begun(void)
{
	int *data[1];
	MPI_Request request;

	for (int i = 0; i < ENOUGH; i++) {
		begin(data, &request, 1);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		check_sums(data, 1);
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

/* Until Taut has them, and on. */
static void small(void)
{
	enum { FEW = 512, CALLS = 300 };
	int sum[FEW];
	MPI_Request request;

	alarm(60);
	for (int i = 0; i < CALLS; i++) {
		for (int k = 0; k < FEW; k++)
			sum[k] = rank + k;
		MPI_Allreduce(MPI_IN_PLACE, sum, FEW, MPI_INT, MPI_SUM,
			MPI_COMM_WORLD);
		check(sum[9] == size * 9 + size * (size - 1) / 2, "small sum");
		MPI_Iallreduce(MPI_IN_PLACE, sum, FEW, MPI_INT, MPI_MAX,
			MPI_COMM_WORLD, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		check(sum[9] == size * 9 + size * (size - 1) / 2, "small maximum");
	}
	alarm(0);
}

/* Calls that begin and calls that block, by turns, in one order. */
static void by_turns(void)
{
	int *data[2], *sum = malloc(LARGE * sizeof *sum);
	MPI_Request requests[2];

	warm(MPI_COMM_WORLD);
	for (int turn = 0; turn < 20; turn++) {
		begin(data, requests, 2);
		for (int i = 0; i < LARGE; i++)
			sum[i] = rank + turn;
		MPI_Allreduce(MPI_IN_PLACE, sum, LARGE, MPI_INT, MPI_SUM,
			MPI_COMM_WORLD);
		check(sum[9] == size * turn + size * (size - 1) / 2, "turn");
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		check_sums(data, 2);
	}
	free(sum);
}

/* MPI moves on whatever a rank waits for. Each of these stops for ever where a call
 * moves its own messages alone. */
static void progress(void)
{
	int after = (rank + 1) % size, before = (rank + size - 1) % size;
	int *out = calloc(1 << 20, sizeof *out), *in = calloc(1 << 20, sizeof *in);
	int *sum = calloc(LARGE, sizeof *sum), *data[1];
	MPI_Request request, begun_one, both[3];
	MPI_Status statuses[3];

	warm(MPI_COMM_WORLD);
	for (int turn = 0; turn < 5; turn++) {
		/* a large send needs its sender, who is in an all-reduce */
		if (rank == 0) {
			MPI_Isend(out, 1 << 20, MPI_INT, after, 1,
				MPI_COMM_WORLD, &request);
		} else if (rank == 1) {
			usleep(2000);
			MPI_Recv(in, 1 << 20, MPI_INT, before, 1,
				MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		}
		MPI_Allreduce(MPI_IN_PLACE, sum, LARGE, MPI_INT, MPI_SUM,
			MPI_COMM_WORLD);
		if (rank == 0)
			MPI_Wait(&request, MPI_STATUS_IGNORE);
		/* an all-reduce that was begun needs a rank that is in a
		 * receive */
		begin(data, &begun_one, 1);
		if (rank == 0)
			MPI_Recv(in, 1, MPI_INT, after, 2, MPI_COMM_WORLD,
				MPI_STATUS_IGNORE);
		MPI_Wait(&begun_one, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(out, 1, MPI_INT, before, 2, MPI_COMM_WORLD);
		check_sums(data, 1);
		/* one list of both kinds of request */
		begin(data, &both[0], 1);
		MPI_Irecv(in, 1 << 20, MPI_INT, before, 3, MPI_COMM_WORLD,
			&both[1]);
		MPI_Isend(out, 1 << 20, MPI_INT, after, 3, MPI_COMM_WORLD,
			&both[2]);
		MPI_Waitall(3, both, statuses);
		check_sums(data, 1);
	}
	free(out);
	free(in);
	free(sum);
}

/* --- communicators ------------------------------------------------------------------------*/

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

static long resident_kb(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0, resident = 0;

	check(file && fscanf(file, "%ld %ld", &pages, &resident) == 2, "statm");
	fclose(file);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void splits(int n)
{
	float *data = calloc(LARGE, sizeof *data);
	int fds = 0;
	long kb = 0;

	for (int i = 0; i < n; i++) {
		MPI_Comm half;
		int members;

		MPI_Comm_split(MPI_COMM_WORLD, (rank + i / 2) % 2, rank, &half);
		MPI_Comm_size(half, &members);
		for (int k = 0; k < LARGE; k++)
			data[k] = 1;
		MPI_Allreduce(MPI_IN_PLACE, data, LARGE, MPI_FLOAT, MPI_SUM,
			half);
		check(data[3] == (float)members, "sum of a half");
		MPI_Comm_free(&half);
		if (i == n / 4) {
			fds = count_fds();
			kb = resident_kb();
		}
	}
	check(count_fds() <= fds, "number of descriptors");
	check(resident_kb() < kb + 8192, "resident memory");
	free(data);
}

static void copies(void)
{
	MPI_Comm copy, again;
	MPI_Request request;
	int *sum = calloc(LARGE, sizeof *sum);

	warm(MPI_COMM_WORLD);
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	warm(copy);
	MPI_Comm_dup(copy, &again);
	warm(again);
	MPI_Comm_free(&copy);
	sum[0] = rank;
	MPI_Iallreduce(MPI_IN_PLACE, sum, LARGE, MPI_INT, MPI_SUM, again,
		&request);
	MPI_Comm_free(&again);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	check(sum[0] == size * (size - 1) / 2, "sum of a freed communicator");
	free(sum);
}

/* Rank 0 frees a communicator over which it began, and rank 1 begins the same after a
 * large message of rank 0's, which needs its sender. */
static void freed(void)
{
	int *large = calloc(1 << 20, sizeof *large);
	int *sum = calloc(LARGE, sizeof *sum);
	MPI_Request request, send = MPI_REQUEST_NULL;
	MPI_Comm copy;

	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	warm(copy);
	if (rank == 0) {
		MPI_Isend(large, 1 << 20, MPI_INT, 1, 4, MPI_COMM_WORLD, &send);
	} else if (rank == 1) {
		usleep(20000);
		MPI_Recv(large, 1 << 20, MPI_INT, 0, 4, MPI_COMM_WORLD,
			MPI_STATUS_IGNORE);
	}
	sum[0] = rank;
	MPI_Iallreduce(MPI_IN_PLACE, sum, LARGE, MPI_INT, MPI_SUM, copy,
		&request);
	MPI_Comm_free(&copy);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Wait(&send, MPI_STATUS_IGNORE);
	check(sum[0] == size * (size - 1) / 2, "sum of a freed communicator");
	free(large);
	free(sum);
}

#if MPI_VERSION >= 4
static MPI_Session session = MPI_SESSION_NULL;
#endif

/* Rank 0 sums in a session before MPI_COMM_WORLD is there. MPICH 4.0 does not begin again
 * after the last session's end, so it stays open until end_session(). */
static void sum_in_a_session(void)
{
#if MPI_VERSION >= 4
	const char *who = getenv("PMI_RANK");
	int *data = calloc(LARGE, sizeof *data);
	MPI_Group group;
	MPI_Comm comm;

	if (who && atoi(who) == 0) {
		alarm(60);
		MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
		MPI_Group_from_session_pset(session, "mpi://SELF", &group);
		MPI_Comm_create_from_group(group, "", MPI_INFO_NULL,
			MPI_ERRORS_ARE_FATAL, &comm);
		MPI_Allreduce(MPI_IN_PLACE, data, LARGE, MPI_INT, MPI_SUM, comm);
		MPI_Comm_free(&comm);
		MPI_Group_free(&group);
		alarm(0); /* what comes next takes its time */
	}
	free(data);
#endif
}

/* Without it MPICH's launcher does not know that rank 0 ends well, and kills the others. */
static void end_session(void)
{
#if MPI_VERSION >= 4
	if (session != MPI_SESSION_NULL)
		MPI_Session_finalize(&session);
#endif
}

static void spawn(const char *program)
{
	MPI_Comm children, parent, all;
	char *words[] = { "child", NULL };
	int *data = calloc(LARGE, sizeof *data);

	MPI_Comm_get_parent(&parent);
	if (parent == MPI_COMM_NULL)
		MPI_Comm_spawn(program, words, 1, MPI_INFO_NULL, 0,
			MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
	else
		children = parent;
	MPI_Intercomm_merge(children, parent != MPI_COMM_NULL, &all);
	for (int i = 0; i < ENOUGH; i++) {
		data[5] = 1;
		MPI_Allreduce(MPI_IN_PLACE, data, LARGE, MPI_INT, MPI_SUM, all);
	}
	MPI_Comm_size(all, &size);
	check(data[5] == size, "sum with a child");
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_free(&all);
	MPI_Comm_disconnect(&children);
	free(data);
}

/* --- ends ---------------------------------------------------------------------------------*/

/* Rank 1 is killed; the others are in all-reduces for ever. */
static void killed(void)
{
	float *data = calloc(LARGE, sizeof *data);

	warm(MPI_COMM_WORLD);
	for (int i = 0;; i++) {
		if (rank == 1 && i == 10)
			raise(SIGKILL);
		MPI_Allreduce(MPI_IN_PLACE, data, LARGE, MPI_FLOAT, MPI_SUM,
			MPI_COMM_WORLD);
	}
}

/* The same of all-reduces that only begin. */
static void killed_begun(void)
{
	int *data[MANY];
	MPI_Request requests[MANY];

	warm(MPI_COMM_WORLD);
	for (int i = 0;; i++) {
		begin(data, requests, MANY);
		if (rank == 1 && i == 3)
			raise(SIGKILL);
		MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
		check_sums(data, MANY);
	}
}

/* A rank cannot begin the first; none of the others waits for it, or takes its second for
 * that. */
static void one_does_not_begin(void)
{
	int *sum = calloc(2 * LARGE, sizeof *sum), began[2];
	MPI_Request requests[2];

	alarm(60);
	warm(MPI_COMM_WORLD);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int k = 0; k < 2; k++)
		began[k] = MPI_Iallreduce(MPI_IN_PLACE, sum + k * LARGE, LARGE,
			MPI_INT, MPI_SUM, MPI_COMM_WORLD,
			&requests[k]) == MPI_SUCCESS;
	for (int k = 0; k < 2; k++)
		check(!began[k] || MPI_Wait(&requests[k], MPI_STATUS_IGNORE) !=
			MPI_SUCCESS, "a sum without a rank");
	check(rank != 1 || !began[0], "the rank that cannot begin");
	alarm(0);
	free(sum);
}

static void aborted(void)
{
	warm(MPI_COMM_WORLD);
	if (rank == 0)
		MPI_Abort(MPI_COMM_WORLD, 5);
	warm(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {
		{ "kinds", kinds }, { "sizes", sizes }, { "own_op", own_op },
		{ "own_type", own_type }, { "inter", inter }, { "self", self },
		{ "begun", begun }, { "by_turns", by_turns },
		{ "progress", progress }, { "copies", copies },
		{ "freed", freed },
		{ "killed", killed }, { "killed_begun", killed_begun },
		{ "only_begun", only_begun }, { "large_counts", large_counts },
		{ "aborted", aborted }, { "small", small },
		{ "looked_at", looked_at },
		{ "one_does_not_begin", one_does_not_begin },
	};
	int level = MPI_THREAD_SINGLE;

	if (argc > 1 && !strcmp(argv[1], "multiple"))
		level = MPI_THREAD_MULTIPLE;
	if (argc > 1 && !strcmp(argv[1], "session"))
		sum_in_a_session();
	MPI_Init_thread(&argc, &argv, level, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 1; i < argc; i++) {
		for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
			if (!strcmp(argv[i], parts[k].name))
				parts[k].run();
		if (!strncmp(argv[i], "splits=", 7))
			splits(atoi(argv[i] + 7));
		if (!strcmp(argv[i], "spawn"))
			spawn(argv[0]);
		if (!strcmp(argv[i], "child")) {
			spawn(argv[0]);
			MPI_Finalize();
			return 0;
		}
		if (rank == 0)
			printf("%s done\n", argv[i]);
	}
	MPI_Finalize();
	end_session();
	return 0;
}

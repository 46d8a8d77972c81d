/* mpi_calls.c - what an MPI program may do, one part a word, so that a test
 * can count what the interposer saw. Every part says on rank 0 what it did,
 * and is checked by the program itself: a wrapper that changes anything
 * fails here. */
#include <mpi.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../mpi/job.h"

/* Ten laps of one token. */
static void ring(void)
{
	int token = 0, before = (rank + size - 1) % size;
	int after = (rank + 1) % size;
	MPI_Status status;

	for (int lap = 0; lap < 10; lap++) {
		if (rank == 0) {
			token += 1;
			MPI_Send(&token, 1, MPI_INT, after, lap % 3,
				MPI_COMM_WORLD);
			MPI_Recv(&token, 1, MPI_INT, before, lap % 3,
				MPI_COMM_WORLD, &status);
		} else {
			MPI_Recv(&token, 1, MPI_INT, before, lap % 3,
				MPI_COMM_WORLD, &status);
			token += 1;
			MPI_Send(&token, 1, MPI_INT, after, lap % 3,
				MPI_COMM_WORLD);
		}
		check(status.MPI_SOURCE == before &&
			status.MPI_TAG == lap % 3, "status");
	}
	check(token == (rank ? 9 * size + rank + 1 : 10 * size), "token");
}

static void rooted(void)
{
	double *all = calloc((size_t)size * 4, sizeof *all), mine[4] = { rank };
	int *counts = calloc((size_t)size * 2, sizeof *counts);

	for (int i = 0; i < size; i++) {
		counts[i] = i + 1 < 4 ? i + 1 : 4;
		counts[size + i] = 4 * i;
	}
	MPI_Bcast(mine, 4, MPI_DOUBLE, 1, MPI_COMM_WORLD);
	check(mine[0] == 1, "bcast");
	MPI_Reduce(mine, all, 4, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Gather(mine, 2, MPI_DOUBLE, all, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	MPI_Gatherv(mine, counts[rank], MPI_DOUBLE, all, counts, counts + size,
		MPI_DOUBLE, 0, MPI_COMM_WORLD);
	MPI_Scatter(all, 2, MPI_DOUBLE, mine, 2, MPI_DOUBLE, 0,
		MPI_COMM_WORLD);
	MPI_Scatterv(all, counts, counts + size, MPI_DOUBLE, mine,
		counts[rank], MPI_DOUBLE, 0, MPI_COMM_WORLD);
	free(all);
	free(counts);
}

static void everyone(void)
{
	float *a = calloc((size_t)size * 8, sizeof *a);
	float *b = calloc((size_t)size * 8, sizeof *b);
	int *counts = calloc((size_t)size * 2, sizeof *counts), sum = 0;

	for (int i = 0; i < size; i++) {
		counts[i] = 2;
		counts[size + i] = 2 * i;
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	check(sum == size * (size - 1) / 2, "allreduce");
	MPI_Allreduce(MPI_IN_PLACE, a, 8, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
	MPI_Allgather(a, 3, MPI_FLOAT, b, 3, MPI_FLOAT, MPI_COMM_WORLD);
	MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, 3, MPI_FLOAT,
		MPI_COMM_WORLD);
	MPI_Allgatherv(a, 2, MPI_FLOAT, b, counts, counts + size, MPI_FLOAT,
		MPI_COMM_WORLD);
	MPI_Alltoall(a, 2, MPI_FLOAT, b, 2, MPI_FLOAT, MPI_COMM_WORLD);
	MPI_Alltoallv(a, counts, counts + size, MPI_FLOAT, b, counts,
		counts + size, MPI_FLOAT, MPI_COMM_WORLD);
	MPI_Reduce_scatter(a, b, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Reduce_scatter_block(a, b, 3, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Scan(a, b, 5, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Exscan(a, b, 5, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	free(a);
	free(b);
	free(counts);
}

static void types(void)
{
	MPI_Datatype three;
	double buf[16] = { 0 };

	MPI_Type_contiguous(3, MPI_FLOAT, &three);
	MPI_Type_commit(&three);
	MPI_Bcast(buf, 2, three, 0, MPI_COMM_WORLD);
	MPI_Type_free(&three);
	MPI_Bcast(buf, 3, MPI_C_DOUBLE_COMPLEX, 0, MPI_COMM_WORLD);
	MPI_Bcast(buf, 3, MPI_INT64_T, 0, MPI_COMM_WORLD);
	MPI_Bcast(buf, 3, MPI_UNSIGNED_SHORT, 0, MPI_COMM_WORLD);
	MPI_Bcast(buf, 3, MPI_BYTE, 0, MPI_COMM_WORLD);
	MPI_Bcast(buf, 3, MPI_DOUBLE_INT, 0, MPI_COMM_WORLD);
}

/* Both neighbours at once, waited for in each of the ways. */
static void nonblocking(void)
{
	int after = (rank + 1) % size, before = (rank + size - 1) % size;
	int in[40], out[40], flag, n, where[4];
	MPI_Request r[4];

	for (int way = 0; way < 8; way++) {
		out[0] = rank * 100 + way;
		MPI_Irecv(in, 40, MPI_INT, before, way, MPI_COMM_WORLD, &r[0]);
		MPI_Irecv(in + 20, 1, MPI_INT, after, way, MPI_COMM_WORLD,
			&r[1]);
		MPI_Isend(out, 2, MPI_INT, after, way, MPI_COMM_WORLD, &r[2]);
		MPI_Issend(out, 1, MPI_INT, before, way, MPI_COMM_WORLD,
			&r[3]);
		if (way == 0) {
			MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
		} else if (way == 1) {
			for (int i = 3; i >= 0; i--)
				MPI_Wait(&r[i], MPI_STATUS_IGNORE);
		} else if (way == 2) {
			for (int i = 0; i < 4; i++)
				MPI_Waitany(4, r, &n, MPI_STATUS_IGNORE);
			MPI_Waitany(4, r, &n, MPI_STATUS_IGNORE);
			check(n == MPI_UNDEFINED, "waitany");
		} else if (way == 3) {
			for (int done = 0; done < 4; done += n)
				MPI_Waitsome(4, r, &n, where,
					MPI_STATUSES_IGNORE);
		} else if (way == 4) {
			for (int i = 0; i < 4; i++)
				for (flag = 0; !flag;)
					MPI_Test(&r[i], &flag,
						MPI_STATUS_IGNORE);
		} else if (way == 5) {
			for (flag = 0; !flag;)
				MPI_Testall(4, r, &flag, MPI_STATUSES_IGNORE);
		} else if (way == 6) {
			for (int done = 0; done < 4; done += flag)
				MPI_Testany(4, r, &n, &flag,
					MPI_STATUS_IGNORE);
		} else {
			for (int done = 0; done < 4; done += n)
				MPI_Testsome(4, r, &n, where,
					MPI_STATUSES_IGNORE);
		}
		check(in[0] == before * 100 + way &&
			in[20] == after * 100 + way, "message");
	}
}

static void icollectives(void)
{
	MPI_Request r[3];
	double a[8] = { rank }, b[8], c[32];

	MPI_Iallreduce(a, b, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r[0]);
	MPI_Ibcast(c, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD, &r[1]);
	MPI_Ibarrier(MPI_COMM_WORLD, &r[2]);
	MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
	check(b[0] == size * (size - 1) / 2, "iallreduce");
}

static void persistent(void)
{
	int after = (rank + 1) % size, before = (rank + size - 1) % size;
	int in = -1, out;
	MPI_Request r[2];

	MPI_Recv_init(&in, 1, MPI_INT, before, 5, MPI_COMM_WORLD, &r[0]);
	MPI_Send_init(&out, 1, MPI_INT, after, 5, MPI_COMM_WORLD, &r[1]);
	for (int i = 0; i < 6; i++) {
		out = rank + 10 * i;
		if (i % 2) {
			MPI_Startall(2, r);
		} else {
			MPI_Start(&r[1]);
			MPI_Start(&r[0]);
		}
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		check(in == before + 10 * i, "persistent");
	}
	MPI_Request_free(&r[0]);
	MPI_Request_free(&r[1]);
}

static void subcomms(void)
{
	MPI_Comm half, copy, line, pair;
	MPI_Group group, world;
	int period = 1, sum, other, first[2] = { 0, 1 };

	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
	MPI_Comm_dup(half, &copy);
	MPI_Bcast(&sum, 1, MPI_INT, 0, copy);
	/* the same members again, under another name */
	MPI_Bcast(&sum, 1, MPI_INT, 0, half);
	MPI_Comm_rank(copy, &other);
	if (other == 0)
		MPI_Send(&rank, 1, MPI_INT, 1, 3, copy);
	else if (other == 1)
		MPI_Recv(&sum, 1, MPI_INT, 0, 3, copy, MPI_STATUS_IGNORE);
	MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &period, 0, &line);
	MPI_Barrier(line);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 2, first, &group);
	if (rank < 2) {
		for (int i = 0; i < 2; i++) {
			MPI_Comm_create_group(
				MPI_COMM_WORLD, group, 1, &pair);
			MPI_Barrier(pair);
			MPI_Comm_free(&pair);
		}
	}
	MPI_Group_free(&group);
	MPI_Group_free(&world);
	MPI_Comm_free(&line);
	MPI_Comm_free(&copy);
	MPI_Comm_free(&half);
}

enum { EACH = 4 };

static void send_some(int n, int tag)
{
	for (int i = 0; i < n; i++)
		MPI_Send(&rank, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
}

/* Two receives of anything, then two and one more of s alone; seen to be done
 * in the opposite order. */
static void wild_and_known(int s)
{
	MPI_Request r[EACH + 1];
	int in[EACH + 1];

	for (int i = 0; i < EACH; i++)
		MPI_Irecv(&in[i], 1, MPI_INT, i < 2 ? MPI_ANY_SOURCE : s, 1,
			MPI_COMM_WORLD, &r[i]);
	MPI_Irecv(&in[EACH], 1, MPI_INT, s, MPI_ANY_TAG, MPI_COMM_WORLD,
		&r[EACH]);
	MPI_Send(&rank, 1, MPI_INT, s, 0, MPI_COMM_WORLD);
	for (int i = EACH; i >= 0; i--) {
		MPI_Wait(&r[i], MPI_STATUS_IGNORE);
		check(in[i] == s, "wild");
	}
}

/* Rank 0 takes what comes: blocking, posted early, beside receives that know
 * their source, and probed. */
static void any_source(void)
{
	MPI_Request *early = malloc(sizeof *early * (size_t)(EACH * size));
	int got, *in = calloc((size_t)(EACH * size), sizeof *in);
	int all = EACH * (size - 1);
	MPI_Message message;
	MPI_Status status;

	if (rank > 0) {
		send_some(EACH, 1);
		MPI_Barrier(MPI_COMM_WORLD);
		send_some(EACH, 1);
		MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &status);
		send_some(EACH, 1);
		send_some(1, 2);
		MPI_Barrier(MPI_COMM_WORLD);
		send_some(EACH, 1);
	}
	for (int i = 0; rank == 0 && i < all; i++) {
		MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD,
			&status);
		check(got == status.MPI_SOURCE, "source");
	}
	for (int i = 0; rank == 0 && i < all; i++)
		MPI_Irecv(&in[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
			MPI_COMM_WORLD, &early[i]);
	if (rank == 0)
		MPI_Barrier(MPI_COMM_WORLD);
	for (int i = all - 1; rank == 0 && i >= 0; i--)
		MPI_Wait(&early[i], MPI_STATUS_IGNORE);
	for (int s = 1; rank == 0 && s < size; s++)
		wild_and_known(s);
	if (rank == 0)
		MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; rank == 0 && i < all; i++) {
		MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
			&message, &status);
		MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
		check(got == status.MPI_SOURCE, "probed source");
	}
	free(early);
	free(in);
}

struct worker {
	int number;
	MPI_Comm comm;
};

static void *work(void *context)
{
	struct worker *w = context;
	int in, out = w->number, sum;

	for (int i = 0; i < 200; i++) {
		MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, w->number,
			&in, 1, MPI_INT, (rank + size - 1) % size, w->number,
			MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		check(in == w->number, "thread's message");
		if (i % 20 == 0)
			MPI_Allreduce(&out, &sum, 1, MPI_INT, MPI_SUM,
				w->comm);
	}
	return NULL;
}

/* Sends that end with a wait, whose requests go from thread to thread. */
static void *hand_round(void *context)
{
	struct worker *w = context;
	int in, out = w->number;
	MPI_Request r[2];

	for (int i = 0; i < 1500; i++) {
		MPI_Issend(&out, 1, MPI_INT, (rank + 1) % size, w->number,
			MPI_COMM_WORLD, &r[0]);
		MPI_Irecv(&in, 1, MPI_INT, (rank + size - 1) % size, w->number,
			MPI_COMM_WORLD, &r[1]);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		check(in == w->number, "thread's message");
	}
	return NULL;
}

static void threads_requests(void)
{
	struct worker w[4];
	pthread_t thread[4];

	for (int i = 0; i < 4; i++) {
		w[i].number = i;
		pthread_create(&thread[i], NULL, hand_round, &w[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}

static void threads(void)
{
	struct worker w[3];
	pthread_t thread[3];

	for (int i = 0; i < 3; i++) {
		w[i].number = i;
		MPI_Comm_dup(MPI_COMM_WORLD, &w[i].comm);
	}
	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, work, &w[i]);
	for (int i = 0; i < 3; i++) {
		pthread_join(thread[i], NULL);
		MPI_Comm_free(&w[i].comm);
	}
}

static void steps(void)
{
	int sum;

	for (int i = 0; i < 6; i++) {
		MPI_Pcontrol(1);
		MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM,
			MPI_COMM_WORLD);
		MPI_Pcontrol(0);
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

static void killed(void)
{
	int sum;

	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 1)
		raise(SIGKILL);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Two groups; arguments that mean nothing on one side are not there. */
static void groups(void)
{
	int low = rank == 0, one = rank, in[4] = { -1, -1, -1, -1 };
	int counts[4] = { 1, 1, 1, 1 }, places[4] = { 0, 1, 2, 3 };
	MPI_Comm local, inter;

	MPI_Comm_split(MPI_COMM_WORLD, low, rank, &local);
	MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, low ? 1 : 0, 5, &inter);
	/* Rank 0 is the root: rank 0 of its group, as rank 1 is of the other. */
	MPI_Gatherv(low ? NULL : &one, low ? 0 : 1, MPI_INT, low ? in : NULL,
		low ? counts : NULL, low ? places : NULL, MPI_INT,
		low ? MPI_ROOT : 0, inter);
	check(!low || (in[0] == 1 && in[2] == 3 && in[3] == -1), "gathered");
	MPI_Scatterv(low ? in : NULL, low ? counts : NULL,
		low ? places : NULL, MPI_INT, low ? NULL : &one, low ? 0 : 1,
		MPI_INT, low ? MPI_ROOT : 0, inter);
	check(one == rank, "scattered");
	in[1] = -1;
	counts[1] = low ? 1 : 1 << 20; /* the other group is one alone */
	MPI_Allgatherv(&one, 1, MPI_INT, in, counts, places, MPI_INT, inter);
	check(in[0] == (low ? 1 : 0) && in[1] == (low ? 2 : -1), "all gathered");
	MPI_Comm_free(&inter);
	MPI_Comm_free(&local);
}

/* Errors that come back, of receives that are too small; then others that
 * have the same requests. */
static void errors(void)
{
	int after = (rank + 1) % size, before = (rank + size - 1) % size;
	int in[2], out[2] = { rank, rank }, n, flag = 0, rc = 0;
	MPI_Request r;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int way = 0; way < 8; way++) {
		int large = way % 2; /* is there room? */

		MPI_Irecv(in, 1 + large, MPI_INT, before, way, MPI_COMM_WORLD,
			&r);
		MPI_Send(out, 2, MPI_INT, after, way, MPI_COMM_WORLD);
		if (way / 2 == 0)
			rc = MPI_Waitany(1, &r, &n, MPI_STATUS_IGNORE);
		if (way / 2 == 1)
			rc = MPI_Waitsome(1, &r, &n, &flag,
				MPI_STATUSES_IGNORE);
		for (flag = 0; way / 2 == 2 && !flag && r != MPI_REQUEST_NULL;)
			rc = MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
		for (flag = 0; way / 2 == 3 && !flag && r != MPI_REQUEST_NULL;)
			rc = MPI_Testany(1, &r, &n, &flag, MPI_STATUS_IGNORE);
		check((rc == MPI_SUCCESS) == large, "error");
		check(r == MPI_REQUEST_NULL, "request");
	}
}

/* Prepared in step 0, and started in step 1. */
static void prepared(void)
{
	double in = 1, out = 0;
	MPI_Request r;

	(void)in, (void)out, (void)r;
	MPI_Pcontrol(1);
#if MPI_VERSION >= 4
	MPI_Allreduce_init(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD,
		MPI_INFO_NULL, &r);
	MPI_Pcontrol(1);
	MPI_Start(&r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	MPI_Request_free(&r);
	check(out == size, "prepared");
#endif
	MPI_Pcontrol(0);
}

static void *talk(void *context)
{
	int in, out = 1;

	while (!__atomic_load_n((int *)context, __ATOMIC_ACQUIRE))
		MPI_Sendrecv(&out, 1, MPI_INT, rank, 3, &in, 1, MPI_INT, rank,
			3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return NULL;
}

/* Children that end in order, while a thread is anywhere in a call. */
static void children_of_threads(void)
{
	pthread_t thread;
	int over = 0, status;

	pthread_create(&thread, NULL, talk, &over);
	for (int i = 0; rank == 0 && i < 300; i++) {
		pid_t child = fork();

		if (!child) {
			alarm(20);
			exit(3);
		}
		waitpid(child, &status, 0);
		check(WIFEXITED(status) && WEXITSTATUS(status) == 3, "child");
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}

static void nobody(void)
{
	MPI_Request r[2];
	MPI_Status status;
	int in = 7, flag;

	MPI_Send(&in, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
	MPI_Recv(&in, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
	check(status.MPI_SOURCE == MPI_PROC_NULL, "nobody");
	MPI_Irecv(&in, 1, MPI_INT, (rank + 1) % size, 99, MPI_COMM_WORLD,
		&r[0]);
	MPI_Isend(&in, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &r[1]);
	MPI_Cancel(&r[0]);
	MPI_Wait(&r[0], &status);
	MPI_Test_cancelled(&status, &flag);
	check(flag, "cancelled");
	MPI_Wait(&r[1], MPI_STATUS_IGNORE);
	check(MPI_Wait(&r[1], MPI_STATUS_IGNORE) == MPI_SUCCESS, "null");
}

/* Of MPI 4: a library may not have them, and a program may look for them. */
extern int MPI_Allreduce_c(const void *, void *, MPI_Count, MPI_Datatype,
	MPI_Op, MPI_Comm) __attribute__((weak));
extern int MPI_Send_c(const void *, MPI_Count, MPI_Datatype, int, int,
	MPI_Comm) __attribute__((weak));
extern int MPI_Recv_c(void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm,
	MPI_Status *) __attribute__((weak));

static void large(void)
{
	int in[3] = { 1, 2, rank }, out[3], got = -1, other = rank ^ 1;

	if (!MPI_Allreduce_c || !MPI_Send_c || !MPI_Recv_c)
		return;
	check(!MPI_Allreduce_c(in, out, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD) &&
		out[1] == 2 * size, "large allreduce");
	if (rank % 2 == 0)
		MPI_Send_c(&rank, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
	MPI_Recv_c(&got, 1, MPI_INT, other, 0, MPI_COMM_WORLD,
		MPI_STATUS_IGNORE);
	if (rank % 2)
		MPI_Send_c(&rank, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
	check(got == other, "large message");
}

/* As the recorder of a framework: before MPI_Init it says that it is here and
 * that its window is not open yet. */
static int64_t *frame;

static void frame_begin(void)
{
	char words[1024], path[512] = "";
	FILE *made;
	int fd;

	snprintf(words, sizeof words, "%s '%s' %d", getenv("TAUT_WINDOW_OF"),
		getenv("TAUT_RECORD"), (int)getpid());
	made = popen(words, "r");
	if (!made || fscanf(made, "%511s", path) != 1 || pclose(made))
		exit(9);
	fd = open(path, O_RDWR);
	if (fd < 0)
		exit(9);
	frame = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static void window(void)
{
	int sum;

	for (int i = 0; i < 6; i++) {
		if (i == 2)
			frame[0] = 1; /* from */
		if (i == 5)
			frame[1] = 2; /* to */
		MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM,
			MPI_COMM_WORLD);
	}
}

/* Computes while a message is under way, so that there is a step to replay. */
static void stencil(void)
{
	enum { CELLS = 20000, STEPS = 30 };
	int after = (rank + 1) % size, before = (rank + size - 1) % size;
	static double cells[CELLS];
	double sum = 0;
	MPI_Request r[4];

	for (int i = 0; i < STEPS; i++) {
		MPI_Irecv(&cells[0], 1, MPI_DOUBLE, before, 0, MPI_COMM_WORLD,
			&r[0]);
		MPI_Irecv(&cells[CELLS - 1], 1, MPI_DOUBLE, after, 1,
			MPI_COMM_WORLD, &r[1]);
		MPI_Isend(&cells[CELLS - 2], 1, MPI_DOUBLE, after, 0,
			MPI_COMM_WORLD, &r[2]);
		MPI_Isend(&cells[1], 1, MPI_DOUBLE, before, 1, MPI_COMM_WORLD,
			&r[3]);
		for (int k = 2; k < CELLS - 2; k++)
			cells[k] = 0.25 * (cells[k - 1] + 2 * cells[k] +
				cells[k + 1]) + 1e-3;
		MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
		MPI_Allreduce(&cells[3], &sum, 1, MPI_DOUBLE, MPI_SUM,
			MPI_COMM_WORLD);
	}
	check(sum > 0, "stencil");
}

static const struct {
	const char *word;
	void (*part)(void);
} parts[] = {
	{ "ring", ring }, { "rooted", rooted }, { "everyone", everyone },
	{ "types", types }, { "nonblocking", nonblocking },
	{ "icollectives", icollectives }, { "persistent", persistent },
	{ "subcomms", subcomms }, { "any_source", any_source },
	{ "threads", threads }, { "steps", steps }, { "killed", killed },
	{ "nobody", nobody }, { "large", large }, { "groups", groups },
	{ "errors", errors }, { "prepared", prepared },
	{ "threads_requests", threads_requests },
	{ "threads_fork", children_of_threads },
	{ "window", window }, { "stencil", stencil },
};

/* mpi_calls STATUS PART...: ends with STATUS. */
int main(int argc, char **argv)
{
	int level, wanted = MPI_THREAD_SINGLE;

	for (int i = 2; i < argc; i++)
		if (!strncmp(argv[i], "threads", 7))
			wanted = MPI_THREAD_MULTIPLE;
	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], "window"))
			frame_begin();
	MPI_Init_thread(&argc, &argv, wanted, &level);
	if (level < wanted)
		return 77;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 2; i < argc; i++)
		for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
			if (!strcmp(argv[i], parts[k].word)) {
				parts[k].part();
				if (rank == 0)
					printf("%s done\n", argv[i]);
			}
	MPI_Finalize();
	return atoi(argv[1]);
}

/* clocks.c - what time is it on the other hosts? Asked over MPI itself, when
 * MPI_Init is done and when MPI_Finalize begins, as all ranks are there then.
 *
 * The first rank of each other host sends, rank 0 answers with its clock, and
 * of many such exchanges the fastest counts (RFC 5905, section 8): the true
 * offset lies within half its round trip. Hosts come one after the other, each
 * for a time that gets shorter the more there are, so that the whole is
 * bounded.
 *
 * What all ranks must do together must not begin before all are known to do
 * it: a launcher may not have handed our environment to some host. agree.c
 * finds that out. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log_format.h"
#include "record/log.h"
#include "record/mpi/mpi.h"

enum {
	TAG = 1,
	MOST_ROUNDS = 64,
	TOTAL_NS = 50000000, /* of all hosts, at one end */
	MOST_EACH_NS = 20000000,
};

struct answer { /* rank 0's */
	int64_t now_ns;
	int64_t more; /* 0: that was the last one */
};

static struct {
	bool agreed;
	tauti_mpi_handle comm; /* of our own, so that no message is seen */
	uint64_t *hosts;       /* by rank: names its clock */
} clocks;

/* --- one host --------------------------------------------------------------------- */

static bool send(const void *what, size_t bytes, int to)
{
	return !tauti_mpi.real.send(what, (int)bytes, tauti_mpi.abi->byte,
		to, TAG, clocks.comm);
}

static bool receive(void *what, size_t bytes, int from)
{
	char status[64]; /* no library's is larger */

	return !tauti_mpi.real.recv(what, (int)bytes, tauti_mpi.abi->byte,
		from, TAG, clocks.comm, status);
}

/* Rank 0 decides how long. */
static void answer(int rank, int64_t budget_ns)
{
	struct answer a = { 0, 1 };
	int64_t question, begin_ns = 0;

	for (int i = 1; a.more; i++) {
		if (!receive(&question, sizeof question, rank))
			return;
		a.now_ns = taut_log_now();
		if (!begin_ns)
			begin_ns = a.now_ns; /* it may have come late */
		a.more = i < MOST_ROUNDS && a.now_ns - begin_ns < budget_ns;
		if (!send(&a, sizeof a, rank))
			return;
	}
}

static void ask(void)
{
	struct taut_clock_offset best = { .half_width_ns = INT64_MAX };
	struct answer a = { 0, 1 };

	while (a.more) {
		int64_t before = taut_log_now(), after, half;

		if (!send(&before, sizeof before, 0) ||
			!receive(&a, sizeof a, 0))
			break;
		after = taut_log_now();
		half = (after - before + 1) / 2;
		best.answers++;
		if (after < before || half >= best.half_width_ns)
			continue; /* the clock was set back, or it was slow */
		best.half_width_ns = half;
		best.at_ns = before + half;
		best.offset_ns = a.now_ns - best.at_ns;
	}
	if (best.answers && best.half_width_ns < INT64_MAX)
		taut_log_clock(tauti_mpi.log, &best);
}

/* --- all of them ------------------------------------------------------------------- */

static bool is_first_of_host(int32_t rank)
{
	for (int32_t i = 0; i < rank; i++)
		if (clocks.hosts[i] == clocks.hosts[rank])
			return false;
	return true;
}

/* Who asks, in the order of ranks; of many hosts this is n * hosts, once. */
static void exchange(void)
{
	int32_t n = tauti_mpi.world_size, n_hosts = 0;
	int64_t each_ns;

	if (tauti_mpi.rank != 0) {
		if (is_first_of_host(tauti_mpi.rank))
			ask();
		return;
	}
	for (int32_t i = 1; i < n; i++)
		n_hosts += is_first_of_host(i);
	each_ns = n_hosts ? TOTAL_NS / n_hosts : 0;
	for (int32_t i = 1; i < n; i++)
		if (is_first_of_host(i))
			answer(i, each_ns < MOST_EACH_NS ? each_ns :
				MOST_EACH_NS);
}

static bool learn_hosts(void)
{
	char name[64] = "";
	uint64_t mine;

	tauti_log_clock_name(name, sizeof name);
	mine = tauti_hash(name, strlen(name));
	clocks.hosts = calloc((size_t)tauti_mpi.world_size, sizeof mine);
	return clocks.hosts && !tauti_mpi.real.allgather(&mine,
		sizeof mine, tauti_mpi.abi->byte, clocks.hosts, sizeof mine,
		tauti_mpi.abi->byte, clocks.comm);
}

/* No error of ours may end the program. */
static bool own_comm(void)
{
	return !tauti_mpi.real.comm_dup(
		tauti_mpi.abi->comm_world, &clocks.comm) &&
		!tauti_mpi.real.comm_set_errhandler(
			clocks.comm, tauti_mpi.abi->errors_return);
}

void tauti_mpi_clocks_begin(const char *run)
{
	clocks.agreed = !tauti_mpi_is_one_host() && tauti_mpi_agree(run);
	if (!clocks.agreed)
		return;
	tauti_mpi_depth++;
	clocks.agreed = own_comm() && learn_hosts();
	if (clocks.agreed)
		exchange();
	tauti_mpi_depth--;
}

void tauti_mpi_clocks_end(void)
{
	if (!clocks.agreed)
		return;
	tauti_mpi_depth++;
	exchange();
	tauti_mpi.real.comm_free(&clocks.comm);
	tauti_mpi_depth--;
	free(clocks.hosts);
	memset(&clocks, 0, sizeof clocks);
}

/* nsight_ranks.c - which process is which rank; host and clock. */
#include "trace/formats/nsight.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the launched command's environment and arguments say; -1: nothing. */
struct job {
	int64_t rank, world, node;
	char host[256];
};

static int64_t number_in(const char *text, size_t len)
{
	int64_t value = 0;
	size_t i = 0;
	while (i < len && (text[i] == '"' || text[i] == '\''))
		i++;
	size_t first = i;
	for (; i < len && i < first + 9 && isdigit((unsigned char)text[i]); i++)
		value = value * 10 + (text[i] - '0');
	return i > first ? value : -1;
}

/* The number behind one of the names; earlier names count more. */
static void take(int64_t *ret_value, const char *const *names,
	unsigned *ret_found, const char *text, size_t len)
{
	for (unsigned i = 0; names[i]; i++) {
		size_t name_len = strlen(names[i]);
		if (i >= *ret_found || len <= name_len ||
			memcmp(text, names[i], name_len) != 0)
			continue;
		int64_t value =
			number_in(text + name_len, len - name_len);
		if (value < 0)
			continue;
		*ret_value = value;
		*ret_found = i;
	}
}

static taut_status read_job(struct nsight *n, struct job *ret_job)
{
	static const char *const columns[] = { "value" };
	static const char *const ranks[] = { "RANK=", "OMPI_COMM_WORLD_RANK=",
		"PMI_RANK=", "PMIX_RANK=", "SLURM_PROCID=", NULL };
	static const char *const worlds[] = { "WORLD_SIZE=",
		"OMPI_COMM_WORLD_SIZE=", "PMI_SIZE=", "SLURM_NTASKS=", NULL };
	static const char *const nodes[] = { "--node_rank=", "--node-rank=",
		"GROUP_RANK=", "NODE_RANK=", "SLURM_NODEID=", NULL };
	unsigned found[3] = { 99, 99, 99 };
	struct nsight_rows rows;
	bool more;
	taut_status status = tauti_nsight_select(
		n, "META_DATA_CAPTURE", columns, 1, 1, &rows);
	while (status == TAUT_OK) {
		size_t len;
		status = tauti_nsight_next(n, &rows, &more);
		if (status != TAUT_OK || !more)
			break;
		const char *text = tauti_nsight_cell(&rows, 0, &len);
		if (!text)
			continue;
		take(&ret_job->rank, ranks, &found[0], text, len);
		take(&ret_job->world, worlds, &found[1], text, len);
		take(&ret_job->node, nodes, &found[2], text, len);
	}
	tauti_nsight_close(&rows);
	return status;
}

static taut_status read_host_name(struct nsight *n, struct job *ret_job)
{
	static const char *const columns[] = { "name", "value" };
	struct nsight_rows rows;
	bool more;
	taut_status status = tauti_nsight_select(
		n, "TARGET_INFO_SYSTEM_ENV", columns, 2, 2, &rows);
	while (status == TAUT_OK) {
		size_t len;
		status = tauti_nsight_next(n, &rows, &more);
		if (status != TAUT_OK || !more)
			break;
		const char *name = tauti_nsight_cell(&rows, 0, &len);
		if (!name || strcmp(name, "Hostname") != 0)
			continue;
		const char *value = tauti_nsight_cell(&rows, 1, &len);
		if (value)
			snprintf(ret_job->host, sizeof ret_job->host, "%s",
				value);
	}
	tauti_nsight_close(&rows);
	return status;
}

/* --- the clock ----------------------------------------------------------- */

/* Times are nanoseconds of the system's clock (systemClockNs is the start),
 * in older versions since the start, or already of UTC (--ts-normalize). */
static taut_status read_base(struct nsight *n, int64_t *ret_base_ns)
{
	static const char *const columns[] = { "utcEpochNs", "systemClockNs" };
	struct nsight_rows rows;
	bool more = false;
	taut_status status = tauti_nsight_select(n,
		"TARGET_INFO_SESSION_START_TIME", columns, 2, 1, &rows);
	if (status == TAUT_OK)
		status = tauti_nsight_next(n, &rows, &more);
	if (status == TAUT_OK && more) {
		int64_t utc = nsight_number(&rows, 0, 0);
		int64_t system = nsight_number(&rows, 1, 0);
		if (utc > 0 && utc < TAUTI_TIME_LIMIT_NS && system >= 0 &&
			system < utc)
			*ret_base_ns = utc - system;
	}
	tauti_nsight_close(&rows);
	return status;
}

#define IN_2001_NS ((int64_t)1000000000000000000)

static bool is_utc(struct tauti_builder *b)
{
	return b->n_rows > b->first_row &&
		tauti_builder_row_at(b, (uint32_t)b->first_row)->start_ns >
			IN_2001_NS;
}

/* --- ranks --------------------------------------------------------------- */

/* A rank that MPI told the profiler. */
static taut_status read_mpi_ranks(struct nsight *n)
{
	static const char *const columns[] = { "globalTid", "rank" };
	struct nsight_rows rows;
	bool more;
	taut_status status =
		tauti_nsight_select(n, "MPI_RANKS", columns, 2, 2, &rows);
	while (status == TAUT_OK) {
		status = tauti_nsight_next(n, &rows, &more);
		if (status != TAUT_OK || !more)
			break;
		int64_t id = nsight_number(&rows, 0, 0) >> NSIGHT_TID_BITS;
		int64_t rank = nsight_number(&rows, 1, -1);
		for (size_t i = 0; i < n->processes.count; i++)
			if (n->processes.data[i].id == id && rank >= 0 &&
				rank <= INT32_MAX)
				n->processes.data[i].builder->rank =
					(int32_t)rank;
	}
	tauti_nsight_close(&rows);
	return status;
}

static int by_device(const void *a, const void *b)
{
	const struct nsight_process *const *x = a, *const *y = b;
	if ((*x)->device != (*y)->device)
		return (*x)->device < (*y)->device ? -1 : 1;
	return (*x)->id < (*y)->id ? -1 : (*x)->id > (*y)->id;
}

static bool each_has_a_rank(const struct nsight *n)
{
	for (size_t i = 0; i < n->processes.count; i++) {
		if (n->processes.data[i].builder->rank < 0)
			return false;
		for (size_t j = 0; j < i; j++)
			if (n->processes.data[j].builder->rank ==
				n->processes.data[i].builder->rank)
				return false;
	}
	return true;
}

static taut_status note_order(struct nsight *n,
	struct nsight_process *const *order, int64_t first)
{
	char list[256];
	size_t len = 0;
	for (size_t i = 0; i < n->processes.count && len < sizeof list; i++)
		len += (size_t)snprintf(list + len, sizeof list - len,
			"%sprocess %lld (device %lld) is rank %lld",
			i ? ", " : "",
			(long long)(order[i]->id & NSIGHT_TID_MASK),
			(long long)order[i]->device,
			(long long)(first + (int64_t)i));
	return tauti_builder_note(n->builder,
		"ranks are taken in the order of the devices: %s%s", list,
		len >= sizeof list ? " ..." : "") == TAUT_OK ?
		TAUT_OK : nsight_no_memory(n);
}

/* The processes of one node, in the order of their devices. */
static taut_status order_ranks(struct nsight *n, const struct job *job)
{
	size_t count = n->processes.count;
	int64_t first = job->node > 0 ? job->node * (int64_t)count : 0;
	struct nsight_process **order = malloc(count * sizeof *order);
	if (!order)
		return nsight_no_memory(n);
	for (size_t i = 0; i < count; i++)
		order[i] = &n->processes.data[i];
	qsort(order, count, sizeof(*order), by_device);
	if (first > INT32_MAX - NSIGHT_PROCESSES_MAX)
		first = 0;
	for (size_t i = 0; i < count; i++)
		order[i]->builder->rank = (int32_t)(first + (int64_t)i);
	taut_status status = note_order(n, order, first);
	free(order);
	return status;
}

static taut_status set_common(
	struct nsight *n, struct tauti_builder *b, const struct job *job,
	int64_t base_ns)
{
	b->base_ns = is_utc(b) ? 0 : base_ns;
	b->truncated = n->builder->truncated;
	if (job->world > 0 && job->world <= INT32_MAX)
		b->world_size = (int32_t)job->world;
	if (*job->host)
		b->host = taut_arena_strndup(
			b->arena, job->host, strlen(job->host));
	return b->host ? TAUT_OK : nsight_no_memory(n);
}

taut_status tauti_nsight_tell_ranks(struct nsight *n)
{
	struct job job = { -1, -1, -1, "" };
	int64_t base_ns = 0;
	taut_status status = read_job(n, &job);
	if (status == TAUT_OK)
		status = read_host_name(n, &job);
	if (status == TAUT_OK)
		status = read_base(n, &base_ns);
	if (status == TAUT_OK)
		status = read_mpi_ranks(n);
	for (size_t i = 0; status == TAUT_OK && i < n->processes.count; i++)
		status = set_common(n, n->processes.data[i].builder, &job,
			base_ns);
	if (status != TAUT_OK || each_has_a_rank(n))
		return status;
	if (n->processes.count > 1)
		return order_ranks(n, &job);
	n->builder->rank = (int32_t)job.rank;
	return TAUT_OK;
}

/* comms.c - communicators: their names and who is in them.
 *
 * A name must be equal on all members, and is found without a message: calls
 * that make communicators are collective over the parent, so all of its
 * members count them alike. A child is named for its parent, the number of
 * the call, and its members, since one call may make several. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "record/mpi/mpi.h"
#include "record/mpi/tables.h"

static struct tauti_mpi_comm **chain_of(tauti_mpi_handle comm)
{
	return &tauti_mpi.comms[tauti_hash((const char *)&comm, sizeof comm) %
		TAUTI_MPI_COMM_CHAINS];
}

static struct tauti_mpi_comm *find(tauti_mpi_handle comm)
{
	struct tauti_mpi_comm *c = *chain_of(comm);

	while (c && c->handle != comm)
		c = c->next;
	return c;
}

static void destroy(struct tauti_mpi_comm *c)
{
	free(c->peers);
	free(c);
}

static void unlink_comm(struct tauti_mpi_comm *c)
{
	struct tauti_mpi_comm **at = chain_of(c->handle);

	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
}

/* --- members ------------------------------------------------------------------ */

/* The members of a group as ranks of MPI_COMM_WORLD; NULL: no memory, or MPI
 * refused. */
static int32_t *world_ranks(tauti_mpi_handle group, int n)
{
	const struct tauti_mpi_real *real = &tauti_mpi.real;
	tauti_mpi_handle world = 0;
	int *here = malloc(((size_t)n + 1) * sizeof *here);
	int *there = malloc(((size_t)n + 1) * sizeof *there);
	bool ok = here && there &&
		!real->comm_group(tauti_mpi.abi->comm_world, &world);

	for (int i = 0; ok && i < n; i++)
		here[i] = i;
	if (ok) {
		ok = !real->group_translate_ranks(
			group, n, here, world, there);
		real->group_free(&world);
	}
	for (int i = 0; ok && i < n; i++)
		if (there[i] < 0 || there[i] >= tauti_mpi.world_size)
			there[i] = -1; /* of another world */
	free(here);
	if (!ok) {
		free(there);
		there = NULL;
	}
	return there;
}

typedef int group_of(tauti_mpi_handle comm, tauti_mpi_handle *ret_group);

static int32_t *members(
	tauti_mpi_handle comm, group_of *get, int32_t *ret_n)
{
	tauti_mpi_handle group = 0;
	int32_t *ranks = NULL;
	int n = 0;

	*ret_n = 0;
	if (get(comm, &group))
		return NULL;
	if (!tauti_mpi.real.group_size(group, &n) && n >= 0)
		ranks = world_ranks(group, n);
	tauti_mpi.real.group_free(&group);
	if (ranks)
		*ret_n = n;
	return ranks;
}

static int by_number(const void *a, const void *b)
{
	const int32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* "[0, 1, 2]"; NULL: no memory. */
static char *list_of(const int32_t *ranks, int32_t n)
{
	size_t room = (size_t)n * 13 + 3, at = 0;
	char *text = malloc(room);

	if (!text)
		return NULL;
	text[at++] = '[';
	for (int32_t i = 0; i < n; i++)
		at += (size_t)snprintf(text + at, room - at, "%s%d",
			i ? ", " : "", ranks[i]);
	memcpy(text + at, "]", 2);
	return text;
}

/* --- names -------------------------------------------------------------------- */

/* Without a parent: which one of these members is it? They have made as many
 * of them together, each. */
static uint32_t repeated(uint64_t members)
{
	uint32_t *count = tauti_mpi_pair(UINT32_MAX, (int32_t)members,
		(int32_t)(members >> 32), 2);

	return count ? (*count)++ : 0;
}

/* all: every member, of both sides; sorted here. */
static void describe(struct tauti_mpi_comm *c, int32_t *all, int32_t n,
	const char *parent, int64_t child, const char *how)
{
	uint64_t hash;
	char short_parent[41], *list;

	qsort(all, (size_t)n, sizeof *all, by_number);
	hash = tauti_hash((const char *)all, (size_t)n * sizeof *all);
	if (strlen(parent) >= sizeof short_parent) {
		snprintf(short_parent, sizeof short_parent, "comm~%016llx",
			(unsigned long long)tauti_hash(
				parent, strlen(parent)));
		parent = short_parent;
	}
	if (child >= 0)
		snprintf(c->name, sizeof c->name, "%s/%s%lld", parent, how,
			(long long)child);
	else
		snprintf(c->name, sizeof c->name, "%s%u", how,
			repeated(hash));
	if (n < tauti_mpi.world_size || child < 0) {
		size_t len = strlen(c->name);

		snprintf(c->name + len, sizeof c->name - len, ":%08x",
			(unsigned)(hash ^ hash >> 32));
	}
	c->group = taut_log_text(tauti_mpi.log, c->name);
	list = list_of(all, n);
	c->group_ranks = list ? taut_log_text(tauti_mpi.log, list) : 0;
	free(list);
}

/* The local group alone, or both sides of an intercommunicator. */
static int32_t *everybody(struct tauti_mpi_comm *c, tauti_mpi_handle comm,
	int inter, int32_t *ret_n)
{
	const struct tauti_mpi_real *real = &tauti_mpi.real;
	int32_t n_local, n_remote, *remote, *both;
	int32_t *local = members(comm, real->comm_group, &n_local);

	*ret_n = n_local;
	c->n_peers = n_local;
	if (!local || !inter)
		return local;
	remote = members(comm, real->comm_remote_group, &n_remote);
	both = remote ? malloc(((size_t)n_local + (size_t)n_remote + 1) *
		sizeof *both) : NULL;
	if (both) {
		memcpy(both, local, (size_t)n_local * sizeof *both);
		memcpy(both + n_local, remote,
			(size_t)n_remote * sizeof *both);
		*ret_n = n_local + n_remote;
	}
	c->peers = remote; /* messages go to the other side */
	c->n_peers = n_remote;
	free(local);
	return both;
}

static struct tauti_mpi_comm *add(tauti_mpi_handle comm, const char *parent,
	int64_t child, const char *how)
{
	struct tauti_mpi_comm *c = calloc(1, sizeof *c), **chain;
	int32_t *all, n;
	int inter = 0, rank = -1;

	if (!c)
		return NULL;
	c->handle = comm;
	c->uid = ++tauti_mpi.next_uid;
	tauti_mpi.real.comm_test_inter(comm, &inter);
	tauti_mpi.real.comm_rank(comm, &rank);
	c->rank = rank;
	all = everybody(c, comm, inter, &n);
	if (!all) {
		destroy(c);
		return NULL;
	}
	c->size = n;
	if (!inter) {
		c->peers = malloc(((size_t)n + 1) * sizeof *c->peers);
		if (c->peers)
			memcpy(c->peers, all, (size_t)n * sizeof *all);
		else
			c->n_peers = 0;
	}
	describe(c, all, n, parent, child, how);
	free(all);
	chain = chain_of(comm);
	c->next = *chain;
	*chain = c;
	return c;
}

bool tauti_mpi_comms_init(void)
{
	struct tauti_mpi_comm *world = add(
		tauti_mpi.abi->comm_world, "", 0, "");

	if (!world)
		return false;
	snprintf(world->name, sizeof world->name, "MPI_COMM_WORLD");
	world->group = taut_log_text(tauti_mpi.log, world->name);
	return true;
}

/* --- copies that are under way -------------------------------------------------- */

enum { PROMISES = 16 };

static struct promise {
	tauti_mpi_handle handle; /* 0: free */
	int64_t child;
	char parent[TAUTI_MPI_NAME];
} promises[PROMISES];

static struct tauti_mpi_comm *keep(struct promise *p)
{
	struct tauti_mpi_comm *c = add(p->handle, p->parent, p->child, "dup");

	p->handle = 0;
	return c;
}

void tauti_mpi_comm_promised(
	tauti_mpi_handle parent, tauti_mpi_handle created)
{
	struct tauti_mpi_comm *p = tauti_mpi_comm_of(parent);
	uint32_t i = 0;

	while (i < PROMISES && promises[i].handle)
		i++;
	if (p && i < PROMISES) {
		promises[i].handle = tauti_mpi_clean(created);
		promises[i].child = p->n_children;
		memcpy(promises[i].parent, p->name, sizeof p->name);
	}
	if (p)
		p->n_children++;
}

/* --- the table --------------------------------------------------------------- */

struct tauti_mpi_comm *tauti_mpi_comm_of(tauti_mpi_handle comm)
{
	tauti_mpi_handle handle = tauti_mpi_clean(comm);
	struct tauti_mpi_comm *c;

	if (handle == tauti_mpi.abi->comm_null)
		return NULL;
	c = find(handle);
	if (c)
		return c;
	for (uint32_t i = 0; i < PROMISES; i++)
		if (promises[i].handle == handle)
			return keep(&promises[i]);
	/* made in a way that is not watched */
	return add(handle, "", -1, handle == tauti_mpi.abi->comm_self ?
		"MPI_COMM_SELF" : "comm");
}

int64_t tauti_mpi_comm_child(tauti_mpi_handle parent)
{
	struct tauti_mpi_comm *c = tauti_mpi_comm_of(parent);

	return c ? c->n_children++ : -1;
}

void tauti_mpi_comm_created(tauti_mpi_handle parent, int64_t child,
	const char *how, tauti_mpi_handle created)
{
	tauti_mpi_handle handle = tauti_mpi_clean(created);
	struct tauti_mpi_comm *p, *stale;

	if (handle == tauti_mpi.abi->comm_null)
		return;
	stale = find(handle); /* freed in a way that is not watched */
	if (stale)
		tauti_mpi_comm_freed(handle);
	p = child >= 0 ? tauti_mpi_comm_of(parent) : NULL;
	add(handle, p ? p->name : "", p ? child : -1, how);
}

void tauti_mpi_comm_freed(tauti_mpi_handle comm)
{
	struct tauti_mpi_comm *c = find(tauti_mpi_clean(comm));

	if (!c)
		return;
	unlink_comm(c);
	c->freed = true;
	if (c->refs == 0)
		destroy(c);
}

void tauti_mpi_comm_release(struct tauti_mpi_comm *comm)
{
	if (--comm->refs == 0 && comm->freed)
		destroy(comm);
}

int32_t tauti_mpi_world_rank(const struct tauti_mpi_comm *comm, int32_t rank)
{
	if (rank < 0 || rank >= comm->n_peers || !comm->peers)
		return -1;
	return comm->peers[rank];
}

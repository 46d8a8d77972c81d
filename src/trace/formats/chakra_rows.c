/* chakra_rows.c - nodes to rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/formats/chakra.h"

/* --- what a node is --------------------------------------------------------- */

static bool is_comm(const struct chakra_node *node)
{
	return node->type == CHAKRA_COLL || node->type == CHAKRA_SEND ||
	       node->type == CHAKRA_RECV;
}

/* Pauses are time in which nothing runs; metadata is no work. */
static bool is_work(const struct chakra_node *node)
{
	return !node->pause && node->type > CHAKRA_METADATA;
}

static bool starts(const struct chakra *c, const struct chakra_node *node,
	const char *with)
{
	return strncmp(taut_names_text(c->builder->names, node->name), with,
		       strlen(with)) == 0;
}

/* A call into the device's library, by its name. */
static bool is_call(const struct chakra *c, const struct chakra_node *node)
{
	const char *name = taut_names_text(c->builder->names, node->name);
	return starts(c, node, "cuda") || starts(c, node, "hip") ||
	       (starts(c, node, "cu") && name[2] >= 'A' && name[2] <= 'Z');
}

/* Some communication runs on a device: then the same on a host enqueues. */
static bool has_device_comm(const struct chakra *c)
{
	for (size_t i = 0; i < c->nodes.count; i++)
		if (is_comm(&c->nodes.data[i]) && !c->nodes.data[i].cpu)
			return true;
	return false;
}

static enum taut_kind device_kind(
	const struct chakra *c, const struct chakra_node *node)
{
	if (is_comm(node))
		return TAUT_KIND_KERNEL;
	if (starts(c, node, "Memset"))
		return TAUT_KIND_MEMSET;
	if (starts(c, node, "Memcpy") || node->type == CHAKRA_MEM_LOAD ||
		node->type == CHAKRA_MEM_STORE)
		return TAUT_KIND_MEMCPY;
	return TAUT_KIND_KERNEL;
}

static enum taut_kind kind_of(const struct chakra *c,
	const struct chakra_node *node, bool device_comm)
{
	if (!node->cpu)
		return device_kind(c, node);
	if (node->kind != TAUT_KIND_OTHER)
		return (enum taut_kind)node->kind;
	if (is_comm(node) && !device_comm)
		return TAUT_KIND_COMM;
	return is_call(c, node) ? TAUT_KIND_RUNTIME : TAUT_KIND_OP;
}

/* --- lanes ------------------------------------------------------------------- */

/* What tells no thread or stream: one for communication, one for the rest, as
 * simulators keep them apart. */
taut_status tauti_chakra_lanes(struct chakra *c)
{
	for (size_t i = 0; i < c->nodes.count; i++) {
		struct chakra_node *node = &c->nodes.data[i];
		int64_t tid = node->tid >= 0 ? node->tid : is_comm(node);
		node->lane = tauti_lanes_add(&c->builder->lanes,
			node->cpu ? TAUTI_ROLE_THREAD : TAUTI_ROLE_STREAM, 0,
			tid);
		if (node->lane == TAUT_NONE)
			return TAUT_ENOMEM;
	}
	return TAUT_OK;
}

/* --- nodes of one event --------------------------------------------------------- */

/* By node: the first of its event. A node that goes on with the one before it
 * on its lane is no event of its own. NULL: no memory. */
static uint32_t *find_roots(const struct chakra *c)
{
	size_t n = c->nodes.count;
	uint32_t *root = malloc((n + 1) * sizeof *root);
	uint32_t *last = calloc(
		c->builder->lanes.all.count + 1, sizeof *last);
	for (size_t i = 0; root && last && i < n; i++) {
		const struct chakra_node *node = &c->nodes.data[i];
		root[i] = (uint32_t)i;
		if (!is_work(node))
			continue;
		if (node->continues && last[node->lane])
			root[i] = last[node->lane] - 1;
		last[node->lane] = root[i] + 1;
	}
	if (!last) {
		free(root);
		root = NULL;
	}
	free(last);
	return root;
}

/* --- launches ---------------------------------------------------------------- */

/* The host node that put a device node there: of those that it waits for, and
 * that pauses before it wait for, the one that began last. */
static uint32_t launcher_among(const struct chakra *c, const uint64_t *waits,
	uint32_t n, int depth)
{
	uint32_t best = TAUT_NONE;
	for (uint32_t k = 0; k < n; k++) {
		uint64_t at = waits[k];
		if (at == UINT64_MAX)
			continue;
		const struct chakra_node *node = &c->nodes.data[at];
		if (node->pause && depth)
			at = launcher_among(c, chakra_data(c, node),
				node->n_data, depth - 1);
		if (at == TAUT_NONE || !c->nodes.data[at].cpu ||
			!is_work(&c->nodes.data[at]))
			continue;
		node = &c->nodes.data[at];
		if (best == TAUT_NONE ||
			node->start_ns >= c->nodes.data[best].start_ns)
			best = (uint32_t)at;
	}
	return best;
}

static uint32_t launcher_of(const struct chakra *c,
	const struct chakra_node *node)
{
	uint32_t at =
		launcher_among(c, chakra_data(c, node), node->n_data, 3);
	if (at == TAUT_NONE)
		at = launcher_among(
			c, chakra_ctrl(c, node), node->n_ctrl, 0);
	if (at != TAUT_NONE && c->nodes.data[at].start_ns > node->start_ns)
		at = TAUT_NONE;
	return at;
}

/* By node: the number of its launch, the launcher's place + 1; 0: none. */
static uint32_t *find_launches(const struct chakra *c, const uint32_t *root)
{
	size_t n = c->nodes.count;
	uint32_t *launch = calloc(n + 1, sizeof *launch);
	for (size_t i = 0; launch && i < n; i++) {
		const struct chakra_node *node = &c->nodes.data[i];
		if (node->cpu || !is_work(node))
			continue;
		uint32_t at = launcher_of(c, node);
		if (at != TAUT_NONE)
			launch[i] = launch[root[at]] = root[at] + 1;
	}
	return launch;
}

/* --- rows -------------------------------------------------------------------- */

static bool add_args(
	struct chakra *c, const struct chakra_node *node, struct tauti_row *row)
{
	struct tauti_builder *b = c->builder;
	bool copy = row->kind == TAUT_KIND_MEMCPY ||
		    row->kind == TAUT_KIND_MEMSET;
	if (copy && node->bytes >= 0) {
		row->args = (uint32_t)b->copies.count;
		return taut_vec_push(&b->copies,
			((struct taut_copy_args){ .bytes = node->bytes }));
	}
	if (copy || node->comm == TAUT_NONE)
		return true;
	row->args = (uint32_t)b->comms.count;
	return taut_vec_push(&b->comms, c->comms.data[node->comm]);
}

/* Sends and receives say by their type what they are. */
static bool name_comm(struct chakra *c, struct chakra_node *node)
{
	const char *name = node->type == CHAKRA_SEND ? "send" : "recv";
	if (node->type != CHAKRA_SEND && node->type != CHAKRA_RECV)
		return true;
	struct taut_comm_args *comm = tauti_chakra_comm(c, node);
	if (comm)
		comm->collective = taut_names_add(c->builder->names, name, 4);
	return comm && comm->collective != TAUT_NONE;
}

static bool add_row(struct chakra *c, struct chakra_node *node,
	enum taut_kind kind, uint32_t launch)
{
	struct tauti_row row = {
		.start_ns = node->start_ns,
		.dur_ns = node->dur_ns,
		.name = node->name,
		.lane = node->lane,
		.correlation = launch,
		.args = TAUT_NONE,
		.kind = (uint8_t)kind,
	};
	if (node->ready_ns >= 0 && !c->scheduled &&
		node->took_ns >= 0 && node->took_ns <= TAUTI_TIME_LIMIT_NS / 2) {
		row.start_ns = node->ready_ns;
		row.dur_ns = node->took_ns;
	}
	if (launch && kind == TAUT_KIND_OP)
		row.kind = TAUT_KIND_RUNTIME;
	if (!name_comm(c, node) || !add_args(c, node, &row))
		return false;
	struct tauti_row *kept = tauti_builder_row(c->builder);
	if (kept)
		*kept = row;
	return kept != NULL;
}

static bool add_step(struct chakra *c, const int64_t *step)
{
	char name[48];
	int64_t limit = TAUTI_TIME_LIMIT_NS / 2;
	if (step[0] < 0 || step[1] < 0 || step[1] >= 100000000 ||
		step[2] < 0 || step[2] > limit || step[3] < 0 ||
		step[3] > limit)
		return true;
	uint32_t lane = tauti_lanes_add(
		&c->builder->lanes, TAUTI_ROLE_THREAD, 0, step[0]);
	int len = snprintf(name, sizeof name, "ProfilerStep#%d", (int)step[1]);
	uint32_t id = taut_names_add(c->builder->names, name, (size_t)len);
	struct tauti_row *row = tauti_builder_row(c->builder);
	if (lane == TAUT_NONE || id == TAUT_NONE || !row)
		return false;
	*row = (struct tauti_row){
		.start_ns = step[2], .dur_ns = step[3], .name = id,
		.lane = lane, .sequence = (uint32_t)step[1] + 1,
		.args = TAUT_NONE, .kind = TAUT_KIND_STEP,
	};
	return true;
}

/* The row of an event ends when the last of its nodes does. */
static void extend(struct chakra *c, const struct chakra_node *root,
	const struct chakra_node *node)
{
	struct tauti_row *row = tauti_builder_row_at(c->builder, root->row);
	int64_t dur = node->start_ns + node->dur_ns - row->start_ns;
	if (dur > row->dur_ns && dur <= TAUTI_TIME_LIMIT_NS / 2)
		row->dur_ns = dur;
}

static bool add_rows(
	struct chakra *c, const uint32_t *root, const uint32_t *launch)
{
	bool device_comm = has_device_comm(c), ok = true;
	for (size_t i = 0; ok && i < c->nodes.count; i++) {
		struct chakra_node *node = &c->nodes.data[i];
		if (!is_work(node))
			continue;
		if (root[i] != i) {
			extend(c, &c->nodes.data[root[i]], node);
			continue;
		}
		node->row = (uint32_t)c->builder->n_rows;
		ok = add_row(
			c, node, kind_of(c, node, device_comm), launch[i]);
	}
	for (size_t i = 0; ok && !c->scheduled && i + 3 < c->steps.count;
		i += 4)
		ok = add_step(c, &c->steps.data[i]);
	return ok;
}

taut_status tauti_chakra_rows(struct chakra *c)
{
	uint32_t *root = find_roots(c);
	uint32_t *launch = root ? find_launches(c, root) : NULL;
	bool ok = launch && add_rows(c, root, launch);
	free(root);
	free(launch);
	return ok ? TAUT_OK : TAUT_ENOMEM;
}

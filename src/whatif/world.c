/* world.c - more ranks, or fewer.
 *
 * A rank more is a copy of a recorded one; its steps take the times of other
 * steps, so that it does not run in lock-step. All-reduces over all ranks get
 * a member, and the law of their algorithm says what they take. Ranks that
 * hold one model together are copied together. A job that sums no gradients
 * yet, of one rank, gets the all-reduces that DDP would make. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "whatif/world.h"

enum { RANKS, HOSTS, PER_HOST, REPLICA, GRADIENTS, LINK, LATENCY, DRAG,
	BUCKET, FIRST };

static const double payload = 1448.0 / 1514.0; /* of TCP in Ethernet frames */
static const double gloo_copy_rate = 8; /* bytes a nanosecond, of one core */

struct world {
	struct tauti_whatif *w;
	const struct tauti_change *c;
	struct taut_error *err;
	uint32_t n, target;   /* ranks */
	uint32_t hosts;       /* 0: as many as it takes */
	uint32_t per_host;
	double gradients_bytes;
	double rate;          /* bytes a nanosecond of a link; 0: not said */
	double latency_ns;
	double drag;          /* of computation under transfers over it */
	struct tauti_replicas replicas;
	uint32_t *of_host;    /* ranks on each host */
	uint32_t hosts_room;
	uint32_t not_rotated;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for ranks");
}

/* --- what is asked ---------------------------------------------------------------- */

static taut_status read_bytes(struct world *x, size_t i, double *ret_bytes)
{
	bool is_factor;
	taut_status status = tauti_param_scaled(
		x->c, i, TAUTI_BYTES, &is_factor, ret_bytes, x->err);

	if (!status && (is_factor || *ret_bytes <= 0 || *ret_bytes > 1e15))
		status = tauti_param_wrong(
			x->c, i, "bytes, up to 1000TB, like 25MiB", x->err);
	return status;
}

static taut_status read_link(struct world *x)
{
	bool is_factor = false;
	double value = 0;
	taut_status status = TAUT_OK;

	if (tauti_param_given(x->c, LINK)) {
		status = tauti_param_scaled(x->c, LINK, TAUTI_BITS_PER_S,
			&is_factor, &value, x->err);
		if (!status && (is_factor || value <= 0))
			status = tauti_param_wrong(x->c, LINK,
				"a rate, like 10gbit", x->err);
		x->rate = value / 8e9 * payload;
	}
	if (!status)
		status = tauti_param_scaled(x->c, LATENCY, TAUTI_NS,
			&is_factor, &x->latency_ns, x->err);
	if (!status && is_factor)
		status = tauti_param_wrong(
			x->c, LATENCY, "a time, like 50us", x->err);
	if (!status && tauti_param_given(x->c, DRAG))
		return tauti_param_number(x->c, DRAG, 0, 1, &x->drag, x->err);
	return status;
}

static taut_status read(struct world *x)
{
	uint32_t replica = 0;
	taut_status status = tauti_param_count(
		x->c, RANKS, 1, 1 << 16, &x->target, x->err);

	if (!status && tauti_param_given(x->c, HOSTS))
		status = tauti_param_count(x->c, HOSTS, 1, 1 << 16, &x->hosts,
			x->err);
	if (!status && tauti_param_given(x->c, PER_HOST))
		status = tauti_param_count(x->c, PER_HOST, 1, 1 << 16,
			&x->per_host, x->err);
	if (!status && tauti_param_given(x->c, REPLICA))
		status = tauti_param_count(x->c, REPLICA, 1, 1 << 16, &replica,
			x->err);
	if (!status && tauti_param_given(x->c, GRADIENTS))
		status = read_bytes(x, GRADIENTS, &x->gradients_bytes);
	if (!status)
		status = read_link(x);
	if (!status)
		status = tauti_replicas_find(
			x->w, replica, &x->replicas, x->err);
	x->n = x->replicas.n * x->replicas.size;
	return status;
}

/* --- gradients that are not summed yet --------------------------------------------- */

static taut_status need_gradients(struct world *x)
{
	return taut_error_set(x->err, TAUT_EINVAL, -1, "world: nothing sums "
		"gradients in this recording, and their shapes were not "
		"recorded: give gradients=BYTES, of one rank");
}

static taut_status plan(struct world *x, const struct tauti_ddp *ddp,
	tauti_plan *ret_plan)
{
	const struct tauti_ddp_step *s = ddp->steps.data;
	int64_t *bytes = TAUT_ARENA_ARRAY(
		x->w->arena, int64_t, s->n_gradients + 1);
	double caps[2], all = 0; /* of the first, and of the others */
	taut_status status = bytes ? TAUT_OK : no_memory(x->err);

	if (!status)
		status = read_bytes(x, FIRST, &caps[0]);
	if (!status)
		status = read_bytes(x, BUCKET, &caps[1]);
	for (uint32_t i = 0; !status && i < s->n_gradients; i++) {
		bytes[i] = ddp->gradients.data[s->first_gradient + i].bytes;
		all += (double)bytes[i];
	}
	if (!status && !(all > 0))
		status = need_gradients(x);
	if (!status)
		status = tauti_ddp_plan(
			bytes, s->n_gradients, caps, 2, ret_plan, x->err);
	if (!status)
		status = tauti_note(x->w, x->err, "world: nothing sums "
			"gradients in this recording; %.4g MB of them are "
			"summed as DDP does, in %zu buckets", all / 1e6,
			ret_plan->count);
	return status;
}

/* The all-reduces that DDP would make, of each rank by itself at first. */
static taut_status insert_gradients(struct world *x,
	const struct tauti_ddp *ddp)
{
	struct tauti_lay how = { .replica = x->replicas.size };
	tauti_plan p = { 0 };
	taut_status status;

	if (!ddp->steps.count || !ddp->steps.data->n_gradients)
		return need_gradients(x);
	status = plan(x, ddp, &p);
	if (!x->w->job->has_device)
		how.copy_in = how.copy_out = tauti_range(x->w,
			2 * gloo_copy_rate, gloo_copy_rate, gloo_copy_rate / 2);
	if (!status)
		status = tauti_ddp_lay(x->w, ddp, &p, &how, x->err);
	taut_vec_free(&p);
	return status;
}

/* --- the link that nobody recorded --------------------------------------------------- */

static bool knows(const struct world *x, bool network)
{
	for (uint32_t i = 0; i < x->w->costs->n_classes; i++)
		if (x->w->costs->classes[i].on_network == network)
			return true;
	return false;
}

/* Of tables in which no bytes are told: transfers that need be no others. */
static bool passed(const struct world *x, bool network)
{
	for (uint32_t c = 0; c < x->w->graph->n_collectives; c++)
		if (x->w->costs->transfers[c].amount > 0 &&
			x->w->costs->transfers[c].on_network == network)
			return x->replicas.n > 1;
	return false;
}

struct spread {
	const struct world *x;
	uint32_t host; /* of the first member */
	bool wide;     /* another has another */
};

static void see_member(void *context, uint32_t arrive)
{
	struct spread *s = context;
	const struct tauti_whatif *w = s->x->w;
	uint32_t host;
	struct taut_op op;

	if (!taut_edit_op(w->edit, arrive, &op))
		return;
	host = w->site.host_of[taut_edit_lane(w->edit, op.lane).trace];
	s->wide |= s->host != TAUT_NONE && s->host != host;
	s->host = host;
}

/* Did the recording show what this collective passes? */
static bool is_known(const struct world *x, uint32_t c)
{
	struct spread s = { .x = x, .host = TAUT_NONE };

	taut_edit_each_member(x->w->edit, c, see_member, &s);
	return knows(x, s.wide);
}

/* Of what passes a way that nothing passed before: over the given link. */
static taut_status give_link(struct world *x)
{
	taut_status status = TAUT_OK;
	uint32_t n = 0;

	if (!tauti_param_given(x->c, DRAG))
		x->drag = tauti_range(x->w, 0, 0.05, 0.2);
	for (uint32_t c = 0; !status && c < taut_edit_collectives(x->w->edit);
		c++) {
		struct tauti_way way = tauti_way_of(x->w, c);
		struct taut_collective coll;

		if (!taut_edit_collective(x->w->edit, c, &coll) ||
			coll.bytes < 0 || is_known(x, c))
			continue;
		way.ns_per_byte = 1 / x->rate;
		way.message_ns = x->latency_ns;
		way.drag = x->w->job->has_device ? 0 : x->drag;
		status = tauti_set_way(x->w, c, &way, x->err);
		n++;
	}
	if (!status && !n)
		return tauti_note(x->w, x->err, "world: the link given here is "
			"not used, for transfers over such links were recorded "
			"and cost what they did; link=RATE as a change beside "
			"this one makes them others");
	if (!status && !x->w->job->has_device &&
		!tauti_param_given(x->c, DRAG))
		status = tauti_note(x->w, x->err, "world: how much transfers "
			"slow down the computation was not recorded; 5 %% are "
			"assumed, 0 to 20 %% for the interval");
	return status;
}

/* --- hosts ---------------------------------------------------------------------------- */

static taut_status count_hosts(struct world *x)
{
	const struct taut_site *site = &x->w->site;
	uint32_t used = 0;

	x->hosts_room = site->n_hosts + x->target + 1;
	x->of_host = calloc(x->hosts_room, sizeof *x->of_host);
	if (!x->of_host)
		return no_memory(x->err);
	for (uint32_t i = 0; i < x->n; i++) {
		uint32_t host = site->host_of[x->replicas.rank[i]];

		used += !x->of_host[host]++;
	}
	if (x->hosts && x->per_host &&
		(uint64_t)x->hosts * x->per_host < x->target)
		return taut_error_set(x->err, TAUT_EINVAL, -1, "world: %u "
			"hosts of %u ranks are not %u ranks", x->hosts,
			x->per_host, x->target);
	if (!x->per_host && x->hosts)
		x->per_host = (x->target + x->hosts - 1) / x->hosts;
	if (!x->per_host)
		x->per_host = (x->n + used - 1) / used;
	return TAUT_OK;
}

static taut_status place(struct world *x, uint32_t rank, uint32_t like)
{
	const struct taut_site *site = &x->w->site;
	uint32_t host = 0;
	taut_status status = TAUT_OK;

	while (host < site->n_hosts && x->of_host[host] >= x->per_host)
		host++;
	if (host == site->n_hosts && x->hosts && host >= x->hosts) {
		for (uint32_t h = host = 0; h < site->n_hosts; h++)
			if (x->of_host[h] < x->of_host[host])
				host = h;
	} else if (host == site->n_hosts) {
		status = tauti_add_host(x->w, like, &host, x->err);
	}
	if (status)
		return status;
	x->of_host[host]++;
	return tauti_place_rank(x->w, rank, host,
		site->core[taut_edit_rank_like(x->w->edit, like)], x->err);
}

/* --- ranks ---------------------------------------------------------------------------- */

/* Nobody knows the new hosts: they may be a little slower. */
static taut_status slow_down(struct world *x, uint32_t rank, double factor)
{
	struct taut_select work = {
		.kinds = 1u << TAUT_OP_HOST | 1u << TAUT_OP_LAUNCH |
			1u << TAUT_OP_RETURN | 1u << TAUT_OP_KERNEL,
		.rank = &rank,
	};
	uint32_t *ops = NULL;
	size_t n = 0;
	taut_status status;

	if (factor == 1)
		return TAUT_OK;
	status = taut_edit_select(x->w->edit, &work, &ops, &n, x->err);
	if (!status)
		status = taut_edit_scale(x->w->edit, ops, n, factor, x->err);
	free(ops);
	return status;
}

static taut_status add_replica(struct world *x, uint32_t number, uint32_t *ranks)
{
	const struct tauti_replicas *r = &x->replicas;
	uint32_t like = number % r->n, turn = number / r->n;
	taut_status status = tauti_replica_copy(x->w, r, like, ranks, x->err);

	for (uint32_t i = 0; !status && i < r->size; i++) {
		uint32_t source = r->rank[like * r->size + i];
		bool done;

		status = place(x, ranks[i], source);
		if (!status)
			status = tauti_rotate_steps(x->w, ranks[i], source,
				turn, &done, x->err);
		if (!status)
			status = slow_down(x, ranks[i],
				tauti_range(x->w, 1, 1, 1.03));
		if (!status && !done)
			x->not_rotated++;
	}
	return status;
}

static uint32_t members_of(const struct world *x, uint32_t c)
{
	struct taut_collective is;

	return taut_edit_collective(x->w->edit, c, &is) ? is.n_members : 0;
}

static taut_status add_ranks(struct world *x)
{
	uint32_t *ranks = TAUT_ARENA_ARRAY(
		x->w->arena, uint32_t, x->replicas.size + 1);
	uint32_t *before = TAUT_ARENA_ARRAY(
		x->w->arena, uint32_t, x->replicas.n_inner + 1);
	uint32_t more = x->target / x->replicas.size - x->replicas.n;
	taut_status status = ranks && before ? TAUT_OK : no_memory(x->err);

	for (uint32_t c = 0; !status && c < x->replicas.n_inner; c++)
		before[c] = members_of(x, c);
	for (uint32_t i = 0; !status && i < more; i++)
		status = add_replica(x, i + x->replicas.n, ranks);
	for (uint32_t c = 0; !status && c < x->replicas.n_inner; c++)
		if (before[c] > 1)
			status = tauti_regroup(x->w, c, before[c],
				members_of(x, c), x->err);
	if (!status)
		status = tauti_note(x->w, x->err, "world: each new rank is a "
			"copy of a recorded one%s; the batch of a rank stays "
			"as it is", x->not_rotated ? ", in lock-step with it "
			"where fewer than three steps were recorded" :
			" that takes the times of other steps of it");
	return status;
}

static taut_status remove_ranks(struct world *x)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = x->target; !status && i < x->n; i++)
		status = taut_edit_remove_rank(
			x->w->edit, x->replicas.rank[i], x->err);
	if (!status)
		status = tauti_note(x->w, x->err, "world: the ranks that "
			"leave are the last ones; the batch of a rank stays "
			"as it is");
	return status;
}

static taut_status check_replicas(struct world *x)
{
	if (x->target % x->replicas.size)
		return taut_error_set(x->err, TAUT_EINVAL, -1, "world: %u ranks "
			"hold one model together: expected a multiple of %u, "
			"found %u", x->replicas.size, x->replicas.size,
			x->target);
	return TAUT_OK;
}

static taut_status check_size(struct world *x)
{
	double a_rank = (double)taut_edit_ops(x->w->edit) / x->n;

	return tauti_check_ops(x->c->text, a_rank * x->target,
		floor(TAUTI_MOST_OPS / a_rank), "ranks of this job", x->err);
}

static taut_status check_links(struct world *x)
{
	bool wide = x->per_host < x->target;

	if (x->rate > 0 || knows(x, wide) || passed(x, wide))
		return TAUT_OK;
	if (wide)
		return taut_error_set(x->err, TAUT_EINVAL, -1, "world: nothing "
			"in this recording passed a network: give the link "
			"that the hosts will have, like link=10gbit, or keep "
			"all on one: per-host=%u", x->target);
	return taut_error_set(x->err, TAUT_EINVAL, -1, "world: no transfer "
		"inside of a host was recorded: give the link that its ranks "
		"will have, like link=100gbit");
}

/* Sums of activations look like those of gradients where nothing tells. */
static taut_status doubt_replicas(struct world *x, const struct tauti_ddp *ddp)
{
	if (x->target <= x->n || x->n < 2 || x->replicas.size > 1 ||
		ddp->sized || tauti_param_given(x->c, REPLICA))
		return TAUT_OK;
	return tauti_note(x->w, x->err, "world: each rank is taken to hold the "
		"whole model, and what all of them sum to be gradients; where "
		"N ranks hold one model together, replica=N says so");
}

static taut_status change(struct world *x, const struct tauti_ddp *ddp)
{
	taut_status status = check_replicas(x);

	if (!status && x->target > x->n)
		status = check_size(x);
	if (!status)
		status = doubt_replicas(x, ddp);
	if (!status)
		status = count_hosts(x);
	if (!status && x->target > x->n)
		status = check_links(x);
	if (status || x->target == x->n)
		return status;
	if (ddp->buckets.count)
		status = tauti_ddp_wait(x->w, ddp, x->err);
	else if (x->target > x->n && x->replicas.n == 1)
		status = insert_gradients(x, ddp);
	if (!status)
		status = x->target > x->n ? add_ranks(x) : remove_ranks(x);
	if (!status && x->rate > 0)
		status = give_link(x);
	x->w->samples_factor *= (double)x->target / x->n;
	return status;
}

static taut_status apply(struct tauti_whatif *w,
	const struct tauti_change *c, struct taut_error *err)
{
	struct world x = { .w = w, .c = c, .err = err };
	struct tauti_ddp *ddp = NULL;
	taut_status status = read(&x);

	if (!status)
		status = tauti_ddp_create(w, x.gradients_bytes,
			x.replicas.inner, x.replicas.n_inner, &ddp, err);
	if (!status)
		status = change(&x, ddp);
	tauti_ddp_destroy(ddp);
	tauti_replicas_fini(&x.replicas);
	free(x.of_host);
	return status;
}

static const struct taut_parameter parameters[] = {
	[RANKS] = { "", "N", NULL, "ranks of the job" },
	[HOSTS] = { "hosts", "N", "", "hosts that they stand on; without it, "
		"as many ranks on each as in the recording" },
	[PER_HOST] = { "per-host", "N", "", "ranks on one host" },
	[REPLICA] = { "replica", "N", "", "ranks that hold one model together "
		"(tensor times pipeline parallel); without it, those who talk "
		"to each other about more than gradients" },
	[GRADIENTS] = { "gradients", "BYTES", "", "of one rank, where nothing "
		"sums them yet and no shapes were recorded" },
	[LINK] = { "link", "RATE", "", "of each host, where no transfer "
		"between ranks was recorded: 10gbit" },
	[LATENCY] = { "latency", "TIME", "50us", "of a message on that link" },
	[DRAG] = { "drag", "SHARE", "", "of a core, that transfers over that "
		"link take: 0.1" },
	[BUCKET] = { "bucket", "BYTES", "25MiB", "where nothing sums "
		"gradients yet: size at which a bucket is full" },
	[FIRST] = { "first", "BYTES", "1MiB", "the same of the first bucket" },
};

const struct tauti_transformation tauti_whatif_world = {
	.info = {
		.name = "world",
		.group = "network",
		.summary = "more or fewer ranks, each with the batch that it "
			"has; from one rank's recording too",
		.assumption = "new ranks compute as the recorded ones did in "
			"other steps, on hosts of their own kind; collectives "
			"over all ranks grow by the law of a ring",
		.source = "Daydream (ATC 2020), dPRO (MLSys 2022); ring laws "
			"of Patarasuk and Yuan 2009",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof parameters[0],
	},
	.apply = apply,
};

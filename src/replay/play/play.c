/* play.c - a call as scripts of its passes, played and counted. */
#include <math.h>
#include <stdlib.h>

#include "coll/run.h"
#include "play.h"

/* --- what is asked for ---------------------------------------------------------------*/

static bool is_rate(double x)
{
	return x >= 0 && x <= 1e30;
}

static taut_status check_hosts(
	const struct taut_play_net *net, struct taut_error *err)
{
	for (uint32_t i = 0; net->hosts && i < net->n_hosts; i++)
		if (!is_rate(net->hosts[i].out) || !is_rate(net->hosts[i].in) ||
			!is_rate(net->hosts[i].memory))
			return taut_error_set(err, TAUT_EINVAL, -1,
				"host %u: a rate is negative or no number",
				(unsigned)i);
	for (uint32_t r = 0; net->host_of && r < net->n_ranks; r++)
		if (net->host_of[r] >= net->n_hosts)
			return taut_error_set(err, TAUT_EINVAL, -1,
				"rank %u stands on host %u of %u", (unsigned)r,
				(unsigned)net->host_of[r],
				(unsigned)net->n_hosts);
	return TAUT_OK;
}

static taut_status check(
	const struct taut_play_net *net, struct taut_error *err)
{
	bool ok = is_rate(net->backbone) && is_rate(net->local) &&
		is_rate(net->reduce_ns) && is_rate(net->copy_ns) &&
		net->network_ns >= 0 && net->local_ns >= 0 &&
		net->message_ns >= 0;

	if (!net->n_ranks || net->n_ranks > TAUT_COLL_RANKS || !net->n_hosts ||
		net->n_hosts > net->n_ranks)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"%u ranks on %u hosts: expected 1 to %u, and no more "
			"hosts", (unsigned)net->n_ranks,
			(unsigned)net->n_hosts, (unsigned)TAUT_COLL_RANKS);
	if (!ok)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"a time or rate of the links is negative or no number");
	return check_hosts(net, err);
}

/* --- schedules -----------------------------------------------------------------------*/

enum { MOST_ELEMENT_BYTES = 64 }; /* what the executor aligns passes to */

struct side { /* one pass of so many elements */
	struct taut_coll_schedule **of; /* by rank */
	struct tauti_script script;
};

static void destroy_schedules(struct side *side, uint32_t n_ranks)
{
	for (uint32_t r = 0; side->of && r < n_ranks; r++)
		taut_coll_schedule_destroy(side->of[r]);
	side->of = NULL;
}

static taut_status make_side(struct side *side, struct taut_arena *arena,
	const struct taut_play_net *net, const struct taut_play_call *call,
	uint64_t count, struct taut_error *err)
{
	struct taut_coll_shape shape = { .verb = call->verb, .way = call->way,
		.n_ranks = net->n_ranks, .root = call->root, .count = count,
		.host_of = net->host_of };
	taut_status status = TAUT_OK;

	side->of = TAUT_ARENA_ARRAY(
		arena, struct taut_coll_schedule *, net->n_ranks);
	if (!side->of)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for schedules of %u ranks",
			(unsigned)net->n_ranks);
	for (uint32_t r = 0; !status && r < net->n_ranks; r++) {
		shape.rank = r;
		status = taut_coll_schedule_create(&shape, &side->of[r], err);
	}
	if (!status)
		status = tauti_script_init(&side->script, arena,
			(const struct taut_coll_schedule *const *)side->of,
			net->n_ranks, err);
	return status;
}

/* --- passes ----------------------------------------------------------------------------*/

struct cut { /* n whole passes of `each` elements, and one of `rest` */
	uint64_t each, rest;
	uint32_t n;
};

static uint32_t element_bytes(const struct taut_play_call *call)
{
	return call->element_bytes ? call->element_bytes : 1;
}

/* As the executor cuts, by its own rule. */
static taut_status cut(const struct taut_play_net *net,
	const struct taut_play_call *call, struct cut *ret,
	struct taut_error *err)
{
	struct tauti_cut is = { 1, call->count, 0, call->count };

	if (call->count && net->n_ranks > 1)
		is = tauti_cut_call(call->verb, call->count, net->n_ranks,
			element_bytes(call), call->pass_bytes);
	if (is.n_passes >= TAUT_NONE / 8)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"%llu passes are too many to be played",
			(unsigned long long)is.n_passes);
	ret->n = (uint32_t)is.n_passes;
	ret->each = ret->n > 1 ? is.full : is.last;
	ret->rest = 0;
	if (is.last != ret->each) {
		ret->rest = is.last;
		ret->n--;
	}
	return TAUT_OK;
}

struct show { /* all of one call */
	struct taut_arena *arena;
	struct cut cut;
	struct side whole, rest;
};

static void release(struct show *show, uint32_t n_ranks)
{
	destroy_schedules(&show->whole, n_ranks);
	destroy_schedules(&show->rest, n_ranks);
	taut_arena_destroy(show->arena);
}

static taut_status prepare(struct show *show, const struct taut_play_net *net,
	const struct taut_play_call *call, struct taut_error *err)
{
	taut_status status = check(net, err);

	if (!status && ((unsigned)call->verb >= TAUT_VERBS ||
			element_bytes(call) > MOST_ELEMENT_BYTES ||
			call->count > ((uint64_t)1 << 60) /
				element_bytes(call)))
		status = taut_error_set(err, TAUT_EINVAL, -1,
			"%llu elements of %u bytes cannot be played",
			(unsigned long long)call->count,
			(unsigned)call->element_bytes);
	if (!status)
		status = cut(net, call, &show->cut, err);
	if (status)
		return status;
	show->arena = taut_arena_create();
	if (!show->arena)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory to play a collective");
	status = make_side(&show->whole, show->arena, net, call,
		show->cut.each, err);
	if (!status && show->cut.rest)
		status = make_side(&show->rest, show->arena, net, call,
			show->cut.rest, err);
	return status;
}

/* --- all --------------------------------------------------------------------------------*/

static struct tauti_passes passes_of(const struct show *show)
{
	return (struct tauti_passes){ &show->whole.script, show->cut.n,
		show->cut.rest ? &show->rest.script : NULL };
}

static taut_status perform(const struct show *show,
	const struct taut_play_net *net, const struct taut_play_call *call,
	int64_t limit_ns, struct taut_play_result *result,
	struct taut_error *err)
{
	struct tauti_passes passes = passes_of(show);
	struct tauti_scene scene;
	struct tauti_played played;
	taut_status status = tauti_scene_init(&scene, show->arena, net, &passes,
		call->passes_at_once ? call->passes_at_once : 1,
		element_bytes(call), err);

	if (!status)
		status = tauti_scene_play(
			&scene, show->arena, limit_ns, &played, err);
	if (status)
		return status;
	result->time_ns = played.time_ns;
	result->path_messages = played.path_messages;
	return TAUT_OK;
}

taut_status tauti_play_within(const struct taut_play_net *net,
	const struct taut_play_call *call, int64_t limit_ns,
	struct taut_play_result *ret_result, struct taut_error *err)
{
	struct show show = { 0 };
	struct tauti_play_counts counts;
	taut_status status = prepare(&show, net, call, err);
	struct tauti_passes passes = passes_of(&show);

	if (!status)
		status = tauti_play_count(net, show.arena, &passes,
			element_bytes(call), NULL, &counts, err);
	if (!status && limit_ns && counts.least_ns >= limit_ns)
		status = taut_error_set(err, TAUT_EAGAIN, -1, "takes %lld ns "
			"and more", (long long)counts.least_ns);
	if (!status && limit_ns)
		status = perform(
			&show, net, call, limit_ns, &counts.result, err);
	release(&show, net->n_ranks);
	if (!status)
		*ret_result = counts.result;
	return status;
}

taut_status taut_play(const struct taut_play_net *net,
	const struct taut_play_call *call, struct taut_play_result *ret_result,
	struct taut_error *reterr)
{
	return tauti_play_within(net, call, INT64_MAX, ret_result, reterr);
}

taut_status taut_play_count(const struct taut_play_net *net,
	const struct taut_play_call *call, struct taut_play_result *ret_result,
	struct taut_error *reterr)
{
	return tauti_play_within(net, call, 0, ret_result, reterr);
}

taut_status taut_play_traffic(const struct taut_play_net *net,
	const struct taut_play_call *call,
	const struct taut_play_traffic *traffic, struct taut_error *reterr)
{
	struct show show = { 0 };
	struct tauti_play_counts counts;
	taut_status status = prepare(&show, net, call, reterr);
	struct tauti_passes passes = passes_of(&show);

	if (!status)
		status = tauti_play_count(net, show.arena, &passes,
			element_bytes(call), traffic, &counts, reterr);
	release(&show, net->n_ranks);
	return status;
}

/* play.c - a call as scripts of its passes, played and counted. */
#include <math.h>
#include <stdlib.h>

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

taut_status tauti_play_check(
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

/* As the executor cuts: of collectives in blocks, a pass takes as many elements of
 * each block. */
static taut_status cut(const struct taut_play_net *net,
	const struct taut_play_call *call, struct cut *ret,
	struct taut_error *err)
{
	bool blocks = call->verb == TAUT_REDUCE_SCATTER ||
		call->verb == TAUT_ALLGATHER;
	uint64_t unit = blocks ? net->n_ranks : 1;
	uint64_t each = call->pass_bytes / element_bytes(call) / unit * unit;

	if (!call->pass_bytes || each > call->count)
		each = call->count;
	else if (!each)
		each = unit < call->count ? unit : call->count;
	if (each && call->count / each >= TAUT_NONE / 8)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"passes of %llu of %llu elements are too many",
			(unsigned long long)each,
			(unsigned long long)call->count);
	ret->each = each;
	ret->n = each ? (uint32_t)(call->count / each) : 1;
	ret->rest = each ? call->count % each : 0;
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
	taut_status status = tauti_play_check(net, err);

	if (!status && call->element_bytes && call->count >
			((uint64_t)1 << 60) / call->element_bytes)
		status = taut_error_set(err, TAUT_EINVAL, -1,
			"%llu elements of %u bytes are too many",
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

/* --- counting -------------------------------------------------------------------------*/

struct sums {
	const struct taut_play_net *net;
	uint32_t element_bytes;
	uint64_t *out, *in;             /* by host */
	uint64_t *local_out, *local_in; /* by rank */
	uint64_t *reduced;
};

static void add_messages(struct sums *s, const struct tauti_script *script,
	uint64_t passes)
{
	const uint32_t *host_of = s->net->host_of;

	for (uint32_t i = 0; i < script->n_messages; i++) {
		const struct tauti_play_message *m = &script->messages[i];
		uint64_t bytes = m->count * s->element_bytes * passes;

		if (host_of && host_of[m->from] != host_of[m->to]) {
			s->out[host_of[m->from]] += bytes;
			s->in[host_of[m->to]] += bytes;
		} else {
			s->local_out[m->from] += bytes;
			s->local_in[m->to] += bytes;
		}
	}
}

static void add_steps(struct sums *s, const struct tauti_script *script,
	uint64_t passes)
{
	for (uint32_t i = 0; i < script->n_steps; i++) {
		const struct taut_coll_step *step = tauti_script_step(script, i);

		if (step->kind == TAUT_STEP_REDUCE ||
			step->kind == TAUT_STEP_RECV_REDUCE)
			s->reduced[script->rank_of[i]] += step->count *
				s->element_bytes * passes;
	}
}

static uint64_t most(const uint64_t *a, const uint64_t *b, uint32_t n)
{
	uint64_t m = 0;

	for (uint32_t i = 0; i < n; i++) {
		m = a[i] > m ? a[i] : m;
		m = b[i] > m ? b[i] : m;
	}
	return m;
}

static taut_status count_succession(const struct tauti_script *script,
	struct taut_arena *arena, uint32_t *ret, struct taut_error *err)
{
	struct tauti_scene scene;
	int64_t longest = 0;
	taut_status status = tauti_scene_init_count(&scene, arena, script, err);

	if (!status)
		status = tauti_scene_play(
			&scene, arena, script->n_ranks, &longest, err);
	*ret = (uint32_t)longest;
	return status;
}

taut_status tauti_play_add_up(const struct taut_play_net *net,
	struct taut_arena *arena, const struct tauti_script *whole,
	uint32_t n_whole, const struct tauti_script *rest,
	uint32_t element_bytes, struct taut_play_result *ret_result,
	struct taut_error *err)
{
	struct sums s = { .net = net, .element_bytes = element_bytes };
	uint32_t n = net->n_ranks, h = net->n_hosts;
	uint64_t *all = TAUT_ARENA_ARRAY(arena, uint64_t,
		2 * (size_t)h + 3 * (size_t)n);

	if (!all)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory to count a collective");
	s.out = all;
	s.in = s.out + h;
	s.local_out = s.in + h;
	s.local_in = s.local_out + n;
	s.reduced = s.local_in + n;
	add_messages(&s, whole, n_whole);
	add_steps(&s, whole, n_whole);
	if (rest) {
		add_messages(&s, rest, 1);
		add_steps(&s, rest, 1);
	}
	*ret_result = (struct taut_play_result){
		.n_passes = n_whole + (rest != NULL),
		.n_messages = (uint64_t)whole->n_messages * n_whole +
			(rest ? rest->n_messages : 0),
		.network_bytes = most(s.out, s.in, h),
		.local_bytes = most(s.local_out, s.local_in, n),
		.reduced_bytes = most(s.reduced, s.reduced, n),
	};
	return count_succession(
		whole, arena, &ret_result->in_succession, err);
}

/* --- all --------------------------------------------------------------------------------*/

static taut_status play(const struct taut_play_net *net,
	const struct taut_play_call *call, int plays,
	struct taut_play_result *ret_result, struct taut_error *err)
{
	struct show show = { 0 };
	struct taut_play_result result = { 0 };
	struct tauti_scene scene;
	taut_status status = prepare(&show, net, call, err);
	const struct tauti_script *rest = show.cut.rest ? &show.rest.script : NULL;

	if (!status)
		status = tauti_play_add_up(net, show.arena, &show.whole.script,
			show.cut.n, rest, element_bytes(call), &result, err);
	if (!status && plays)
		status = tauti_scene_init(&scene, show.arena, net,
			&show.whole.script, show.cut.n, rest,
			call->passes_at_once ? call->passes_at_once : 1,
			element_bytes(call), err);
	if (!status && plays)
		status = tauti_scene_play(&scene, show.arena, net->n_ranks,
			&result.time_ns, err);
	release(&show, net->n_ranks);
	if (!status)
		*ret_result = result;
	return status;
}

taut_status taut_play(const struct taut_play_net *net,
	const struct taut_play_call *call, struct taut_play_result *ret_result,
	struct taut_error *reterr)
{
	return play(net, call, 1, ret_result, reterr);
}

taut_status taut_play_count(const struct taut_play_net *net,
	const struct taut_play_call *call, struct taut_play_result *ret_result,
	struct taut_error *reterr)
{
	return play(net, call, 0, ret_result, reterr);
}

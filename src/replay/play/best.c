/* best.c - the way, pass and passes at once that take least.
 *
 * Branch and bound. A few guesses, which every way deserves, give a time that the
 * best does not exceed. Then all candidates in their order: one whose busiest link
 * or rank alone needs that long is not played, and one that has not come to its end
 * by then is left. */
#include <assert.h>

#include "play.h"

enum { MOST_PASSES = 256, MOST_AT_ONCE = 8, LEAST_PASS_BYTES = 4096 };
enum { ALIGN_BYTES = 64 }; /* as the executor's */
enum { GUESS_PASSES = 16, GUESS_AT_ONCE = 4 };

struct search {
	const struct taut_play_net *net;
	struct taut_play_choices choices;
	struct taut_play_call call;
	uint64_t bytes;
	int64_t limit_ns;
	struct taut_play_best best;
	struct taut_error *err;
};

static bool has_way(const struct search *s, enum taut_coll_way way)
{
	return taut_coll_has(s->call.verb, way) &&
		(s->choices.ways >> way & 1) != 0;
}

/* Passes are cut at multiples of 64 bytes, of each block where there are blocks: a
 * little more than the nth part, or there would be one more. False: they would be
 * too short. */
static bool cut_in(struct search *s, uint32_t n_passes)
{
	bool blocks = s->call.verb == TAUT_REDUCE_SCATTER ||
		s->call.verb == TAUT_ALLGATHER;
	uint64_t unit = ALIGN_BYTES * (blocks && s->net->n_ranks ?
		s->net->n_ranks : 1);
	uint64_t units = (s->bytes + unit - 1) / unit;

	s->call.pass_bytes = n_passes > 1 ?
		(units + n_passes - 1) / n_passes * unit : 0;
	return n_passes == 1 ||
		s->call.pass_bytes >= s->choices.least_pass_bytes;
}

/* Whether it takes less than the limit, which it then is. */
static taut_status try(struct search *s, bool *ret_less)
{
	struct taut_play_result r;
	taut_status status = tauti_play_within(
		s->net, &s->call, s->limit_ns, &r, s->err);

	*ret_less = !status;
	if (!status)
		s->limit_ns = r.time_ns;
	return status == TAUT_EAGAIN ? TAUT_OK : status;
}

/* The last power of two that is allowed: what is tried later, too. */
static uint32_t allowed(uint32_t guess, uint32_t most)
{
	while (guess > most)
		guess /= 2;
	return guess;
}

/* Of the candidates alone, or none of them might be as good. */
static taut_status guess(struct search *s)
{
	taut_status status = TAUT_OK;

	for (int way = 0; !status && way < TAUT_WAYS; way++) {
		uint32_t n = allowed(GUESS_PASSES, s->choices.most_passes);
		bool less;

		s->call.way = (enum taut_coll_way)way;
		while (n > 1 && !cut_in(s, n))
			n /= 2;
		(void)cut_in(s, n);
		s->call.passes_at_once = allowed(allowed(
			GUESS_AT_ONCE, s->choices.most_at_once), n);
		if (has_way(s, s->call.way))
			status = try(s, &less);
	}
	return status;
}

static taut_status try_at_once(struct search *s, uint32_t n_passes)
{
	uint32_t most = s->choices.most_at_once;
	taut_status status = TAUT_OK;

	for (uint32_t n = 1; !status && n <= most && n <= n_passes; n *= 2) {
		bool less;

		s->call.passes_at_once = n;
		s->best.n_candidates++;
		status = try(s, &less);
		if (status || !less)
			continue;
		s->best.n_played++;
		s->best.call = s->call;
		s->best.time_ns = s->limit_ns;
	}
	return status;
}

static taut_status try_all(struct search *s)
{
	taut_status status = TAUT_OK;

	for (int way = 0; !status && way < TAUT_WAYS; way++) {
		s->call.way = (enum taut_coll_way)way;
		for (uint32_t n = 1; !status && n <= s->choices.most_passes &&
			has_way(s, s->call.way) && cut_in(s, n); n *= 2)
			status = try_at_once(s, n);
	}
	return status;
}

static void set_choices(struct search *s, const struct taut_play_call *call,
	const struct taut_play_choices *choices)
{
	struct taut_play_choices *c = &s->choices;

	if (choices)
		*c = *choices;
	if (!c->ways)
		c->ways = UINT32_MAX;
	if (call->way != TAUT_WAY_AUTO)
		c->ways &= UINT32_C(1) << call->way;
	if (!c->most_passes)
		c->most_passes = MOST_PASSES;
	if (!c->most_at_once)
		c->most_at_once = MOST_AT_ONCE;
	if (c->most_passes > 1 << 20)
		c->most_passes = 1 << 20;
	if (!c->least_pass_bytes)
		c->least_pass_bytes = LEAST_PASS_BYTES;
}

taut_status taut_play_best(const struct taut_play_net *net,
	const struct taut_play_call *call,
	const struct taut_play_choices *choices,
	struct taut_play_best *ret_best, struct taut_error *reterr)
{
	struct search s = { .net = net, .call = *call,
		.limit_ns = INT64_MAX, .err = reterr };
	taut_status status;

	if ((unsigned)call->way >= TAUT_WAYS)
		return taut_error_set(
			reterr, TAUT_EINVAL, -1, "there is no such way");
	s.bytes = call->count * (call->element_bytes ? call->element_bytes : 1);
	set_choices(&s, call, choices);
	status = guess(&s);
	if (status)
		return status;
	if (s.limit_ns == INT64_MAX)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"%s: no way of those that may be chosen",
			taut_coll_verb_name(call->verb));
	s.limit_ns++; /* what takes as long as the best guess may be it */
	status = try_all(&s);
	assert(status || s.best.n_played);
	if (!status)
		*ret_best = s.best;
	return status;
}

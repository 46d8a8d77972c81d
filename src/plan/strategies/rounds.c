/* rounds.c - see rounds.h. A round disturbs in one of four ways:
 *
 *     any     a few sites, anywhere
 *     near    sites of all passes that stand in one place
 *     mix     a stretch is set to what another good state has there
 *     wander  a short walk that keeps what is a little worse, ever less of it
 *
 * and then improves only what stands near the sites that it changed, and what is
 * critical: in a large space a look at every site would leave time for few rounds. */
#include "plan/strategies/rounds.h"

#include <string.h>

enum {
	IDLE_COSTS = 1800,  /* without a new best; and for each site */
	IDLE_PER_SITE = 40, /* so many more */
	NARROW_SITES = 32,  /* a space of more has its rounds improved narrowly */
	STEPS = 50,         /* of a walk */
	HALVINGS = 3, /* of how much worse may be kept */
	COLD_PART = 50, /* of the step: that much at least */
};

taut_status tauti_rounds_init(struct tauti_rounds *rounds,
	struct tauti_search *search, struct taut_error *err)
{
	uint32_t n = tauti_search_space(search)->n_sites;
	taut_status status;

	*rounds = (struct tauti_rounds){ .search = search };
	status = tauti_climb_init(&rounds->climb, search, err);
	for (uint32_t i = 0; !status && i < TAUTI_GOOD_STATES; i++) {
		rounds->good[i].options = TAUT_ARENA_ARRAY(
			rounds->climb.arena, uint8_t, n + 1);
		if (!rounds->good[i].options)
			status = taut_error_set(err, TAUT_ENOMEM, -1,
				"no memory for a search");
	}
	return status;
}

void tauti_rounds_fini(struct tauti_rounds *rounds)
{
	tauti_climb_fini(&rounds->climb);
}

/* --- good states -------------------------------------------------------------------*/

/* The kept state joins them in the place of the worst, or in that of one with the
 * same step: states that differ in nothing that counts must not fill the list. */
static void note_good(struct tauti_rounds *r)
{
	struct tauti_good *good = r->good, mine;
	int64_t step_ns = r->climb.cost.step_ns;
	uint32_t at = 0, gone;
	bool is_there;

	while (at < r->n_good && good[at].cost.step_ns < step_ns)
		at++;
	is_there = at < r->n_good && good[at].cost.step_ns == step_ns;
	if (at == TAUTI_GOOD_STATES ||
		(is_there && !tauti_cost_less(&r->climb.cost, &good[at].cost)))
		return;
	gone = is_there ? at : r->n_good < TAUTI_GOOD_STATES ? r->n_good++ :
		TAUTI_GOOD_STATES - 1;
	mine = (struct tauti_good){ r->climb.cost, good[gone].options };
	memcpy(mine.options, r->climb.here, r->climb.space->n_sites);
	memmove(&good[at + 1], &good[at], (gone - at) * sizeof *good);
	good[at] = mine;
}

/* --- disturbances ------------------------------------------------------------------*/

static uint32_t draw(struct tauti_rounds *r, uint32_t n)
{
	return tauti_search_random(r->search, n);
}

/* A critical one as often as any. */
static uint32_t draw_site(struct tauti_rounds *r)
{
	uint32_t n = r->climb.n_critical && draw(r, 2) ? r->climb.n_critical :
		r->climb.n_sites;

	return r->climb.sites[draw(r, n)];
}

static taut_status change_to(struct tauti_rounds *r, uint32_t site,
	uint8_t option, struct taut_error *err)
{
	tauti_climb_open(&r->climb, site);
	return tauti_search_set(r->search, site, option, err);
}

static taut_status change(
	struct tauti_rounds *r, uint32_t site, struct taut_error *err)
{
	return change_to(r, site, tauti_climb_other(r->search, site), err);
}

static taut_status change_any(
	struct tauti_rounds *r, uint32_t n, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	while (!status && n--)
		status = change(r, draw_site(r), err);
	return status;
}

static taut_status change_near(
	struct tauti_rounds *r, uint32_t n, struct taut_error *err)
{
	const struct tauti_climb *c = &r->climb;
	uint32_t first = c->line_at[draw_site(r)];
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < n; i++) {
		uint32_t site = c->line[(first + i) % c->space->n_sites];

		if (c->space->n_options[site] > 1 && draw(r, 2))
			status = change(r, site, err);
	}
	return status;
}

/* Of the stretch all, or about half of it. */
static taut_status change_mix(struct tauti_rounds *r, struct taut_error *err)
{
	const struct tauti_climb *c = &r->climb;
	const uint8_t *from = r->good[draw(r, r->n_good)].options;
	uint32_t first = draw(r, c->space->n_sites);
	uint32_t n = 1 + draw(r, c->space->n_sites);
	bool whole = draw(r, 2);
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < n; i++) {
		uint32_t site = c->line[(first + i) % c->space->n_sites];

		if (from[site] != tauti_search_at(r->search, site) &&
			(whole || draw(r, 2)))
			status = change_to(r, site, from[site], err);
	}
	return status;
}

/* Keeps the present state, if it is worse by less than that. */
static taut_status keep_within(
	struct tauti_climb *c, int64_t worse_ns, struct taut_error *err)
{
	struct tauti_cost cost;
	taut_status status = tauti_search_cost(c->search, &cost, err);

	if (status)
		return status;
	if (cost.step_ns != TAUTI_NEVER &&
		cost.step_ns - c->cost.step_ns <= worse_ns)
		tauti_climb_stay(c, &cost);
	else
		status = tauti_search_go(c->search, c->here, err);
	return status;
}

/* As far as good states are apart, or less: what that is differs between spaces. */
static int64_t heat_of(struct tauti_rounds *r)
{
	int64_t best_ns = r->good[0].cost.step_ns;
	uint32_t last = r->n_good - 1;
	int64_t apart_ns, least_ns = best_ns / COLD_PART;

	if (best_ns == TAUTI_NEVER)
		return 0;
	last -= last && r->good[last].cost.step_ns == TAUTI_NEVER; /* one at most */
	apart_ns = r->good[last].cost.step_ns - best_ns;
	return (apart_ns > least_ns ? apart_ns : least_ns) >> draw(r, HALVINGS);
}

/* Threshold accepting (Dueck and Scheuer, 1990). */
static taut_status wander(struct tauti_rounds *r, struct taut_error *err)
{
	int64_t worse_ns = heat_of(r);
	taut_status status = TAUT_OK;

	for (int64_t left = STEPS; !status && left; left--) {
		status = change_any(r, draw(r, 3) ? 1 : 2, err);
		if (!status)
			status = keep_within(
				&r->climb, worse_ns / STEPS * left, err);
	}
	return status;
}

static taut_status disturb(struct tauti_rounds *r, struct taut_error *err)
{
	switch (draw(r, 6)) {
	case 0:
		return change_any(r, 2 + draw(r, 4), err);
	case 1:
		return change_near(r, 3 + draw(r, 6), err);
	case 2:
		return change_mix(r, err);
	default:
		return wander(r, err);
	}
}

/* --- rounds ------------------------------------------------------------------------*/

/* With images now and then: what is good for one block of a model mostly is for all
 * of them. */
static void choose_view(struct tauti_rounds *r)
{
	bool with_images = draw(r, 2) &&
		tauti_search_view(r->search, TAUTI_VIEW_MIRRORED);

	if (!with_images)
		tauti_search_view(r->search, TAUTI_VIEW_ALL);
	r->climb.is_narrow = !with_images &&
		r->climb.space->n_sites > NARROW_SITES;
}

static taut_status one_round(struct tauti_rounds *r, struct taut_error *err)
{
	struct tauti_climb *c = &r->climb;
	uint32_t from = draw(r, 2) ? 0 : draw(r, r->n_good);
	struct tauti_cost cost;
	taut_status status;

	choose_view(r);
	memset(c->is_open, 0, c->space->n_sites);
	status = tauti_climb_from(c, r->good[from].options, err);
	if (status)
		return status;
	tauti_climb_list(c, TAUT_NONE);
	status = disturb(r, err);
	if (!status)
		status = tauti_search_cost(r->search, &cost, err);
	if (status)
		return status;
	tauti_climb_stay(c, &cost);
	status = tauti_climb_up(c, TAUT_NONE, err);
	if (!status)
		note_good(r);
	return status;
}

static bool has_choice(const struct tauti_space *space)
{
	for (uint32_t i = 0; i < space->n_sites; i++)
		if (space->n_options[i] > 1)
			return true;
	return false;
}

/* Rounds count, too: those that see nothing new cost nothing. */
taut_status tauti_rounds_run(
	struct tauti_rounds *rounds, struct taut_error *err)
{
	const struct tauti_space *space = rounds->climb.space;
	const struct tauti_found *best = tauti_search_best(rounds->search);
	uint64_t most = IDLE_COSTS + IDLE_PER_SITE * (uint64_t)space->n_sites;
	uint64_t since = tauti_search_costs(rounds->search), n_idle = 0;
	taut_status status = TAUT_OK;

	if (!has_choice(space))
		return TAUT_OK;
	note_good(rounds);
	while (!status && n_idle < most &&
		tauti_search_costs(rounds->search) - since < most) {
		uint64_t nth = best->nth;

		status = one_round(rounds, err);
		n_idle++;
		if (best->nth == nth)
			continue;
		n_idle = 0;
		since = tauti_search_costs(rounds->search);
	}
	return status;
}

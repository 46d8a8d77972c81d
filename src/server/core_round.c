/* core_round.c - what is summed when, and who is answered; see core.h.
 *
 * Synchronous. The sum of round t + 1 grows beside the value of round t, so that
 * who is fast pushes t + 1 while who is slow still pulls t. A round ends when
 * every worker that is here is in the sum and nobody reads the value; then both
 * change places, or the optimizer makes its step.
 *
 * Asynchronous. Pushes land; they are applied when nobody reads the value, and
 * whoever wants to read it waits for those that have landed. So neither starves. */
#include "server/core.h"

#include <string.h>

static void did(struct tauti_core *core, const struct tauti_core_part *part,
	enum taut_server_did what, uint32_t worker, bool begins)
{
	if (core->calls.did)
		core->calls.did(core->context, what, worker, part->said.part,
			part->round + 1, part->bytes, begins);
}

/* --- receiving ------------------------------------------------------------------------ */

/* The first worker that the sum waits for. */
static uint32_t next_in_order(
	const struct tauti_core *core, const struct tauti_core_part *part)
{
	for (uint32_t w = 0; w < core->options.n_workers; w++)
		if (tauti_takes_part(core, part, w) && !part->seats[w].summed)
			return w;
	return TAUT_NONE;
}

static void begin_receive(struct tauti_core *core, struct tauti_core_part *part,
	uint32_t worker, void *into, bool direct)
{
	struct tauti_seat *seat = &part->seats[worker];

	seat->push = TAUTI_COMING;
	seat->direct = direct;
	part->busy |= direct;
	core->calls.receive(core->context, worker, part->said.part,
		seat->pushed, into, part->bytes);
}

/* What is there already is borrowed; a first value is copied at once. */
static bool take_found(struct tauti_core *core, struct tauti_core_part *part,
	uint32_t worker)
{
	struct tauti_seat *seat = &part->seats[worker];
	const void *found = core->calls.find ? core->calls.find(core->context,
		worker, part->said.part, seat->pushed, part->bytes) : NULL;

	if (!found)
		return false;
	if (seat->first) {
		tauti_board_copy(part->value, found, part->bytes);
		tauti_core_set_first(part, seat);
		return true;
	}
	seat->landing = (void *)(uintptr_t)found;
	seat->borrowed = true;
	seat->push = TAUTI_THERE;
	return true;
}

static void receive_one(struct tauti_core *core, struct tauti_core_part *part,
	uint32_t worker, uint32_t next)
{
	struct tauti_seat *seat = &part->seats[worker];
	bool sync = !core->options.async;
	bool in_turn = !sync || core->options.unordered || worker == next;

	if (seat->push != TAUTI_ASKED)
		return;
	if (!seat->first && sync &&
		(seat->pushed != part->round + 1 || seat->summed))
		return;
	if (take_found(core, part, worker))
		return;
	if (seat->first) {
		if (!part->busy)
			begin_receive(core, part, worker, part->value, true);
		return;
	}
	if (sync && in_turn && !part->n_summed && !part->busy)
		begin_receive(core, part, worker, part->sum, true);
	else if (tauti_landing_take(core, part, seat, in_turn))
		begin_receive(core, part, worker, seat->landing, false);
}

static void receive_all(struct tauti_core *core, struct tauti_core_part *part)
{
	uint32_t next = next_in_order(core, part);

	/* Who is in turn takes its place before those that are not. */
	if (next != TAUT_NONE)
		receive_one(core, part, next, next);
	for (uint32_t w = 0; w < core->options.n_workers; w++)
		if (!core->fault.code && tauti_is_here(core, w))
			receive_one(core, part, w, next);
}

/* --- synchronous ---------------------------------------------------------------------- */

/* Into the sum. False: not yet. */
static bool add(struct tauti_core *core, struct tauti_core_part *part,
	uint32_t worker)
{
	struct tauti_seat *seat = &part->seats[worker];

	if (!seat->direct && part->busy)
		return false;
	did(core, part, TAUT_SERVER_DID_SUM, worker, true);
	if (seat->direct) {
		part->busy = false;
	} else if (!part->n_summed && seat->borrowed) {
		tauti_board_copy(part->sum, seat->landing, part->bytes);
	} else if (!part->n_summed) {
		void *landed = seat->landing;

		seat->landing = part->sum;
		part->sum = landed;
	} else {
		taut_reduce(part->said.type, TAUT_SUM, part->sum, part->sum,
			seat->landing, part->said.count);
	}
	did(core, part, TAUT_SERVER_DID_SUM, worker, false);
	tauti_landing_give(core, part, seat);
	seat->push = TAUTI_NO_PUSH;
	seat->direct = false;
	seat->summed = true;
	part->n_summed++;
	return true;
}

static bool is_there(const struct tauti_seat *seat)
{
	return seat->push == TAUTI_THERE && !seat->first;
}

/* True: something was added. */
static bool add_some(struct tauti_core *core, struct tauti_core_part *part)
{
	bool some = false;

	for (uint32_t w = 0; w < core->options.n_workers; w++) {
		struct tauti_seat *seat = &part->seats[w];

		if (!tauti_takes_part(core, part, w) || seat->summed)
			continue;
		if (is_there(seat) && add(core, part, w))
			some = true;
		else if (!core->options.unordered)
			break;
	}
	return some;
}

/* What came right into the sum lets in those that landed meanwhile. */
static void add_all(struct tauti_core *core, struct tauti_core_part *part)
{
	while (add_some(core, part))
		;
}

static void end_round(struct tauti_core *core, struct tauti_core_part *part)
{
	const struct taut_server_options *options = &core->options;
	bool updates = options->update.rule != TAUT_SERVER_SUM;

	if (options->on_loss == TAUT_SERVER_RESCALE &&
		part->n_summed < options->n_workers)
		tauti_scale(part->said.type, part->sum,
			(double)options->n_workers / part->n_summed,
			part->said.count);
	if (updates) {
		did(core, part, TAUT_SERVER_DID_UPDATE, TAUT_NONE, true);
		tauti_update_apply(&options->update, part->said.type,
			&part->state, part->value, part->sum,
			part->said.count);
		did(core, part, TAUT_SERVER_DID_UPDATE, TAUT_NONE, false);
	} else {
		uint8_t *value = part->value;

		part->value = part->sum;
		part->sum = value;
	}
	part->round++;
	part->contributors = part->n_summed;
	part->n_summed = 0;
	part->is_set = true;
	for (uint32_t w = 0; w < options->n_workers; w++)
		part->seats[w].summed = false;
	core->counts.rounds++;
}

/* One that left in peace will not push this round, which others wait for. */
static bool misses_one(struct tauti_core *core, struct tauti_core_part *part)
{
	bool wanted = part->n_summed > 0;
	uint32_t missing = TAUT_NONE;

	if (!core->n_left || core->options.on_loss != TAUT_SERVER_END)
		return false;
	for (uint32_t w = 0; w < core->options.n_workers; w++) {
		const struct tauti_seat *seat = &part->seats[w];

		wanted |= seat->push != TAUTI_NO_PUSH && !seat->first;
		if (core->presence[w] == TAUTI_DEPARTED && !seat->summed &&
			seat->push != TAUTI_THERE)
			missing = w;
	}
	if (!wanted || missing == TAUT_NONE)
		return false;
	tauti_core_fail(core, TAUT_EIO, "worker %u has left, and others wait "
		"for what it does not push", missing);
	return true;
}

static bool is_complete(
	const struct tauti_core *core, const struct tauti_core_part *part)
{
	return part->n_summed && !part->n_going &&
		next_in_order(core, part) == TAUT_NONE;
}

static void step_sync(struct tauti_core *core, struct tauti_core_part *part)
{
	for (;;) {
		receive_all(core, part);
		if (core->fault.code || misses_one(core, part))
			return;
		add_all(core, part);
		if (!is_complete(core, part))
			break;
		end_round(core, part);
	}
	/* What was summed may have made another's turn. */
	receive_all(core, part);
}

/* --- asynchronous ---------------------------------------------------------------------- */

static void apply(struct tauti_core *core, struct tauti_core_part *part,
	uint32_t worker)
{
	struct tauti_seat *seat = &part->seats[worker];

	did(core, part, TAUT_SERVER_DID_SUM, worker, true);
	if (core->options.update.rule == TAUT_SERVER_SUM)
		taut_reduce(part->said.type, TAUT_SUM, part->value, part->value,
			seat->landing, part->said.count);
	else
		tauti_update_apply(&core->options.update, part->said.type,
			&part->state, part->value, seat->landing,
			part->said.count);
	did(core, part, TAUT_SERVER_DID_SUM, worker, false);
	tauti_landing_give(core, part, seat);
	seat->push = TAUTI_NO_PUSH;
	part->round++;
	part->contributors = 1;
	part->is_set = true;
	core->counts.rounds++;
}

static void step_async(struct tauti_core *core, struct tauti_core_part *part)
{
	receive_all(core, part);
	if (core->fault.code || part->n_going || part->busy)
		return;
	for (uint32_t w = 0; w < core->options.n_workers; w++)
		if (is_there(&part->seats[w]))
			apply(core, part, w);
}

/* Whether nobody is too far behind this one. */
static bool is_fresh(const struct tauti_core *core,
	const struct tauti_core_part *part, uint32_t worker)
{
	uint32_t own = part->seats[worker].pushed;

	if (!core->options.bounded)
		return true;
	for (uint32_t w = 0; w < core->options.n_workers; w++) {
		const struct tauti_seat *seat = &part->seats[w];
		uint32_t applied = seat->pushed -
			(seat->push != TAUTI_NO_PUSH && !seat->first);

		if (tauti_is_here(core, w) &&
			(uint64_t)applied + core->options.staleness < own)
			return false;
	}
	return true;
}

static bool any_landed(
	const struct tauti_core *core, const struct tauti_core_part *part)
{
	for (uint32_t w = 0; w < core->options.n_workers; w++)
		if (is_there(&part->seats[w]))
			return true;
	return false;
}

/* --- answers ------------------------------------------------------------------------------ */

static bool may_answer(const struct tauti_core *core,
	const struct tauti_core_part *part, uint32_t worker)
{
	const struct tauti_seat *seat = &part->seats[worker];

	if (seat->pull != TAUTI_WAITING || seat->push != TAUTI_NO_PUSH ||
		!part->is_set)
		return false;
	return core->options.async ? is_fresh(core, part, worker) :
		part->round >= seat->pushed;
}

static void answer_all(struct tauti_core *core, struct tauti_core_part *part)
{
	if (core->options.async && any_landed(core, part))
		return;
	for (uint32_t w = 0; w < core->options.n_workers; w++) {
		if (!tauti_is_here(core, w) || !may_answer(core, part, w))
			continue;
		part->seats[w].pull = TAUTI_GOING;
		part->n_going++;
		core->calls.answer(core->context, w, part->said.part,
			part->round, part->value, part->bytes,
			part->contributors);
	}
}

/* The first value never comes, which workers wait for that have pushed nothing. Where each
 * push is added to the value, another one's would do. */
static bool misses_first(struct tauti_core *core, struct tauti_core_part *part)
{
	const struct taut_server_options *options = &core->options;
	bool some = false, all = true;

	if (part->is_set || tauti_is_here(core, 0))
		return false;
	for (uint32_t w = 0; w < options->n_workers; w++) {
		const struct tauti_seat *seat = &part->seats[w];
		bool waits = seat->pull == TAUTI_WAITING && !seat->pushed;

		some |= waits;
		all &= waits || !tauti_is_here(core, w);
	}
	if (!some || (!all && options->async &&
		options->update.rule == TAUT_SERVER_SUM))
		return false;
	tauti_core_fail(core, TAUT_EIO, "worker 0 %s before it gave the first "
		"values", core->presence[0] == TAUTI_GONE ? "is gone" : "has left");
	return true;
}

void tauti_core_step(struct tauti_core *core, struct tauti_core_part *part)
{
	if (core->fault.code)
		return;
	if (core->options.async)
		step_async(core, part);
	else
		step_sync(core, part);
	if (!core->fault.code && !misses_first(core, part))
		answer_all(core, part);
}

void tauti_core_feed(struct tauti_core *core)
{
	size_t n = core->line_count;

	while (n-- > 0 && !core->fault.code) {
		uint32_t i = core->line[core->line_from];

		core->line_from = (core->line_from + 1) % core->n_parts;
		core->line_count--;
		core->parts[i].starved = false;
		tauti_core_step(core, &core->parts[i]);
	}
}

/* core.c - who is there, what they may ask, and what is over; see server.h, core.h. */
#include "server/core.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void tauti_core_fail(
	struct tauti_core *core, taut_status status, const char *fmt, ...)
{
	char line[400];
	va_list args;

	if (core->fault.code)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof line, fmt, args);
	va_end(args);
	taut_error_set(&core->fault, status, -1, "%s", line);
}

/* --- the whole --------------------------------------------------------------------------- */

static taut_status check(
	const struct taut_server_options *options, struct taut_error *reterr)
{
	if (!options->n_workers || options->n_workers > TAUTI_WORKERS_MOST)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "%" PRIu32
			" workers: expected 1 to %d", options->n_workers,
			TAUTI_WORKERS_MOST);
	if ((unsigned)options->update.rule >= TAUT_SERVER_RULES ||
		(unsigned)options->on_loss > TAUT_SERVER_RESCALE)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"a server: no such rule, or end of a loss");
	if (options->bounded && !options->async)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "staleness is "
			"of asynchronous servers");
	if (options->async && options->on_loss == TAUT_SERVER_RESCALE)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "an asynchronous "
			"server has no rounds that could be rescaled");
	return TAUT_OK;
}

taut_status tauti_core_create(const struct taut_server_options *options,
	const struct tauti_core_calls *calls, void *context,
	struct tauti_core **ret_core, struct taut_error *reterr)
{
	taut_status status = check(options, reterr);
	struct tauti_core *core;

	if (status)
		return status;
	core = calloc(1, sizeof *core);
	if (core)
		core->presence = calloc(
			options->n_workers, sizeof *core->presence);
	if (!core || !core->presence) {
		free(core);
		return taut_error_set(
			reterr, TAUT_ENOMEM, -1, "server: out of memory");
	}
	core->options = *options;
	core->calls = *calls;
	core->context = context;
	*ret_core = core;
	return TAUT_OK;
}

void tauti_core_destroy(struct tauti_core *core)
{
	if (!core)
		return;
	tauti_core_free_parts(core);
	free(core->presence);
	free(core);
}

taut_status tauti_core_fault(
	const struct tauti_core *core, struct taut_error *reterr)
{
	if (core->fault.code && reterr)
		*reterr = core->fault;
	return core->fault.code;
}

enum tauti_presence tauti_core_presence(
	const struct tauti_core *core, uint32_t worker)
{
	return (enum tauti_presence)core->presence[worker];
}

bool tauti_core_over(const struct tauti_core *core)
{
	if (core->n_behind)
		return false;
	for (uint32_t w = 0; w < core->options.n_workers; w++)
		if (tauti_is_here(core, w))
			return false;
	return true;
}

uint32_t tauti_core_missing(const struct tauti_core *core)
{
	for (uint32_t w = 0; w < core->options.n_workers; w++)
		if (core->presence[w] == TAUTI_EXPECTED)
			return w;
	return TAUT_NONE;
}

void tauti_core_counts(
	const struct tauti_core *core, struct taut_server_counts *ret_counts)
{
	*ret_counts = core->counts;
	ret_counts->keys_parts = (uint32_t)core->n_parts;
}

/* --- declaring ----------------------------------------------------------------------------- */

const char *tauti_presence_text(enum tauti_presence presence)
{
	static const char *const texts[] = {
		[TAUTI_EXPECTED] = "is expected",
		[TAUTI_JOINED] = "is there already",
		[TAUTI_DECLARED] = "is there already",
		[TAUTI_DEPARTED] = "has left, and may not come back",
		[TAUTI_GONE] = "was lost, and may not come back: rounds went on",
	};

	return texts[presence];
}

taut_status tauti_core_join(struct tauti_core *core, uint32_t worker,
	struct taut_error *reterr)
{
	if (worker >= core->options.n_workers)
		return taut_error_set(reterr, TAUT_EMATCH, -1, "worker %" PRIu32
			" of %" PRIu32, worker, core->options.n_workers);
	if (core->presence[worker] != TAUTI_EXPECTED)
		return taut_error_set(reterr, TAUT_EMATCH, -1, "worker %" PRIu32
			" %s", worker, tauti_presence_text(core->presence[worker]));
	core->presence[worker] = TAUTI_JOINED;
	core->counts.workers++;
	return TAUT_OK;
}

static taut_status check_list(const struct tauti_core *core,
	const struct tauti_part_said *said, size_t n, struct taut_error *reterr)
{
	bool needs_float = core->options.update.rule != TAUT_SERVER_SUM ||
		core->options.on_loss == TAUT_SERVER_RESCALE;

	for (size_t i = 0; i < n; i++) {
		if ((i && said[i].part <= said[i - 1].part) ||
			said[i].part >= TAUTI_PARTS_MOST || !said[i].count ||
			(unsigned)said[i].type >= TAUT_TYPES)
			return taut_error_set(reterr, TAUT_EFORMAT, -1,
				"what it declares is no list of parts");
		if (needs_float && !tauti_scales(said[i].type))
			return taut_error_set(reterr, TAUT_EINVAL, -1,
				"part %" PRIu32 " is of %s: this server takes "
				"float32 and float64", said[i].part,
				taut_type_name(said[i].type));
	}
	return TAUT_OK;
}

static taut_status take_first(struct tauti_core *core,
	const struct tauti_part_said *said, size_t n, struct taut_error *reterr)
{
	size_t at = 0;
	taut_status status;

	core->parts = calloc(n ? n : 1, sizeof *core->parts);
	if (!core->parts)
		return taut_error_set(
			reterr, TAUT_ENOMEM, -1, "server: out of memory");
	for (size_t i = 0; i < n; i++) {
		size_t size = taut_type_bytes(said[i].type);

		core->parts[i].said = said[i];
		core->parts[i].bytes = said[i].count > SIZE_MAX / size ?
			SIZE_MAX : (size_t)said[i].count * size;
		core->parts[i].at = at;
		at = tauti_board_next(at, core->parts[i].bytes);
	}
	core->n_parts = n;
	status = tauti_core_allocate(core, reterr);
	if (status)
		tauti_core_free_parts(core);
	return status;
}

static taut_status compare(const struct tauti_core *core, uint32_t worker,
	const struct tauti_part_said *said, size_t n, struct taut_error *reterr)
{
	if (n != core->n_parts)
		return taut_error_set(reterr, TAUT_EMATCH, -1, "worker %" PRIu32
			" declares %zu parts, others %zu", worker, n,
			core->n_parts);
	for (size_t i = 0; i < n; i++) {
		const struct tauti_part_said *own = &core->parts[i].said;

		if (own->part != said[i].part || own->hash != said[i].hash)
			return taut_error_set(reterr, TAUT_EMATCH, -1, "worker "
				"%" PRIu32 " declares another key, or another "
				"size of parts, than others: part %" PRIu32,
				worker, said[i].part);
		if (own->type != said[i].type || own->count != said[i].count)
			return taut_error_set(reterr, TAUT_EMATCH, -1, "worker "
				"%" PRIu32 " declares %" PRIu64 " %s for part "
				"%" PRIu32 ", others %" PRIu64 " %s", worker,
				said[i].count, taut_type_name(said[i].type),
				own->part, own->count,
				taut_type_name(own->type));
	}
	return TAUT_OK;
}

taut_status tauti_core_declare(struct tauti_core *core, uint32_t worker,
	const struct tauti_part_said *said, size_t n, struct taut_error *reterr)
{
	taut_status status;

	if (core->presence[worker] != TAUTI_JOINED)
		return taut_error_set(reterr, TAUT_EFORMAT, -1,
			"it declares twice");
	status = check_list(core, said, n, reterr);
	if (!status)
		status = core->parts ?
			compare(core, worker, said, n, reterr) :
			take_first(core, said, n, reterr);
	if (!status)
		core->presence[worker] = TAUTI_DECLARED;
	return status;
}

/* --- asking ----------------------------------------------------------------------------------- */

static struct tauti_core_part *find(struct tauti_core *core, uint32_t number)
{
	size_t from = 0, to = core->n_parts;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (core->parts[middle].said.part < number)
			from = middle + 1;
		else
			to = middle;
	}
	return from < core->n_parts && core->parts[from].said.part == number ?
		&core->parts[from] : NULL;
}

size_t tauti_board_next(size_t at, size_t bytes)
{
	size_t end = bytes > SIZE_MAX - 63 - at ? SIZE_MAX : at + bytes + 63;

	return end - end % 64;
}

size_t tauti_core_place(const struct tauti_core *core, uint32_t number)
{
	return find((struct tauti_core *)(uintptr_t)core, number)->at;
}

size_t tauti_core_bytes(const struct tauti_core *core)
{
	const struct tauti_core_part *last;

	if (!core->n_parts)
		return 0;
	last = &core->parts[core->n_parts - 1];
	return tauti_board_next(last->at, last->bytes);
}

/* NULL: it may; else why not. */
static const char *forbids(const struct tauti_core *core,
	const struct tauti_core_part *part, uint32_t worker, uint32_t ask,
	uint32_t round)
{
	const struct tauti_seat *seat = &part->seats[worker];
	bool updates = core->options.update.rule != TAUT_SERVER_SUM;

	if (seat->push != TAUTI_NO_PUSH && (ask & (TAUTI_ASK_PUSH |
		TAUTI_ASK_FIRST)))
		return "its last push of the part is not over";
	if (seat->pull == TAUTI_WAITING || seat->later)
		return "its last pull of the part is not over";
	if (ask & TAUTI_ASK_FIRST) {
		if (worker != 0 || part->is_set || seat->pushed || round)
			return "it is too late for a first value, or not its";
		return NULL;
	}
	if ((ask & TAUTI_ASK_PUSH) && updates && !part->is_set)
		return "a gradient comes before the first values";
	if (round != seat->pushed + !!(ask & TAUTI_ASK_PUSH))
		return "it counts rounds as nobody else";
	return NULL;
}

static void begin(struct tauti_core *core, struct tauti_core_part *part,
	struct tauti_seat *seat, uint32_t ask)
{
	if (ask & (TAUTI_ASK_PUSH | TAUTI_ASK_FIRST)) {
		seat->push = TAUTI_ASKED;
		seat->first = ask & TAUTI_ASK_FIRST;
		seat->pushed += !seat->first;
		core->counts.pushes++;
		core->counts.pushed_bytes += part->bytes;
	}
	if (ask & TAUTI_ASK_PULL)
		seat->pull = TAUTI_WAITING;
}

taut_status tauti_core_ask(struct tauti_core *core, uint32_t worker,
	uint32_t number, uint32_t ask, uint32_t round, struct taut_error *reterr)
{
	struct tauti_core_part *part = find(core, number);
	struct tauti_seat *seat;
	const char *why;

	if (core->presence[worker] != TAUTI_DECLARED || !part ||
		!(ask & 7) || ask > 7 ||
		(ask & 5) == 5)
		return taut_error_set(reterr, TAUT_EFORMAT, -1,
			"what it asks for is not there");
	why = forbids(core, part, worker, ask, round);
	if (why)
		return taut_error_set(reterr, TAUT_EFORMAT, -1,
			"part %" PRIu32 ": %s", number, why);
	seat = &part->seats[worker];
	if (seat->pull == TAUTI_GOING) {
		seat->later = (uint8_t)ask;
		return TAUT_OK;
	}
	begin(core, part, seat, ask);
	tauti_core_step(core, part);
	return TAUT_OK;
}

void tauti_core_set_first(struct tauti_core_part *part, struct tauti_seat *seat)
{
	seat->first = seat->direct = false;
	seat->push = TAUTI_NO_PUSH;
	part->is_set = true;
	part->contributors = 1;
}

void tauti_core_received(
	struct tauti_core *core, uint32_t worker, uint32_t number)
{
	struct tauti_core_part *part = find(core, number);
	struct tauti_seat *seat = &part->seats[worker];

	if (seat->first) {
		part->busy = false;
		tauti_core_set_first(part, seat);
	} else {
		seat->push = TAUTI_THERE;
	}
	tauti_core_step(core, part);
	tauti_core_feed(core);
}

void tauti_core_answered(
	struct tauti_core *core, uint32_t worker, uint32_t number)
{
	struct tauti_core_part *part = find(core, number);
	struct tauti_seat *seat = &part->seats[worker];
	uint32_t later = seat->later;

	seat->pull = TAUTI_NO_PULL;
	seat->later = 0;
	part->n_going--;
	core->counts.pulls++;
	core->counts.pulled_bytes += part->bytes;
	begin(core, part, seat, later);
	tauti_core_step(core, part);
	tauti_core_feed(core);
}

/* --- going ------------------------------------------------------------------------------------- */

/* What it pushed and is not in a sum is not added any more. */
static void forget(struct tauti_core *core, struct tauti_core_part *part,
	uint32_t worker)
{
	struct tauti_seat *seat = &part->seats[worker];

	if (seat->pull == TAUTI_GOING)
		part->n_going--;
	if (seat->direct)
		part->busy = false;
	tauti_landing_give(core, part, seat);
	*seat = (struct tauti_seat){ .pushed = seat->pushed,
		.summed = seat->summed };
}

/* Whether nobody can give first values any more that others wait for. */
static bool lacks_first(const struct tauti_core *core, uint32_t worker)
{
	if (worker != 0 || core->options.update.rule == TAUT_SERVER_SUM)
		return false;
	if (!core->parts)
		return true;
	for (size_t i = 0; i < core->n_parts; i++)
		if (!core->parts[i].is_set)
			return true;
	return false;
}

/* What one that left in peace had pushed before is still added. */
static void go(struct tauti_core *core, uint32_t worker,
	enum tauti_presence presence)
{
	core->presence[worker] = (uint8_t)presence;
	for (size_t i = 0; i < core->n_parts; i++) {
		struct tauti_core_part *part = &core->parts[i];
		struct tauti_seat *seat = &part->seats[worker];

		if (presence == TAUTI_GONE || seat->push != TAUTI_THERE ||
			(seat->borrowed && !tauti_landing_own(
				core, part, seat)))
			forget(core, part, worker);
	}
	core->n_behind = core->n_parts;
}

bool tauti_core_go_on(struct tauti_core *core)
{
	if (!core->n_behind || core->fault.code)
		return false;
	tauti_core_step(core, &core->parts[core->next]);
	core->next = (core->next + 1) % core->n_parts;
	if (!--core->n_behind)
		tauti_core_feed(core);
	return true;
}

void tauti_core_lost(struct tauti_core *core, uint32_t worker,
	const char *where, const char *why)
{
	if (!tauti_is_here(core, worker))
		return;
	core->counts.lost++;
	if (core->options.on_loss == TAUT_SERVER_END)
		tauti_core_fail(core, TAUT_EIO, "worker %u (%.64s) is gone: "
			"%.300s", worker, where, why);
	else if (lacks_first(core, worker))
		tauti_core_fail(core, TAUT_EIO, "worker %u (%.64s) is gone "
			"before it gave the first values: %.260s", worker,
			where, why);
	go(core, worker, TAUTI_GONE);
}

bool tauti_core_is_idle(const struct tauti_core *core, uint32_t worker)
{
	for (size_t i = 0; i < core->n_parts; i++) {
		const struct tauti_seat *seat = &core->parts[i].seats[worker];

		if (seat->push == TAUTI_ASKED || seat->push == TAUTI_COMING ||
			seat->pull != TAUTI_NO_PULL)
			return false;
	}
	return true;
}

void tauti_core_left(struct tauti_core *core, uint32_t worker)
{
	if (!tauti_is_here(core, worker))
		return;
	core->n_left++;
	go(core, worker, TAUTI_DEPARTED);
}

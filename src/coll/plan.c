/* plan.c - what all calls of one shape have in common. */
#include "coll/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* --- how a call is cut -----------------------------------------------------------------*/

enum { ALIGN_BYTES = 64 };

static bool has_blocks(enum taut_coll_verb verb)
{
	return verb == TAUT_REDUCE_SCATTER || verb == TAUT_ALLGATHER;
}

static uint64_t ceil_of(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* What is aligned stays so from pass to pass, and all passes are about as long:
 * a short one at the end would cost as many messages as a long one. */
struct tauti_cut tauti_cut_call(enum taut_coll_verb verb, uint64_t count,
	uint32_t n_ranks, size_t type_bytes, uint64_t pass_bytes)
{
	uint64_t parts = has_blocks(verb) ? n_ranks : 1;
	uint64_t length = count / parts, align = ALIGN_BYTES / type_bytes;
	uint64_t most = pass_bytes / type_bytes / parts;
	struct tauti_cut cut = { 1, length, 0, count };

	if (!pass_bytes || most >= length)
		return cut;
	if (most < align)
		align = 1;
	most = most ? most - most % align : 1;
	cut.stride = ceil_of(length, ceil_of(length, most));
	cut.stride = ceil_of(cut.stride, align) * align;
	cut.n_passes = ceil_of(length, cut.stride);
	cut.full = cut.stride * parts;
	cut.last = count - (cut.n_passes - 1) * cut.full;
	return cut;
}

/* --- programs --------------------------------------------------------------------------*/

/* The block of `count` elements over n that has element `first`. */
static uint32_t block_of(uint64_t count, uint32_t n, uint64_t first)
{
	uint64_t shorter = count / n, n_longer = count % n;
	uint64_t in_longer = n_longer * (shorter + 1);

	if (first < in_longer)
		return (uint32_t)(first / (shorter + 1));
	return (uint32_t)(n_longer + (first - in_longer) / shorter);
}

/* Where element `first` of a pass of of_pass elements lies in the call's buffers,
 * were it the first pass. */
static uint64_t place_in_call(const struct tauti_plan_key *key,
	uint32_t n_ranks, uint64_t of_pass, uint64_t first)
{
	uint64_t length;
	uint32_t block;

	if (!has_blocks(key->verb))
		return first;
	block = block_of(of_pass, n_ranks, first);
	return first - taut_coll_block(of_pass, n_ranks, block, &length) +
		taut_coll_block(key->count, n_ranks, block, &length);
}

static struct tauti_program *allocate_program(
	const struct taut_coll_schedule *schedule)
{
	size_t steps = schedule->n_steps * sizeof(struct tauti_step);
	size_t numbers = ((size_t)schedule->n_waits + schedule->n_peers +
		schedule->n_steps) * sizeof(uint32_t);
	struct tauti_program *program =
		calloc(1, sizeof *program + steps + numbers);

	if (!program)
		return NULL;
	program->n_steps = schedule->n_steps;
	program->steps = (struct tauti_step *)(program + 1);
	program->heirs = (uint32_t *)(program->steps + schedule->n_steps);
	program->peers = program->heirs + schedule->n_waits;
	program->firsts = program->peers + schedule->n_peers;
	return program;
}

/* heirs is waits the other way round; in the order of the steps. */
static void find_heirs(struct tauti_program *program,
	const struct taut_coll_schedule *schedule)
{
	uint32_t next = 0;

	for (uint32_t i = 0; i < schedule->n_steps; i++) {
		const struct taut_coll_step *step = &schedule->steps[i];

		for (uint32_t w = 0; w < step->n_waits; w++)
			program->steps[schedule->waits[step->first_wait + w]]
				.n_heirs++;
	}
	for (uint32_t i = 0; i < schedule->n_steps; i++) {
		program->steps[i].first_heir = next;
		next += program->steps[i].n_heirs;
		program->steps[i].n_heirs = 0;
	}
	for (uint32_t i = 0; i < schedule->n_steps; i++) {
		const struct taut_coll_step *step = &schedule->steps[i];

		for (uint32_t w = 0; w < step->n_waits; w++) {
			struct tauti_step *before = &program->steps
				[schedule->waits[step->first_wait + w]];

			program->heirs[before->first_heir +
				before->n_heirs++] = i;
		}
	}
}

static void translate(struct tauti_step *to, const struct taut_coll_step *step,
	uint64_t first, uint64_t type_bytes, bool reduces)
{
	bool comes = step->kind == TAUT_STEP_RECV_REDUCE;

	to->kind = step->kind;
	to->from = step->from;
	to->into = step->into;
	to->early = comes && !reduces;
	to->message = step->message;
	to->n_waits = step->n_waits + to->early;
	to->first_peer = step->first_peer;
	to->n_peers = step->n_peers;
	to->count = step->count;
	to->bytes = step->count * type_bytes;
	to->from_at = type_bytes *
		(step->from == TAUT_SCRATCH ? step->place : first);
	to->into_at = type_bytes *
		(step->into == TAUT_SCRATCH ? step->place : first);
	to->beside = type_bytes * (comes ? step->landing : step->place);
}

/* Whether the engine does all steps of the schedule in one. */
static bool is_flat(
	const struct tauti_hub *hub, const struct tauti_plan_key *key)
{
	return key->verb == TAUT_ALLREDUCE && key->way == TAUT_WAY_FLAT &&
		hub->n_ranks > 1 && hub->n_hosts == 1 &&
		hub->engine.table->flat;
}

/* The first step of such a schedule sends all of INPUT to all others. */
static void fill_flat(struct tauti_program *program, uint64_t type_bytes,
	const struct taut_coll_schedule *schedule, uint32_t rank)
{
	struct tauti_step *step = &program->steps[0];

	translate(step, &schedule->steps[0], 0, type_bytes, true);
	step->kind = TAUTI_STEP_FLAT;
	step->into = TAUT_OUTPUT;
	step->beside = 0;
	program->n_steps = 1;
	program->n_firsts = 1; /* step 0 */
	program->scratch_bytes = rank > 1 ? step->bytes : 0;
}

static void fill_steps(struct tauti_program *program,
	const struct tauti_hub *hub, const struct tauti_plan_key *key,
	uint64_t of_pass, const struct taut_coll_schedule *schedule)
{
	find_heirs(program, schedule);
	for (uint32_t i = 0; i < schedule->n_steps; i++)
		translate(&program->steps[i], &schedule->steps[i],
			place_in_call(key, hub->n_ranks, of_pass,
				schedule->steps[i].first),
			key->type_bytes, hub->engine.table->recv_reduce);
	for (uint32_t i = 0; i < schedule->n_steps; i++)
		if (program->steps[i].early || !program->steps[i].n_waits)
			program->firsts[program->n_firsts++] = i;
	program->scratch_bytes = schedule->scratch * key->type_bytes;
}

static struct tauti_program *make_program(const struct tauti_hub *hub,
	const struct tauti_plan_key *key, uint64_t of_pass,
	const struct taut_coll_schedule *schedule)
{
	struct tauti_program *program = allocate_program(schedule);

	if (!program)
		return NULL;
	if (is_flat(hub, key))
		fill_flat(program, key->type_bytes, schedule, hub->rank);
	else
		fill_steps(program, hub, key, of_pass, schedule);
	if (schedule->n_peers)
		memcpy(program->peers, schedule->peers,
			schedule->n_peers * sizeof(uint32_t));
	return program;
}

static taut_status create_program(const struct tauti_hub *hub,
	const struct tauti_plan_key *key, uint64_t of_pass,
	struct tauti_program **ret_program, struct taut_error *reterr)
{
	struct taut_coll_shape shape = { .verb = key->verb, .way = key->way,
		.n_ranks = hub->n_ranks, .rank = hub->rank, .root = key->root,
		.count = of_pass, .host_of = hub->host_of };
	struct taut_coll_schedule *schedule;
	taut_status status;

	if (!of_pass)
		return TAUT_OK;
	status = taut_coll_schedule_create(&shape, &schedule, reterr);
	if (status)
		return status;
	*ret_program = make_program(hub, key, of_pass, schedule);
	taut_coll_schedule_destroy(schedule);
	if (!*ret_program)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"collective: out of memory");
	return TAUT_OK;
}

/* --- plans -----------------------------------------------------------------------------*/

static void free_plan(struct tauti_plan *plan)
{
	while (plan->idle) {
		struct tauti_run *run = plan->idle;

		plan->idle = run->newer;
		tauti_run_free(run);
	}
	free(plan->full);
	free(plan->last);
	free(plan);
}

static uint32_t steps_of(const struct tauti_program *program)
{
	return program ? program->n_steps : 0;
}

static size_t scratch_of(const struct tauti_program *program)
{
	size_t bytes = program ? program->scratch_bytes : 0;

	return ceil_of(bytes, ALIGN_BYTES) * ALIGN_BYTES;
}

static taut_status create_plan(const struct tauti_hub *hub,
	const struct tauti_plan_key *key, struct tauti_plan **ret_plan,
	struct taut_error *reterr)
{
	struct tauti_plan *plan = calloc(1, sizeof *plan);
	taut_status status;

	if (!plan)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"collective: out of memory");
	plan->key = *key;
	plan->cut = tauti_cut_call(key->verb, key->count, hub->n_ranks,
		key->type_bytes, key->pass_bytes);
	plan->stride_bytes = plan->cut.stride * key->type_bytes;
	plan->n_slots = plan->cut.n_passes < key->n_slots ?
		(uint32_t)plan->cut.n_passes : key->n_slots;
	status = create_program(hub, key, plan->cut.full, &plan->full, reterr);
	if (!status)
		status = create_program(
			hub, key, plan->cut.last, &plan->last, reterr);
	if (status) {
		free_plan(plan);
		return status;
	}
	plan->most_steps = steps_of(plan->full) > steps_of(plan->last) ?
		steps_of(plan->full) : steps_of(plan->last);
	plan->scratch_bytes = scratch_of(plan->full) > scratch_of(plan->last) ?
		scratch_of(plan->full) : scratch_of(plan->last);
	*ret_plan = plan;
	return TAUT_OK;
}

static bool same_key(
	const struct tauti_plan_key *a, const struct tauti_plan_key *b)
{
	return a->verb == b->verb && a->way == b->way && a->root == b->root &&
		a->n_slots == b->n_slots && a->type_bytes == b->type_bytes &&
		a->pass_bytes == b->pass_bytes && a->count == b->count;
}

static uint32_t bucket_of(const struct tauti_plan_key *key)
{
	uint64_t shape = (uint64_t)key->verb << 56 | (uint64_t)key->way << 48 |
		key->type_bytes << 40 | (uint64_t)key->root << 8 | key->n_slots;
	uint64_t size = tauti_hash_mix(key->count ^ TAUTI_HASH_A,
		key->pass_bytes ^ TAUTI_HASH_B);

	return (uint32_t)(tauti_hash_mix(shape ^ TAUTI_HASH_C, size) %
		TAUTI_PLAN_BUCKETS);
}

static struct tauti_plan **oldest_idle(struct tauti_plans *plans)
{
	struct tauti_plan **oldest = NULL;

	for (uint32_t i = 0; i < TAUTI_PLAN_BUCKETS; i++)
		for (struct tauti_plan **at = &plans->buckets[i]; *at;
			at = &(*at)->next)
			if (!(*at)->n_under_way &&
				(!oldest || (*at)->used < (*oldest)->used))
				oldest = at;
	return oldest;
}

static void forget_one(struct tauti_plans *plans)
{
	struct tauti_plan **at = oldest_idle(plans), *plan;

	if (!at)
		return;
	plan = *at;
	*at = plan->next;
	plans->count--;
	if (plans->last == plan)
		plans->last = NULL;
	free_plan(plan);
}

static taut_status find_or_make(struct tauti_hub *hub,
	const struct tauti_plan_key *key, struct tauti_plan **ret_plan,
	struct taut_error *reterr)
{
	struct tauti_plans *plans = &hub->plans;
	struct tauti_plan **bucket = &plans->buckets[bucket_of(key)];
	struct tauti_plan *plan = *bucket;

	while (plan && !same_key(&plan->key, key))
		plan = plan->next;
	if (!plan) {
		taut_status status = create_plan(hub, key, &plan, reterr);

		if (status)
			return status;
		if (plans->count >= TAUTI_PLANS)
			forget_one(plans);
		plan->next = *bucket;
		*bucket = plan;
		plans->count++;
	}
	*ret_plan = plan;
	return TAUT_OK;
}

/* Calls of one shape often come one after another. */
taut_status tauti_plan_get(struct tauti_hub *hub,
	const struct tauti_plan_key *key, struct tauti_plan **ret_plan,
	struct taut_error *reterr)
{
	struct tauti_plans *plans = &hub->plans;

	if (!plans->last || !same_key(&plans->last->key, key)) {
		struct tauti_plan *plan;
		taut_status status = find_or_make(hub, key, &plan, reterr);

		if (status)
			return status;
		plans->last = plan;
	}
	plans->last->used = ++plans->uses;
	*ret_plan = plans->last;
	return TAUT_OK;
}

void tauti_plans_fini(struct tauti_plans *plans)
{
	for (uint32_t i = 0; i < TAUTI_PLAN_BUCKETS; i++) {
		struct tauti_plan *plan = plans->buckets[i];

		while (plan) {
			struct tauti_plan *next = plan->next;

			free_plan(plan);
			plan = next;
		}
		plans->buckets[i] = NULL;
	}
	plans->last = NULL;
	plans->count = 0;
}

/* run.c - calls under way: passes, and their steps. hub.c has who calls this. */
#include "coll/hub.h"

#include <stdlib.h>
#include <string.h>

/* --- steps -----------------------------------------------------------------------------*/

static void *from_of(const struct tauti_op *op, const struct tauti_step *step)
{
	return op->slot->base[step->from] + step->from_at;
}

static void *into_of(const struct tauti_op *op, const struct tauti_step *step)
{
	return op->slot->base[step->into] + step->into_at;
}

static void *beside_of(const struct tauti_op *op, const struct tauti_step *step)
{
	return op->slot->base[TAUT_SCRATCH] + step->beside;
}

static void fail_step(struct tauti_op *op, taut_status status,
	const struct taut_error *why)
{
	const struct tauti_step *step = op->step;
	struct tauti_hub *hub = op->slot->run->hub;
	const char *verb = taut_coll_verb_name(op->slot->run->call.verb);
	uint32_t peer = op->slot->program->peers[step->first_peer];
	struct taut_error err;

	if (step->kind == TAUTI_STEP_FLAT && op->slot->flat.peer != TAUT_NONE)
		peer = op->slot->flat.peer;
	if (why && why->message[0])
		err = *why;
	else if (status == TAUT_EMATCH)
		taut_error_set(&err, status, -1, "rank %u: %s: what rank %u "
			"sends has another length than it has here: the ranks "
			"do not call the same", hub->rank, verb, peer);
	else if (step->kind == TAUT_STEP_SEND)
		taut_error_set(&err, status, -1, "rank %u: %s: rank %u or "
			"another does not take what is sent: %s", hub->rank,
			verb, peer, taut_status_name(status));
	else
		taut_error_set(&err, status, -1, "rank %u: %s: nothing comes "
			"from rank %u: %s", hub->rank, verb, peer,
			taut_status_name(status));
	err.code = status;
	tauti_hub_note(hub, &err);
}

/* done() of every request. The engine may be anywhere in its own work. */
static void note_done(struct taut_coll_request *request, taut_status status)
{
	struct tauti_op *op = (struct tauti_op *)request;
	struct tauti_run *run = op->slot->run;

	op->held = false;
	run->n_held--;
	if (!run->hub) {
		if (!run->n_held)
			tauti_run_free(run);
		return;
	}
	op->status = status;
	tauti_hub_queue(run->hub, op);
}

static taut_status receive(struct tauti_op *op, const struct tauti_step *step,
	void *into, struct taut_error *err)
{
	const struct tauti_slot *slot = op->slot;
	const struct tauti_engine *engine = &slot->run->hub->engine;

	return engine->table->recv(engine->context,
		slot->program->peers[step->first_peer],
		slot->tag | step->message, into, step->bytes, &op->request, err);
}

static void note_flat_done(struct taut_coll_request *request, taut_status status)
{
	struct tauti_slot *slot = (struct tauti_slot *)(void *)(
		(char *)request - offsetof(struct tauti_slot, flat));

	note_done(&slot->ops[0].request, status);
}

static taut_status ask_for_all(struct tauti_op *op,
	const struct tauti_step *step, struct taut_error *err)
{
	struct tauti_slot *slot = op->slot;
	const struct tauti_run *run = slot->run;
	const struct tauti_engine *engine = &run->hub->engine;

	slot->flat = (struct taut_coll_flat){ .request.done = note_flat_done,
		.tag = slot->tag | step->message,
		.type = run->call.type, .reduction = run->call.reduction,
		.into = into_of(op, step), .from = from_of(op, step),
		.beside = slot->base[TAUT_SCRATCH], .count = step->count,
		.peer = TAUT_NONE };
	return engine->table->flat(engine->context, &slot->flat, err);
}

static taut_status ask_engine(struct tauti_op *op,
	const struct tauti_step *step, struct taut_error *err)
{
	const struct tauti_slot *slot = op->slot;
	const struct tauti_engine *engine = &slot->run->hub->engine;
	const uint32_t *peers = slot->program->peers + step->first_peer;
	uint64_t tag = slot->tag | step->message;

	if (step->kind == TAUT_STEP_SEND)
		return engine->table->send(engine->context, peers,
			step->n_peers, tag, from_of(op, step), step->bytes,
			&op->request, err);
	if (step->kind == TAUTI_STEP_FLAT)
		return ask_for_all(op, step, err);
	if (step->early)
		return receive(op, step, beside_of(op, step), err);
	if (step->kind == TAUT_STEP_RECV)
		return receive(op, step, into_of(op, step), err);
	return engine->table->recv_reduce(engine->context, *peers, tag,
		slot->run->call.type, slot->run->call.reduction,
		into_of(op, step), from_of(op, step), step->count, &op->request,
		err);
}

static void begin_message(struct tauti_op *op, const struct tauti_step *step)
{
	struct tauti_run *run = op->slot->run;
	struct taut_error err;
	taut_status status;

	tauti_error_clear(&err);
	run->n_held++;
	op->held = true;
	status = ask_engine(op, step, &err);
	if (status) {
		op->held = false;
		run->n_held--;
		fail_step(op, status, &err);
	}
}

static void reduce_here(struct tauti_op *op, const struct tauti_step *step)
{
	const struct taut_coll_call *call = &op->slot->run->call;

	taut_reduce(call->type, call->reduction, into_of(op, step),
		from_of(op, step), beside_of(op, step), step->count);
}

static void copy_here(struct tauti_op *op, const struct tauti_step *step)
{
	void *into = into_of(op, step);
	const void *from = from_of(op, step);

	if (into != from)
		memcpy(into, from, step->bytes);
}

/* All that it waits for is done; of an early step also what comes is there. What is
 * done here goes through the queue as what the engine does, so that a long chain
 * of such steps takes no deep stack. */
static void begin_step(struct tauti_hub *hub, struct tauti_op *op)
{
	const struct tauti_step *step = op->step;

	if (hub->failed)
		return;
	if (step->early || step->kind == TAUT_STEP_REDUCE)
		reduce_here(op, step);
	else if (step->kind == TAUT_STEP_COPY)
		copy_here(op, step);
	else {
		begin_message(op, step);
		return;
	}
	tauti_hub_queue(hub, op);
}

/* --- passes ----------------------------------------------------------------------------*/

/* An op that is done is as before it began: one program after another of the same
 * kind finds all as it should be. */
static void set_op(struct tauti_op *op)
{
	op->waits_left = op->step->n_waits;
	op->receiving = op->step->early;
}

static void use_program(
	struct tauti_slot *slot, const struct tauti_program *program)
{
	if (slot->program == program)
		return;
	slot->program = program;
	for (uint32_t i = 0; i < program->n_steps; i++) {
		slot->ops[i].step = &program->steps[i];
		set_op(&slot->ops[i]);
	}
}

static void set_pass(struct tauti_slot *slot, uint64_t pass)
{
	struct tauti_run *run = slot->run;
	const struct tauti_plan *plan = run->plan;
	size_t shift = pass * plan->stride_bytes;

	use_program(slot, pass + 1 == plan->cut.n_passes ? plan->last :
		plan->full);
	slot->base[TAUT_INPUT] = (char *)run->call.input + shift;
	slot->base[TAUT_OUTPUT] = (char *)run->call.output + shift;
	slot->tag = tauti_hub_later_tag(run->tag, pass);
	slot->n_left = slot->program->n_steps;
}

static void begin_pass(struct tauti_slot *slot, uint64_t pass)
{
	struct tauti_hub *hub = slot->run->hub;
	const struct tauti_program *program;

	set_pass(slot, pass);
	program = slot->program;
	for (uint32_t i = 0; i < program->n_firsts && !hub->failed; i++) {
		struct tauti_op *op = &slot->ops[program->firsts[i]];

		if (op->receiving)
			begin_message(op, op->step);
		else
			begin_step(hub, op);
	}
}

static void finish(struct tauti_run *run)
{
	struct tauti_hub *hub = run->hub;
	void (*done)(void *context, taut_status status) = run->done;
	void *context = run->context;

	tauti_hub_unlist(hub, run);
	tauti_hub_give_block(hub, run->scratch);
	run->scratch = NULL;
	run->plan->n_under_way--;
	run->newer = run->plan->idle;
	run->plan->idle = run;
	done(context, TAUT_OK);
}

/* The slot is free: its next pass that has anything to do. */
static void advance(struct tauti_slot *slot)
{
	struct tauti_run *run = slot->run;

	while (run->next_pass < run->plan->cut.n_passes) {
		begin_pass(slot, run->next_pass++);
		if (slot->n_left)
			return;
	}
	if (--run->n_busy == 0)
		finish(run);
}

static void end_step(struct tauti_hub *hub, struct tauti_op *op)
{
	struct tauti_slot *slot = op->slot;
	const struct tauti_step *step = op->step;
	const uint32_t *heirs = slot->program->heirs + step->first_heir;

	set_op(op);
	for (uint32_t i = 0; i < step->n_heirs; i++) {
		struct tauti_op *heir = &slot->ops[heirs[i]];

		if (--heir->waits_left == 0)
			begin_step(hub, heir);
	}
	if (--slot->n_left == 0)
		advance(slot);
}

void tauti_run_settle(struct tauti_hub *hub, struct tauti_op *op)
{
	if (op->status)
		fail_step(op, op->status, NULL);
	else if (!op->receiving)
		end_step(hub, op);
	else {
		op->receiving = false;
		if (--op->waits_left == 0)
			begin_step(hub, op);
	}
}

/* --- runs ------------------------------------------------------------------------------*/

void tauti_run_free(struct tauti_run *run)
{
	free(run->scratch);
	free(run);
}

static struct tauti_run *create_run(
	struct tauti_hub *hub, struct tauti_plan *plan)
{
	size_t n_ops = (size_t)plan->n_slots * plan->most_steps;
	size_t slots = plan->n_slots * sizeof(struct tauti_slot);
	struct tauti_run *run = calloc(1,
		sizeof *run + slots + n_ops * sizeof(struct tauti_op));
	struct tauti_op *op;

	if (!run)
		return NULL;
	run->hub = hub;
	run->plan = plan;
	op = (struct tauti_op *)(run->slots + plan->n_slots);
	for (uint32_t i = 0; i < plan->n_slots; i++) {
		run->slots[i].run = run;
		run->slots[i].ops = op;
		for (uint32_t k = 0; k < plan->most_steps; k++, op++) {
			op->request.done = note_done;
			op->slot = &run->slots[i];
		}
	}
	return run;
}

static struct tauti_run *take_run(
	struct tauti_hub *hub, struct tauti_plan *plan)
{
	struct tauti_run *run = plan->idle;
	size_t bytes = plan->n_slots * plan->scratch_bytes;
	struct tauti_block *scratch = NULL;

	if (bytes) {
		scratch = tauti_hub_take_block(hub, bytes);
		if (!scratch)
			return NULL;
	}
	if (run)
		plan->idle = run->newer;
	else
		run = create_run(hub, plan);
	if (!run) {
		tauti_hub_give_block(hub, scratch);
		return NULL;
	}
	run->scratch = scratch;
	for (uint32_t i = 0; scratch && i < plan->n_slots; i++)
		run->slots[i].base[TAUT_SCRATCH] =
			scratch->data + i * plan->scratch_bytes;
	plan->n_under_way++;
	return run;
}

static void begin_run(struct tauti_run *run)
{
	struct tauti_hub *hub = run->hub;
	uint32_t n_slots = run->plan->n_slots;

	run->next_pass = 0;
	run->n_busy = n_slots;
	/* The last one may end the run. */
	for (uint32_t i = 0; i < n_slots && !hub->failed; i++)
		advance(&run->slots[i]);
}

/* After the run is listed: see tauti_hub_needs(). */
static void count_passes(struct tauti_hub *hub, uint32_t channel, uint32_t n)
{
	n += atomic_load_explicit(&hub->passes[channel], memory_order_relaxed);
	atomic_store_explicit(&hub->passes[channel], n, memory_order_release);
}

taut_status tauti_run_start(struct tauti_hub *hub, uint32_t channel,
	const struct taut_coll_call *call,
	void (*done)(void *context, taut_status status), void *context,
	struct taut_error *reterr)
{
	struct tauti_plan_key key = { call->verb, call->way, call->root,
		call->passes_at_once, taut_type_bytes(call->type),
		call->pass_bytes, call->count };
	struct tauti_plan *plan;
	struct tauti_run *run;
	taut_status status = tauti_plan_get(hub, &key, &plan, reterr);

	if (status)
		return status;
	run = take_run(hub, plan);
	if (!run)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"collective: out of memory");
	run->call = *call;
	if (!call->output)
		run->call.input = run->call.output = &run->barrier;
	run->done = done;
	run->context = context;
	run->tag = tauti_hub_next_tag(hub, channel);
	tauti_hub_list(hub, run);
	count_passes(hub, channel, (uint32_t)plan->cut.n_passes);
	if (!tauti_hub_dooms(hub, run))
		begin_run(run);
	tauti_hub_drain(hub);
	return TAUT_OK;
}

/* Whatever the engine still holds keeps the memory until it is done. */
void tauti_run_abandon(struct tauti_run *run, taut_status status)
{
	void (*done)(void *context, taut_status status) = run->done;
	void *context = run->context;

	tauti_hub_unlist(run->hub, run);
	run->plan->n_under_way--;
	run->hub = NULL;
	run->plan = NULL;
	if (!run->n_held)
		tauti_run_free(run);
	done(context, status);
}

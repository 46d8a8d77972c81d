/* schedule.c - gradients handed to the network by the scheduler core: the very
 * code of src/sched decides, on the replay's clock (ByteScheduler, SOSP 2019;
 * P3, MLSys 2019). */
#include <math.h>
#include <stdio.h>

#include "whatif/compute.h"
#include "whatif/exchanged.h"
#include "whatif/schedule.h"

enum { HOW, PARTITION, CREDIT, BARRIER, ORDER, MESSAGE, BY };
enum { PRIORITY, FIFO };
enum { KEEP, CROSS };
enum { AGREED, DECLARED };
enum { FRAMEWORK, TAUT };

static const double usual_piece = 4e6, usual_pieces_under_way = 2;

struct scheduler {
	struct tauti_whatif *w;
	const struct tauti_change *c;
	struct taut_error *err;
	struct tauti_ddp *ddp;
	struct tauti_schedule *schedule;
	struct tauti_forward forward;
	int64_t *priorities; /* by bucket of a step */
	uint32_t how, barrier, by;
};

/* --- parameters ------------------------------------------------------------------- */

static taut_status read_bytes(const struct scheduler *s, size_t i,
	double otherwise, uint64_t *ret)
{
	bool is_factor = false;
	double bytes = otherwise;
	taut_status status = TAUT_OK;

	if (tauti_param_given(s->c, i))
		status = tauti_param_scaled(s->c, i, TAUTI_BYTES, &is_factor,
			&bytes, s->err);
	if (!status && (is_factor || bytes > 1e15 ||
		(bytes < 1000 && bytes != otherwise)))
		status = tauti_param_wrong(
			s->c, i, "1 kB or more, like 4MB", s->err);
	if (!status)
		*ret = (uint64_t)bytes;
	return status;
}

static taut_status read(struct scheduler *s)
{
	struct taut_sched_options *o = &s->schedule->options.sched;
	uint32_t order = AGREED;
	taut_status status = tauti_param_word(s->c, HOW, &s->how, s->err);

	if (!status)
		status = read_bytes(s, PARTITION,
			s->how == FIFO ? 0 : usual_piece, &o->piece_bytes);
	if (!status)
		status = read_bytes(s, CREDIT, s->how == FIFO ? 0 :
			usual_pieces_under_way * (double)o->piece_bytes,
			&o->credit_bytes);
	if (!status)
		status = tauti_param_word(
			s->c, BARRIER, &s->barrier, s->err);
	if (!status)
		status = tauti_param_word(s->c, BY, &s->by, s->err);
	if (!status && tauti_param_given(s->c, ORDER))
		status = tauti_param_word(s->c, ORDER, &order, s->err);
	else
		order = s->how == FIFO ? DECLARED : AGREED;
	if (!status && order == DECLARED && s->how == PRIORITY)
		status = taut_error_set(s->err, TAUT_EINVAL, -1, "%s: in the "
			"declared order nothing has a priority; expected "
			"schedule=fifo with it", s->c->text);
	o->order = order == AGREED ? TAUT_SCHED_AGREED : TAUT_SCHED_DECLARED;
	return status;
}

/* --- the engine -------------------------------------------------------------------- */

/* Lanes that carried gradients: how many transfers went on side by side. */
static uint32_t count_lanes(const struct scheduler *s)
{
	const struct tauti_ddp *ddp = s->ddp;
	uint32_t most = 1;

	for (uint32_t p = 0; p < ddp->n_ranks; p++) {
		const struct tauti_ddp_step *step =
			&ddp->steps.data[(size_t)p * ddp->steps_a_rank];
		const struct tauti_ddp_step *last =
			step + ddp->steps_a_rank - 1;
		uint32_t from = step->first_bucket;
		uint32_t to = last->first_bucket + last->n_buckets, n = 0;
		uint32_t seen[64];

		for (uint32_t b = from; b < to && n < 64; b++) {
			struct taut_op op;
			uint32_t i = 0;

			if (!taut_edit_op(s->w->edit,
				ddp->buckets.data[b].arrive, &op))
				continue;
			while (i < n && seen[i] != op.lane)
				i++;
			if (i == n)
				seen[n++] = op.lane;
		}
		most = n > most ? n : most;
	}
	return most;
}

/* Messages that a rank sends of a piece, one after another, as it is carried out by now;
 * `in`: as recorded. Where no way is said two ranks send each other all of it. */
static taut_status find_steps(const struct scheduler *s, struct taut_law_in in,
	uint32_t *ret_steps)
{
	uint32_t first = s->ddp->buckets.data[0].collective;
	struct tauti_way way = tauti_way_of(s->w, first);
	struct taut_collective c;
	struct taut_law law;
	taut_status status;

	if (taut_edit_collective(s->w->edit, first, &c) && c.n_members)
		in.ranks = c.n_members;
	in.hosts = s->w->site.n_hosts < in.ranks ? s->w->site.n_hosts : in.ranks;
	in.algorithm = (enum taut_algorithm)way.algorithm;
	in.servers = way.servers;
	*ret_steps = 1;
	if (in.ranks == 2 && in.algorithm == TAUT_ALGO_AS_RECORDED)
		return TAUT_OK;
	status = taut_law_count(&in, &law, s->err);
	if (!status && law.messages > 1)
		*ret_steps = (uint32_t)llround(law.messages);
	return status;
}

/* A small message by the line of the buckets' class: between nothing and twice
 * what it says, for what lies below the recorded sizes is not known. On hosts it goes the
 * way that pieces go, behind what of them was handed to the system before it. What a
 * device sends is not in its way. */
static taut_status set_message(const struct scheduler *s)
{
	const struct tauti_whatif *w = s->w;
	struct tauti_engine_options *o = &s->schedule->options;
	struct taut_law_in in;
	struct taut_transfer t;
	double each, messages;
	uint32_t like = TAUT_NONE;

	for (uint32_t k = 0; k < w->job->n_steps && like == TAUT_NONE; k++)
		if (w->job->steps[k].n_gradients)
			like = w->job->gradients[w->job->steps[k].first_gradient];
	if (like == TAUT_NONE)
		return TAUT_OK;
	in = taut_costs_law_in(w->costs, like);
	in.bytes = 8;
	messages = taut_law(&in).messages;
	t = taut_costs_transfer(w->costs, TAUT_NONE, &in, 0);
	each = messages > 0 ? ((double)t.latency_ns + t.amount) / messages : 0;
	if (t.on_network)
		each = each * w->latency + w->latency_add_ns;
	if (w->no_transfers)
		each = 0;
	o->message_ns = llround(fmin(tauti_range(w, 0, each, 2 * each), 1e9));
	return t.on_network && !w->job->has_device ?
		find_steps(s, in, &o->steps) : TAUT_OK;
}

static taut_status set_engine(struct scheduler *s)
{
	struct tauti_engine_options *o = &s->schedule->options;
	bool is_factor = false;
	double ns;
	taut_status status = TAUT_OK;

	/* of Taut's exchange as the job has it credit alone says how many */
	o->lanes = s->ddp->exchanged ? 0 : count_lanes(s);
	if (o->sched.order == TAUT_SCHED_AGREED)
		status = set_message(s);
	if (!status && tauti_param_given(s->c, MESSAGE)) {
		status = tauti_param_scaled(s->c, MESSAGE, TAUTI_NS,
			&is_factor, &ns, s->err);
		if (!status && (is_factor || ns > 1e9))
			status = tauti_param_wrong(
				s->c, MESSAGE,
				"a time of at most 1s, like 50us", s->err);
		o->message_ns = status ? 0 : llround(ns);
	}
	return status;
}

/* --- priorities ---------------------------------------------------------------------- */

/* By the first use in the forward pass of any of its parameters; not known: the
 * last gradient that is ready is of the first layer. */
static taut_status set_priorities(struct scheduler *s)
{
	const struct tauti_ddp_step *step = s->ddp->steps.data;
	const struct tauti_bucket *buckets =
		&s->ddp->buckets.data[step->first_bucket];
	taut_status status = TAUT_OK;

	s->priorities = taut_arena_calloc(s->w->arena,
		(size_t)step->n_buckets + 1, sizeof *s->priorities);
	if (!s->priorities)
		return tauti_no_memory(s->err, "priorities");
	if (s->how == PRIORITY && s->forward.missing)
		status = tauti_note(s->w, s->err, "schedule: the order of the "
			"forward pass is taken for the reverse of that in "
			"which gradients are ready: %s", s->forward.missing);
	for (uint32_t b = 0; s->how == PRIORITY && b < step->n_buckets; b++) {
		int64_t least = INT64_MAX;

		for (uint32_t i = 0; i < buckets[b].n; i++) {
			int64_t at = s->forward.position[buckets[b].first + i];

			least = at < least ? at : least;
		}
		s->priorities[b] = s->forward.missing || least == INT64_MAX ?
			(int64_t)step->n_buckets - 1 - b : least;
	}
	return status;
}

/* --- all -------------------------------------------------------------------------------- */

static taut_status say(struct scheduler *s)
{
	const struct tauti_team *team = s->schedule->teams;
	const struct tauti_engine_options *o = &s->schedule->options;
	char many[16] = "any number";
	taut_status status;

	if (o->lanes)
		snprintf(many, sizeof many, "%u", o->lanes);
	status = tauti_note(s->w, s->err, "schedule: %u tasks a step (the "
		"buckets; bucket=BYTES before it makes others) in %u pieces, "
		"%s side by side", team->n_tasks, team->n_pieces, many);

	if (!status && o->sched.order == TAUT_SCHED_AGREED && team->n_ranks > 1)
		status = tauti_note(s->w, s->err, "schedule: a message of a "
			"round in which ranks agree takes %.1f us",
			(double)o->message_ns / 1e3);
	return status;
}

/* A recording of Taut's exchange has what its computing threads do for it. On a device
 * nothing of it is known. */
static bool is_handed(const struct scheduler *s)
{
	return s->by == TAUT && !s->ddp->exchanged && !s->w->job->has_device;
}

static taut_status lay(struct scheduler *s)
{
	taut_status status = tauti_ddp_wait(s->w, s->ddp, s->err);

	if (!status && is_handed(s))
		status = tauti_hand_over(s->w, s->ddp, s->err);
	if (!status)
		status = set_engine(s);
	if (!status && (s->how == PRIORITY || s->barrier == CROSS))
		status = tauti_forward_find(
			s->w, s->ddp, &s->forward, s->err);
	if (!status)
		status = set_priorities(s);
	if (!status && s->barrier == CROSS)
		status = tauti_cross(s->w, s->ddp, is_handed(s) ?
			tauti_late_ns(s->w) : 0, &s->forward, s->err);
	if (is_handed(s))
		s->schedule->piece_ns = tauti_piece_ns(s->w);
	if (!status)
		status = tauti_pieces_lay(s->w, s->c->text, s->ddp,
			s->priorities, s->barrier == CROSS ?
			s->forward.update : NULL, s->schedule, s->err);
	if (!status)
		status = say(s);
	if (!status)
		s->w->schedule = s->schedule;
	return status;
}

static taut_status apply(struct tauti_whatif *w,
	const struct tauti_change *c, struct taut_error *err)
{
	struct scheduler s = { .w = w, .c = c, .err = err,
		.schedule = TAUT_ARENA_ARRAY(
			w->arena, struct tauti_schedule, 1) };
	taut_status status;

	if (!s.schedule)
		return tauti_no_memory(err, "a schedule");
	if (w->schedule)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: there is a "
			"schedule already", c->text);
	status = read(&s);
	if (!status)
		status = tauti_ddp_create(w, 0, NULL, 0, &s.ddp, err);
	if (status)
		return status;
	status = tauti_exchanged_part(w, &s.ddp, err);
	if (status) {
		tauti_ddp_destroy(s.ddp);
		return status;
	}
	if (!s.ddp->buckets.count)
		status = taut_error_set(err, TAUT_EINVAL, -1, "schedule: no "
			"all-reduces of gradients were found in this recording");
	else
		status = lay(&s);
	tauti_ddp_destroy(s.ddp);
	return status;
}

static const struct taut_parameter parameters[] = {
	[HOW] = { "", "priority|fifo", "priority", "what goes next: the "
		"parameter that the forward pass needs first, or what was "
		"ready first" },
	[PARTITION] = { "partition", "BYTES", "", "of a piece at most; without "
		"it 4MB, of fifo whole buckets" },
	[CREDIT] = { "credit", "BYTES", "", "a piece may begin while less than "
		"so much is under way; without it two pieces, of fifo no "
		"limit" },
	[BARRIER] = { "barrier", "keep|cross", "keep", "cross: a parameter is "
		"updated as soon as its own gradient is there, and the next "
		"forward pass begins layer by layer" },
	[ORDER] = { "order", "agreed|declared", "", "agreed: ranks agree in "
		"rounds of small messages what goes next; declared: in the "
		"order of backward, as DDP. Without it agreed, of fifo "
		"declared" },
	[MESSAGE] = { "message", "TIME", "", "of a small message of such a "
		"round, behind what it waits for; without it by the line of "
		"the all-reduces" },
	[BY] = { "by", "framework|taut", "framework", "who sums: what the job "
		"has, or Taut's exchange, for which a framework on hosts makes "
		"no copies and launches, and hands each gradient over" },
};

const struct tauti_transformation tauti_whatif_schedule = {
	.info = {
		.name = "schedule",
		.group = "network",
		.summary = "gradients in pieces by priority, within a credit, "
			"also past the end of the step",
		.assumption = "the scheduler itself (src/sched) decides, on "
			"the replay's clock, one on each rank, and its own "
			"time is taken for nothing; as many transfers side by "
			"side as were recorded, or of a job on Taut's exchange "
			"as there is credit for; crossing: the main thread "
			"updates a layer's weights before it uses them, for as "
			"long as before by bytes",
		.source = "Peng et al., ByteScheduler, SOSP 2019; Jayarajan et "
			"al., P3, MLSys 2019",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof parameters[0],
	},
	.apply = apply,
};

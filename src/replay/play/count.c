/* count.c - what passes move over each link and ask of each rank, and the time below
 * which they cannot be. */
#include <string.h>

#include "play.h"

struct sums {
	const struct taut_play_net *net;
	uint32_t element_bytes;
	uint64_t *out, *in, *memory;    /* by host */
	uint64_t *local_out, *local_in; /* by rank */
	uint64_t *reduced;
	double *own_ns;
	uint64_t backbone;
	int64_t latency_ns;             /* the least of any message */
};

static void add_message(struct sums *s, const struct tauti_play_message *m,
	uint64_t passes)
{
	const struct taut_play_net *net = s->net;
	uint32_t a = tauti_play_host(net, m->from);
	uint32_t z = tauti_play_host(net, m->to);
	uint64_t bytes = m->count * s->element_bytes * passes;
	int64_t latency_ns = a == z ? net->local_ns : net->network_ns;

	if (a == z) {
		s->local_out[m->from] += bytes;
		s->local_in[m->to] += bytes;
		s->memory[a] += bytes;
	} else {
		s->out[a] += bytes;
		s->in[z] += bytes;
		s->backbone += bytes;
	}
	if (latency_ns < s->latency_ns)
		s->latency_ns = latency_ns;
}

static void add_step(struct sums *s, uint32_t rank,
	const struct taut_coll_step *step, uint64_t passes)
{
	if (step->kind == TAUT_STEP_REDUCE ||
		step->kind == TAUT_STEP_RECV_REDUCE)
		s->reduced[rank] += step->count * s->element_bytes * passes;
	s->own_ns[rank] += (double)passes *
		tauti_play_own_ns(s->net, step, s->element_bytes);
}

static void add_passes(
	struct sums *s, const struct tauti_script *script, uint64_t passes)
{
	for (uint32_t i = 0; i < script->n_messages; i++)
		add_message(s, &script->messages[i], passes);
	for (uint32_t i = 0; i < script->n_steps; i++)
		add_step(s, script->rank_of[i], tauti_script_step(script, i),
			passes);
}

/* --- the busiest -------------------------------------------------------------------*/

static uint64_t most(const uint64_t *a, const uint64_t *b, uint32_t n)
{
	uint64_t m = 0;

	for (uint32_t i = 0; i < n; i++) {
		m = a[i] > m ? a[i] : m;
		m = b[i] > m ? b[i] : m;
	}
	return m;
}

static void longer(double *ns, uint64_t bytes, double rate)
{
	if (rate > 0 && (double)bytes / rate > *ns)
		*ns = (double)bytes / rate;
}

/* No link and no rank can do more than one thing's worth at a time. */
static double busiest_ns(const struct sums *s)
{
	const struct taut_play_net *net = s->net;
	double ns = 0;

	for (uint32_t i = 0; net->hosts && i < net->n_hosts; i++) {
		longer(&ns, s->out[i], net->hosts[i].out);
		longer(&ns, s->in[i], net->hosts[i].in);
		longer(&ns, s->memory[i], net->hosts[i].memory);
	}
	longer(&ns, s->backbone, net->backbone);
	for (uint32_t r = 0; r < net->n_ranks; r++) {
		longer(&ns, s->local_out[r], net->local);
		longer(&ns, s->local_in[r], net->local);
		ns = s->own_ns[r] > ns ? s->own_ns[r] : ns;
	}
	return ns;
}

static taut_status count_succession(const struct tauti_script *script,
	struct taut_arena *arena, uint32_t *ret, struct taut_error *err)
{
	struct tauti_scene scene;
	struct tauti_played played = { 0 };
	taut_status status = tauti_scene_init_count(&scene, arena, script, err);

	if (!status)
		status = tauti_scene_play(
			&scene, arena, INT64_MAX, &played, err);
	*ret = (uint32_t)played.time_ns;
	return status;
}

/* --- all -----------------------------------------------------------------------------*/

static bool get_sums(struct sums *s, struct taut_arena *arena)
{
	uint32_t n = s->net->n_ranks, h = s->net->n_hosts;
	uint64_t *all = TAUT_ARENA_ARRAY(arena, uint64_t,
		3 * (size_t)h + 3 * (size_t)n);

	s->own_ns = TAUT_ARENA_ARRAY(arena, double, n);
	if (!all || !s->own_ns)
		return false;
	s->out = all;
	s->in = s->out + h;
	s->memory = s->in + h;
	s->local_out = s->memory + h;
	s->local_in = s->local_out + n;
	s->reduced = s->local_in + n;
	return true;
}

static void fill_counts(const struct sums *s, const struct tauti_passes *passes,
	uint32_t in_succession, struct tauti_play_counts *ret)
{
	const struct tauti_script *whole = passes->whole, *rest = passes->rest;
	uint32_t n = s->net->n_ranks, h = s->net->n_hosts;
	double row_ns = in_succession ? (double)in_succession *
		(double)s->latency_ns : 0;
	double least_ns = busiest_ns(s);

	least_ns = row_ns > least_ns ? row_ns : least_ns;
	ret->least_ns = least_ns < 1 ? 0 : least_ns < (double)INT64_MAX / 2 ?
		(int64_t)(least_ns * (1 - 1e-9)) : INT64_MAX / 2;
	ret->result = (struct taut_play_result){
		.n_passes = passes->n_whole + (rest != NULL),
		.n_messages = (uint64_t)whole->n_messages * passes->n_whole +
			(rest ? rest->n_messages : 0),
		.in_succession = in_succession,
		.network_bytes = most(s->out, s->in, h),
		.local_bytes = most(s->local_out, s->local_in, n),
		.reduced_bytes = most(s->reduced, s->reduced, n),
	};
}

static void copy(uint64_t *to, const uint64_t *from, uint32_t n)
{
	if (to && n)
		memcpy(to, from, n * sizeof *to);
}

static void tell(
	const struct sums *s, const struct taut_play_traffic *traffic)
{
	copy(traffic->out, s->out, s->net->n_hosts);
	copy(traffic->in, s->in, s->net->n_hosts);
	copy(traffic->local_out, s->local_out, s->net->n_ranks);
	copy(traffic->local_in, s->local_in, s->net->n_ranks);
	copy(traffic->reduced, s->reduced, s->net->n_ranks);
}

taut_status tauti_play_count(const struct taut_play_net *net,
	struct taut_arena *arena, const struct tauti_passes *passes,
	uint32_t element_bytes, const struct taut_play_traffic *traffic,
	struct tauti_play_counts *ret, struct taut_error *err)
{
	struct sums s = { .net = net, .element_bytes = element_bytes,
		.latency_ns = INT64_MAX };
	uint32_t in_succession;
	taut_status status;

	if (!get_sums(&s, arena))
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory to count a collective");
	add_passes(&s, passes->whole, passes->n_whole);
	if (passes->rest)
		add_passes(&s, passes->rest, 1);
	status = count_succession(passes->whole, arena, &in_succession, err);
	if (status)
		return status;
	fill_counts(&s, passes, in_succession, ret);
	if (traffic)
		tell(&s, traffic);
	return TAUT_OK;
}

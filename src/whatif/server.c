/* server.c - gradients summed by parameter servers: each rank pushes its own
 * and pulls the sums (M. Li et al., OSDI 2014; BytePS, OSDI 2020).
 *
 * p ranks, m of them on a host, n servers, S bytes, full duplex. Servers of
 * their own get p S / n and send as much, a host of ranks m S each way; so the
 * busiest link carries
 *     max(m, p / n) S.
 * Servers that stand on the ranks' hosts: taut_law() of SERVER. A server adds
 * up p S / n, as fast as `sum`; where that is slower than its link, it is what
 * holds the transfer back. */
#include <math.h>

#include "whatif/ddp.h"

enum { SERVERS, AT, SUM, PER };
enum { WORKERS, OWN };
enum { BUCKET, TENSOR };

struct server {
	struct tauti_whatif *w;
	const struct tauti_change *c;
	struct taut_error *err;
	uint32_t n, at, per;
	double sum;  /* bytes a nanosecond of one server */
	double link; /* of a host, as changed so far; 0: not known */
	uint8_t *seen;
	bool held_back;
};

static taut_status read(struct server *s)
{
	taut_status status = tauti_param_count(
		s->c, SERVERS, 1, 1 << 16, &s->n, s->err);

	if (!status)
		status = tauti_param_word(s->c, AT, &s->at, s->err);
	if (!status)
		status = tauti_param_word(s->c, PER, &s->per, s->err);
	if (!status && tauti_param_given(s->c, SUM))
		status = tauti_param_number(
			s->c, SUM, 1e-3, 1e6, &s->sum, s->err);
	else
		s->sum = tauti_range(s->w, 12, 6, 3);
	return status;
}

/* The rate of the link, from the class that knows it; of the slowest host. */
static double link_rate(const struct tauti_whatif *w)
{
	const struct taut_costs *costs = w->costs;
	double best = 0, slowest = INFINITY;

	for (uint32_t i = 0; i < costs->n_classes; i++)
		if (costs->classes[i].on_network &&
			costs->classes[i].kind == TAUT_COLL_ALLREDUCE &&
			costs->classes[i].rate_gbs > best)
			best = costs->classes[i].rate_gbs;
	for (uint32_t i = 0; i < w->site.n_hosts; i++)
		slowest = fmin(slowest, fmin(
			w->site.hosts[i].up, w->site.hosts[i].down));
	return isfinite(slowest) ? best * slowest : best;
}

/* Bytes on the busiest link, for one of the bucket's. */
static double load(struct server *s, uint32_t ranks)
{
	double p = ranks, each = p / s->n, adding;
	struct taut_law_in in = { .kind = TAUT_COLL_ALLREDUCE,
		.algorithm = TAUT_ALGO_SERVER, .ranks = ranks,
		.hosts = ranks < s->w->site.n_hosts ? ranks :
			s->w->site.n_hosts,
		.servers = s->n, .bytes = 1e9 };
	double bytes = s->at == WORKERS ? taut_law(&in).network_bytes / 1e9 :
		fmax(each, ceil(p / fmax(1, in.hosts)));

	adding = s->link > 0 ? each * s->link / s->sum : 0;
	s->held_back |= adding > bytes;
	return adding > bytes ? adding : bytes;
}

static taut_status serve(struct server *s, uint32_t collective)
{
	struct tauti_way way = tauti_way_of(s->w, collective);
	struct taut_law_in in = { .kind = TAUT_COLL_ALLREDUCE,
		.algorithm = TAUT_ALGO_SERVER, .servers = s->n, .bytes = 1e9 };
	struct taut_collective c;
	double law;

	if (!taut_edit_collective(s->w->edit, collective, &c))
		return TAUT_OK;
	in.ranks = c.group_size > 0 ? (uint32_t)c.group_size : c.n_members;
	in.hosts = in.ranks < s->w->site.n_hosts ? in.ranks :
		s->w->site.n_hosts;
	law = taut_law(&in).network_bytes / 1e9;
	way.algorithm = TAUT_ALGO_SERVER;
	way.servers = s->n;
	if (law > 0)
		way.wire *= load(s, in.ranks) / law;
	return tauti_set_way(s->w, collective, &way, s->err);
}

/* Every gradient by itself, as soon as it is ready. */
static taut_status part(struct server *s, struct tauti_ddp **ddp)
{
	static const struct tauti_lay as_it_was = { 0 };
	uint32_t n = (*ddp)->steps.data->n_gradients;
	tauti_plan plan = { 0 };
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < n; i++)
		if (!taut_vec_push(&plan, i))
			status = taut_error_set(s->err, TAUT_ENOMEM, -1,
				"no memory for gradients");
	if (!status)
		status = tauti_ddp_lay(s->w, *ddp, &plan, &as_it_was, s->err);
	taut_vec_free(&plan);
	tauti_ddp_destroy(*ddp);
	*ddp = NULL;
	return status ? status :
		tauti_ddp_create(s->w, 0, NULL, 0, ddp, s->err);
}

static taut_status serve_all(struct server *s, const struct tauti_ddp *ddp)
{
	taut_status status = tauti_ddp_wait(s->w, ddp, s->err);

	s->seen = TAUT_ARENA_ARRAY(s->w->arena, uint8_t,
		taut_edit_collectives(s->w->edit) + 1);
	if (!status && !s->seen)
		status = taut_error_set(
			s->err, TAUT_ENOMEM, -1, "no memory for servers");
	for (size_t i = 0; !status && i < ddp->buckets.count; i++) {
		uint32_t c = ddp->buckets.data[i].collective;

		if (!s->seen[c])
			status = serve(s, c);
		s->seen[c] = 1;
	}
	if (!status && s->held_back)
		status = tauti_note(s->w, s->err, "server: adding up holds the "
			"servers back, not their links; more of them, or "
			"sum=GB/S where they are faster");
	return status;
}

static taut_status apply(struct tauti_whatif *w,
	const struct tauti_change *c, struct taut_error *err)
{
	struct server s = { .w = w, .c = c, .err = err };
	struct tauti_ddp *ddp = NULL;
	taut_status status = read(&s);

	if (!status)
		status = tauti_ddp_create(w, 0, NULL, 0, &ddp, err);
	if (!status)
		status = tauti_ddp_need_buckets(w, ddp, "server", err);
	s.link = link_rate(w);
	if (!status && s.link <= 0)
		status = taut_error_set(err, TAUT_EINVAL, -1, "server: nothing "
			"in this recording passed a network");
	if (!status && s.per == TENSOR)
		status = part(&s, &ddp);
	if (!status)
		status = serve_all(&s, ddp);
	tauti_ddp_destroy(ddp);
	return status;
}

static const struct taut_parameter parameters[] = {
	[SERVERS] = { "", "N", NULL, "parameter servers" },
	[AT] = { "at", "workers|own", "workers",
		"where they stand: on the ranks' hosts, or on hosts of their "
		"own with such a link" },
	[SUM] = { "sum", "GB/S", "", "what one server adds up; without it, 6" },
	[PER] = { "per", "bucket|tensor", "bucket",
		"what is pushed and pulled at a time" },
};

const struct tauti_transformation tauti_whatif_server = {
	.info = {
		.name = "server",
		.group = "network",
		.summary = "gradients summed by parameter servers",
		.assumption = "each rank of a host pushes its own; a part is "
			"pulled as soon as all ranks have pushed it; push and "
			"pull of different parts overlap; the optimizer stays "
			"with the ranks",
		.source = "Li et al., OSDI 2014; Jiang et al., BytePS, OSDI "
			"2020",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof parameters[0],
	},
	.apply = apply,
};

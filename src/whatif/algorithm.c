/* algorithm.c - all-reduces that are carried out in another way. */
#include <string.h>

#include "whatif/ddp.h"

enum { ALGORITHM, SERVERS, FROM, LEAST };

static const enum taut_algorithm algorithms[] = { /* as the form's words */
	TAUT_ALGO_RING, TAUT_ALGO_TREE, TAUT_ALGO_HALVING_DOUBLING,
	TAUT_ALGO_HIERARCHICAL, TAUT_ALGO_BLUECONNECT, TAUT_ALGO_SERVER,
	TAUT_ALGO_DIRECT, TAUT_ALGO_FLAT, TAUT_ALGO_DOUBLING,
};

#define ALGORITHMS "ring|tree|halving-doubling|hierarchical|blueconnect|" \
	"server|direct|flat|doubling"

struct change {
	struct tauti_whatif *w;
	enum taut_algorithm to, from;
	uint32_t servers;
	double least_bytes;
	uint32_t n_hosts_shared; /* collectives with several ranks on a host */
};

static taut_status read(struct change *k, const struct tauti_change *c,
	struct taut_error *err)
{
	uint32_t word;
	bool is_factor = false;
	taut_status status = tauti_param_word(c, ALGORITHM, &word, err);

	if (status)
		return status;
	k->to = algorithms[word];
	status = tauti_param_word(c, FROM, &word, err);
	if (!status)
		k->from = algorithms[word];
	if (!status && tauti_param_given(c, SERVERS))
		status = tauti_param_count(c, SERVERS, 1, 1 << 20, &k->servers,
			err);
	if (!status)
		status = tauti_param_scaled(c, LEAST, TAUTI_BYTES, &is_factor,
			&k->least_bytes, err);
	if (!status && is_factor)
		status = tauti_param_wrong(c, LEAST, "bytes", err);
	return status;
}

static uint32_t size_of(const struct taut_collective *c)
{
	return c->group_size > 0 ? (uint32_t)c->group_size : c->n_members;
}

/* A law carries times from one algorithm to the other, so the one that was
 * recorded has to be known: a ring is what is not told, for it is what Gloo
 * does, and NCCL with large sizes. */
static taut_status change_one(
	struct change *k, uint32_t i, struct taut_error *err)
{
	struct tauti_way way = tauti_way_of(k->w, i);

	way.algorithm = (uint8_t)k->to;
	way.servers = k->servers;
	if (k->from != TAUT_ALGO_RING)
		way.from = (uint8_t)k->from;
	return tauti_set_way(k->w, i, &way, err);
}

static taut_status apply(struct tauti_whatif *w,
	const struct tauti_change *c, struct taut_error *err)
{
	struct change k = { .w = w };
	struct tauti_ddp *ddp = NULL;
	taut_status status = read(&k, c, err);
	uint32_t n = 0;

	if (!status)
		status = tauti_ddp_create(w, 0, NULL, 0, &ddp, err);
	if (!status)
		status = tauti_ddp_wait(w, ddp, err);
	tauti_ddp_destroy(ddp);

	for (uint32_t i = 0; !status && i < taut_edit_collectives(w->edit);
		i++) {
		struct taut_collective coll;

		if (!taut_edit_collective(w->edit, i, &coll) ||
			coll.kind != TAUT_COLL_ALLREDUCE ||
			size_of(&coll) < 2 ||
			(double)coll.bytes < k.least_bytes)
			continue;
		status = change_one(&k, i, err);
		n++;
	}
	if (!status && !n)
		return taut_error_set(err, TAUT_EINVAL, -1, "algorithm: no "
			"all-reduce of two ranks or more was found in this "
			"recording");
	if (!status && k.from == TAUT_ALGO_RING)
		status = tauti_note(w, err, "algorithm: the recorded all-reduces "
			"are taken for rings; from=ALGORITHM says otherwise");
	return status;
}

static const struct taut_parameter parameters[] = {
	[ALGORITHM] = { "", ALGORITHMS, NULL,
		"how all-reduces are carried out" },
	[SERVERS] = { "servers", "N", "", "of server; without it, one a host" },
	[FROM] = { "from", ALGORITHMS, "ring", "how they were" },
	[LEAST] = { "least", "BYTES", "0", "smaller ones stay as they are" },
};

const struct tauti_transformation tauti_whatif_algorithm = {
	.info = {
		.name = "algorithm",
		.group = "network",
		.summary = "all-reduces by ring, trees, halving-doubling, "
			"hierarchical, BlueConnect, parameter servers, or each "
			"to each",
		.assumption = "a transfer takes the recorded time by the bytes "
			"that the busiest link moves, and the latency by the "
			"messages that follow each other, both counted from "
			"the schedules where Taut carries them out itself",
		.source = "Thakur et al. 2005; Sanders et al. 2009; Cho et al., "
			"BlueConnect, 2019",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof parameters[0],
	},
	.apply = apply,
};

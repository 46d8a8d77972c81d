/* cache.c - memory that keeps a part of the dataset: reads that hit it do not
 * wait for storage. */

#include "whatif/cache.h"
#include "whatif/compute.h"

enum { SIZE, DATASET, POLICY };

static const struct taut_parameter parameters[] = {
	[SIZE] = { "", "SIZE|SHARE|FACTOR", NULL, "of each host: 64GB, 40% of "
		"the dataset, or 2x what there was" },
	[DATASET] = { "dataset", "SIZE", "", "of all ranks together; without "
		"it, its samples times the bytes that the recorded ones read" },
	[POLICY] = { "policy", "page|pinned|lru", "page", "page: the kernel's "
		"page cache; pinned: nothing is evicted; lru: the least "
		"recently used is" },
};

/* Of the way from LRU to pinned: where the page cache of Linux was seen. */
static const double page_least = 0, page_usual = 0.3, page_most = 0.5;
/* Of memory, in bytes a nanosecond: the slow end and the usual. */
static const double slow_copy = 2, usual_copy = 10;
/* Of the time of a miss, what a hit takes at the most where no bytes are told. */
static const double most_of_miss = 0.02;

/* Of all reads; fewer say too little of a miss. */
static const double least_missed = 0.01;

/* --- hits ----------------------------------------------------------------------- */

/* P(A B > c) for A and B uniform in [1-q, 1]. */
static double product_above(double c, double q)
{
	double a = 1 - q, lo = a > c ? a : c, mid;

	if (c >= 1)
		return 0;
	mid = a > 0 && c < a ? c / a : 1;
	if (mid < lo)
		mid = lo;
	return ((mid - lo) - c * log(mid / lo) + (1 - mid) * q) / (q * q);
}

static double lru_hits(double share, double q)
{
	double hits = 0, weight = q, unread = 1; /* by (1-q)^(k-1) */

	while (unread > 1 - share && weight > 1e-12) {
		hits += weight * product_above((1 - share) / unread, q);
		unread *= 1 - q;
		weight = q * unread;
	}
	return hits;
}

/* at: of the way from LRU to pinned. */
static double page_hits(double share, double q, double at)
{
	double lru = share < 1 ? lru_hits(share, q) : 1;

	return share < 1 ? lru + at * (share - lru) : 1;
}

double tauti_cache_hits(
	enum tauti_cache_policy policy, double share, double q)
{
	if (share >= 1)
		return 1;
	if (share <= 0)
		return 0;
	if (policy == TAUTI_CACHE_PINNED)
		return share;
	if (policy == TAUTI_CACHE_LRU)
		return lru_hits(share, q);
	return page_hits(share, q, page_usual);
}

double tauti_cache_share(
	enum tauti_cache_policy policy, double hits, double q)
{
	double lo = 0, hi = 1;

	for (int i = 0; i < 60; i++) {
		double mid = (lo + hi) / 2;

		if (tauti_cache_hits(policy, mid, q) < hits)
			lo = mid;
		else
			hi = mid;
	}
	return hi;
}

/* --- what the recording says --------------------------------------------------------- */

struct cache {
	struct tauti_whatif *w;
	const struct tauti_change *c;
	struct taut_error *err;
	struct tauti_waits are;
	enum tauti_cache_policy policy;
	double q;     /* as in cache.h */
	double share; /* of the dataset that it holds */
	double missed; /* share of the recorded reads that went to storage */
};

/* A fact that is a number; 0: there is none. */
static double number_of(const struct taut_trace *t, const char *key)
{
	const char *text = taut_trace_fact(t, key);
	double value = 0;

	for (; text && *text >= '0' && *text <= '9' && value < 1e15; text++)
		value = value * 10 + (*text - '0');
	return text && *text ? 0 : value;
}

/* Hosts of the ranks that are there. */
static uint32_t count_hosts(const struct tauti_whatif *w, uint8_t *seen)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < taut_edit_ranks(w->edit); r++) {
		if (!taut_edit_has_rank(w->edit, r) || r >= w->site.n_ranks ||
			seen[w->site.host_of[r]])
			continue;
		seen[w->site.host_of[r]] = 1;
		n++;
	}
	return n ? n : 1;
}

static taut_status find_split(struct cache *k)
{
	const struct taut_trace *t = &k->w->graph->run->traces[0];
	double all = number_of(t, "loader.dataset_samples");
	double own = number_of(t, "loader.epoch_samples");
	uint8_t *seen = TAUT_ARENA_ARRAY(
		k->w->arena, uint8_t, k->w->site.n_hosts + 1);
	uint32_t hosts;

	if (!seen)
		return tauti_no_memory(k->err, "hosts");
	hosts = count_hosts(k->w, seen);
	k->q = all > 0 && own >= 0.75 * all ? 1 : 1.0 / hosts;
	if (hosts == 1 || all > 0)
		return TAUT_OK;
	return tauti_note(k->w, k->err, "%s: the %u hosts are taken to divide "
		"each epoch among them; the recording does not tell",
		k->c->text, hosts);
}

static taut_status find_missed(struct cache *k)
{
	const struct tauti_waits *are = &k->are;

	k->missed = 1;
	if (are->storage_bytes > 0 && are->read_bytes > are->storage_bytes)
		k->missed = are->storage_bytes / are->read_bytes;
	if (k->missed >= least_missed)
		return TAUT_OK;
	return taut_error_set(k->err, TAUT_EINVAL, -1, "%s: nearly all that "
		"the recorded batches read came from memory: what storage "
		"would take is not known", k->c->text);
}

static taut_status dataset_bytes(struct cache *k, double *ret_bytes)
{
	const struct tauti_waits *are = &k->are;
	double samples = number_of(&k->w->graph->run->traces[0],
		"loader.dataset_samples");
	double bytes = are->read_bytes > are->storage_bytes ?
		are->read_bytes : are->storage_bytes;
	bool is_factor = false;
	taut_status status;

	if (tauti_param_given(k->c, DATASET)) {
		status = tauti_param_scaled(k->c, DATASET, TAUTI_BYTES,
			&is_factor, ret_bytes, k->err);
		if (!status && (is_factor || *ret_bytes <= 0))
			status = tauti_param_wrong(k->c, DATASET,
				"a size like 150GB", k->err);
		return status;
	}
	if (samples <= 0 || are->samples <= 0 || bytes <= 0)
		return taut_error_set(k->err, TAUT_EINVAL, -1, "%s: the "
			"recording does not tell how large the dataset is; "
			"dataset=SIZE does, and so does a share of it, like "
			"cache=40%%", k->c->text);
	*ret_bytes = samples * bytes / are->samples;
	return tauti_note(k->w, k->err, "%s: the dataset is taken for one of "
		"%.3g GB: %.0f samples of the %.3g kB that the recorded ones "
		"read", k->c->text, *ret_bytes / 1e9, samples,
		bytes / are->samples / 1e3);
}

/* --- how much it holds --------------------------------------------------------------- */

static taut_status share_of_factor(struct cache *k, double factor)
{
	double held;

	if (k->missed >= 1)
		return taut_error_set(k->err, TAUT_EINVAL, -1, "%s: the "
			"recording does not show a cache: no read is known to "
			"have been served without storage; give a size or a "
			"share", k->c->text);
	held = tauti_cache_share(k->policy, 1 - k->missed, k->q);
	k->share = held * factor;
	return tauti_note(k->w, k->err, "%s: the recorded cache is taken to "
		"have held %.0f %% of the dataset, for it served %.0f %% of "
		"the reads", k->c->text, held * 100, (1 - k->missed) * 100);
}

static taut_status find_share(struct cache *k)
{
	bool is_factor;
	double value, bytes;
	taut_status status;

	if (tauti_param_share(k->c, SIZE, &k->share))
		return TAUT_OK;
	if (tauti_param_scaled(k->c, SIZE, TAUTI_BYTES, &is_factor, &value,
		k->err))
		return tauti_param_wrong(k->c, SIZE, "a size like 64GB, a "
			"share of the dataset like 40%, or a factor like 2x",
			k->err);
	if (is_factor)
		return share_of_factor(k, value);
	k->share = 0;
	if (value == 0 && !tauti_param_given(k->c, DATASET))
		return TAUT_OK; /* no memory is none of any dataset */
	status = dataset_bytes(k, &bytes);
	if (!status)
		k->share = value / bytes;
	return status;
}

/* --- what that gives ---------------------------------------------------------------- */

static double believed_hits(const struct cache *k)
{
	double hits = tauti_cache_hits(k->policy, k->share, k->q);

	if (k->policy != TAUTI_CACHE_PAGE)
		return hits;
	return tauti_range(k->w, page_hits(k->share, k->q, page_most), hits,
		page_hits(k->share, k->q, page_least));
}

/* Of the time that was waited, what hits take that were misses. */
static double cost_of(const struct cache *k, double hits)
{
	double more = hits - (1 - k->missed);
	double each;

	if (more <= 0 || k->are.wait_ns <= 0)
		return 0;
	if (k->are.read_bytes <= 0)
		return more * tauti_range(k->w, 0, 0, most_of_miss);
	each = k->are.read_bytes / k->are.wait_ns;
	return more * tauti_range(
		k->w, 0, each / usual_copy, each / slow_copy);
}

static taut_status change(struct cache *k)
{
	double hits = believed_hits(k);
	double factor = (1 - hits) / k->missed;
	taut_status status = tauti_note(k->w, k->err, "%s: it holds %.0f %% of "
		"the dataset, and %.0f %% of the reads hit it (%.0f %% if "
		"nothing were evicted, %.0f %% if the least recently used "
		"is); %.0f %% went to storage in the recording", k->c->text,
		fmin(k->share, 1) * 100, hits * 100,
		tauti_cache_hits(TAUTI_CACHE_PINNED, k->share, k->q) * 100,
		tauti_cache_hits(TAUTI_CACHE_LRU, k->share, k->q) * 100,
		k->missed * 100);

	factor += cost_of(k, hits);
	return status ? status : tauti_waits_scale(
		k->w, k->c, &k->are, factor, k->err);
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct cache k = { .w = w, .c = c, .err = err };
	uint32_t policy;
	taut_status status = tauti_param_word(c, POLICY, &policy, err);

	if (!status)
		status = tauti_waits_find(w, c, &k.are, err);
	if (status)
		return status;
	k.policy = (enum tauti_cache_policy)policy;
	status = find_missed(&k);
	if (!status)
		status = find_split(&k);
	if (!status)
		status = find_share(&k);
	return status ? status : change(&k);
}

const struct tauti_transformation tauti_whatif_cache = {
	.info = {
		.name = "cache", .group = "data",
		.summary = "memory that keeps a part of the dataset",
		.assumption = "it is warm: an epoch or more has passed; each "
			"epoch reads every sample once, in a new random "
			"order; a miss waits for storage as the recorded "
			"reads did, a hit for memory",
		.source = "DS-Analyzer and CoorDL (VLDB'21): misses are 1 - x "
			"of a cache that holds x; LRU by the reads between two "
			"of one sample",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

/* feed_host.c - storage, cores and cache of a loader on a virtual clock. */
#include "feed.h"

#include <assert.h>
#include <math.h>

#include "base/hash.h" /* tauti_u128 */

/* --- what is drawn -----------------------------------------------------------------*/

/* With u = slope^2, and 2.7 the fourth moment of z:
 *   mean   of (1 + slope z)^2 = 1 + u
 *   square of its variation   = (4 u + 1.7 u^2) / (1 + u)^2 */
struct tauti_feed_spread tauti_feed_spread(double variation)
{
	double k = variation * variation;
	double b = 4 - 2 * k, a = 1.7 - k;
	double u = (sqrt(b * b + 4 * k * a) - b) / (2 * a);

	return (struct tauti_feed_spread){ .scale = 1 / (1 + u), .slope = sqrt(u) };
}

double tauti_feed_draw(struct tauti_feed_spread spread, struct tauti_draw draw)
{
	double sum = 0, root;

	if (spread.slope == 0)
		return 1;
	for (int i = 0; i < 4; i++)
		sum += tauti_draw_unit(&draw);
	root = 1 + spread.slope * (sum - 2) * sqrt(3);
	return spread.scale * root * root;
}

/* --- storage -----------------------------------------------------------------------*/

static struct tauti_feed_read *read_at(const struct tauti_feed_store *store, uint64_t number)
{
	return &store->reads[number % store->n_reads];
}

static bool takes_too_long(const struct tauti_feed_store *store, uint64_t bytes)
{
	uint64_t rate = store->slow.rate_bytes_s;

	return store->slow.free_ns > TAUTI_FEED_LAST_NS ||
		(rate && bytes / rate > TAUTI_FEED_LAST_NS / 1000000000);
}

static void serve(struct tauti_feed_store *store, int64_t now_ns)
{
	while (store->served < store->asked && (!store->n_served ||
		store->served - store->ended < store->n_served)) {
		struct tauti_feed_read *read = read_at(store, store->served++);

		read->end_ns = now_ns;
		if (takes_too_long(store, read->bytes))
			store->too_long = true;
		else
			read->end_ns = tauti_slow_due(
				&store->slow, now_ns, read->bytes);
	}
}

void tauti_feed_ask(struct tauti_feed_store *store, const struct tauti_feed_read *read,
	int64_t now_ns)
{
	assert(store->asked - store->ended < store->n_reads);
	*read_at(store, store->asked++) = *read;
	serve(store, now_ns);
}

int64_t tauti_feed_read_ends(const struct tauti_feed_store *store)
{
	return store->ended < store->served ? read_at(store, store->ended)->end_ns :
		INT64_MAX;
}

struct tauti_feed_read tauti_feed_read(struct tauti_feed_store *store, int64_t now_ns)
{
	struct tauti_feed_read read = *read_at(store, store->ended++);

	serve(store, now_ns);
	return read;
}

/* --- cores -------------------------------------------------------------------------*/

/* Each goes at cores / wanted of its speed, if that is less than all of it, and at what
 * the crowd leaves of that. Without a crowd the quotient is exact. */
static void set_speed(struct tauti_feed_cores *cores)
{
	bool is_scarce = cores->cores && cores->wanted > cores->cores;
	uint64_t busy = is_scarce ? cores->cores : cores->wanted;
	double others, all;

	cores->work = is_scarce ? cores->cores : TAUTI_FEED_CORE;
	cores->time = is_scarce ? cores->wanted : TAUTI_FEED_CORE;
	if (cores->crowd == 1 || busy <= TAUTI_FEED_CORE)
		return;
	others = (double)(busy - TAUTI_FEED_CORE);
	all = (double)(cores->cores - TAUTI_FEED_CORE);
	cores->work = (uint64_t)llround(
		(double)cores->work * (1 - (1 - cores->crowd) * others / all));
	if (!cores->work)
		cores->work = 1;
}

void tauti_feed_cores_init(
	struct tauti_feed_cores *cores, const struct taut_feed_host *host)
{
	cores->cores = (uint64_t)llround(host->cores * TAUTI_FEED_CORE);
	cores->crowd = cores->cores && host->crowd > 0 ? host->crowd : 1;
	set_speed(cores);
}

static void settle(struct tauti_feed_cores *cores, int64_t now_ns)
{
	int64_t parts = (now_ns - cores->now_ns) * TAUTI_FEED_PARTS;

	cores->shared += (int64_t)((tauti_u128)parts * cores->work / cores->time);
	cores->now_ns = now_ns;
}

void tauti_feed_work(struct tauti_feed_cores *cores, int64_t now_ns, uint32_t id,
	double work_ns, uint64_t wants)
{
	double most_ns = (double)TAUTI_FEED_MOST_NS;

	settle(cores, now_ns);
	if (work_ns > most_ns)
		work_ns = most_ns;
	due_set(&cores->due, id, cores->shared + llround(work_ns * TAUTI_FEED_PARTS));
	cores->wanted += wants;
	set_speed(cores);
}

/* Rounded up, so that by then it is over in whole parts too. */
int64_t tauti_feed_work_ends(const struct tauti_feed_cores *cores)
{
	tauti_u128 parts, per_time, wait_ns;

	if (!cores->due.n)
		return INT64_MAX;
	if (cores->due.heap[0].at_ns <= cores->shared)
		return cores->now_ns;
	parts = (tauti_u128)(cores->due.heap[0].at_ns - cores->shared) * cores->time;
	per_time = (tauti_u128)TAUTI_FEED_PARTS * cores->work;
	wait_ns = (parts + per_time - 1) / per_time;
	if (wait_ns > TAUTI_FEED_LAST_NS)
		wait_ns = TAUTI_FEED_LAST_NS;
	return cores->now_ns + (int64_t)wait_ns;
}

uint32_t tauti_feed_next_work(const struct tauti_feed_cores *cores)
{
	return cores->due.heap[0].id;
}

void tauti_feed_work_done(
	struct tauti_feed_cores *cores, int64_t now_ns, uint32_t id, uint64_t wanted)
{
	settle(cores, now_ns);
	due_drop(&cores->due, id);
	cores->wanted -= wanted;
	set_speed(cores);
}

/* --- cache -------------------------------------------------------------------------*/

taut_status tauti_feed_cache_init(struct tauti_feed_cache *cache,
	const struct taut_feed_host *host, uint64_t n_items, struct taut_arena *arena,
	struct taut_error *reterr)
{
	taut_status status;

	if (host->cache == TAUT_FEED_NONE)
		return TAUT_OK;
	status = tauti_cache_words_check((uint32_t)n_items,
		host->cache == TAUT_FEED_KEEP ? host->cache_bytes : 0, reterr);
	if (!status && host->cache == TAUT_FEED_KEEP) {
		status = tauti_cache_words_init(&cache->words, (uint32_t)n_items,
			host->cache_bytes, reterr);
	} else if (!status) {
		cache->is_coming = TAUT_ARENA_ARRAY(arena, bool, n_items);
		status = cache->is_coming ? tauti_lru_init(&cache->lru,
			host->cache == TAUT_FEED_LRU ? TAUTI_LRU_EXACT :
			TAUTI_LRU_LINUX, (uint32_t)n_items, host->cache_bytes,
			reterr) : taut_error_set(reterr, TAUT_ENOMEM, -1,
			"feed: out of memory");
	}
	if (!status)
		cache->kind = host->cache;
	return status;
}

void tauti_feed_cache_fini(struct tauti_feed_cache *cache)
{
	if (cache->kind == TAUT_FEED_KEEP)
		tauti_cache_words_fini(&cache->words);
	else if (cache->kind != TAUT_FEED_NONE)
		tauti_lru_fini(&cache->lru);
}

/* As the loader's engine does: without claim only what is there is found. */
static enum tauti_look look_kept(struct tauti_feed_cache *cache, uint32_t item,
	uint64_t bytes, bool claim, bool *ret_keep)
{
	uint64_t place;

	if (!claim && tauti_cache_words_state(&cache->words, item) != TAUTI_WORD_HERE)
		return TAUTI_LOOK_MISSING;
	switch (tauti_cache_words_look(&cache->words, item, bytes, &place)) {
	case TAUTI_CACHE_HERE:
		return TAUTI_LOOK_HERE;
	case TAUTI_CACHE_COMING:
		return TAUTI_LOOK_COMING;
	case TAUTI_CACHE_MINE:
		break;
	}
	*ret_keep = place != UINT64_MAX;
	return TAUTI_LOOK_MISSING;
}

/* A page cache takes an item when it is asked for, and who else asks waits for it. */
static enum tauti_look look_paged(struct tauti_feed_cache *cache, uint32_t item,
	uint64_t bytes, bool claim, bool *ret_keep)
{
	if (cache->is_coming[item])
		return TAUTI_LOOK_COMING;
	if (!claim && !tauti_lru_has(&cache->lru, item))
		return TAUTI_LOOK_MISSING;
	if (tauti_lru_touch(&cache->lru, item, bytes))
		return TAUTI_LOOK_HERE;
	*ret_keep = cache->is_coming[item] = tauti_lru_has(&cache->lru, item);
	return TAUTI_LOOK_MISSING;
}

enum tauti_look tauti_feed_cache_look(struct tauti_feed_cache *cache, uint32_t item,
	uint64_t bytes, bool claim, bool *ret_keep)
{
	*ret_keep = false;
	switch (cache->kind) {
	case TAUT_FEED_NONE:
		return TAUTI_LOOK_MISSING;
	case TAUT_FEED_KEEP:
		return look_kept(cache, item, bytes, claim, ret_keep);
	default:
		return look_paged(cache, item, bytes, claim, ret_keep);
	}
}

bool tauti_feed_cache_has(const struct tauti_feed_cache *cache, uint32_t item)
{
	switch (cache->kind) {
	case TAUT_FEED_NONE:
		return false;
	case TAUT_FEED_KEEP:
		return tauti_cache_words_state(&cache->words, item) == TAUTI_WORD_HERE;
	default:
		return !cache->is_coming[item] && tauti_lru_has(&cache->lru, item);
	}
}

void tauti_feed_cache_came(struct tauti_feed_cache *cache, uint32_t item)
{
	if (cache->kind == TAUT_FEED_KEEP)
		(void)tauti_cache_words_fill(&cache->words, item);
	else
		cache->is_coming[item] = false;
}

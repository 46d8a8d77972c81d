/* loader_test.c - storage and caches for data loaders, on small jobs whose
 * answers can be worked out by hand. Times are in milliseconds. */
#include <stdlib.h>
#include <string.h>

#include "whatif/cache.h"
#include "whatif/small_job.h"

#include "tests/support/alloc_fail.h"
#include "tests/support/write_log.h"

struct batch { /* microseconds, bytes */
	int64_t core, queue, others, read, storage;
	int32_t samples;
};

/* Of 390, a batch waits 200 for storage. */
static const struct batch plain = { 140, 50, 0, 0, 0, 8 };

static void tell(struct tauti_log_record *r, const struct batch *b)
{
	r->u.load.cpu_ns = b->core * 1000;
	r->u.load.queued_ns = b->queue < 0 ? -1 : b->queue * 1000;
	r->u.load.others_ns = b->others * 1000;
	r->u.load.read_bytes = b->read;
	r->u.load.storage_bytes = b->storage;
	r->u.load.samples = b->samples;
}

static void put_fact(struct wl *log, const char *key, const char *value)
{
	uint32_t name = wl_text(log, key), text = wl_text(log, value);
	struct tauti_log_record *r = wl_add(log, TAUTI_LOG_FACT);

	r->name = name;
	r->u.fact.value = text;
}

static struct job open_log(const struct wl *log)
{
	struct job j = { .w = wt_begin() };
	struct taut_error err = { 0 };
	const char *path = j.w.path[j.w.n++];
	char name[sizeof j.w.path[0]];

	snprintf(name, sizeof name, "%s/rank0.tautlog", j.w.folder);
	memcpy(j.w.path[0], name, sizeof name);
	wl_write(log, path);
	if (taut_run_open(&path, 1, NULL, &j.run, &err) ||
		taut_graph_build(j.run, NULL, &j.graph, &err))
		fail_msg("%s", err.message);
	return j;
}

/* A worker takes 0.39 for a batch and 0.01 to hand it over; the main thread
 * works on each for 0.1. b NULL: nobody told what a batch consisted of. */
static struct wl worker_log(const struct batch *b)
{
	struct wl log = wl_begin(0, 1);

	for (int s = 0; s < 6; s++) {
		int at = 1000 + 400 * s;
		struct tauti_log_record *r;

		wl_event(&log, TAUTI_LOG_SPAN, TAUT_KIND_STEP, "step", 100, at,
			400, 0);
		wl_event(&log, TAUTI_LOG_SPAN, TAUT_KIND_LOAD_WAIT, "take",
			100, at, 300, (uint32_t)s + 1);
		wl_event(&log, TAUTI_LOG_SPAN, TAUT_KIND_OP, "work", 100,
			at + 300, 100, 0);
		r = wl_event(&log, b ? TAUTI_LOG_LOAD : TAUTI_LOG_SPAN,
			TAUT_KIND_LOAD, "batch", 200, at - 90, 390,
			(uint32_t)s + 1);
		if (b)
			tell(r, b);
	}
	return log;
}

static struct job worker_job(const struct batch *b)
{
	struct wl log = worker_log(b);

	return open_log(&log);
}

/* Steps of 0.4, whose batches two workers prepare in 0.49 each and hand over in 0.01: four
 * are asked for ahead, and lie there when the recording begins. */
static struct job full_queue_job(void)
{
	enum { STEPS = 8, AHEAD = 4 };
	struct wl log = wl_begin(0, 1);

	for (int s = 0; s < STEPS; s++) {
		int at = 1000 + 400 * s, asked = at - 400 * AHEAD + 10;

		wl_event(&log, TAUTI_LOG_SPAN, TAUT_KIND_STEP, "step", 100, at,
			400, 0);
		wl_event(&log, TAUTI_LOG_SPAN, TAUT_KIND_LOAD_WAIT, "take",
			100, at, 10, (uint32_t)s + 1);
		wl_event(&log, TAUTI_LOG_SPAN, TAUT_KIND_OP, "work", 100,
			at + 10, 390, 0);
		wl_event(&log, TAUTI_LOG_SPAN, TAUT_KIND_LOAD, "batch",
			200 + s % 2, asked + 10, 490, (uint32_t)s + 1);
	}
	return open_log(&log);
}

/* The main thread prepares for 0.3, of which it waits 0.2 for storage, and
 * works for 0.1. */
static struct job own_job(void)
{
	static const struct batch own = { 90, 10, 0, 0, 0, 8 };
	struct wl log = wl_begin(0, 1);

	for (int s = 0; s < 6; s++) {
		int at = 1000 + 400 * s;

		wl_event(&log, TAUTI_LOG_SPAN, TAUT_KIND_STEP, "step", 100, at,
			400, 0);
		tell(wl_event(&log, TAUTI_LOG_LOAD, TAUT_KIND_LOAD_WAIT,
			"take", 100, at, 300, 0), &own);
		wl_event(&log, TAUTI_LOG_SPAN, TAUT_KIND_OP, "aten::stack",
			100, at + 240, 60, 0);
		wl_event(&log, TAUTI_LOG_SPAN, TAUT_KIND_OP, "work", 100,
			at + 300, 100, 0);
	}
	return open_log(&log);
}

static struct taut_prediction *predict(const struct job *j,
	const char *const *changes, size_t n)
{
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	if (taut_predict(j->graph, changes, n, NULL, &p, &err))
		fail_msg("%s: %s", changes[0], err.message);
	return p;
}

static double with_two(const struct job *j, const char *a, const char *b)
{
	const char *both[] = { a, b };

	return step_with(j, both, 2);
}

static void notes(const struct job *j, const char *change, const char *words)
{
	struct taut_prediction *p = predict(j, &change, 1);
	bool found = false;

	for (uint32_t i = 0; i < p->n_notes; i++)
		found |= strstr(p->notes[i], words) != NULL;
	if (!found)
		fail_msg("%s: no note '%s' among %u, such as '%s'", change,
			words, p->n_notes, p->n_notes ? p->notes[0] : "");
	taut_prediction_destroy(p);
}

/* --- storage ------------------------------------------------------------------ */

static void test_storage(void **state)
{
	struct job j = worker_job(&plain);

	(void)state;
	assert_close(step_with(&j, NULL, 0), 0.4);
	assert_close(with(&j, "storage=1x"), 0.4);
	assert_close(with(&j, "storage=2x"), 0.3);
	assert_close(with(&j, "storage=4x"), 0.25);
	assert_close(with(&j, "storage=0.5x"), 0.6);
	assert_close(with(&j, "storage=-50%"), 0.6);
	/* What it computes stays. */
	assert_close(with(&j, "storage=1000000x"), 0.2000002);
	notes(&j, "storage=2x", "of the 0.39 ms that a batch took to prepare, "
		"it computed for 0.19 ms and waited for storage for 0.2 ms");
	close_job(&j);
}

/* A change that makes steps shorter than two workers keep up with, though the queue that
 * was full hides that for as long as the recording; one that does not. */
static void test_loader_does_not_keep_up(void **state)
{
	struct job j = full_queue_job();

	(void)state;
	assert_close(step_with(&j, NULL, 0), 0.4);
	assert_close(with(&j, "scale=work,factor=0.8x"), 0.01 + 0.8 * 0.39);
	assert_near(with(&j, "scale=work,factor=0.1x"), 0.25);
	notes(&j, "scale=work,factor=0.1x", "2 loader workers have a batch every");
	assert_near(with_two(&j, "scale=work,factor=0.1x", "workers=4"), 0.125);
	assert_near(with_two(&j, "workers=4", "scale=work,factor=0.1x"), 0.125);
	close_job(&j);
}

/* As of some ranks; a look at all lanes for each lane of each rank took minutes. */
static void test_many_ranks(void **state)
{
	static const char scale[] = "scale=work,factor=0.8x";
	struct job j = full_queue_job();

	(void)state;
	assert_near(with_two(&j, "world=1500,link=100gbit,latency=0us,drag=0,"
		"gradients=1MB", scale), with_two(&j, "world=100,link=100gbit,"
		"latency=0us,drag=0,gradients=1MB", scale));
	close_job(&j);
}

static void test_storage_stacks(void **state)
{
	struct job j = worker_job(&plain);

	(void)state;
	assert_close(with_two(&j, "storage=2x", "storage=2x"), 0.25);
	assert_close(with_two(&j, "storage=2x", "storage=0.5x"), 0.4);
	assert_close(with_two(&j, "workers=2", "storage=2x"), 0.15);
	assert_close(with_two(&j, "storage=2x", "workers=2"), 0.15);
	/* Twice the samples: 0.38 of work and 0.4 of waiting, halved. */
	assert_close(with_two(&j, "batch=2x", "storage=2x"), 0.59);
	assert_close(with_two(&j, "storage=2x", "batch=2x"), 0.59);
	/* The main thread prepares: 0.29, and 0.1 of its own. */
	assert_close(with_two(&j, "storage=2x", "workers=0"), 0.39);
	close_job(&j);
}

static void test_storage_of_the_main_thread(void **state)
{
	struct job j = own_job();

	(void)state;
	assert_close(step_with(&j, NULL, 0), 0.4);
	assert_close(with(&j, "storage=2x"), 0.3);
	assert_close(with(&j, "storage=0.5x"), 0.6);
	assert_close(with_two(&j, "storage=2x", "storage=2x"), 0.25);
	/* A worker needs 0.3 for a batch, and the main thread, which works for
	 * 0.1, as long to take one over. */
	assert_close(with_two(&j, "workers=1", "storage=1x"), 0.4);
	assert_close(with_two(&j, "workers=1", "storage=0.5x"), 0.5);
	close_job(&j);
}

static void test_rate(void **state)
{
	/* 1 MB in 0.2 ms. */
	static const struct batch reads = { 140, 50, 0, 1000000, 0, 8 };
	static const struct batch talks = { 140, 50, 0, 900, 0, 8 };
	static const struct batch stores = { 140, 50, 0, 9000000, 1000000, 8 };
	struct job j = worker_job(&reads);

	(void)state;
	assert_close(with(&j, "storage=10GB/s"), 0.3);
	assert_close(with(&j, "storage=20gbit"), 0.6);
	assert_close(with(&j, "storage=500MB/s,from=250MB/s"), 0.3);
	notes(&j, "storage=10GB/s", "5e+03 MB/s");
	refuses(&j, "storage=2x,from=250MB/s", "from");
	refuses(&j, "storage=2GB/s,from=2x", "from");
	refuses(&j, "storage=0x", "millionth");
	refuses(&j, "storage=fast", "500MB/s");
	close_job(&j);
	j = worker_job(&stores);
	assert_close(with(&j, "storage=10GB/s"), 0.3);
	close_job(&j);
	j = worker_job(&talks);
	refuses(&j, "storage=10GB/s", "from=500MB/s");
	assert_close(with(&j, "storage=10GB/s,from=5GB/s"), 0.3);
	close_job(&j);
}

/* Other threads ran for 0.1 of the 0.2: the wait is between 0.1 and 0.2. */
static void test_other_threads(void **state)
{
	static const struct batch busy = { 140, 50, 100, 0, 0, 8 };
	struct job j = worker_job(&busy);
	const char *change = "storage=2x";
	struct taut_prediction *p = predict(&j, &change, 1);
	const struct taut_uncertain *u = NULL;

	(void)state;
	for (uint32_t i = 0; i < p->n_uncertain; i++)
		if (strstr(p->uncertain[i].name, "storage"))
			u = &p->uncertain[i];
	assert_non_null(u);
	assert_close((double)p->after_ns / 1e6, 0.325);
	assert_close((double)u->low_ns / 1e6, 0.3);
	assert_close((double)u->high_ns / 1e6, 0.35);
	taut_prediction_destroy(p);
	close_job(&j);
}

static void test_queue_not_told(void **state)
{
	static const struct batch unknown = { 190, -1, 0, -1, -1, -1 };
	struct job j = worker_job(&unknown);

	(void)state;
	assert_close(with(&j, "storage=2x"), 0.3);
	notes(&j, "storage=2x", "or waited for a core");
	close_job(&j);
}

static void test_old_recordings(void **state)
{
	struct job j = worker_job(NULL);

	(void)state;
	refuses(&j, "storage=2x", "recording of rank 0 tells how long its "
		"batches took to prepare, but not what they waited for");
	refuses(&j, "cache=50%", "not what they waited for");
	close_job(&j);
}

/* --- Taut's loader --------------------------------------------------------------- */

static struct job job_with(const char *key, const char *value)
{
	struct wl log = worker_log(&plain);

	put_fact(&log, key, value);
	return open_log(&log);
}

/* Of 0.4 a batch waits 0.2, computes for 0.19, and is handed over in 0.01. */
static void test_loader(void **state)
{
	struct job j = worker_job(&plain);

	(void)state;
	assert_close(with(&j, "loader=taut,prepare=1x"), 0.4);
	assert_close(with(&j, "loader=taut,prepare=0.5x"), 0.305);
	assert_close(with(&j, "loader,prepare=0.5x"), 0.305);
	assert_close(with(&j, "loader=taut,prepare=2x"), 0.59);
	assert_close(with_two(&j, "loader=taut,prepare=0.5x", "storage=2x"),
		0.205);
	assert_close(with_two(&j, "storage=2x", "loader=taut,prepare=0.5x"),
		0.205);
	assert_close(with_two(&j, "loader=taut,prepare=0.5x",
		"cache=50%,policy=pinned"), 0.205);
	assert_close(with_two(&j, "loader=taut,prepare=0.5x", "workers=2"),
		0.1525);
	assert_close(with_two(&j, "workers=2", "loader=taut,prepare=0.5x"),
		0.1525);
	notes(&j, "loader=taut,prepare=0.5x", "preparing takes 0.5 times as "
		"much of a core");
	close_job(&j);
	j = own_job();
	/* A thread of its own has 0.25 for a batch, and what takes it is held
	 * for as long as the main thread was; it shows with slow storage. */
	assert_close(with(&j, "loader=taut,prepare=0.5x"), 0.4);
	assert_close(with_two(&j, "loader=taut,prepare=0.5x", "storage=0.5x"),
		0.45);
	notes(&j, "loader=taut,prepare=0.5x", "with one thread");
	close_job(&j);
}

static void test_loader_as_recorded(void **state)
{
	static const char *const wrong[] = { "", "fast", "0", "-1", "1e9", "nan",
		"0.5x" };
	struct job j = job_with("loader.taut_prepare", "0.5");

	(void)state;
	assert_close(with(&j, "loader=taut"), 0.305);
	assert_close(with(&j, "loader=taut,prepare=1x"), 0.4);
	refuses(&j, "loader=own", "taut");
	refuses(&j, "loader=taut,prepare=0", "above 0");
	close_job(&j);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		j = job_with("loader.taut_prepare", wrong[i]);
		refuses(&j, "loader=taut", "does not tell how long");
		close_job(&j);
	}
	j = job_with("loader.taut_not", "its data set Sums is no ImageFolder");
	refuses(&j, "loader=taut", "cannot take the place of the job's: its "
		"data set Sums is no ImageFolder");
	assert_close(with(&j, "loader=taut,prepare=0.5x"), 0.305);
	close_job(&j);
	j = worker_job(&plain);
	refuses(&j, "loader=taut", "does not tell how long");
	close_job(&j);
	j = worker_job(NULL); /* what it waited for is not told: nothing */
	assert_close(with(&j, "loader=taut,prepare=0.5x"), 0.205);
	close_job(&j);
}

/* --- caches -------------------------------------------------------------------- */

static void test_cache(void **state)
{
	struct job j = worker_job(&plain);
	double lru = 0.5 + 0.5 * log(0.5);

	(void)state;
	assert_close(with(&j, "cache=50%,policy=pinned"), 0.3);
	assert_close(with(&j, "cache=0,dataset=100GB,policy=pinned"), 0.4);
	assert_close(with(&j, "cache=2TB,dataset=1TB,policy=pinned"), 0.2);
	assert_close(
		with(&j, "cache=25GB,dataset=100GB,policy=pinned"), 0.35);
	assert_close(with(&j, "cache=50%,policy=lru"), 0.4 - 0.2 * lru);
	assert_close(with(&j, "cache=50%"), 0.4 - 0.2 * (lru + 0.3 * (0.5 - lru)));
	assert_close(with_two(&j, "cache=50%,policy=pinned", "storage=2x"),
		0.25);
	notes(&j, "cache=50%", "26 % of the reads hit it (50 % if nothing "
		"were evicted, 15 % if the least recently used is)");
	assert_close(with(&j, "cache=0"), 0.4); /* of any dataset */
	refuses(&j, "cache=50GB", "dataset=SIZE");
	refuses(&j, "cache=2x", "does not show a cache");
	refuses(&j, "cache=some", "64GB");
	refuses(&j, "cache=50GB,dataset=2x", "150GB");
	close_job(&j);
}

/* Half of the recorded reads, of 10 kB a batch, were hits already. */
static void test_cache_more(void **state)
{
	static const struct batch half = { 140, 50, 0, 10000, 5000, 8 };
	static const struct batch all = { 140, 50, 0, 1000000, 5000, 8 };
	struct job j = worker_job(&half);

	(void)state;
	/* Memory gives 10 bytes a nanosecond. */
	assert_close(with(&j, "cache=2x,policy=pinned"), 0.2005);
	assert_close(with(&j, "cache=0.5x,policy=pinned"), 0.5);
	assert_close(with(&j, "cache=1x,policy=pinned"), 0.4);
	assert_close(with(&j, "cache=1x,policy=lru"), 0.4);
	assert_close(with(&j, "cache=1x"), 0.4);
	assert_close(with(&j, "cache=75%,policy=pinned"), 0.30025);
	close_job(&j);
	j = worker_job(&all);
	refuses(&j, "cache=90%", "came from memory");
	close_job(&j);
}

/* 1,000 samples of 10 kB. */
static void test_dataset(void **state)
{
	static const struct batch reads = { 140, 50, 0, 80000, 0, 8 };
	struct wl log = worker_log(&reads);
	struct job j;

	(void)state;
	put_fact(&log, "loader.dataset_samples", "1000");
	put_fact(&log, "loader.epoch_samples", "1000");
	j = open_log(&log);
	assert_close(with(&j, "cache=10MB,policy=pinned"), 0.208);
	assert_close(with(&j, "cache=5MB,policy=pinned"), 0.304);
	notes(&j, "cache=5MB,policy=pinned", "0.01 GB: 1000 samples of the 10 "
		"kB");
	close_job(&j);
}

static void test_closed_forms(void **state)
{
	(void)state;
	for (int i = 0; i <= 20; i++) {
		double x = i / 20.0, y = 1 - x;
		double lru = y > 0 ? x + y * log(y) : 1;
		double got = tauti_cache_hits(TAUTI_CACHE_LRU, x, 1);

		assert_true(fabs(got - lru) < 1e-12);
		assert_true(tauti_cache_hits(TAUTI_CACHE_PINNED, x, 0.5) == x);
		got = tauti_cache_hits(TAUTI_CACHE_PAGE, x, 1);
		assert_true(fabs(got - lru - 0.3 * (x - lru)) < 1e-12);
		got = tauti_cache_hits(TAUTI_CACHE_LRU,
			tauti_cache_share(TAUTI_CACHE_LRU, lru, 1), 1);
		assert_true(fabs(got - lru) < 1e-9);
		/* Of so many hosts, each read is a new draw. */
		got = tauti_cache_hits(TAUTI_CACHE_LRU, x, 0.001);
		assert_true(fabs(got - x) < 2e-3);
	}
}

/* --- a cache, simulated ------------------------------------------------------------ */

enum { ITEMS = 3000 };

struct lru {
	uint32_t next[ITEMS + 1], before[ITEMS + 1]; /* ITEMS: the ring's head */
	bool in[ITEMS];
	uint32_t held, room;
};

static void take_out(struct lru *c, uint32_t i)
{
	c->next[c->before[i]] = c->next[i];
	c->before[c->next[i]] = c->before[i];
}

static void put_first(struct lru *c, uint32_t i)
{
	c->next[i] = c->next[ITEMS];
	c->before[i] = ITEMS;
	c->before[c->next[i]] = i;
	c->next[ITEMS] = i;
}

/* Is it a hit? */
static bool read_item(struct lru *c, uint32_t i)
{
	bool hit = c->in[i];

	if (hit) {
		take_out(c, i);
	} else if (c->held == c->room) {
		uint32_t oldest = c->before[ITEMS];

		c->in[oldest] = false;
		take_out(c, oldest);
	} else {
		c->held++;
	}
	c->in[i] = true;
	put_first(c, i);
	return hit;
}

static uint32_t draw(uint64_t *seed, uint32_t n)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((*seed >> 33) % n);
}

/* Share of hits of a host that reads a share q of all items in each of many
 * epochs, behind the first ones. */
static double simulated(double share, double q)
{
	static uint32_t order[ITEMS];
	struct lru c = { .room = (uint32_t)(share * ITEMS) };
	uint64_t seed = 7;
	double hits = 0, reads = 0;

	c.next[ITEMS] = c.before[ITEMS] = ITEMS;
	for (uint32_t i = 0; i < ITEMS; i++)
		order[i] = i;
	for (int epoch = 0; epoch < 60; epoch++) {
		for (uint32_t i = ITEMS; i > 1; i--) {
			uint32_t other = draw(&seed, i), was = order[i - 1];

			order[i - 1] = order[other];
			order[other] = was;
		}
		for (uint32_t i = 0; i < (uint32_t)(q * ITEMS); i++) {
			bool hit = read_item(&c, order[i]);

			hits += epoch >= 20 && hit;
			reads += epoch >= 20;
		}
	}
	return hits / reads;
}

static void test_simulated(void **state)
{
	static const double shares[] = { 0.25, 0.35, 0.5, 0.65, 0.9 };
	static const double qs[] = { 1, 0.5, 0.25 };

	(void)state;
	for (size_t i = 0; i < 5; i++)
		for (size_t k = 0; k < 3; k++) {
			double is = simulated(shares[i], qs[k]);
			double says = tauti_cache_hits(
				TAUTI_CACHE_LRU, shares[i], qs[k]);

			if (fabs(is - says) > 0.005)
				fail_msg("%g cached, %g read: %g is not %g",
					shares[i], qs[k], says, is);
		}
}

/* --- memory ------------------------------------------------------------------------- */

static void run_out(const struct job *j, const char *change)
{
	struct taut_whatif_options alone = { .threads = 1 };
	taut_status status = TAUT_ENOMEM;

	for (long n = 0; status == TAUT_ENOMEM; n++) {
		struct taut_prediction *p = NULL;
		struct taut_error err = { 0 };

		alloc_fail_after(n);
		status = taut_predict(j->graph, &change, 1, &alone, &p, &err);
		alloc_fail_never();
		taut_prediction_destroy(p);
		if (status && status != TAUT_ENOMEM)
			fail_msg("%s: %ld: %s", change, n, err.message);
	}
	assert_int_equal(status, TAUT_OK);
}

static void test_no_memory(void **state)
{
	struct job j = worker_job(&plain);

	(void)state;
	run_out(&j, "storage=2x");
	run_out(&j, "cache=50%");
	close_job(&j);
	j = own_job();
	run_out(&j, "storage=2x");
	close_job(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_storage),
		cmocka_unit_test(test_loader_does_not_keep_up),
		cmocka_unit_test(test_many_ranks),
		cmocka_unit_test(test_storage_stacks),
		cmocka_unit_test(test_storage_of_the_main_thread),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_other_threads),
		cmocka_unit_test(test_queue_not_told),
		cmocka_unit_test(test_old_recordings),
		cmocka_unit_test(test_loader),
		cmocka_unit_test(test_loader_as_recorded),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_cache_more),
		cmocka_unit_test(test_dataset),
		cmocka_unit_test(test_closed_forms),
		cmocka_unit_test(test_simulated),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

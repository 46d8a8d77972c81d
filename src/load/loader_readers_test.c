/* Which threads begin the reads of a loader. */
#include "load/loader.h"
#include "load/loader_world.h"

static struct {
	const struct tauti_store_table *inner;
	pthread_t job;
	atomic_uint by_job, by_others;
} seen;

static void begin_seen(void *store, struct tauti_store_read *reads)
{
	bool is_job = pthread_equal(pthread_self(), seen.job);

	atomic_fetch_add(is_job ? &seen.by_job : &seen.by_others, 1);
	seen.inner->begin(store, reads);
}

/* From now on, the store tells who begins reads. */
static void watch_store(struct taut_load *load, struct tauti_store_table *table)
{
	bool is_swapped = false;

	while (!is_swapped) {
		pthread_mutex_lock(&load->lock);
		if (!load->is_beginning) {
			seen.inner = load->store.table;
			seen.job = pthread_self();
			*table = *seen.inner;
			table->begin = begin_seen;
			load->store.table = table;
			is_swapped = true;
		}
		pthread_mutex_unlock(&load->lock);
	}
}

/* The job's thread takes batches and gives them back, and loses no time with reads. */
static void test_readers(void **state)
{
	static const char *const stores[] = { "file", "uring", "null", "slow" };
	struct tauti_store_table table;
	struct world w;

	(void)state;
	world_init(&w, 120, NULL);
	for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
		struct taut_load *load = make_loader(&w, (struct taut_load_options){
			.batch = 2, .n_reads = 4, .depth = 3, .store = stores[i] });

		memset(&seen, 0, sizeof seen);
		watch_store(load, &table);
		for (uint32_t n = 0, batches = 0; batches < 300; n++) {
			struct taut_batch *batch = next_batch(load);

			batches += batch != NULL;
			if (n % 3 == 0) /* all batches are ready, workers are idle */
				usleep(1000);
			taut_batch_release(batch);
		}
		taut_load_destroy(load);
		assert_int_equal(seen.by_job, 0);
		assert_true(seen.by_others > 100);
	}
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

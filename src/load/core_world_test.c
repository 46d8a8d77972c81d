/* Ten thousand made-up worlds: every item of an epoch once, batches in order, limits kept
 * and nobody idle at every instant, never a deadlock; and the time that core.h promises.
 * TAUT_WORLDS=N runs other than 10,000, TAUT_WORLD_SEED=N one alone. */
#include "load/core_world.h"

#ifdef __SANITIZE_THREAD__
enum { WORLDS = 1000 }; /* slow, and there is but one thread */
#else
enum { WORLDS = 10000 };
#endif

/* --- what kind of world ------------------------------------------------------------*/

static int64_t draw_scale(struct world *world)
{
	static const int64_t scales[] = { 0, 1, 10, 100, 1000 };

	return scales[world_pick(world, 5)];
}

static void draw_items(struct world *world)
{
	bool faulty = world_pick(world, 3) == 0;
	uint64_t rare = 4 + world_pick(world, 60), all = 0;

	world->n_items = 1 + world_pick(world, WORLD_ITEMS);
	for (uint64_t i = 0; i < world->n_items; i++) {
		world->bytes[i] = world_pick(world,
			world_pick(world, 10) ? 100 : 1000);
		all += world->bytes[i];
		if (faulty && world_pick(world, rare) == 0)
			world->faults[i] = (enum world_fault)(
				1 + world_pick(world, 3));
	}
	world->cached = world_pick(world, 4) > 0;
	world->cache_bytes = world_pick(world, all + all / 4 + 1);
}

static void draw_job(struct world *world, struct world_job *job)
{
	job->world = world;
	/* Of two jobs, some go through the items in the same order. */
	job->deal = (struct tauti_deal){ world->n_items,
		job > world->jobs && world_pick(world, 2) ?
			world->jobs[0].deal.seed : world_pick(world, 1000),
		world_pick(world, 8) > 0 };
	job->tail = (enum tauti_tail)world_pick(world, 3);
	job->epoch = world_pick(world, 2);
	job->end_epoch = job->epoch + 1 +
		world_pick(world, WORLD_EPOCHS - job->epoch);
	job->max_skipped = world_pick(world, 2) ? UINT64_MAX :
		world_pick(world, 2) ? world_pick(world, 6) : 0;
}

static void draw_world(struct world *world, uint64_t seed)
{
	memset(world, 0, sizeof *world);
	world->seed = seed;
	world->draw = tauti_draw_begin(seed, 0, 0);
	draw_items(world);
	world->inlined = world_pick(world, 2);
	world->crashes = world_pick(world, 4) == 0;
	world->resumes = world_pick(world, 2);
	world->stalls = world_pick(world, 4) == 0;
	world->fades = world_pick(world, 4) == 0;
	world->fetch_ns = draw_scale(world);
	world->prepare_ns = draw_scale(world);
	world->consume_ns = draw_scale(world);
	world->release_ns = draw_scale(world);
	world->news_ns = draw_scale(world);
	world->n_jobs = 1 + (uint32_t)world_pick(world, WORLD_JOBS);
	for (uint32_t j = 0; j < world->n_jobs; j++)
		draw_job(world, &world->jobs[j]);
}

/* --- segments ----------------------------------------------------------------------*/

static const struct tauti_supply_engine engine = { world_bytes, world_look,
	world_fetch, world_prepare, world_move, world_fault, world_ready,
	NULL };

static struct tauti_supply_options draw_options(struct world_job *job)
{
	struct world *world = job->world;
	struct tauti_supply_options options = { .deal = job->deal,
		.first_epoch = job->epoch,
		.n_epochs = job->end_epoch - job->epoch,
		.depth = 1 + (uint32_t)world_pick(world, WORLD_DEPTH),
		.n_fetches = 1 + (uint32_t)world_pick(world, 8),
		.fetch_bytes = world_pick(world, 2) ?
			1 + world_pick(world, 2000) : 0,
		.n_workers = 1 + (uint32_t)world_pick(world, 5),
		.max_skipped = job->max_skipped };
	struct tauti_share *share = &options.share;

	do {
		*share = (struct tauti_share){ .n_items = world->n_items,
			.n_ranks = 1 + (uint32_t)world_pick(world, WORLD_RANKS),
			.batch = 1 + (uint32_t)world_pick(world, WORLD_BATCH),
			.tail = job->tail };
	} while (!tauti_share_batches(share));
	share->first_position = job->position;
	return options;
}

static void begin_rank(struct world_process *process,
	const struct tauti_supply_options *options, uint64_t target)
{
	struct world *world = process->world;

	process->options = *options;
	world_write_book(process);
	process->target = target;
	process->told = process->taken = process->skipped = 0;
	process->n_waiting = process->n_settled = 0;
	process->dead = process->over = process->fatal = false;
	process->stopped = process->stalled = process->wants = false;
	memset(process->places, 0, sizeof process->places);
	memset(process->held, 0, sizeof process->held);
	process->held_bytes = 0;
	world_push(process, world_delay(world, world->consume_ns),
		WORLD_USER, 0);
	if (world->crashes && world_pick(world, 6) == 0)
		world_push(process, world_delay(world, 1 + 20 *
			(world->fetch_ns + world->prepare_ns)), WORLD_CRASH, 0);
	for (int i = 0; world->stalls && i < 2; i++)
		world_push(process, world_delay(world, 10000), WORLD_STALL, 1);
}

static void end_rank(struct world_process *process)
{
	tauti_supply_destroy(process->supply);
	process->supply = NULL;
	process->life++;
	memset(process->lent, 0, sizeof process->lent);
	process->n_fetching = process->n_preparing = 0;
}

/* With the supplies that there are, or with new ones. */
static void begin_segment(struct world_job *job, bool same)
{
	struct world *world = job->world;
	struct tauti_supply_options options = job->ranks[0].options;
	uint64_t n;

	if (!same)
		options = draw_options(job);
	options.first_epoch = job->epoch;
	options.n_epochs = job->end_epoch - job->epoch;
	options.share.first_position = job->position;
	job->n_ranks = options.share.n_ranks;
	job->n_over = 0;
	job->crashed = job->failed = false;
	memset(job->now, 0, sizeof job->now);
	for (uint32_t r = 0; r < job->n_ranks; r++) {
		struct world_process *it = &job->ranks[r];

		it->world = world;
		it->job = job;
		options.share.rank = r;
		if (same)
			WORLD_OK(world, tauti_supply_seek(it->supply, job->epoch,
				job->position, options.n_epochs, NULL));
		else
			WORLD_OK(world, tauti_supply_create(
				&options, &engine, it, &it->supply, NULL));
		begin_rank(it, &options, 0);
	}
	n = job->ranks[0].book.count;
	n = world->resumes && n ? 1 + world_pick(world, n) : n;
	for (uint32_t r = 0; r < job->n_ranks; r++) {
		job->ranks[r].target = n;
		if (n)
			tauti_supply_start(job->ranks[r].supply);
	}
}

/* All of each epoch that is over. */
static void check_job(const struct world_job *job, uint64_t first_epoch)
{
	struct world *world = job->world;
	uint64_t n = world->n_items;

	for (uint64_t e = first_epoch; e < job->end_epoch; e++) {
		const struct tauti_share *last = &job->last[e];
		uint64_t left = n - last->first_position, end = n, padding = 0;

		if (job->tail == TAUTI_TAIL_DROP)
			end -= left % ((uint64_t)last->n_ranks * last->batch);
		if (job->tail == TAUTI_TAIL_PAD && left % last->n_ranks)
			padding = last->n_ranks - left % last->n_ranks;
		for (uint64_t p = 0; p < n; p++) {
			uint64_t item = tauti_deal_item(&job->deal, e, p);
			uint64_t times = (p < end) + padding / n +
				(p < padding % n);

			if (world_is_faulty(world, item))
				times = 0;
			WORLD_CHECK(world, job->seen[e][item] == times,
				"epoch %llu: item %llu was delivered %u times, "
				"not %llu", (unsigned long long)e,
				(unsigned long long)item, job->seen[e][item],
				(unsigned long long)times);
		}
	}
}

/* The segment counts, and its state is where the job goes on. */
static void keep_segment(struct world_job *job)
{
	struct world *world = job->world;
	uint64_t epoch, position, other_epoch, other_position;
	struct tauti_share share = job->ranks[0].options.share;

	tauti_supply_state(job->ranks[0].supply, &epoch, &position);
	for (uint32_t r = 1; r < job->n_ranks; r++) {
		tauti_supply_state(job->ranks[r].supply, &other_epoch,
			&other_position);
		WORLD_CHECK(world, epoch == other_epoch &&
			position == other_position, "ranks tell other states");
	}
	for (uint64_t e = job->epoch; e < epoch; e++) {
		job->last[e] = share;
		share.first_position = 0;
	}
	for (uint64_t e = 0; e <= WORLD_EPOCHS; e++)
		for (uint64_t i = 0; i < world->n_items; i++)
			job->seen[e][i] += job->now[e][i];
	job->epoch = epoch;
	job->position = position;
}

static void end_segment(struct world_job *job)
{
	struct world *world = job->world;
	bool same;

	world->n_refetched += job->crashed;
	if (!job->crashed && !job->failed)
		keep_segment(job);
	job->over = job->failed || job->epoch == job->end_epoch;
	same = !job->crashed && !job->over && world_pick(world, 2);
	for (uint32_t r = 0; !same && r < job->n_ranks; r++)
		end_rank(&job->ranks[r]);
	if (job->over)
		return;
	world->n_resumes++;
	begin_segment(job, same);
}

/* --- what must hold ----------------------------------------------------------------*/

static void check_limits(struct world_process *process)
{
	const struct tauti_supply_options *options = &process->options;
	struct world *world = process->world;
	struct tauti_supply_counts counts;
	uint32_t lent = 0, holding = 0;

	tauti_supply_counts(process->supply, &counts);
	for (uint32_t i = 0; i < options->depth; i++)
		lent += process->lent[i];
	for (uint32_t t = 0; t < WORLD_TICKETS; t++)
		holding += process->held[t] > 0;
	WORLD_CHECK(world, counts.n_fetching == process->n_fetching &&
		counts.n_preparing == process->n_preparing &&
		process->n_fetching <= options->n_fetches &&
		process->n_preparing <= options->n_workers,
		"%u fetches, %u preparations", counts.n_fetching,
		counts.n_preparing);
	WORLD_CHECK(world, !options->fetch_bytes || holding <= 1 ||
		process->held_bytes <= options->fetch_bytes,
		"%llu bytes are held", (unsigned long long)process->held_bytes);
	WORLD_CHECK(world, counts.n_open + process->n_waiting + lent +
		counts.n_free == options->depth, "a slot is lost");
}

/* A place in this state would have been made something of. */
static bool has(const struct world_process *process, enum world_place state)
{
	return world_first(process, state) != TAUT_NONE;
}

static void check_busy(struct world_process *process)
{
	struct world *world = process->world;
	struct tauti_supply_counts counts;
	uint32_t wanted = world_first(process, WORLD_WANTED);

	tauti_supply_counts(process->supply, &counts);
	WORLD_CHECK(world, process->n_preparing == process->options.n_workers ||
		(!has(process, WORLD_AT_HAND) && !has(process, WORLD_UNSEEN)),
		"a worker is idle");
	WORLD_CHECK(world, process->n_fetching == process->options.n_fetches ||
		(wanted == TAUT_NONE ? !has(process, WORLD_UNSEEN) :
			!world_has_room(process,
				world->bytes[process->items[wanted]])),
		"a fetch is not begun");
	WORLD_CHECK(world, !counts.n_free ||
		process->told + counts.n_open == process->book.count,
		"a slot is idle");
}

static void check_process(struct world_process *process)
{
	if (!process->supply || process->dead)
		return;
	check_limits(process);
	if (!process->stopped && !process->stalled && !process->fatal &&
		process->target)
		check_busy(process);
}

static void check_counts(struct world_process *process)
{
	struct tauti_supply_counts counts;

	tauti_supply_counts(process->supply, &counts);
	WORLD_CHECK(process->world, counts.n_fetching == 0 &&
		counts.n_preparing == 0 && tauti_supply_over(process->supply) ==
		(process->fatal || process->told == process->book.count),
		"it is not over");
}

/* Has taken what it was to take, or all that comes; and nothing is under way. */
static void find_over(struct world_process *process)
{
	struct world_job *job = process->job;
	bool ends = process->target == 0 || process->stopped ||
		(process->fatal && process->wants && !process->n_waiting);

	if (process->over || process->dead || !process->supply || !ends ||
		tauti_supply_under_way(process->supply))
		return;
	tauti_supply_stop(process->supply);
	check_counts(process);
	process->over = true;
	job->n_over++;
	job->failed |= process->taken < process->target;
}

/* --- running -----------------------------------------------------------------------*/

static void crash(struct world_process *process)
{
	struct world *world = process->world;

	if (process->over)
		return;
	process->dead = true;
	process->job->crashed = true;
	process->job->n_over++;
	world->n_crashes++;
	for (uint64_t i = 0; i < world->n_items; i++)
		world_fill(process, i, false);
}

static void want(struct world_process *process)
{
	if (process->stopped)
		return;
	process->wants = true;
	if (process->n_waiting)
		world_take(process);
}

static void stall(struct world_process *process, bool begins)
{
	struct world *world = process->world;

	if (process->stopped || process->stalled == begins)
		return;
	process->stalled = begins;
	if (begins) {
		tauti_supply_stop(process->supply);
		world_push(process, world_delay(world, 1000), WORLD_STALL, 0);
	} else {
		tauti_supply_start(process->supply);
	}
}

static void happen(struct world_process *process, const struct world_event *event)
{
	switch (event->what) {
	case WORLD_FETCHED:
		world_fetched(process, (uint32_t)event->number);
		break;
	case WORLD_DONE:
		world_prepared(process, (uint32_t)event->number);
		break;
	case WORLD_USER:
		want(process);
		break;
	case WORLD_WAKE:
		if (process->wants && process->n_waiting)
			world_take(process);
		break;
	case WORLD_RELEASE:
		world_release(process, (uint32_t)event->number);
		break;
	case WORLD_NEWS:
		world_awake(process, event->number);
		tauti_supply_again(process->supply, event->number);
		break;
	case WORLD_STALL:
		if (!process->over && process->target)
			stall(process, event->number);
		break;
	default:
		crash(process);
	}
}

static void run_events(struct world *world)
{
	while (world->events.count) {
		struct world_event event = world_pop(world);
		struct world_process *process = event.process;
		struct world_job *job = process->job;

		world->now_ns = event.at_ns;
		if (event.life != process->life || process->dead || job->over)
			continue;
		happen(process, &event);
		check_process(process);
		find_over(process);
		if (job->n_over == job->n_ranks)
			end_segment(job);
	}
}

/* What no cache that never evicts can do better: each item that it keeps is read once,
 * the others in each epoch. */
static void check_misses(const struct world *world, uint64_t epochs)
{
	uint64_t kept = 0, n = world->n_items;

	for (uint64_t i = 0; i < n; i++)
		kept += world->words[i] == WORLD_KEPT;
	WORLD_CHECK(world, world->n_misses == kept + (n - kept) * epochs &&
		world->n_hits == n * epochs - world->n_misses,
		"%llu misses, %llu of %llu items are kept",
		(unsigned long long)world->n_misses, (unsigned long long)kept,
		(unsigned long long)n);
}

static bool is_plain(const struct world *world)
{
	bool plain = world->cached && !world->crashes && !world->resumes &&
		!world->fades &&
		world->n_jobs == 1 && world->jobs[0].tail == TAUTI_TAIL_KEEP;

	for (uint64_t i = 0; i < world->n_items; i++)
		plain = plain && !world_is_faulty(world, i);
	return plain;
}

static void free_world(struct world *world)
{
	for (uint32_t j = 0; j < WORLD_JOBS; j++)
		for (uint32_t r = 0; r < WORLD_RANKS; r++) {
			struct world_process *it = &world->jobs[j].ranks[r];

			tauti_supply_destroy(it->supply);
			taut_vec_free(&it->book);
		}
	taut_vec_free(&world->events);
}

static bool run_world(struct world *world, uint64_t seed)
{
	uint64_t first_epochs[WORLD_JOBS], epochs;

	draw_world(world, seed);
	epochs = world->jobs[0].end_epoch - world->jobs[0].epoch;
	for (uint32_t j = 0; j < world->n_jobs; j++) {
		first_epochs[j] = world->jobs[j].epoch;
		begin_segment(&world->jobs[j], false);
	}
	run_events(world);
	for (uint32_t j = 0; j < world->n_jobs; j++) {
		WORLD_CHECK(world, world->jobs[j].over, "deadlock: job %u", j);
		if (!world->jobs[j].failed)
			check_job(&world->jobs[j], first_epochs[j]);
	}
	if (!is_plain(world))
		return false;
	check_misses(world, epochs);
	return true;
}

struct sums {
	uint64_t batches, hits, misses, coming, skipped, fatal, crashes, resumes,
		refetched, faded, plain;
};

static void add(struct sums *sums, const struct world *world)
{
	sums->batches += world->n_batches;
	sums->hits += world->n_hits;
	sums->misses += world->n_misses;
	sums->coming += world->n_coming;
	sums->skipped += world->n_skipped;
	sums->fatal += world->n_fatal;
	sums->crashes += world->n_crashes;
	sums->resumes += world->n_resumes;
	sums->refetched += world->n_refetched;
	sums->faded += world->n_faded;
}

static void test_worlds(void **state)
{
	const char *one = getenv("TAUT_WORLD_SEED"), *n = getenv("TAUT_WORLDS");
	uint64_t first = one ? strtoull(one, NULL, 10) : 1;
	uint64_t count = one ? 1 : n ? strtoull(n, NULL, 10) : WORLDS;
	struct world *world = malloc(sizeof *world);
	struct sums sums = { 0 };

	(void)state;
	assert_non_null(world);
	for (uint64_t seed = first; seed < first + count; seed++) {
		sums.plain += run_world(world, seed);
		add(&sums, world);
		free_world(world);
	}
	free(world);
	print_message("%llu worlds: %llu batches, %llu hits, %llu misses, %llu "
		"coming, %llu skipped, %llu ended by a fault, %llu crashes, "
		"%llu resumes, %llu with known misses\n",
		(unsigned long long)count, (unsigned long long)sums.batches,
		(unsigned long long)sums.hits, (unsigned long long)sums.misses,
		(unsigned long long)sums.coming,
		(unsigned long long)sums.skipped, (unsigned long long)sums.fatal,
		(unsigned long long)sums.crashes,
		(unsigned long long)sums.resumes,
		(unsigned long long)sums.plain);
	assert_true(one || (sums.batches > 10 * count && sums.hits > 10 * count &&
		sums.misses > 10 * count && sums.coming > count &&
		sums.skipped > count && sums.fatal > count / 20 &&
		sums.crashes > count / 20 && sums.refetched > count / 20 &&
		sums.faded > count && sums.resumes > count && sums.plain > count / 50));
}

/* --- time --------------------------------------------------------------------------*/

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static void draw_line(struct world *world, uint64_t seed)
{
	struct world_job *job = &world->jobs[0];
	struct tauti_supply_options *options = &job->ranks[0].options;

	memset(world, 0, sizeof *world);
	world->seed = seed;
	world->draw = tauti_draw_begin(seed, 1, 0);
	world->one_size = true;
	world->fetch_ns = 1 + (int64_t)world_pick(world, 1000);
	world->prepare_ns = 1 + (int64_t)world_pick(world, 1000);
	world->consume_ns = 1 + (int64_t)world_pick(world, 2000);
	options->depth = 1 + (uint32_t)world_pick(world, WORLD_DEPTH);
	options->n_fetches = 1 + (uint32_t)world_pick(world, 12);
	options->n_workers = 1 + (uint32_t)world_pick(world, 8);
	options->share.n_ranks = 1;
	options->share.batch = 1 + (uint32_t)world_pick(world, WORLD_BATCH);
	world->n_items = options->share.batch *
		(1 + world_pick(world, WORLD_ITEMS / options->share.batch));
	for (uint64_t i = 0; i < world->n_items; i++)
		world->bytes[i] = 100;
	if (world_pick(world, 2))
		options->fetch_bytes = 100 *
			(options->n_fetches + options->n_workers);
	options->share.n_items = world->n_items;
	job->world = world;
	job->deal = options->deal =
		(struct tauti_deal){ world->n_items, seed, true };
	job->end_epoch = 1 + world_pick(world, WORLD_EPOCHS);
	world->n_jobs = 1;
}

/* Whether core.h says how long at most. */
static bool check_time(const struct world *world)
{
	const struct world_process *it = &world->jobs[0].ranks[0];
	const struct tauti_supply_options *options = &it->options;
	double batch = options->share.batch, n = (double)it->book.count;
	double f = (double)world->fetch_ns, p = (double)world->prepare_ns;
	double t_f = batch * f / options->n_fetches;
	double t_p = batch * p / options->n_workers;
	double t_c = (double)world->consume_ns;
	double slowest = larger(t_c, larger(t_f, t_p));
	double once = t_f + t_p + t_c + f + p, took = (double)world->now_ns;

	WORLD_CHECK(world, took >= n * slowest - 1e-6,
		"took %g ns, less than can be: %g", took, n * slowest);
	if (options->depth * slowest < once)
		return false;
	WORLD_CHECK(world, took <= n * slowest + once + 1e-6,
		"took %g ns, %g batches of %g ns and %g once", took, n, slowest,
		once);
	return true;
}

/* Begins with a user who waits. */
static void run_line(struct world *world)
{
	struct world_job *job = &world->jobs[0];
	struct world_process *process = &job->ranks[0];
	struct tauti_supply_options options = process->options;
	int64_t consume_ns = world->consume_ns;

	options.n_epochs = job->end_epoch;
	process->world = world;
	process->job = job;
	job->n_ranks = 1;
	WORLD_OK(world, tauti_supply_create(
		&options, &engine, process, &process->supply, NULL));
	world->consume_ns = 0;
	begin_rank(process, &options, 0);
	world->consume_ns = consume_ns;
	process->target = process->book.count;
	tauti_supply_start(process->supply);
	run_events(world);
	WORLD_CHECK(world, job->over, "deadlock");
}

/* 0: by fetching, 1: by preparation, 2: by the user. */
static int slowest_of(const struct world *world)
{
	const struct tauti_supply_options *options =
		&world->jobs[0].ranks[0].options;
	int64_t batch = options->share.batch;
	int64_t fetch_ns = batch * world->fetch_ns / options->n_fetches;
	int64_t prepare_ns = batch * world->prepare_ns / options->n_workers;

	if (fetch_ns > prepare_ns && fetch_ns > world->consume_ns)
		return 0;
	return prepare_ns > world->consume_ns ? 1 : 2;
}

static void test_time(void **state)
{
	struct world *world = malloc(sizeof *world);
	unsigned n_by[3] = { 0 };

	(void)state;
	assert_non_null(world);
	for (uint64_t seed = 1; seed <= 5000; seed++) {
		draw_line(world, seed);
		run_line(world);
		if (check_time(world))
			n_by[slowest_of(world)]++;
		free_world(world);
	}
	free(world);
	print_message("lines with a bound: %u by fetching, %u by preparation, "
		"%u by the user\n", n_by[0], n_by[1], n_by[2]);
	assert_true(n_by[0] > 100 && n_by[1] > 100 && n_by[2] > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worlds),
		cmocka_unit_test(test_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

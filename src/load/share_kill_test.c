/* Jobs of one host that share what they prepare, while one is killed, one is stopped for a
 * while and one comes late. Who lives has every item of each epoch once, as a loader that
 * shares nothing has it; where all live, each item is read and prepared once for all. */
#include "load/loader_share_world.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "load/pool_traces.h"
#include "load/stage.h"

enum { ROUNDS = 50, MOST_JOBS = 5, PLACES = 60, MOST_BATCH = 8 };

#define PATIENCE_NS INT64_C(20000000)
#define LONG_NS (60 * SHARE_SECOND_NS)

/* In memory that outlives the jobs. */
struct board {
	struct share_sums sums;
	struct share_log logs[MOST_JOBS];
	_Atomic uint32_t n_there, n_done;
};

struct round {
	uint64_t seed;
	uint32_t n; /* jobs */
	bool is_calm; /* nobody is killed, stopped or late */
	uint32_t batches[MOST_JOBS], workers[MOST_JOBS], sleeps_us[MOST_JOBS];
	uint32_t killed, stopped, late; /* jobs; TAUT_NONE: none */
	pid_t pids[MOST_JOBS];
};

static struct board *board;
static struct world world;

/* --- a job -----------------------------------------------------------------------------*/
static bool wait_until_all(_Atomic uint32_t *n, uint32_t all)
{
	int64_t until_ns = tauti_now_ns() + LONG_NS;

	++*n;
	while (*n < all && tauti_now_ns() < until_ns)
		usleep(200);
	return *n >= all;
}

static uint64_t ahead_of(const struct round *round, uint32_t i)
{
	return SHARE_DEPTH * round->batches[i];
}

static struct taut_load *open_loader(const struct round *round, uint32_t i)
{
	struct taut_load_options o = {
		.prepare = &share_prepare,
		.batch = round->batches[i],
		.seed = round->seed,
		.shuffle = true,
		.n_workers = round->workers[i],
		.depth = SHARE_DEPTH,
		.share_bytes = tauti_stage_bytes(PLACES, ITEM_BYTES),
		.share_patience_ns = round->is_calm ? LONG_NS : PATIENCE_NS,
	};
	struct share_log *log = &board->logs[i];
	struct taut_load *load = NULL;
	struct taut_error err = { .offset = -1 };

	if (taut_load_create(world.set, &o, &load, &err) == TAUT_OK)
		return load;
	memcpy(log->line, err.message, sizeof log->line - 1);
	log->wrong++;
	return NULL;
}

static void work(const struct round *round, uint32_t i)
{
	struct tauti_draw draw = tauti_draw_begin(round->seed, 7, i);
	struct share_log *log = &board->logs[i];
	struct taut_load *load = open_loader(round, i);
	bool right = load != NULL;

	if (right && round->is_calm)
		right = wait_until_all(&board->n_there, round->n);
	right = right && share_go(load, SHARE_EPOCHS, log, &board->sums,
		round->sleeps_us[i], &draw);
	if (right && round->is_calm)
		right = wait_until_all(&board->n_done, round->n) && share_settle(load,
			SHARE_EPOCHS * SHARE_ITEMS + ahead_of(round, i), &log->counts);
	taut_load_destroy(load);
	_exit(right ? 0 : 1);
}

static pid_t start(void (*job)(const struct round *, uint32_t), const struct round *round,
	uint32_t i)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		job(round, i);
	}
	return pid;
}

static void end(pid_t pid, bool was_killed)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (was_killed && WIFSIGNALED(status))
		assert_int_equal(WTERMSIG(status), SIGKILL);
	else if (status)
		for (uint32_t i = 0; i < MOST_JOBS; i++)
			if (board->logs[i].wrong)
				fail_msg("job %u: %u wrong: %s", i,
					board->logs[i].wrong, board->logs[i].line);
	if (!was_killed)
		assert_int_equal(status, 0);
}

/* A loader has threads: it is made where nobody is to fork any more. */
static void write_reference(const struct round *round, uint32_t i)
{
	(void)i;
	share_reference(&world, round->seed, &board->sums);
	_exit(0);
}

/* --- a round ---------------------------------------------------------------------------*/
static struct round draw_round(uint64_t seed)
{
	struct tauti_draw draw = tauti_draw_begin(seed, 6, 0);
	struct round round = {
		.seed = (uint64_t)getpid() << 20 | seed,
		.is_calm = seed % 5 == 0,
		.killed = TAUT_NONE,
		.stopped = TAUT_NONE,
		.late = TAUT_NONE,
	};

	round.n = 2 + (uint32_t)tauti_draw_below(&draw, MOST_JOBS - 1);
	for (uint32_t i = 0; i < round.n; i++) {
		round.batches[i] = 1 + (uint32_t)tauti_draw_below(&draw, MOST_BATCH);
		round.workers[i] = 1 + (uint32_t)tauti_draw_below(&draw, 3);
		/* Some 200 ms: as many batches as it has, each half of this. */
		round.sleeps_us[i] = 400000 * round.batches[i] /
			(SHARE_EPOCHS * SHARE_ITEMS) +
			(uint32_t)tauti_draw_below(&draw, 1000);
	}
	if (round.is_calm)
		return round;
	round.killed = (uint32_t)tauti_draw_below(&draw, round.n);
	if (tauti_draw_below(&draw, 2))
		round.stopped = (round.killed + 1) % round.n;
	if (round.n > 2)
		round.late = (round.killed + 2) % round.n;
	return round;
}

/* What happens to whom, in the order of time. */
static void trouble(struct round *round)
{
	struct tauti_draw draw = tauti_draw_begin(round->seed, 8, 0);
	bool stops_first = tauti_draw_below(&draw, 2);

	usleep((useconds_t)tauti_draw_below(&draw, 60000));
	if (stops_first && round->stopped != TAUT_NONE)
		kill(round->pids[round->stopped], SIGSTOP);
	usleep((useconds_t)tauti_draw_below(&draw, 40000));
	if (round->late != TAUT_NONE)
		round->pids[round->late] = start(work, round, round->late);
	usleep((useconds_t)tauti_draw_below(&draw, 60000));
	kill(round->pids[round->killed], SIGKILL);
	if (!stops_first && round->stopped != TAUT_NONE)
		kill(round->pids[round->stopped], SIGSTOP);
	usleep((useconds_t)(3 * PATIENCE_NS / 1000));
	if (round->stopped != TAUT_NONE)
		kill(round->pids[round->stopped], SIGCONT);
}

static void check_job(const struct round *round, uint32_t i)
{
	const struct share_log *log = &board->logs[i];

	if (log->wrong)
		fail_msg("seed %llu, job %u: %u wrong: %s",
			(unsigned long long)round->seed, i, log->wrong, log->line);
	for (uint32_t e = 0; e < SHARE_EPOCHS; e++)
		for (uint32_t item = 0; item < SHARE_ITEMS; item++)
			if (log->seen[e][item] != 1 &&
				(i != round->killed || log->seen[e][item]))
				fail_msg("seed %llu, job %u: item %u of epoch %u came "
					"%u times", (unsigned long long)round->seed, i,
					item, e, log->seen[e][item]);
}

static void check_calm(const struct round *round)
{
	uint64_t made = 0, copied = 0, reads = 0, ahead = 0, all = 0;

	for (uint32_t i = 0; i < round->n; i++) {
		const struct taut_load_counts *c = &board->logs[i].counts;

		made += c->share_made;
		copied += c->share_copied;
		reads += c->reads;
		all += SHARE_EPOCHS * SHARE_ITEMS + ahead_of(round, i);
		if (ahead_of(round, i) > ahead)
			ahead = ahead_of(round, i);
		assert_int_equal(c->share_alone, 0);
		assert_int_equal(c->share_detached, 0);
	}
	assert_int_equal(made, SHARE_EPOCHS * SHARE_ITEMS + ahead);
	assert_int_equal(reads, made);
	assert_int_equal(copied, all - made);
}

static void run_round(uint64_t seed)
{
	struct round round = draw_round(seed);

	memset(board, 0, sizeof *board);
	end(start(write_reference, &round, 0), false);
	for (uint32_t i = 0; i < round.n; i++)
		if (i != round.late)
			round.pids[i] = start(work, &round, i);
	if (!round.is_calm)
		trouble(&round);
	for (uint32_t i = 0; i < round.n; i++)
		end(round.pids[i], i == round.killed);
	for (uint32_t i = 0; i < round.n; i++)
		check_job(&round, i);
	if (round.is_calm)
		check_calm(&round);
}

/* --- what is left ----------------------------------------------------------------------*/
static void test_kills(void **state)
{
	const char *one = getenv("TAUT_SEED");
	uint64_t first = one ? strtoull(one, NULL, 10) : 0;
	uint64_t last = one ? first : ROUNDS - 1;
	int shared = traces("/dev/shm");

	(void)state;
	board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(board, MAP_FAILED);
	world_init(&world, SHARE_ITEMS, NULL);
	for (uint64_t seed = first; seed <= last; seed++)
		run_round(seed);
	assert_int_equal(traces("/dev/shm"), shared);
	assert_int_equal(traces("/proc/self/fd"), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	world_fini(&world);
	munmap(board, sizeof *board);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kills),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

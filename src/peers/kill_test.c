/* Processes that are told to be on different hosts go through a set while one after the other
 * is killed, or stands still. Those that live deliver each item of their share once in each
 * epoch, with the right bytes, by a log in memory that outlives them all.
 *
 *     test-peers-kill [ROUNDS] */
#include "peers/peers_world.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "load/draw.h"
#include "load/order.h"

enum { RANKS = 4, EPOCHS = 3, ITEMS = 240, BATCH_US = 1500 };

static const char *const hosts[RANKS] = { "a", "a", "b", "c" };

struct board {
	_Atomic uint32_t ready, over;
	_Atomic uint32_t wrong[RANKS];
	_Atomic uint32_t lost; /* peers, as those who lived to the end saw them */
	_Atomic uint8_t seen[RANKS][EPOCHS][ITEMS];
	char lines[RANKS][512];
};

static struct board *board;
static uint32_t n_rounds = 8;

/* --- a rank's process ----------------------------------------------------------------*/

static void give_up(uint32_t rank, const struct taut_error *err)
{
	snprintf(board->lines[rank], sizeof board->lines[rank], "%s", err->message);
	_exit(1);
}

static void go_through(uint32_t rank, struct taut_load *load, struct taut_error *err)
{
	struct taut_batch *batch;

	for (uint32_t e = 0; e < EPOCHS; e++)
		for (;;) {
			if (taut_load_next(load, -1, &batch, err) != TAUT_OK)
				give_up(rank, err);
			if (!batch)
				break;
			board->wrong[rank] += wrong_bytes(batch) != 0;
			for (uint32_t i = 0; i < batch->count; i++)
				board->seen[rank][e][batch->items[i]]++;
			taut_batch_release(batch);
			usleep(BATCH_US);
		}
}

static void work(const struct world *w, uint32_t rank)
{
	struct taut_peers_options o = peers_options(
		w, rank, RANKS, hosts[rank], ITEMS / 3 + 1);
	struct taut_peers_counts counts;
	struct taut_load_options with;
	struct taut_peers *peers;
	struct taut_load *load;
	struct taut_error err = { .message = "" };

	alarm(60);
	o.lost_after_ns = 400000000;
	o.answer_within_ns = 200000000;
	if (taut_peers_create(w->set, &o, &peers, &err) != TAUT_OK)
		give_up(rank, &err);
	with = load_options(w, &o, taut_peers_remote(peers));
	with.store = "slow";
	with.slow_ns = 500000;
	if (taut_load_create(w->set, &with, &load, &err) != TAUT_OK)
		give_up(rank, &err);
	board->ready++;
	go_through(rank, load, &err);
	taut_peers_counts(peers, &counts);
	board->lost += counts.lost;
	board->over++;
	/* Others need this one's cache still, but for what they lose too. */
	taut_load_destroy(load);
	taut_peers_destroy(peers);
	_exit(0);
}

static pid_t start(const struct world *w, uint32_t rank)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		work(w, rank);
	}
	return pid;
}

/* --- a round -------------------------------------------------------------------------*/

static void check_rank(uint32_t rank, bool is_killed)
{
	const struct tauti_deal deal = { ITEMS, 7, true };
	const struct tauti_share share = { .n_items = ITEMS, .n_ranks = RANKS,
		.rank = rank, .batch = 4 };

	assert_int_equal(board->wrong[rank], 0);
	for (uint32_t e = 0; e < EPOCHS; e++) {
		uint8_t due[ITEMS] = { 0 };

		for (uint64_t b = 0; b < tauti_share_batches(&share); b++)
			for (uint32_t i = 0; i < tauti_share_count(&share, b); i++)
				due[tauti_deal_item(&deal, e,
					tauti_share_position(&share, b, i))]++;
		for (uint32_t i = 0; i < ITEMS; i++)
			if (is_killed)
				assert_in_range(board->seen[rank][e][i], 0, due[i]);
			else
				assert_int_equal(board->seen[rank][e][i], due[i]);
	}
}

static void pause_us(uint64_t us)
{
	const struct timespec time = { (time_t)(us / 1000000),
		(long)(us % 1000000) * 1000 };

	nanosleep(&time, NULL);
}

/* Kills it, or lets it stand still until others have given it up, and kills it then. */
static void hit(pid_t pid, struct tauti_draw *draw)
{
	if (tauti_draw_below(draw, 3) == 0) {
		kill(pid, SIGSTOP);
		pause_us(600000);
	}
	kill(pid, SIGKILL);
}

static void await_ready(const pid_t *pids)
{
	while (board->ready < RANKS) {
		for (uint32_t i = 0; i < RANKS; i++)
			if (waitpid(pids[i], NULL, WNOHANG) == pids[i])
				fail_msg("rank %u: %s", i, board->lines[i]);
		pause_us(1000);
	}
}

static uint32_t reap(const pid_t *pids, const bool *is_hit)
{
	uint32_t n_killed = 0;

	for (uint32_t i = 0; i < RANKS; i++) {
		int status = 0;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && is_hit[i])
			n_killed++;
		else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			fail_msg("rank %u ended with %d: %s", i, status,
				board->lines[i]);
		check_rank(i, WIFSIGNALED(status));
	}
	return n_killed;
}

static uint32_t play_round(struct world *w, uint64_t seed)
{
	struct tauti_draw draw = tauti_draw_begin(seed, 5, 0);
	uint64_t n_hits = 1 + tauti_draw_below(&draw, RANKS - 1);
	bool is_hit[RANKS] = { false };
	pid_t pids[RANKS];

	memset(board, 0, sizeof *board);
	take_port(w);
	w->name += 1 << 8;
	for (uint32_t i = 0; i < RANKS; i++)
		pids[i] = start(w, i);
	await_ready(pids);
	for (uint64_t i = 0; i < n_hits; i++) {
		uint32_t rank = (uint32_t)tauti_draw_below(&draw, RANKS);

		pause_us(tauti_draw_below(&draw, 60000));
		if (!is_hit[rank])
			hit(pids[rank], &draw);
		is_hit[rank] = true;
	}
	return reap(pids, is_hit);
}

static void kills(void **state)
{
	uint32_t n_killed = 0;
	struct world w;

	(void)state;
	world_init(&w, ITEMS);
	for (uint32_t i = 0; i < n_rounds; i++)
		n_killed += play_round(&w, i);
	print_message("%u rounds, %u killed\n", n_rounds, n_killed);
	assert_true(n_killed >= n_rounds / 2);
	world_fini(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kills),
	};

	if (argc > 1)
		n_rounds = (uint32_t)atoi(argv[1]);
	board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

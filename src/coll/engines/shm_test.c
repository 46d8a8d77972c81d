/* One process plays all ranks, or its threads do. What the engine must do as any
 * other is in the contract; here is what is its own: slots and FIFOs that are full,
 * nonsense in the memory, sleep. */
#include "coll/engines/shm_ranks.h"

#include <unistd.h>

#include "tests/support/alloc_fail.h"

static void fill(unsigned char *data, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		data[i] = (unsigned char)((i * 31 + seed * 17) >> 2);
}

static unsigned char *filled(size_t bytes, uint32_t seed)
{
	unsigned char *data = malloc(bytes + 1);

	assert_non_null(data);
	fill(data, bytes, seed);
	return data;
}

/* --- all sizes ----------------------------------------------------------------------*/

/* Around each size at which a message goes another way, and so often that the FIFO
 * goes round many times and ends at each of its lines. */
static void test_sizes(void **state)
{
	static const size_t sizes[] = { 0, 1, 4, 39, 40, 41, 103, 104, 105,
		SHORT - 1, SHORT, SHORT + 1, 4096, 65537, BIG - 1, BIG };
	struct job job;
	struct event sent, got;
	unsigned char *to = malloc(BIG);

	(void)state;
	make(&job, 2);
	for (uint32_t i = 0; i < 4000; i++) {
		size_t bytes = sizes[(i * 7 + i / 100) % (i % 50 ? 12 : 16)];
		unsigned char *from = filled(bytes, i);
		uint32_t way = i % 3 == 0;

		if (i % 2)
			assert_int_equal(recv_one(&job.ranks[!way], way, i, to,
				bytes, &got), TAUT_OK);
		assert_int_equal(send_one(&job.ranks[way], !way, i, from, bytes,
			&sent), TAUT_OK);
		if (i % 2 == 0)
			assert_int_equal(recv_one(&job.ranks[!way], way, i, to,
				bytes, &got), TAUT_OK);
		assert_int_equal(progress(&job.ranks[!way]), TAUT_OK);
		expect(&sent, 1, TAUT_OK);
		expect(&got, 1, TAUT_OK);
		assert_memory_equal(from, to, bytes);
		free(from);
	}
	free(to);
	end(&job);
}

/* A long message whose payload, where a line's number belongs, is the number that is
 * awaited there the next time round. */
static void send_forged(struct job *job, unsigned char *from, uint64_t tag)
{
	uint64_t first = engine_of(job, 0)->peers[1].out.sent;
	struct event sent;

	memset(from, 0, SHORT);
	for (uint32_t i = 1; i < TAUTI_SHM_MOST_LINES; i++) {
		uint64_t forged = first + i + TAUTI_SHM_FIFO_LINES + 1;

		memcpy(from + i * TAUTI_SHM_LINE - TAUTI_SHM_HEAD_BYTES,
			&forged, sizeof forged);
	}
	assert_int_equal(send_one(&job->ranks[0], 1, tag, from, SHORT, &sent),
		TAUT_OK);
	expect(&sent, 1, TAUT_OK);
}

/* Payload is never taken for a message that comes, nor is an old number: between
 * messages, of which some are long, there is nothing. */
static void test_forged_numbers(void **state)
{
	static unsigned char from[SHORT], to[SHORT];
	struct event sent, got;
	struct job job;

	(void)state;
	make(&job, 2);
	for (uint64_t i = 0; i < 2000; i++) {
		const struct tauti_shm *it = engine_of(&job, 1);
		bool is_long = i % 97 == 0 || i % 131 == 0;
		size_t bytes = is_long ? SHORT : 8;

		if (is_long)
			send_forged(&job, from, i);
		else
			assert_int_equal(send_one(&job.ranks[0], 1, i, from, 8,
				&sent), TAUT_OK);
		assert_int_equal(recv_one(&job.ranks[1], 0, i, to, bytes, &got),
			TAUT_OK);
		expect(&got, 1, TAUT_OK);
		assert_memory_equal(from, to, bytes);
		assert_false(tauti_shm_any(&it->peers[0].in));
		assert_int_equal(progress(&job.ranks[1]), TAUT_OK);
		assert_int_equal(it->come.n, 0);
	}
	end(&job);
}

/* --- what is full ---------------------------------------------------------------------*/

enum { MANY = 600 };

/* More than the FIFO holds wait, and go when there is room; in any order. */
static void test_fifo_full(void **state)
{
	static struct event sent[MANY], got[MANY];
	static uint32_t from[MANY], to[MANY];
	struct job job;
	int n_waiting = 0;

	(void)state;
	make(&job, 2);
	for (uint32_t i = 0; i < MANY; i++) {
		from[i] = i * 3;
		assert_int_equal(send_one(&job.ranks[0], 1, i, &from[i], 4,
			&sent[i]), TAUT_OK);
		n_waiting += !sent[i].n_done;
	}
	assert_true(n_waiting > 0);
	assert_int_equal(engine_of(&job, 0)->bell->full, 1);
	for (uint32_t i = MANY; i-- > 0;)
		assert_int_equal(recv_one(&job.ranks[1], 0, i, &to[i], 4,
			&got[i]), TAUT_OK);
	for (int turn = 0; turn < 40; turn++)
		for (uint32_t i = 0; i < 2; i++)
			assert_int_equal(progress(&job.ranks[i]), TAUT_OK);
	for (uint32_t i = 0; i < MANY; i++) {
		expect(&sent[i], 1, TAUT_OK);
		expect(&got[i], 1, TAUT_OK);
	}
	assert_memory_equal(from, to, sizeof from);
	assert_int_equal(engine_of(&job, 0)->bell->full, 0);
	end(&job);
}

/* All slots hold what nobody asks for; a message that somebody asks for overtakes,
 * as its receiver puts the others aside. */
static void test_slots_full(void **state)
{
	enum { N = 3 * TAUTI_SHM_MOST_SLOTS };
	static struct event sent[N], got[N];
	unsigned char *from = filled(BIG + N, 1), *to = malloc(BIG);
	struct job job;

	(void)state;
	make(&job, 3);
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(send_one(&job.ranks[0], 1 + i % 2, i, from + i,
			BIG, &sent[i]), TAUT_OK);
	expect(&sent[N - 1], 0, TAUT_OK);
	assert_int_equal(recv_one(&job.ranks[1 + (N - 1) % 2], 0, N - 1, to, BIG,
		&got[N - 1]), TAUT_OK);
	for (int turn = 0; turn < 200 && !got[N - 1].n_done; turn++)
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(progress(&job.ranks[i]), TAUT_OK);
	expect(&got[N - 1], 1, TAUT_OK);
	assert_memory_equal(to, from + N - 1, BIG);
	for (uint32_t i = 0; i < N - 1; i++) {
		expect(&sent[i], 1, TAUT_OK);
		assert_int_equal(recv_one(&job.ranks[1 + i % 2], 0, i, to, BIG,
			&got[i]), TAUT_OK);
		expect(&got[i], 1, TAUT_OK);
		assert_memory_equal(to, from + i, BIG);
	}
	end(&job);
	free(from);
	free(to);
}

/* One slot for many readers is free when the last has read it. */
static void test_multicast(void **state)
{
	enum { RANKS = 5, TIMES = 4 * TAUTI_SHM_MOST_SLOTS };
	static const uint32_t peers[] = { 4, 1, 3, 2 };
	unsigned char *from = filled(BIG, 2), *to = malloc(BIG);
	struct job job;
	struct rank *root = &job.ranks[0];
	struct event sent, got;

	(void)state;
	make(&job, RANKS);
	for (uint32_t i = 0; i < TIMES; i++) {
		size_t bytes = i % 3 ? BIG - i : 17 + i;

		sent = (struct event){ .request.done = note };
		assert_int_equal(root->engine.table->send(root->engine.context,
			peers, 4, i, from, bytes, &sent.request, NULL), TAUT_OK);
		expect(&sent, 1, TAUT_OK);
		for (uint32_t r = 1; r < RANKS; r++) {
			assert_int_equal(recv_one(&job.ranks[r], 0, i, to, bytes,
				&got), TAUT_OK);
			expect(&got, 1, TAUT_OK);
			assert_memory_equal(from, to, bytes);
		}
	}
	assert_int_equal(engine_of(&job, 0)->n_free +
		engine_of(&job, 0)->n_busy, TAUTI_SHM_MOST_SLOTS);
	end(&job);
	free(from);
	free(to);
}

enum { BEHIND = 24 }; /* more than there are slots */

static void send_all(struct rank *from, const uint32_t *peers, uint32_t n_peers,
	uint64_t tag, const unsigned char *data, size_t bytes, struct event *events,
	uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		events[i] = (struct event){ .request.done = note };
		assert_int_equal(from->engine.table->send(from->engine.context,
			peers, n_peers, tag + i, data + i, bytes,
			&events[i].request, &from->err), TAUT_OK);
	}
}

/* to[i] gets what was sent to it by send_all(). */
static void recv_all(struct job *job, uint32_t rank, uint64_t tag,
	const unsigned char *data, size_t bytes, uint32_t n)
{
	unsigned char *to = malloc(BIG);
	struct event got;

	assert_non_null(to);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(recv_one(&job->ranks[rank], 0, tag + i, to, bytes,
			&got), TAUT_OK);
		for (int turn = 0; turn < 40 && !got.n_done; turn++) {
			assert_int_equal(progress(&job->ranks[0]), TAUT_OK);
			assert_int_equal(progress(&job->ranks[rank]), TAUT_OK);
		}
		expect(&got, 1, TAUT_OK);
		assert_memory_equal(to, data + i, bytes);
	}
	free(to);
}

static void expect_all(const struct event *events, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		expect(&events[i], 1, TAUT_OK);
}

/* Ranks 2 and 3 read nothing, until the end. What goes to rank 1 passes what waits
 * for them: short, long, and sent to all. */
static void test_idle(void **state)
{
	static const uint32_t all[] = { 3, 2, 1 };
	static struct event shorts[MANY], ahead[4][BEHIND], both[BEHIND], one[BEHIND];
	unsigned char *data = filled(BIG + MANY, 3);
	struct rank *root;
	struct job job;

	(void)state;
	make(&job, 4);
	root = &job.ranks[0];
	send_all(root, all, 3, 0, data, BIG, ahead[0], 2);
	send_all(root, all + 1, 1, 10000, data, 8, shorts, MANY);
	expect(&shorts[MANY - 1], 0, TAUT_OK);
	send_all(root, all, 1, 20000, data, BIG, ahead[1], BEHIND);
	send_all(root, all + 1, 1, 30000, data, BIG, ahead[2], BEHIND);
	send_all(root, all, 2, 40000, data, BIG, ahead[3], BEHIND);
	send_all(root, all, 3, 50000, data, SHORT, both, BEHIND);
	send_all(root, all + 2, 1, 60000, data, BIG, one, BEHIND);
	recv_all(&job, 1, 60000, data, BIG, BEHIND);
	recv_all(&job, 1, 50000, data, SHORT, BEHIND);
	recv_all(&job, 1, 0, data, BIG, 2);
	expect_all(one, BEHIND);
	expect(&both[0], 0, TAUT_OK);
	/* They come. */
	for (uint32_t rank = 2; rank < 4; rank++) {
		recv_all(&job, rank, 50000, data, SHORT, BEHIND);
		recv_all(&job, rank, rank == 2 ? 30000 : 20000, data, BIG, BEHIND);
		recv_all(&job, rank, 40000, data, BIG, BEHIND);
		recv_all(&job, rank, 0, data, BIG, 2);
	}
	recv_all(&job, 2, 10000, data, 8, MANY);
	expect_all(shorts, MANY);
	expect_all(both, BEHIND);
	for (int i = 0; i < 4; i++)
		expect_all(ahead[i], i ? BEHIND : 2);
	assert_int_equal(engine_of(&job, 0)->n_queued, 0);
	assert_int_equal(engine_of(&job, 0)->bell->full, 0);
	end(&job);
	free(data);
}

/* One that is sent to all, and that not all have room for, goes to the others. */
static void test_idle_of_all(void **state)
{
	static const uint32_t all[] = { 1, 2 };
	static struct event sent[BEHIND];
	unsigned char *data = filled(BIG + BEHIND, 4);
	struct job job;

	(void)state;
	make(&job, 3);
	send_all(&job.ranks[0], all, 2, 0, data, BIG, sent, BEHIND);
	recv_all(&job, 1, 0, data, BIG, BEHIND);
	expect(&sent[BEHIND - 1], 0, TAUT_OK);
	recv_all(&job, 2, 0, data, BIG, BEHIND);
	assert_int_equal(progress(&job.ranks[0]), TAUT_OK);
	expect_all(sent, BEHIND);
	assert_int_equal(engine_of(&job, 0)->n_free +
		engine_of(&job, 0)->n_busy, TAUTI_SHM_MOST_SLOTS);
	end(&job);
	free(data);
}

/* --- nonsense -----------------------------------------------------------------------*/

static void check_broken(struct rank *rank, taut_status status)
{
	char byte = 0;
	struct event event;

	assert_int_equal(progress(rank), status);
	assert_non_null(strstr(rank->err.message, "rank 0"));
	assert_int_equal(send_one(rank, 0, 1, &byte, 1, &event), status);
	assert_int_equal(recv_one(rank, 0, 1, &byte, 1, &event), status);
	expect(&event, 0, TAUT_OK);
	assert_int_equal(rank->engine.table->wait(rank->engine.context, -1,
		&rank->err), status);
}

/* What stands in the FIFO is not what a sender writes. */
static void test_nonsense(void **state)
{
	static const struct { uint64_t sequence; uint32_t bytes, slot; } lines[] = {
		{ 2, 4, TAUTI_SHM_INLINE },         /* another lap's */
		{ UINT64_MAX, 4, TAUTI_SHM_INLINE },
		{ 1, SHORT + 1, TAUTI_SHM_INLINE }, /* longer than there are */
		{ 1, UINT32_MAX, TAUTI_SHM_INLINE },
		{ 1, 4, TAUTI_SHM_SKIP },           /* nothing to skip */
		{ 1, BIG + 1, 0 },
		{ 1, 4, TAUTI_SHM_MOST_SLOTS },
		{ 1, 4, TAUTI_SHM_SKIP - 1 },
	};
	struct job job;
	struct event got;
	char byte;

	(void)state;
	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		struct tauti_shm_line *line;

		make(&job, 2);
		line = engine_of(&job, 0)->peers[1].out.lines;
		assert_int_equal(recv_one(&job.ranks[1], 0, 9, &byte, 1, &got),
			TAUT_OK);
		line->slot = lines[i].slot;
		line->bytes = lines[i].bytes;
		line->sequence = lines[i].sequence;
		check_broken(&job.ranks[1], TAUT_EFORMAT);
		expect(&got, 1, TAUT_EFORMAT);
		end(&job);
	}
}

/* A reader says that it has read more than was sent. */
static void test_mad_reader(void **state)
{
	struct job job;
	static struct event sent[MANY];

	(void)state;
	make(&job, 2);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(send_one(&job.ranks[1], 0, i, &i, 4, &sent[i]),
			TAUT_OK);
	tauti_shm_taken(&engine_of(&job, 0)->map.layout,
		engine_of(&job, 0)->map.base, 0, 1)->value = 1 << 20;
	check_broken(&job.ranks[1], TAUT_EIO);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(sent[i].n_done, 1);
	expect(&sent[MANY - 1], 1, TAUT_EIO);
	end(&job);
}

/* --- what is refused ------------------------------------------------------------------*/

static void test_refused(void **state)
{
	static const uint32_t host_of[] = { 0, 0, 1 };
	struct job job;
	struct event event;
	static char data[BIG + 1];

	(void)state;
	begin(&job, 3, host_of, NULL);
	run_threads(&job);
	assert_int_equal(send_one(&job.ranks[0], 2, 1, data, 1, &event),
		TAUT_EINVAL);
	assert_int_equal(send_one(&job.ranks[0], 0, 1, data, 1, &event),
		TAUT_EINVAL);
	assert_int_equal(recv_one(&job.ranks[0], 3, 1, data, 1, &event),
		TAUT_EINVAL);
	assert_int_equal(recv_one(&job.ranks[2], 0, 1, data, 1, &event),
		TAUT_EINVAL);
	assert_int_equal(send_one(&job.ranks[0], 1, 1, data, BIG + 1, &event),
		TAUT_EINVAL);
	expect(&event, 0, TAUT_OK);
	/* rank 2 is alone: it can be woken, and has nothing else to do */
	assert_null(engine_of(&job, 2)->map.base);
	assert_int_equal(progress(&job.ranks[2]), TAUT_OK);
	job.ranks[2].engine.table->wake(job.ranks[2].engine.context);
	assert_int_equal(job.ranks[2].engine.table->wait(
		job.ranks[2].engine.context, -1, NULL), TAUT_OK);
	end(&job);
}

/* What was asked for is less, or more, than what comes. */
static void test_lengths(void **state)
{
	static const size_t sizes[] = { 8, SHORT + 8 };
	static char from[SHORT + 16], to[SHORT + 16];
	struct job job;
	struct event sent, got;

	(void)state;
	make(&job, 2);
	for (uint64_t i = 0; i < 8; i++) {
		size_t bytes = sizes[i % 2], asked = bytes + (i & 2 ? 4 : -4u);

		if (i & 4)
			assert_int_equal(recv_one(&job.ranks[1], 0, i, to, asked,
				&got), TAUT_OK);
		assert_int_equal(send_one(&job.ranks[0], 1, i, from, bytes,
			&sent), TAUT_OK);
		if (!(i & 4))
			assert_int_equal(recv_one(&job.ranks[1], 0, i, to, asked,
				&got), TAUT_OK);
		assert_int_equal(progress(&job.ranks[1]), TAUT_OK);
		expect(&got, 1, TAUT_EMATCH);
	}
	end(&job);
}

/* What is under way when the engine goes. */
static void test_destroy(void **state)
{
	struct job job;
	static struct event sent[MANY], asked, came;
	char byte = 0;

	(void)state;
	make(&job, 2);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(send_one(&job.ranks[0], 1, i, &byte, 1, &sent[i]),
			TAUT_OK);
	assert_int_equal(send_one(&job.ranks[1], 0, 1, &byte, 1, &came), TAUT_OK);
	assert_int_equal(recv_one(&job.ranks[0], 1, 2, &byte, 1, &asked), TAUT_OK);
	assert_true(job.ranks[0].engine.table->arrived(
		engine_of(&job, 0), 1, UINT64_MAX));
	assert_false(job.ranks[0].engine.table->arrived(
		engine_of(&job, 0), 2, UINT64_MAX));
	end(&job);
	expect(&asked, 1, TAUT_EIO);
	expect(&sent[0], 1, TAUT_OK);
	expect(&sent[MANY - 1], 1, TAUT_EIO);
}

/* A request for memory fails: nothing began, and nothing is lost. */
static void test_no_memory_under_way(void **state)
{
	struct job job;
	struct event sent, got;
	static struct event queued[MANY];
	uint64_t value = 5, to = 0;
	uint32_t i;

	(void)state;
	make(&job, 2);
	alloc_fail_after(0);
	assert_int_equal(recv_one(&job.ranks[1], 0, 1, &to, 8, &got),
		TAUT_ENOMEM);
	assert_int_equal(send_one(&job.ranks[0], 1, 1, &value, 8, &sent),
		TAUT_OK);
	assert_int_equal(progress(&job.ranks[1]), TAUT_ENOMEM);
	assert_int_equal(recv_one(&job.ranks[1], 0, 1, &to, 8, &got), TAUT_OK);
	expect(&got, 1, TAUT_OK);
	assert_int_equal(to, 5);
	for (i = 0; i < MANY; i++)
		if (send_one(&job.ranks[0], 1, i, &value, 8, &queued[i]) !=
			TAUT_OK)
			break;
	alloc_fail_never();
	assert_int_equal(i, TAUTI_SHM_FIFO_LINES - 2);
	end(&job);
}

/* --- waiting -------------------------------------------------------------------------*/

enum { TURNS = 300 };

/* A token goes round; all but one sleep. Long ones need slots. */
static void pass_token(struct rank *rank)
{
	uint32_t n = rank->job->n_ranks;
	uint32_t before = (rank->rank + n - 1) % n, after = (rank->rank + 1) % n;
	unsigned char *token = calloc(1, BIG);
	struct event sent, got;

	for (uint32_t i = 0; i < TURNS; i++) {
		size_t bytes = i % 10 == 0 ? BIG : 8;

		if (rank->rank != 0 || i > 0) {
			if (recv_one(rank, before, i - (rank->rank == 0), token,
					rank->rank == 0 && i % 10 == 1 ? BIG :
					rank->rank == 0 ? (i - 1) % 10 ? 8 : BIG :
					bytes, &got))
				abort();
			until(rank, &got);
		}
		token[0]++;
		if (send_one(rank, after, i, token, bytes, &sent))
			abort();
		until(rank, &sent);
	}
	rank->err.offset = token[0];
	free(token);
}

static void sleeps(struct rank *rank)
{
	struct tauti_shm *it = rank->engine.context;

	it->spin_ns = 0;
	it->n_yields = 0;
	pass_token(rank);
}

static void yields(struct rank *rank)
{
	((struct tauti_shm *)rank->engine.context)->spin_ns = 0;
	pass_token(rank);
}

static void sleeps_fenced(struct rank *rank)
{
	((struct tauti_shm *)rank->engine.context)->map.fenced = true;
	sleeps(rank);
}

static void run_token(void (*work)(struct rank *rank), uint32_t n)
{
	struct job job;

	begin(&job, n, NULL, work);
	run_threads(&job);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(job.ranks[i].status, TAUT_OK);
		assert_int_equal(job.ranks[i].err.offset,
			(unsigned char)((TURNS - 1) * n + i + 1));
	}
	end(&job);
}

static void test_token(void **state)
{
	(void)state;
	run_token(pass_token, 3);
	run_token(yields, 4);
	run_token(sleeps, 2);
	run_token(sleeps, 5);
	run_token(sleeps_fenced, 3);
}

/* Rank 0 sends more than the FIFO holds, and sleeps until rank 1, which sends
 * nothing, has read some of it. */
static void fill_asleep(struct rank *rank)
{
	enum { N = 2 * TAUTI_SHM_FIFO_LINES };
	static struct event events[2][N];
	struct event *mine = events[rank->rank];
	struct tauti_shm *it = rank->engine.context;
	unsigned char data[8] = { 0 };

	it->spin_ns = 0;
	it->n_yields = 0;
	if (rank->rank == 1)
		usleep(30000);
	for (uint32_t i = 0; i < N; i++)
		if (rank->rank == 0 ? send_one(rank, 1, i, data, 8, &mine[i]) :
			recv_one(rank, 0, i, data, 8, &mine[i]))
			abort();
	for (uint32_t i = 0; i < N; i++)
		until(rank, &mine[i]);
}

static void test_full_asleep(void **state)
{
	struct job job;

	(void)state;
	begin(&job, 2, NULL, fill_asleep);
	run_threads(&job);
	assert_int_equal(engine_of(&job, 0)->n_queued, 0);
	end(&job);
}

/* Rank 2 reads nothing, so no slot is free of what rank 0 sends to both: it sleeps
 * until rank 1 has read one. */
static void share_asleep(struct rank *rank)
{
	static const uint32_t both[] = { 1, 2 };
	struct tauti_shm *it = rank->engine.context;
	uint64_t n = TAUTI_SHM_MOST_SLOTS / 2;
	unsigned char *data = calloc(1, BIG);
	struct event event = { .request.done = note };

	it->spin_ns = 0;
	it->n_yields = 0;
	for (uint64_t i = 0; rank->rank == 0 && i < n; i++)
		if (rank->engine.table->send(it, both, 2, i, data, BIG,
				&event.request, NULL))
			abort();
	if (rank->rank == 0 && send_one(rank, 1, n, data, BIG, &event))
		abort();
	if (rank->rank == 1) {
		usleep(30000);
		if (recv_one(rank, 0, n, data, BIG, &event))
			abort();
	}
	if (rank->rank < 2)
		until(rank, &event);
	free(data);
}

static void test_share_asleep(void **state)
{
	struct job job;

	(void)state;
	begin(&job, 3, NULL, share_asleep);
	run_threads(&job);
	assert_int_equal(engine_of(&job, 0)->n_queued, 0);
	assert_int_equal(engine_of(&job, 0)->n_free, TAUTI_SHM_MOST_SLOTS / 2 - 1);
	end(&job);
}

static void wait_until_it_holds(const struct tauti_shm_bell *bell)
{
	do /* it may be awake once more, for the one before */
		usleep(2000);
	while (!(atomic_load(&bell->sleep) & TAUTI_SHM_HOLDS));
}

/* Rank 1 sleeps until the last message comes, and holds all slots of rank 0, which
 * sends the next one only then, and sleeps until it may. */
static void hold_asleep(struct rank *rank)
{
	enum { N = 2 * TAUTI_SHM_MOST_SLOTS };
	struct tauti_shm *it = rank->engine.context;
	unsigned char *data = calloc(1, BIG);
	struct event events[N];

	it->spin_ns = 0;
	it->n_yields = 0;
	for (uint32_t i = 0; rank->rank == 0 && i < N; i++) {
		if (i == TAUTI_SHM_MOST_SLOTS)
			wait_until_it_holds(it->peers[1].bell);
		if (send_one(rank, 1, i, data, BIG, &events[i]))
			abort();
	}
	for (uint32_t i = 0; rank->rank == 0 && i < N; i++)
		until(rank, &events[i]);
	for (uint32_t i = N; rank->rank == 1 && i-- > 0;) {
		if (recv_one(rank, 0, i, data, BIG, &events[i]))
			abort();
		until(rank, &events[i]);
	}
	free(data);
}

static void test_holds_asleep(void **state)
{
	struct job job;

	(void)state;
	for (int i = 0; i < 10; i++) {
		begin(&job, 2, NULL, hold_asleep);
		run_threads(&job);
		assert_int_equal(engine_of(&job, 0)->bell->full, 0);
		assert_int_equal(engine_of(&job, 1)->come.n, 0);
		end(&job);
	}
}

static void *wake_it(void *context)
{
	struct rank *rank = context;

	rank->engine.table->wake(rank->engine.context);
	return NULL;
}

/* A wake() before counts; one meanwhile ends it; time ends it. */
static void test_wake(void **state)
{
	struct job job;
	struct rank *rank = &job.ranks[0];
	pthread_t thread;

	(void)state;
	make(&job, 2);
	engine_of(&job, 0)->spin_ns = 0;
	engine_of(&job, 0)->n_yields = 0;
	wake_it(rank);
	assert_int_equal(rank->engine.table->wait(rank->engine.context, -1, NULL),
		TAUT_OK);
	for (int i = 0; i < 200; i++) {
		pthread_create(&thread, NULL, wake_it, rank);
		assert_int_equal(rank->engine.table->wait(rank->engine.context,
			-1, NULL), TAUT_OK);
		pthread_join(thread, NULL);
		while (rank->engine.table->wait(rank->engine.context, 0, NULL))
			;
	}
	assert_int_equal(rank->engine.table->wait(rank->engine.context, 1000000,
		NULL), TAUT_OK);
	end(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_forged_numbers),
		cmocka_unit_test(test_fifo_full),
		cmocka_unit_test(test_slots_full),
		cmocka_unit_test(test_multicast),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_idle_of_all),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_mad_reader),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_destroy),
		cmocka_unit_test(test_token),
		cmocka_unit_test(test_full_asleep),
		cmocka_unit_test(test_share_asleep),
		cmocka_unit_test(test_holds_asleep),
		cmocka_unit_test(test_wake),
		cmocka_unit_test(test_no_memory_under_way),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

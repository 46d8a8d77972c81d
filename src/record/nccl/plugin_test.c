/* plugin_test.c - the plugin driven as each version of NCCL does it, on a clock
 * of our own, so that every sum is known beforehand. */
#include <sys/stat.h>

#include "record/log.h"
#include "record/nccl/plugin_test.h"

/* --- the three sums, in every version -------------------------------------------------*/

/* A chunk that is sent: 3000 ns the GPU, 1000 the peer, 4000 the network. */
static void drive_send(struct host *h, void *coll)
{
	void *op, *step;

	at(2000);
	op = host_op(h, coll, getpid(), 3, 2, 1);
	assert_non_null(op);
	step = host_step(h, op, 0);
	assert_non_null(step);
	if (h->version == 1) /* two slices are one transfer */
		assert_null(host_step(h, op, 1));
	if (h->version < 4)
		host_state(h, op, HOST_OP_SEND_POSTED, 0, 2);
	host_state(h, step, HOST_SEND_GPU, 0, 0);
	at(5000);
	if (h->version < 4)
		host_state(h, op, HOST_OP_SEND_FIFO, 0, 2);
	else
		host_state(h, step, HOST_SEND_PEER, 0, 0);
	at(5500); /* NCCL tries again and tells it again */
	if (h->version < 4)
		host_state(h, op, HOST_OP_SEND_FIFO, 0, 2);
	else
		host_state(h, step, HOST_SEND_PEER, 0, 0);
	at(6000);
	if (h->version < 4)
		host_state(h, op, HOST_OP_SEND_TRANSMITTED, 65536, 2);
	host_state(h, step, HOST_SEND_WAIT, 65536, 0);
	at(10000);
	host_stop(h, step);
	at(10500);
	host_stop(h, op);
}

/* A chunk that is received: 100 + 200 + 700 the GPU, 5000 the network. */
static void drive_receive(struct host *h, void *coll)
{
	void *op, *step;

	at(2000);
	op = host_op(h, coll, getpid(), 3, 0, 0);
	step = host_step(h, op, 4);
	assert_non_null(step);
	at(2050); /* could not be posted: NCCL starts it again */
	assert_ptr_equal(host_step(h, op, 4), step);
	at(2100);
	if (h->version < 4)
		host_state(h, op, HOST_OP_RECV_POSTED, 1000, 2);
	host_state(h, step, HOST_RECV_WAIT, 0, 0);
	at(7100);
	if (h->version < 4)
		host_state(h, op, HOST_OP_RECV_RECEIVED, 4096, 2);
	host_state(h, step, HOST_RECV_FLUSH, 4096, 0);
	at(7300);
	host_state(h, step, HOST_RECV_GPU, 999, 0);
	at(8000);
	host_stop(h, step);
	host_stop(h, op);
}

static void check_chunk(const struct tauti_log_record *c, int start, int end,
	int gpu, int peer, int network, int bytes)
{
	assert_non_null(c);
	assert_int_equal(c->start_ns, BASE_NS + start);
	assert_int_equal(c->end_ns, BASE_NS + end);
	assert_int_equal(c->u.chunk.gpu_late_ns, gpu);
	assert_int_equal(c->u.chunk.peer_late_ns, peer);
	assert_int_equal(c->u.chunk.network_ns, network);
	assert_int_equal(c->u.chunk.bytes, bytes);
	assert_int_equal(c->u.chunk.channel, 3);
}

static void check_collective(const struct read_log *log,
	const struct tauti_log_record *comm, int version)
{
	int knows = version > 3; /* the communicator at its init */

	assert_string_equal(read_log_name(log, comm->name),
		"AllReduce RING LL128 16ch");
	assert_string_equal(read_log_name(log, comm->u.comm.collective),
		"allreduce");
	assert_string_equal(read_log_name(log, comm->u.comm.dtype), "BFloat16");
	assert_string_equal(read_log_name(log, comm->u.comm.group), "0xabc123");
	assert_string_equal(read_log_name(log, comm->u.comm.group_ranks),
		knows ? "[0, 1, 2, 3]" : "");
	assert_int_equal(comm->u.comm.in_elements, 1 << 20);
	assert_int_equal(comm->u.comm.out_elements, 1 << 20);
	assert_int_equal(comm->u.comm.seq, 41);
	assert_int_equal(comm->u.comm.group_size, knows ? 4 : -1);
	assert_int_equal(comm->u.comm.root, -1);
	assert_int_equal(comm->kind, 12);
	/* From the first operation's start to the last one's end. */
	assert_int_equal(comm->start_ns, BASE_NS + 2000);
	assert_int_equal(comm->end_ns, BASE_NS + 10500);
	assert_true(comm->correlation != 0);
}

static void split_of(int version)
{
	const struct tauti_log_record *sent, *received, *comm;
	struct host h;
	struct read_log log;
	void *coll;

	init(&h, version);
	assert_int_equal(h.mask, HOST_COLL | HOST_P2P | HOST_OP | HOST_STEP);
	assert_non_null(h.context);
	host_group(&h);
	at(1000);
	coll = host_coll(&h, 41, 4, 1 << 20, 9, 0, 16, 1, 1);
	assert_non_null(coll);
	at(1100);
	host_stop(&h, coll); /* enqueued; nothing has happened yet */
	drive_receive(&h, coll);
	drive_send(&h, coll);
	host_finalize(&h);
	log = finish();
	assert_int_equal(log.header.rank, 1);
	assert_int_equal(log.header.world_size, 4);
	assert_string_equal(log.header.source, "nccl");
	assert_true(log.header.closed_ns != 0);
	assert_int_equal(read_log_count(&log, TAUTI_LOG_CHUNK), 2);
	assert_int_equal(read_log_count(&log, TAUTI_LOG_COMM), 1);
	received = read_log_nth(&log, TAUTI_LOG_CHUNK, 0);
	sent = read_log_nth(&log, TAUTI_LOG_CHUNK, 1);
	comm = read_log_nth(&log, TAUTI_LOG_COMM, 0);
	check_chunk(received, 2000, 8000, 1000, -1, 5000, 4096);
	check_chunk(sent, 2000, 10000, 3000, 1000, 4000,
		version == 1 ? -1 : 65536);
	assert_int_equal(received->u.chunk.step, 4);
	assert_int_equal(received->u.chunk.sends, 0);
	assert_int_equal(sent->u.chunk.sends, 1);
	assert_int_equal(sent->u.chunk.peer, version > 3 ? 2 : -1);
	assert_int_equal(received->u.chunk.peer, version > 3 ? 0 : -1);
	assert_string_equal(read_log_name(&log, sent->name),
		version > 3 ? "send" : "send to 2 of the group");
	check_collective(&log, comm, version);
	assert_int_equal(sent->correlation, comm->correlation);
	assert_int_equal(received->correlation, comm->correlation);
	assert_null(read_log_fact(&log, "nccl.lost.handles"));
	assert_null(read_log_fact(&log, "nccl.lost.cut"));
	assert_string_equal(read_log_fact(&log, "nccl.comm"), version > 3 ?
		"0xabc123 rank=1 ranks=4 name=default_pg" :
		"0xabc123 rank=1 ranks=-1 name=default_pg");
	read_log_close(&log);
}

static void splits_are_exact(void **state)
{
	for (int version = 1; version <= HOST_VERSIONS; version++) {
		if (version > 1) {
			teardown(state);
			setup(state);
		}
		split_of(version);
	}
}

/* v1 to v3 sum the bytes of the operation; each step has its difference. */
static void sizes_are_differences(void **state)
{
	struct host h;
	struct read_log log;
	void *op, *steps[3];

	(void)state;
	init(&h, 2);
	op = host_op(&h, host_coll(&h, 0, 4, 1, 7, 0, 1, 1, 2), getpid(), 0, 0,
		1);
	for (int i = 0; i < 3; i++) {
		steps[i] = host_step(&h, op, i);
		host_state(&h, steps[i], HOST_SEND_GPU, 0, 0);
	}
	for (int i = 0; i < 3; i++) { /* 10, 20 and 30 bytes, in order */
		host_state(&h, op, HOST_OP_SEND_FIFO, 0, 0);
		host_state(&h, op, HOST_OP_SEND_TRANSMITTED,
			(uint64_t)(5 * (i + 1) * (i + 2)), 0);
		host_state(&h, steps[i], HOST_SEND_WAIT, 0, 0);
	}
	for (int i = 0; i < 3; i++)
		host_stop(&h, steps[i]);
	log = finish();
	for (int i = 0; i < 3; i++) {
		const struct tauti_log_record *chunk =
			read_log_nth(&log, TAUTI_LOG_CHUNK, (uint64_t)i);

		assert_int_equal(chunk->u.chunk.step, i);
		assert_int_equal(chunk->u.chunk.bytes, 10 * (i + 1));
	}
	read_log_close(&log);
}

/* --- sends, receives, kernels -----------------------------------------------------------*/

static void pairs_are_counted(void **state)
{
	struct host h;
	struct read_log log;
	const struct tauti_log_record *c;
	/* function, peer, and what it must be: number, from, to */
	static const int calls[][5] = { { 6, 2, 0, 1, 2 }, { 6, 3, 0, 1, 3 },
		{ 7, 2, 0, 2, 1 }, { 6, 2, 1, 1, 2 }, { 7, 2, 1, 2, 1 },
		{ 6, 99, -1, 1, -1 } };
	enum { CALLS = sizeof calls / sizeof *calls };

	(void)state;
	init(&h, 6);
	for (int i = 0; i < CALLS; i++)
		host_stop(&h, host_p2p(&h, calls[i][0], 8, 7, calls[i][1]));
	log = finish();
	assert_int_equal(read_log_count(&log, TAUTI_LOG_COMM), CALLS);
	for (int i = 0; i < CALLS; i++) {
		c = read_log_nth(&log, TAUTI_LOG_COMM, (uint64_t)i);
		assert_int_equal(c->u.comm.seq, calls[i][2]);
		assert_int_equal(c->u.comm.src, calls[i][3]);
		assert_int_equal(c->u.comm.dst, calls[i][4]);
		assert_string_equal(read_log_name(&log, c->u.comm.collective),
			calls[i][0] == 6 ? "send" : "recv");
	}
	read_log_close(&log);
}

static void elements_follow_the_function(void **state)
{
	struct host h;
	struct read_log log;
	static const int expected[][4] = { /* function, in, out, root */
		{ 0, 100, 100, 2 }, { 1, 100, 100, 2 }, { 2, 100, 400, -1 },
		{ 3, 400, 100, -1 }, { 4, 100, 100, -1 } };

	(void)state;
	init(&h, 5);
	for (int i = 0; i < 5; i++)
		host_coll(&h, 0, expected[i][0], 100, 7, 2, 1, 0, 0);
	host_coll(&h, 0, 2, SIZE_MAX, 7, 2, 1, 0, 0);
	log = finish();
	for (int i = 0; i < 5; i++) {
		const struct tauti_log_record *c =
			read_log_nth(&log, TAUTI_LOG_COMM, (uint64_t)i);

		assert_int_equal(c->u.comm.in_elements, expected[i][1]);
		assert_int_equal(c->u.comm.out_elements, expected[i][2]);
		assert_int_equal(c->u.comm.root, expected[i][3]);
	}
	assert_int_equal(read_log_nth(&log, TAUTI_LOG_COMM, 5)
		->u.comm.out_elements, -1);
	read_log_close(&log);
}

/* Without a network the kernel's channels tell the time; the GPU's timer tells
 * how long, and where it says zero the host's clock does. */
static void kernels_end_collectives(void **state)
{
	struct host h;
	struct read_log log;
	void *coll, *first, *second;

	(void)state;
	setenv("TAUT_NCCL_EVENTS", "coll,kernel", 1);
	init(&h, 4);
	assert_int_equal(h.mask, HOST_COLL | HOST_P2P | HOST_KERNEL);
	for (int zero = 0; zero < 2; zero++) {
		at(10000 * zero + 100);
		coll = host_coll(&h, 0, 4, 8, 7, 0, 2, 1, 0);
		host_stop(&h, coll);
		at(10000 * zero + 1000);
		first = host_kernel(&h, coll, 0, zero ? 0 : 777000);
		second = host_kernel(&h, coll, 1, zero ? 0 : 777100);
		at(10000 * zero + 3000);
		host_state(&h, first, HOST_KERNEL_STOP, zero ? 0 : 779500, 0);
		host_stop(&h, first);
		at(10000 * zero + 3500);
		host_state(&h, second, HOST_KERNEL_STOP, zero ? 0 : 779600, 0);
		host_stop(&h, second);
	}
	log = finish();
	/* 2500 back from 3000. */
	assert_int_equal(read_log_nth(&log, TAUTI_LOG_COMM, 0)->start_ns,
		BASE_NS + 500);
	assert_int_equal(read_log_nth(&log, TAUTI_LOG_COMM, 0)->end_ns,
		BASE_NS + 3500);
	assert_int_equal(read_log_nth(&log, TAUTI_LOG_COMM, 1)->start_ns,
		BASE_NS + 11000);
	assert_int_equal(read_log_nth(&log, TAUTI_LOG_COMM, 1)->end_ns,
		BASE_NS + 13500);
	read_log_close(&log);
}

/* Enqueued is not over: a collective is written when the next launch has come
 * to an end on the device, with all that came in between. */
static void collectives_wait_for_their_parts(void **state)
{
	struct host h;
	struct read_log log;
	void *colls[3], *ops[3];

	(void)state;
	init(&h, 7);
	for (int i = 0; i < 3; i++) {
		at(1000 * i);
		host_group(&h);
		colls[i] = host_coll(&h, (uint64_t)i, 4, 8, 7, 0, 1, 1, 2);
		host_stop(&h, colls[i]);
	}
	for (int i = 0; i < 3; i++) {
		at(100000 + 1000 * i);
		ops[i] = host_op(&h, colls[i], getpid(), 0, 0, 1);
		at(100500 + 1000 * i);
		host_stop(&h, ops[i]);
		/* A second channel begins after the first has ended. */
		if (i < 2) {
			ops[i] = host_op(&h, colls[i], getpid(), 1, 0, 1);
			at(100900 + 1000 * i);
			host_stop(&h, ops[i]);
		}
	}
	log = open_log_of("rank1");
	assert_int_equal(read_log_count(&log, TAUTI_LOG_COMM), 2);
	for (int i = 0; i < 2; i++) {
		const struct tauti_log_record *c =
			read_log_nth(&log, TAUTI_LOG_COMM, (uint64_t)i);

		assert_int_equal(c->u.comm.seq, i);
		assert_int_equal(c->start_ns, BASE_NS + 100000 + 1000 * i);
		assert_int_equal(c->end_ns, BASE_NS + 100900 + 1000 * i);
	}
	read_log_close(&log);
	log = finish();
	assert_int_equal(read_log_count(&log, TAUTI_LOG_COMM), 3);
	read_log_close(&log);
}

/* Two that overlap are on two lanes, each with its name; those of chunks are
 * marked. */
static void lanes_do_not_overlap(void **state)
{
	const struct tauti_log_record *c[3], *lane;
	struct host h;
	struct read_log log;
	void *colls[3], *ops[3];

	(void)state;
	init(&h, 6);
	for (int i = 0; i < 3; i++) {
		colls[i] = host_coll(&h, (uint64_t)i, 4, 8, 7, 0, 1, 1, 2);
		host_stop(&h, colls[i]);
	}
	for (int i = 0; i < 3; i++) { /* 0..1500, 1000..2500, 2000..3500 */
		at(1000 * i);
		ops[i] = host_op(&h, colls[i], getpid(), 0, 0, 1);
		at(1000 * i + 500);
		if (i)
			host_stop(&h, ops[i - 1]);
	}
	at(3500);
	host_stop(&h, ops[2]);
	log = finish();
	for (uint64_t i = 0; i < 3; i++)
		c[i] = read_log_nth(&log, TAUTI_LOG_COMM, i);
	assert_int_equal(c[1]->start_ns, BASE_NS + 1000);
	assert_true(c[0]->lane != c[1]->lane);
	assert_true(c[0]->lane == c[2]->lane);
	assert_int_equal(read_log_count(&log, TAUTI_LOG_LANE), 3);
	lane = read_log_nth(&log, TAUTI_LOG_LANE, 0);
	assert_int_equal(lane->kind, TAUTI_LOG_KIND_CHUNK);
	assert_string_equal(read_log_name(&log, lane->name),
		"NCCL default_pg 0xabc123 channel 0 send");
	lane = read_log_nth(&log, TAUTI_LOG_LANE, 1);
	assert_int_equal(lane->kind, 0);
	assert_int_equal(lane->lane, c[0]->lane);
	assert_string_equal(read_log_name(&log, lane->name),
		"NCCL default_pg 0xabc123");
	read_log_close(&log);
}

/* --- the window --------------------------------------------------------------------------*/

static void nothing_is_recorded_outside_the_window(void **state)
{
	struct host h;
	struct read_log log;
	void *inside, *op, *step;

	(void)state;
	setenv("TAUT_NCCL_ALWAYS", "0", 1);
	setenv("TAUT_NCCL_EVENTS", "step kernel", 1);
	init(&h, 6);
	assert_int_equal(h.mask & HOST_KERNEL, 0);
	host_group(&h);
	assert_null(host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2));
	assert_null(host_op(&h, NULL, getpid(), 0, 0, 1));
	assert_null(host_p2p(&h, 6, 8, 7, 2)); /* counts all the same */
	tauti_nccl_recording = 1;
	host_group(&h);
	assert_int_equal(h.mask & HOST_KERNEL, HOST_KERNEL);
	inside = host_coll(&h, 1, 4, 8, 7, 0, 1, 1, 2);
	host_stop(&h, inside);
	host_stop(&h, host_p2p(&h, 6, 8, 7, 2));
	tauti_nccl_recording = 0;
	host_group(&h);
	assert_int_equal(h.mask & HOST_KERNEL, 0);
	/* What was begun inside is followed to its end. */
	op = host_op(&h, inside, getpid(), 0, 0, 1);
	step = host_step(&h, op, 0);
	assert_non_null(step);
	host_stop(&h, step);
	host_stop(&h, op);
	assert_null(host_coll(&h, 2, 4, 8, 7, 0, 1, 1, 2));
	log = finish();
	assert_int_equal(read_log_count(&log, TAUTI_LOG_CHUNK), 1);
	assert_int_equal(read_log_count(&log, TAUTI_LOG_COMM), 2);
	assert_int_equal(read_log_nth(&log, TAUTI_LOG_COMM, 0)->u.comm.seq, 1);
	assert_int_equal(read_log_nth(&log, TAUTI_LOG_COMM, 1)->u.comm.seq, 1);
	/* A step without any state: its parts are not known. */
	assert_int_equal(read_log_nth(&log, TAUTI_LOG_CHUNK, 0)
		->u.chunk.gpu_late_ns, -1);
	read_log_close(&log);
}

/* Who gathers the ranks takes a log with records for a recording. */
static void a_closed_window_leaves_an_empty_log(void **state)
{
	struct host h;
	struct read_log log;

	(void)state;
	setenv("TAUT_NCCL_ALWAYS", "0", 1);
	init(&h, 6);
	host_group(&h);
	host_stop(&h, host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2));
	host_stop(&h, host_p2p(&h, 6, 8, 7, 2));
	host_stop(&h, (void *)0x123); /* a loss */
	host_finalize(&h);
	log = finish();
	assert_int_equal(log.header.reserved, 0);
	assert_true(log.header.closed_ns != 0);
	read_log_close(&log);
}

/* With PXN another process's operations come, with its handles and its context;
 * they may even have the numbers of some of ours. */
static void handles_of_others_are_not_followed(void **state)
{
	struct host h;
	struct read_log log;
	void *coll, *op, *step;

	(void)state;
	init(&h, 6);
	coll = host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2);
	host_stop(&h, coll);
	op = host_op(&h, coll, getpid() + 1, 5, 3, 1);
	assert_non_null(op);
	step = host_step(&h, op, 0);
	host_state(&h, step, HOST_SEND_GPU, 0, 0);
	at(500);
	host_stop(&h, step);
	host_stop(&h, op);
	h.context = (void *)0x7f0012345678;
	op = host_op(&h, (void *)0x7f0012345690, getpid() + 1, 5, 3, 1);
	host_stop(&h, op);
	log = finish();
	assert_int_equal(read_log_nth(&log, TAUTI_LOG_CHUNK, 0)->correlation, 0);
	assert_int_equal(read_log_nth(&log, TAUTI_LOG_CHUNK, 0)->u.chunk.peer,
		-1);
	/* The collective has not heard of it. */
	assert_int_equal(read_log_nth(&log, TAUTI_LOG_COMM, 0)->end_ns, BASE_NS);
	read_log_close(&log);
}

/* A CUDA graph tells its collectives once and its operations at each launch. */
static void graphs_keep_their_correlation(void **state)
{
	struct host h;
	struct read_log log;
	void *coll, *next, *op;
	uint32_t number;

	(void)state;
	init(&h, 6);
	coll = host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2);
	host_stop(&h, coll);
	for (int launch = 0; launch < 3; launch++) {
		op = host_op(&h, coll, getpid(), 0, 0, 1);
		host_stop(&h, host_step(&h, op, 0));
		host_stop(&h, op);
		host_group(&h); /* lets the first be written */
		next = host_coll(&h, 1, 4, 8, 7, 0, 1, 1, 2);
		host_stop(&h, next);
		host_stop(&h, host_op(&h, next, getpid(), 0, 0, 1));
	}
	log = finish();
	number = read_log_nth(&log, TAUTI_LOG_COMM, 0)->correlation;
	assert_int_equal(read_log_count(&log, TAUTI_LOG_CHUNK), 3);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(read_log_nth(&log, TAUTI_LOG_CHUNK, i)
			->correlation, number);
	read_log_close(&log);
}

/* --- ranks ---------------------------------------------------------------------------------------*/

static void the_rank_may_come_late(void **state)
{
	struct host h;
	struct read_log log;

	(void)state;
	unsetenv("RANK");
	unsetenv("WORLD_SIZE");
	assert_int_equal(host_init(&h, plugin_of(5), 5, "pg", 7, 8, 5), 0);
	host_stop(&h, host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2));
	tauti_plugin_end();
	log = open_log_of("rank5");
	assert_int_equal(log.header.rank, 5);
	assert_int_equal(log.header.world_size, 8);
	assert_int_equal(read_log_nth(&log, TAUTI_LOG_COMM, 0)
		->u.comm.group_size, 8);
	read_log_close(&log);
}

static void in_slurm(const char *rank, const char *ranks, const char *step)
{
	unsetenv("RANK");
	unsetenv("WORLD_SIZE");
	setenv("SLURM_PROCID", rank, 1);
	setenv("SLURM_NTASKS", ranks, 1);
	if (step)
		setenv("SLURM_STEP_ID", step, 1);
}

/* One communicator; then the log is where it belongs, and nowhere else. */
static void is_rank(int rank, int n_ranks, int want, int want_world)
{
	char inner[32];
	struct read_log log;
	struct host h;

	assert_int_equal(host_init(&h, plugin_of(5), 5, "pg", 7, n_ranks, rank),
		0);
	host_stop(&h, host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2));
	tauti_plugin_end();
	snprintf(inner, sizeof inner, "rank%d", want);
	log = open_log_of(inner);
	assert_int_equal(log.header.rank, want);
	assert_int_equal(log.header.world_size, want_world);
	read_log_close(&log);
}

/* One task of SLURM that starts all processes tells each of them its own rank. */
static void a_task_is_not_a_rank(void **state)
{
	(void)state;
	in_slurm("0", "1", "0");
	is_rank(5, 8, 5, 8);
}

static void ranks_of_a_task_that_claims_them_all(void **state)
{
	(void)state;
	in_slurm("0", "8", "0");
	is_rank(5, 8, 5, 8);
}

static void a_task_of_its_own_is_a_rank(void **state)
{
	(void)state;
	in_slurm("5", "8", "0");
	is_rank(1, 2, 5, 8);
}

/* As in the script of a job, which is no task. */
static void outside_of_a_step_slurm_tells_nothing(void **state)
{
	(void)state;
	in_slurm("0", "8", NULL);
	is_rank(1, 2, 1, 2);
}

static void torchrun_knows_better_than_slurm(void **state)
{
	(void)state;
	in_slurm("0", "1", "0");
	setenv("RANK", "3", 1);
	setenv("WORLD_SIZE", "4", 1);
	is_rank(1, 4, 3, 4);
}

/* Of another process, in a container of its own. */
static void a_log_that_is_there_stays(void **state)
{
	char path[256], own[256], name[128];
	struct host h;
	FILE *other;

	(void)state;
	unsetenv("RANK");
	snprintf(path, sizeof path, "%s/rank5", folder);
	assert_int_equal(mkdir(path, 0777), 0);
	snprintf(path, sizeof path, "%s/rank5/nccl-%ld.tautlog", folder,
		(long)getpid());
	other = fopen(path, "w");
	assert_non_null(other);
	fclose(other);
	assert_int_equal(host_init(&h, plugin_of(5), 5, "pg", 7, 8, 5), 0);
	host_stop(&h, host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2));
	tauti_plugin_end();
	tauti_log_process_name(name, sizeof name);
	snprintf(own, sizeof own, "%s/processes/nccl-%s.tautlog", folder, name);
	assert_int_equal(access(own, F_OK), 0);
	other = fopen(path, "r");
	assert_int_equal(fgetc(other), EOF);
	fclose(other);
}

/* v1 to v3 never tell it: the log stays among the processes. */
static void the_rank_may_never_come(void **state)
{
	char name[128], path[256];
	struct host h;
	struct read_log log;

	(void)state;
	unsetenv("RANK");
	init(&h, 2);
	host_stop(&h, host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2));
	tauti_plugin_end();
	tauti_log_process_name(name, sizeof name);
	snprintf(path, sizeof path, "%s/processes/nccl-%s.tautlog", folder, name);
	log = read_log_open(path);
	assert_int_equal(log.header.rank, -1);
	assert_int_equal(read_log_count(&log, TAUTI_LOG_COMM), 1);
	read_log_close(&log);
}

/* In a smaller group ranks are the group's, which we do not translate. */
static void ranks_of_other_groups_are_not_global(void **state)
{
	struct host h;
	struct read_log log;
	const struct tauti_log_record *c;
	void *op;

	(void)state;
	assert_int_equal(host_init(&h, plugin_of(6), 6, "tp", 9, 2, 1), 0);
	host_stop(&h, host_coll(&h, 0, 0, 8, 7, 1, 1, 1, 2));
	op = host_op(&h, host_p2p(&h, 6, 8, 7, 0), getpid(), 0, 0, 1);
	host_stop(&h, host_step(&h, op, 0));
	log = finish();
	c = read_log_nth(&log, TAUTI_LOG_COMM, 0);
	assert_int_equal(c->u.comm.root, -1);
	assert_int_equal(c->u.comm.group_size, 2);
	c = read_log_nth(&log, TAUTI_LOG_CHUNK, 0);
	assert_int_equal(c->u.chunk.peer, -1);
	assert_string_equal(read_log_name(&log, c->name),
		"send to 0 of the group");
	assert_string_equal(read_log_fact(&log, "nccl.comm"),
		"0x9 rank=1 ranks=2 name=tp");
	read_log_close(&log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(splits_are_exact),
		TEST(sizes_are_differences),
		TEST(pairs_are_counted),
		TEST(elements_follow_the_function),
		TEST(kernels_end_collectives),
		TEST(collectives_wait_for_their_parts),
		TEST(lanes_do_not_overlap),
		TEST(nothing_is_recorded_outside_the_window),
		TEST(a_closed_window_leaves_an_empty_log),
		TEST(handles_of_others_are_not_followed),
		TEST(graphs_keep_their_correlation),
		TEST(the_rank_may_come_late),
		TEST(a_task_is_not_a_rank),
		TEST(ranks_of_a_task_that_claims_them_all),
		TEST(a_task_of_its_own_is_a_rank),
		TEST(outside_of_a_step_slurm_tells_nothing),
		TEST(torchrun_knows_better_than_slurm),
		TEST(a_log_that_is_there_stays),
		TEST(the_rank_may_never_come),
		TEST(ranks_of_other_groups_are_not_global),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

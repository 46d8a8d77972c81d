/* Two worlds: what is played here is what communicators do. They run over an engine
 * whose messages take a latency on a clock of its own, and of two ranks also a link
 * each way; the time that comes out must be the played one, to the nanosecond. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include <taut/play.h>

enum { MOST = 8, JOBS = 1 << 14, LATENCY = 700 };

struct job { /* a message, of which both sides may be known */
	uint32_t from, to;
	uint64_t tag;
	const void *data;
	void *into;
	size_t bytes;
	struct sent *sent;
	struct taut_coll_request *asked; /* by the receiver */
	int64_t there_ns; /* -1: not on its way */
};

struct sent {
	struct taut_coll_request *request;
	uint32_t rank, n_left;
};

struct endpoint {
	struct world *world;
	uint32_t rank;
};

struct world {
	int64_t now_ns;
	uint32_t n_jobs, n_over;
	struct job jobs[JOBS];
	struct sent sents[JOBS];
	uint32_t n_sents;
	struct {
		uint32_t rank;
		struct taut_coll_request *request;
		int64_t at_ns;
	} over[JOBS]; /* sends, and when they have left */
	struct endpoint at[MOST];
	uint32_t n_done;
	double byte_ns;       /* on the way from one to another */
	int64_t free_ns[MOST]; /* of two ranks: the sender's link */
};

static struct job *find(struct world *w, uint32_t from, uint32_t to,
	uint64_t tag, bool asked)
{
	for (uint32_t i = 0; i < w->n_jobs; i++) {
		struct job *j = &w->jobs[i];

		if (j->there_ns < 0 && j->from == from && j->to == to &&
			j->tag == tag && (j->asked != NULL) == asked)
			return j;
	}
	assert_true(w->n_jobs < JOBS);
	w->jobs[w->n_jobs] = (struct job){ .from = from, .to = to, .tag = tag,
		.there_ns = -1 };
	return &w->jobs[w->n_jobs++];
}

/* Both sides are there: it leaves, and is there a latency later. */
static void leave(struct world *w, struct job *j)
{
	int64_t *free_ns = &w->free_ns[j->from];

	if (*free_ns < w->now_ns)
		*free_ns = w->now_ns;
	*free_ns += (int64_t)((double)j->bytes * w->byte_ns);
	j->there_ns = *free_ns + LATENCY;
	memcpy(j->into, j->data, j->bytes);
	if (--j->sent->n_left)
		return;
	assert_true(w->n_over < JOBS);
	w->over[w->n_over].at_ns = *free_ns;
	w->over[w->n_over].rank = j->sent->rank;
	w->over[w->n_over++].request = j->sent->request;
}

static taut_status engine_send(void *engine, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, size_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct endpoint *at = engine;
	struct world *w = at->world;
	struct sent *sent = &w->sents[w->n_sents++];

	(void)err;
	assert_true(w->n_sents <= JOBS);
	*sent = (struct sent){ request, at->rank, n_peers };
	for (uint32_t i = 0; i < n_peers; i++) {
		struct job *j = find(w, at->rank, peers[i], tag, true);

		j->data = data;
		j->sent = sent;
		if (j->asked) {
			assert_int_equal(j->bytes, bytes);
			leave(w, j);
		}
		j->bytes = bytes;
	}
	return TAUT_OK;
}

static taut_status engine_recv(void *engine, uint32_t peer, uint64_t tag,
	void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct endpoint *at = engine;
	struct job *j = find(at->world, peer, at->rank, tag, false);

	(void)err;
	j->into = data;
	j->asked = request;
	if (j->sent) {
		assert_int_equal(j->bytes, bytes);
		leave(at->world, j);
	}
	j->bytes = bytes;
	return TAUT_OK;
}

static void give_sends(struct world *w, uint32_t rank)
{
	for (uint32_t i = 0; i < w->n_over; i++) {
		struct taut_coll_request *request = w->over[i].request;

		if (w->over[i].rank != rank || !request ||
			w->over[i].at_ns > w->now_ns)
			continue;
		w->over[i].request = NULL;
		request->done(request, TAUT_OK);
	}
}

static taut_status engine_progress(void *engine, struct taut_error *err)
{
	struct endpoint *at = engine;
	struct world *w = at->world;

	(void)err;
	give_sends(w, at->rank);
	for (uint32_t i = 0; i < w->n_jobs; i++) {
		struct job *j = &w->jobs[i];
		struct taut_coll_request *request = j->asked;

		if (j->to != at->rank || j->there_ns < 0 || !request ||
			j->there_ns > w->now_ns)
			continue;
		j->asked = NULL;
		request->done(request, TAUT_OK);
	}
	return TAUT_OK;
}

static taut_status engine_wait(
	void *engine, int64_t timeout_ns, struct taut_error *err)
{
	(void)engine;
	(void)timeout_ns;
	(void)err;
	return TAUT_OK;
}

static void engine_nothing(void *engine)
{
	(void)engine;
}

static bool engine_arrived(void *engine, uint64_t tag, uint64_t mask)
{
	(void)engine;
	(void)tag;
	(void)mask;
	return false;
}

static const struct taut_coll_engine engine = { .name = "clock",
	.send = engine_send, .recv = engine_recv,
	.progress = engine_progress, .wait = engine_wait,
	.wake = engine_nothing, .arrived = engine_arrived,
	.destroy = engine_nothing };

/* --- a clock for communicators -----------------------------------------------------*/

/* When the next message has left or is there; it may be now. */
static int64_t next_ns(const struct world *w)
{
	int64_t next = INT64_MAX;

	for (uint32_t i = 0; i < w->n_over; i++)
		if (w->over[i].request && w->over[i].at_ns < next)
			next = w->over[i].at_ns;
	for (uint32_t i = 0; i < w->n_jobs; i++)
		if (w->jobs[i].there_ns >= 0 && w->jobs[i].asked &&
			w->jobs[i].there_ns < next)
			next = w->jobs[i].there_ns;
	return next;
}

static void done(void *context, taut_status status)
{
	struct world *w = context;

	assert_int_equal(status, TAUT_OK);
	w->n_done++;
}

static void must(taut_status status, const struct taut_error *err)
{
	if (status)
		fail_msg("%s", err->message);
}

static void clear(struct world *w)
{
	w->now_ns = 0;
	w->n_jobs = w->n_over = w->n_sents = w->n_done = 0;
	memset(w->free_ns, 0, sizeof w->free_ns);
}

/* All that ranks do takes nothing: they go on until nobody has anything to do. */
static int64_t carry_out(uint32_t n, const uint32_t *host_of, double byte_ns,
	const struct taut_play_call *play)
{
	static struct world w; /* too large for a stack */
	static float in[MOST][4000], out[MOST][4000];
	struct taut_comm *comms[MOST];
	struct taut_error err;

	clear(&w);
	w.byte_ns = byte_ns;
	assert_true(play->count <= 4000);
	for (uint32_t r = 0; r < n; r++) {
		struct taut_coll_call call = { .verb = play->verb,
			.input = in[r], .output = out[r],
			.count = play->count, .root = play->root,
			.way = play->way, .pass_bytes = play->pass_bytes,
			.passes_at_once = play->passes_at_once };

		w.at[r] = (struct endpoint){ &w, r };
		must(taut_comm_create_over(&engine, &w.at[r], r, n, host_of,
			&comms[r], &err), &err);
		must(taut_comm_start(comms[r], &call, done, &w, &err), &err);
	}
	while (w.n_done < n) {
		int64_t next = next_ns(&w);

		assert_true(next < INT64_MAX);
		w.now_ns = next;
		for (uint32_t r = 0; r < n; r++)
			must(taut_comm_progress(comms[r], &err), &err);
	}
	for (uint32_t r = 0; r < n; r++)
		taut_comm_destroy(comms[r]);
	return w.now_ns;
}

/* --- the test ---------------------------------------------------------------------------*/

/* byte_ns: of two ranks alone, for of more the links would be shared. */
static void check(uint32_t n, uint32_t hosts, double byte_ns,
	const struct taut_play_call *call)
{
	uint32_t host_of[MOST];
	struct taut_play_host links[MOST];
	struct taut_play_net net = { .n_ranks = n, .n_hosts = hosts,
		.host_of = host_of, .hosts = links, .network_ns = LATENCY,
		.local_ns = LATENCY };
	struct taut_play_result r;
	struct taut_error err;
	int64_t ns;

	for (uint32_t i = 0; i < n; i++)
		host_of[i] = i % hosts;
	for (uint32_t i = 0; i < hosts; i++)
		links[i] = (struct taut_play_host){
			byte_ns > 0 ? 1 / byte_ns : 0, 0, 0 };
	must(taut_play(&net, call, &r, &err), &err);
	ns = carry_out(n, host_of, byte_ns, call);
	if (ns != r.time_ns)
		fail_msg("%s by %s of %u ranks on %u hosts, %llu elements in "
			"%u passes, %u at once: carried out in %lld, played in "
			"%lld", taut_coll_verb_name(call->verb),
			taut_coll_way_name(call->way), n, hosts,
			(unsigned long long)call->count, r.n_passes,
			call->passes_at_once, (long long)ns,
			(long long)r.time_ns);
}

static void check_passes(uint32_t n, uint32_t hosts,
	enum taut_coll_verb verb, enum taut_coll_way way)
{
	for (uint32_t at_once = 1; at_once <= 3; at_once++) {
		struct taut_play_call call = { .verb = verb, .way = way,
			.count = 900, .element_bytes = 4, .root = n - 1,
			.pass_bytes = 900 * 4 / 5,
			.passes_at_once = at_once };

		check(n, hosts, 0, &call);
		if (n == 2 && hosts == 2) {
			check(n, hosts, 2, &call);
			check(n, hosts, 0.25, &call);
		}
		call.count = n + 1; /* blocks of one and two */
		check(n, hosts, 0, &call);
		call.count = 1; /* and of none */
		check(n, hosts, 0, &call);
	}
}

static void test_as_communicators_do(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= MOST; n++)
		for (uint32_t hosts = 1; hosts <= 3 && hosts <= n; hosts++)
			for (int verb = 0; verb < TAUT_VERBS; verb++)
				for (int way = TAUT_WAY_DIRECT;
					way < TAUT_WAYS; way++)
					if (taut_coll_has(verb, way))
						check_passes(n, hosts,
							verb, way);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_communicators_do),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

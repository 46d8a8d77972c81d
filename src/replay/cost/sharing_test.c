/* Who uses what, and who stands where. */
#include "tests/support/unit.h"

#include "cost.h"
#include "job_by_hand.h"
#include "tests/support/alloc_fail.h"

enum { RANKS = 4 };

static const struct taut_sharing *sharing_of(struct job *job)
{
	struct taut_sharing *sharing;
	struct taut_error err;

	if (taut_sharing_create(&job->graph, &job->site, job->truth, &sharing,
			&err))
		fail_msg("%s", err.message);
	return sharing;
}

static void drop(const struct taut_sharing *sharing)
{
	taut_sharing_destroy((struct taut_sharing *)sharing);
}

static struct job *small_job(void)
{
	return job_create(&(struct job_truth){ .ranks = RANKS, .ways = 1,
		.every = 8, .alpha = 10, .beta = 1 });
}

static void expect_uses(const struct taut_sharing *s, uint32_t flow,
	const uint32_t *resources, uint32_t n)
{
	const struct taut_flow *f = &s->flows[flow];

	assert_int_equal(f->n_uses, n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(s->uses[f->first_use + i].resource,
			resources[i]);
}

static void test_across_hosts(void **state)
{
	(void)state;
	struct job *job = small_job();
	job->truth[0].core = 0.25;
	job->site.hosts[2].up = 0.5;
	job->site.core[3] = 2;
	const struct taut_sharing *s = sharing_of(job);
	assert_int_equal(s->n_resources, 16); /* up, down, local, core */
	assert_int_equal(s->n_flows, job->graph.n_collectives);
	expect_uses(s, 0, (uint32_t[]){ 0, 4, 1, 5, 2, 6, 3, 7, 12, 13, 14,
		15 }, 12);
	expect_uses(s, 1, (uint32_t[]){ 0, 4, 1, 5, 2, 6, 3, 7 }, 8);
	assert_true(s->uses[s->flows[0].first_use].weight == 1);
	assert_true(s->uses[s->flows[0].first_use + 8].weight == 0.25);
	assert_true(s->capacity[2] == 0.5 && s->capacity[15] == 2);
	assert_int_equal(s->flows[0].latency_ns, 10);
	for (uint32_t r = 0; r < RANKS; r++)
		assert_int_equal(s->flow_of[job->member_arrive[r] + 1], 0);
	/* threads compute; the lanes of communication and of joins do not */
	for (uint32_t l = 0; l < job->graph.n_lanes; l++)
		assert_int_equal(s->core_of[l], l < RANKS ? 12 + l : TAUT_NONE);
	drop(s);
	/* a backbone is passed by what each of four hosts sends */
	job->site.backbone = 3;
	s = sharing_of(job);
	assert_int_equal(s->n_resources, 17);
	assert_int_equal(s->uses[s->flows[1].first_use + 8].resource, 16);
	assert_true(s->uses[s->flows[1].first_use + 8].weight == 4);
	assert_true(s->capacity[16] == 3);
	drop(s);
	job_destroy(job);
}

static void test_two_ranks_a_host(void **state)
{
	(void)state;
	struct job *job = small_job();
	job->host_of[1] = 0;
	job->host_of[2] = job->host_of[3] = 1;
	job->site.n_hosts = 2;
	job->hosts[1].local = 3;
	const struct taut_sharing *s = sharing_of(job);
	assert_int_equal(s->n_resources, 12);
	expect_uses(s, 0, (uint32_t[]){ 0, 2, 1, 3 }, 4);
	assert_true(s->capacity[4] == 1 && s->capacity[6] == 3);
	drop(s);
	/* inside of a host, each on its own way */
	job->truth[0].on_network = 0;
	s = sharing_of(job);
	expect_uses(s, 0, (uint32_t[]){ 4, 5, 6, 7 }, 4);
	drop(s);
	job_destroy(job);
}

static void test_nothing_moves(void **state)
{
	(void)state;
	struct job *job = small_job();
	job->truth[0] = (struct taut_transfer){ .core = 1, .on_network = 1 };
	job->truth[1].amount = 0; /* its latency is left */
	const struct taut_sharing *s = sharing_of(job);
	assert_int_equal(s->n_flows, job->graph.n_collectives - 1);
	for (uint32_t r = 0; r < RANKS; r++) {
		assert_int_equal(s->flow_of[job->member_arrive[r] + 1],
			TAUT_NONE);
		assert_int_equal(
			s->flow_of[job->member_arrive[RANKS + r] + 1], 0);
	}
	drop(s);
	job_destroy(job);
}

/* A root that was done before the last one came is not part of the flow. */
static void test_who_does_not_wait(void **state)
{
	(void)state;
	struct job *job = small_job();
	uint32_t join = job->collectives[0].join_op;
	uint32_t root = job->member_arrive[1] + 1;
	uint32_t *to = job->hand->edge_to;
	for (uint32_t i = job->graph.edge_begin[join];
		i < job->graph.edge_begin[join + 1]; i++)
		if (to[i] == root)
			to[i] = job->graph.n_ops - 1; /* some other join */
	const struct taut_sharing *s = sharing_of(job);
	assert_int_equal(s->flow_of[root], TAUT_NONE);
	assert_int_equal(s->flow_of[job->member_arrive[0] + 1], 0);
	drop(s);
	job_destroy(job);
}

static void test_a_device_computes(void **state)
{
	(void)state;
	struct job *job = small_job();
	/* rank 0: its thread becomes a stream; so its other threads do not count;
	 * rank 1: a stream of communication alone makes no device */
	job->hand->lanes.data[0].kind = TAUT_LANE_STREAM;
	job->hand->lanes.data[5].kind = TAUT_LANE_STREAM;
	const struct taut_sharing *s = sharing_of(job);
	assert_int_equal(s->core_of[0], 12);
	assert_int_equal(s->core_of[1], 13);
	assert_int_equal(s->core_of[4], TAUT_NONE);
	assert_int_equal(s->core_of[5], TAUT_NONE);
	drop(s);
	/* a loader's worker has nothing but batches */
	job->hand->lanes.data[0].kind = TAUT_LANE_THREAD;
	((uint8_t *)job->traces[1].kind)[0] = TAUT_KIND_LOAD;
	s = sharing_of(job);
	assert_int_equal(s->core_of[0], 12);
	assert_int_equal(s->core_of[1], TAUT_NONE);
	drop(s);
	job_destroy(job);
}

static void test_sites_that_are_none(void **state)
{
	(void)state;
	struct job *job = small_job();
	struct taut_sharing *s = NULL;
	struct taut_error err;
	job->site.hosts[1].up = 0;
	assert_int_equal(taut_sharing_create(&job->graph, &job->site,
		job->truth, &s, &err), TAUT_EINVAL);
	job->site.hosts[1].up = 1;
	job->site.core[2] = -1;
	assert_int_equal(taut_sharing_create(&job->graph, &job->site,
		job->truth, &s, &err), TAUT_EINVAL);
	job->site.core[2] = 1;
	job->site.host_of[3] = 9;
	assert_int_equal(taut_sharing_create(&job->graph, &job->site,
		job->truth, &s, &err), TAUT_EINVAL);
	job->site.host_of[3] = 3;
	job->site.n_ranks = 3;
	assert_int_equal(taut_sharing_create(&job->graph, &job->site,
		job->truth, &s, &err), TAUT_EINVAL);
	assert_null(s);
	job->site.n_ranks = RANKS;
	taut_status status = TAUT_ENOMEM;
	for (long n = 0; status; n++) {
		alloc_fail_after(n);
		status = taut_sharing_create(
			&job->graph, &job->site, job->truth, &s, &err);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
	}
	taut_sharing_destroy(s);
	taut_sharing_destroy(NULL);
	job_destroy(job);
}

/* --- hosts -----------------------------------------------------------------------------*/

static void expect_hosts(struct job *job, uint32_t n, const uint32_t *host_of)
{
	struct taut_site site;
	struct taut_error err;

	assert_int_equal(tauti_site_init(&job->graph, &site, &err), TAUT_OK);
	assert_int_equal(site.n_hosts, n);
	for (uint32_t r = 0; r < RANKS; r++) {
		assert_int_equal(site.host_of[r], host_of[r]);
		assert_true(site.core[r] == 1);
		assert_true(site.hosts[site.host_of[r]].up == 1);
	}
	assert_true(site.backbone == 0);
	tauti_site_fini(&site);
}

static void test_hosts_by_name(void **state)
{
	(void)state;
	struct job *job = small_job();
	expect_hosts(job, 4, (uint32_t[]){ 0, 1, 2, 3 });
	job->traces[2].host = "a";
	expect_hosts(job, 3, (uint32_t[]){ 0, 1, 0, 2 });
	for (uint32_t r = 0; r < RANKS; r++)
		job->traces[r].host = "";
	expect_hosts(job, 4, (uint32_t[]){ 0, 1, 2, 3 });
	job_destroy(job);
}

static void test_hosts_by_device(void **state)
{
	(void)state;
	struct job *job = small_job();
	for (uint32_t r = 0; r < RANKS; r++) {
		struct taut_lane *lane =
			(struct taut_lane *)job->traces[r].lanes;
		job->traces[r].host = "";
		*lane = (struct taut_lane){ .kind = TAUT_LANE_STREAM,
			.pid = r % 2 };
	}
	expect_hosts(job, 2, (uint32_t[]){ 0, 0, 1, 1 });
	job->traces[3].rank = 7; /* of four ranks a host, the last two */
	job->traces[2].rank = 6;
	((struct taut_lane *)job->traces[3].lanes)->pid = 3;
	((struct taut_lane *)job->traces[2].lanes)->pid = 2;
	expect_hosts(job, 2, (uint32_t[]){ 0, 0, 1, 1 });
	/* each process sees its device alone: nothing is told */
	for (uint32_t r = 0; r < RANKS; r++)
		((struct taut_lane *)job->traces[r].lanes)->pid = 0;
	expect_hosts(job, 4, (uint32_t[]){ 0, 1, 2, 3 });
	job_destroy(job);
}

static void test_hosts_of_nobody(void **state)
{
	(void)state;
	struct job *job = small_job();
	job->graph.run = NULL;
	expect_hosts(job, 4, (uint32_t[]){ 0, 1, 2, 3 });
	job->graph.run = &job->run;
	/* of a group of eight, four were recorded */
	uint32_t *hosts_of = job_array(job->graph.n_collectives, 4);
	struct taut_error err;
	job->collectives[1].group_size = 8;
	job->host_of[1] = 0;
	assert_int_equal(tauti_site_count(&job->graph, &job->site, hosts_of,
		&err), TAUT_OK);
	assert_int_equal(hosts_of[0], 3);
	assert_int_equal(hosts_of[1], 7);
	free(hosts_of);
	job_destroy(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_across_hosts),
		cmocka_unit_test(test_two_ranks_a_host),
		cmocka_unit_test(test_nothing_moves),
		cmocka_unit_test(test_who_does_not_wait),
		cmocka_unit_test(test_a_device_computes),
		cmocka_unit_test(test_sites_that_are_none),
		cmocka_unit_test(test_hosts_by_name),
		cmocka_unit_test(test_hosts_by_device),
		cmocka_unit_test(test_hosts_of_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

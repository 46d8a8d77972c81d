/* A rank's file, and what the job opened: what is read of them, and what is refused. */
#include "stalls/world_by_hand.h"

#include <unistd.h>

#include "tests/support/alloc_fail.h"

#define HEADER "taut-stalls 1\nrank 1 of 2\nhost a host\nloader tf.data\nunit item\n" \
	"workers 3\ndepth 6\nbatch 32\nitems -1\ndevice 1\n"
#define PHASE "phase 0 cold 20 640 1000 100 2000 64 -1 640 6400"

static const char whole[] = HEADER "cores 8\nfault_ns 2500\nepoch 250\n"
	"phase 0 place 20 640 500 0 500 0 0 0 0\nfaults 0 place 70 0\nothers 0 place 12\n"
	"start 0 cold 77\n"
	PHASE " 1500\nstep 0 cold 50 5 -1\nstep 0 cold 51 6 4\n"
	"phase 1 half 20 320 300 0 300 0 0 0 0\nend\n";

static taut_status parse(const char *text, struct tauti_measured *to, struct taut_error *err)
{
	return tauti_measured_parse(text, strlen(text), "f", to, err);
}

static void test_all_of_it(void **state)
{
	struct tauti_measured m;
	const struct tauti_measured_phase *cold, *place;

	(void)state;
	assert_int_equal(parse(whole, &m, NULL), TAUT_OK);
	assert_int_equal(m.rank, 1);
	assert_int_equal(m.n_ranks, 2);
	assert_string_equal(m.host, "a?host");
	assert_string_equal(m.loader, "tf.data");
	assert_true(m.by_item && m.on_device && m.has_ended);
	assert_int_equal(m.workers, 3);
	assert_int_equal(m.depth, 6);
	assert_int_equal(m.batch, 32);
	assert_int_equal(m.items, -1);
	assert_int_equal(m.cores, 8);
	assert_int_equal(m.fault_ns, 2500);
	assert_int_equal(m.epoch, 250);
	assert_int_equal(m.phases.count, 3);
	cold = tauti_measured_find(&m, 0, TAUT_STALLS_COLD);
	assert_int_equal(cold->wall_ns, 1000);
	assert_int_equal(cold->wait_ns, 100);
	assert_int_equal(cold->cpu_ns, 2000);
	assert_int_equal(cold->own_cpu_ns, 1500);
	assert_int_equal(cold->rchar, 64);
	assert_int_equal(cold->read_bytes, -1);
	assert_int_equal(cold->opened, 640);
	assert_int_equal(cold->opened_bytes, 6400);
	assert_int_equal(cold->n_steps, 2);
	assert_int_equal(m.steps.data[cold->first_step + 1].wall_ns, 51);
	assert_int_equal(m.steps.data[cold->first_step + 1].wait_ns, 6);
	assert_int_equal(m.steps.data[cold->first_step + 1].take_ns, 4);
	assert_int_equal(m.starts.data[0].ns, 77);
	assert_int_equal(cold->own_faults, -1);
	assert_int_equal(cold->worker_faults, -1);
	place = tauti_measured_find(&m, 0, TAUT_STALLS_PLACE);
	assert_int_equal(place->own_cpu_ns, -1);
	assert_int_equal(place->own_faults, 70);
	assert_int_equal(place->worker_faults, 0);
	assert_int_equal(place->others, 12);
	assert_int_equal(cold->others, 0);
	assert_null(tauti_measured_find(&m, 1, TAUT_STALLS_COLD));
	tauti_measured_fini(&m);
}

/* A rank that is killed at any byte: what was whole counts, and a header that was not is
 * said. */
static void test_cut_anywhere(void **state)
{
	size_t header = strlen(HEADER);

	(void)state;
	for (size_t n = 0; n <= strlen(whole); n++) {
		struct tauti_measured m;
		struct taut_error err = { .message = "" };
		taut_status status = tauti_measured_parse(whole, n, "f", &m, &err);

		assert_int_equal(status, n < header ? TAUT_EFORMAT : TAUT_OK);
		assert_true(!m.has_ended || n == strlen(whole));
		tauti_measured_fini(&m);
	}
}

static void refuse(const char *text, const char *expected)
{
	struct tauti_measured m;
	struct taut_error err = { .message = "" };

	assert_int_equal(parse(text, &m, &err), TAUT_EFORMAT);
	assert_string_equal(err.message, expected);
	tauti_measured_fini(&m);
}

static void test_refusals(void **state)
{
	(void)state;
	refuse("", "f:1: expected a line 'rank' before this");
	refuse("hello\n", "f:1: expected 'taut-stalls 1', found 'hello'");
	refuse("taut-stalls 2\n", "f:1: expected version 1, found '2'");
	refuse("taut-stalls 1\nrank 2 of 2\n",
		"f:2: expected more ranks than its number, at most 65536, found '2'");
	refuse("taut-stalls 1\nrank 0 in 2\n",
		"f:2: expected 'of' behind the rank, found 'in'");
	refuse("taut-stalls 1\nhost\n",
		"f:2: expected a host's name of 1 to 255 bytes, found ''");
	refuse("taut-stalls 1\nunit b\001tch\n",
		"f:2: expected batch or item, found 'b?tch'");
	refuse("taut-stalls 1\nbatch 0\n", "f:2: expected 1 to 1048576 samples, found '0'");
	refuse("taut-stalls 1\nbatch 8 8\n",
		"f:2: expected the end of the line, found '8'");
	refuse("taut-stalls 1\nbatch 8\nbatch 8\n",
		"f:3: expected each once, before all phases, found 'batch'");
	refuse("taut-stalls 1\nitems 99999999999999999999999\n", "f:2: expected -1, or up to "
		"2^40 items, found '99999999999999999999999'");
	refuse("taut-stalls 1\n" PHASE "\n", "f:2: expected a line 'rank' before this");
	refuse(HEADER PHASE "\n" PHASE "\n",
		"f:12: expected a phase once a round, found 'cold'");
	refuse(HEADER PHASE "\ncores 2\n",
		"f:12: expected each once, before all phases, found 'cores'");
	refuse(HEADER "phase 0 warm\n",
		"f:11: expected place, half, cached, part or cold, found 'warm'");
	refuse(HEADER "phase 1000 cold\n",
		"f:11: expected a round from 0 to 999, found '1000'");
	refuse(HEADER "phase 0 cold 20 640 -5\n",
		"f:11: expected WALL_NS: 0 to 2^52, found '-5'");
	refuse(HEADER "phase 0 cold 20 640\n",
		"f:11: expected WALL_NS: 0 to 2^52, found ''");
	refuse(HEADER PHASE " 2001\n",
		"f:11: expected OWN_CPU_NS: 0 to CPU_NS, found '2001'");
	refuse(HEADER "phase 0 cold 1 1 1 0 3 0 0 0 0 5\n",
		"f:11: expected OWN_CPU_NS: 0 to CPU_NS, found '5'");
	refuse(HEADER "step 0 cold 1 1 1\n",
		"f:11: expected no more steps than its phase, and behind it, found 'cold'");
	refuse(HEADER "phase 0 cold 1 1 1 0 3 0 0 0 0\nstep 0 cold 1 1 1\nstep 0 cold 1 1 1\n",
		"f:13: expected no more steps than its phase, and behind it, found 'cold'");
	refuse(HEADER "faults 0 cold 1 1\n",
		"f:11: expected faults once, behind their phase, found 'cold'");
	refuse(HEADER PHASE "\nfaults 0 place 1 1\n",
		"f:12: expected faults once, behind their phase, found 'place'");
	refuse(HEADER PHASE "\nfaults 0 cold 1 1\nfaults 0 cold 1 1\n",
		"f:13: expected faults once, behind their phase, found 'cold'");
	refuse(HEADER PHASE "\nothers 0 place 1\n",
		"f:12: expected others once, behind their phase, found 'place'");
	refuse(HEADER PHASE "\nothers 0 cold 1\nothers 0 cold 1\n",
		"f:13: expected others once, behind their phase, found 'cold'");
	refuse(HEADER PHASE "\nothers 0 cold 0\n",
		"f:12: expected BATCHES: 1 to 2^40, found '0'");
	refuse(HEADER PHASE "\nfaults 0 cold 1\n",
		"f:12: expected WORKERS: 0 to 2^40, found ''");
	refuse(HEADER "fault_ns -1\n", "f:11: expected 0 to 2^52 ns, found '-1'");
	refuse(HEADER "end\nend\n", "f:12: expected nothing behind 'end', found 'end'");
	refuse(HEADER "\n", "f:11: expected phase, step, faults, others, start, end, or a "
		"line of the header, found ''");
}

static void test_without_memory(void **state)
{
	struct tauti_measured m;
	taut_status status = TAUT_ENOMEM;
	long n;

	(void)state;
	for (n = 0; status; n++) {
		assert_true(n < 100);
		alloc_fail_after(n);
		status = parse(whole, &m, NULL);
		alloc_fail_never();
		tauti_measured_fini(&m);
	}
	assert_true(n > 3);
}

/* --- what the job opened -----------------------------------------------------------------*/

static void test_files(void **state)
{
	static const char text[] = "100 /a\n20 /b c\n\nx\n5\n7 \n-1 /d\n"
		"99999999999999999999 /e\n0 /f\n300 /a\n12 /cut";
	struct tauti_listed listed;

	(void)state;
	assert_int_equal(tauti_listed_parse(text, sizeof text - 1, &listed, NULL), TAUT_OK);
	assert_int_equal(listed.files.count, 3);
	assert_string_equal(tauti_listed_path(&listed, 0), "/a");
	assert_int_equal(listed.files.data[0].bytes, 300); /* the last that was said */
	assert_string_equal(tauti_listed_path(&listed, 1), "/b c");
	assert_int_equal(listed.files.data[1].bytes, 20);
	assert_string_equal(tauti_listed_path(&listed, 2), "/f");
	tauti_listed_fini(&listed);
}

static void test_files_that_were_loaded(void **state)
{
	static const char text[] = "900 /model\n10 /a\n+20 /b\n+30 /a\n40 /b\n+ /c\n+-1 /d\n";
	struct tauti_listed listed;

	(void)state;
	assert_int_equal(tauti_listed_parse(text, sizeof text - 1, &listed, NULL), TAUT_OK);
	assert_int_equal(listed.files.count, 3);
	assert_false(listed.files.data[0].is_loaded);
	tauti_listed_keep_loaded(&listed);
	assert_int_equal(listed.files.count, 2);
	assert_string_equal(tauti_listed_path(&listed, 0), "/a");
	assert_int_equal(listed.files.data[0].bytes, 30);
	assert_string_equal(tauti_listed_path(&listed, 1), "/b");
	assert_int_equal(listed.files.data[1].bytes, 40);
	tauti_listed_fini(&listed);
	assert_int_equal(tauti_listed_parse("1 /a\n2 /b\n", 10, &listed, NULL), TAUT_OK);
	tauti_listed_keep_loaded(&listed);
	assert_int_equal(listed.files.count, 2);
	tauti_listed_fini(&listed);
}

static void test_files_without_memory(void **state)
{
	struct tauti_listed listed;
	taut_status status = TAUT_ENOMEM;
	long n;

	(void)state;
	for (n = 0; status; n++) {
		assert_true(n < 100);
		alloc_fail_after(n);
		status = tauti_listed_parse("1 /a\n2 /b\n", 10, &listed, NULL);
		alloc_fail_never();
		tauti_listed_fini(&listed);
	}
	assert_true(n > 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_of_it),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_without_memory),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_files_that_were_loaded),
		cmocka_unit_test(test_files_without_memory),
	};
	return cmocka_run_group_tests_name("what a rank wrote", tests, NULL, NULL);
}

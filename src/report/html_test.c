/* The page as bytes: whole, closed in itself, and its columns read back.
 * tests/web/page_test.py opens it in a browser. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <isa-l/igzip_lib.h>

#include "report/html.h"
#include "tests/support/renderer.h"
#include "tests/web/synthetic.h"

static struct synthetic made;

static char *write_page(const struct taut_report *report)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(taut_report_html(report, out, NULL), TAUT_OK);
	fclose(out);
	assert_int_equal(strlen(text), len);
	return text;
}

static void page_is_whole(void **state)
{
	char *page = write_page(&made.report);

	(void)state;
	assert_int_equal(strncmp(page, "<!DOCTYPE html>", 15), 0);
	assert_non_null(strstr(page, "</html>"));
	assert_null(strstr(page, "{{"));
	/* nothing in a name closes a script early */
	assert_int_equal(count(page, "</script"), count(page, "<script"));
	free(page);
}

static void page_fetches_nothing(void **state)
{
	static const char *const ways[] = { "src=\"http", "src='http",
		"href=\"http", "url(http", "@import", "<link", "<iframe" };
	char *page = write_page(&made.report);

	(void)state;
	for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
		assert_null(strstr(page, ways[i]));
	assert_non_null(strstr(page, "default-src 'none'"));
	free(page);
}

/* --- columns ------------------------------------------------------------ */
static uint32_t six_bits(char c)
{
	return c >= 'A' && c <= 'Z'    ? (uint32_t)(c - 'A')
		: c >= 'a' && c <= 'z' ? (uint32_t)(c - 'a') + 26
		: c >= '0' && c <= '9' ? (uint32_t)(c - '0') + 52
		: c == '+'             ? 62
		: c == '/'             ? 63
				       : 0;
}

/* The bytes of <script id="ID">, decoded and inflated; free with free(). */
static uint8_t *read_blob(const char *page, const char *id, size_t *ret_len)
{
	enum { ROOM = 1 << 20 };
	char open[64];
	uint8_t *packed = malloc(ROOM), *bytes = malloc(ROOM);
	struct inflate_state *inflate = calloc(1, sizeof *inflate);
	const char *at;
	uint32_t n = 0;

	snprintf(open, sizeof open, "id=\"%s\">", id);
	at = strstr(page, open);
	assert_non_null(at);
	for (at += strlen(open); *at != '<'; at += 4) {
		uint32_t four = six_bits(at[0]) << 18 | six_bits(at[1]) << 12 |
			six_bits(at[2]) << 6 | six_bits(at[3]);

		packed[n++] = (uint8_t)(four >> 16);
		if (at[2] != '=')
			packed[n++] = (uint8_t)(four >> 8);
		if (at[3] != '=')
			packed[n++] = (uint8_t)four;
	}
	isal_inflate_init(inflate);
	inflate->crc_flag = IGZIP_ZLIB;
	inflate->next_in = packed;
	inflate->avail_in = n;
	inflate->next_out = bytes;
	inflate->avail_out = ROOM;
	assert_int_equal(isal_inflate_stateless(inflate), ISAL_DECOMP_OK);
	*ret_len = inflate->total_out;
	free(inflate);
	free(packed);
	return bytes;
}

static uint64_t read_uint(const uint8_t **at)
{
	uint64_t value = 0;
	int shift = 0;

	do {
		value |= (uint64_t)(**at & 127) << shift;
		shift += 7;
	} while (*(*at)++ & 128);
	return value;
}

static void columns_hold_every_event(void **state)
{
	const struct taut_trace *t = &made.run.traces[1];
	char *page = write_page(&made.report);
	size_t len, names_len;
	uint8_t *bytes = read_blob(page, "rank-1", &len);
	uint8_t *names = read_blob(page, "names", &names_len);
	const uint8_t *at = bytes + t->n_events;
	int64_t first = t->start_ns[0], start = 0;

	(void)state;
	for (size_t i = 0; i < t->n_events; i++) {
		const char *name = (const char *)names;

		assert_int_equal(bytes[i] & 15, t->kind[i]);
		for (uint64_t skip = read_uint(&at); skip; skip--)
			name += strlen(name) + 1;
		assert_true((size_t)(name - (const char *)names) < names_len);
		assert_string_equal(name, taut_trace_name(t, i));
		if (t->start_ns[i] < first)
			first = t->start_ns[i];
	}
	for (size_t i = 0; i < t->n_events; i++) {
		if (i == t->lane_begin[t->lane[i]])
			start = first;
		start += (int64_t)read_uint(&at);
		assert_int_equal(start, t->start_ns[i]);
	}
	for (size_t i = 0; i < t->n_events; i++)
		assert_int_equal(read_uint(&at), t->dur_ns[i]);
	assert_true(at < bytes + len);
	free(bytes);
	free(names);
	free(page);
}

/* --- a page with room for few events ------------------------------------ */
struct kept {
	uint64_t host, device, hidden, hidden_device;
};

/* What stays: what is long enough, each step, each part in a collective. */
static void count_kept(const struct tauti_page *page, struct kept *wanted,
	struct kept *found)
{
	*wanted = *found = (struct kept){ .host = 0 };
	for (uint32_t r = 0; r < made.run.n_traces; r++) {
		const struct taut_trace *t = &made.run.traces[r];

		for (uint32_t lane = 0; lane < t->n_lanes; lane++) {
			bool device = t->lanes[lane].kind == TAUT_LANE_STREAM;
			int64_t least = device ? page->device_min_ns :
				page->min_ns;

			*(device ? &found->device : &found->host) +=
				page->ranks[r].lane_rows[lane];
			for (uint32_t i = t->lane_begin[lane];
				i < t->lane_begin[lane + 1]; i++) {
				bool stays = t->dur_ns[i] >= least ||
					t->kind[i] == TAUT_KIND_STEP ||
					strstr(taut_trace_name(t, i), "nccl");

				if (device)
					*(stays ? &wanted->device :
						&wanted->hidden_device) += 1;
				else
					*(stays ? &wanted->host :
						&wanted->hidden) += 1;
			}
		}
		found->hidden += page->ranks[r].hidden;
		found->hidden_device += page->ranks[r].hidden_device;
	}
}

/* Three ranks of two steps: 1020 events of devices and twice as many of hosts. */
static void a_full_page_keeps_the_longest(void **state)
{
	enum { STEPS = 6, MEMBERS = 3 * 48, DEVICE = 1020 };
	static const uint64_t most[] = { 100000, 2000, 1000, 300 };

	(void)state;
	for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
		uint64_t room = most[i] > DEVICE + most[i] / 10 ?
			most[i] - DEVICE : most[i] / 10;
		struct tauti_page page;
		struct kept wanted, found;

		assert_int_equal(tauti_page_init(&page, &made.report, most[i],
			NULL), TAUT_OK);
		count_kept(&page, &wanted, &found);
		tauti_page_fini(&page);
		assert_memory_equal(&wanted, &found, sizeof found);
		assert_int_equal(found.device + found.hidden_device, DEVICE);
		assert_true(found.host <= room + STEPS);
		assert_true(found.host > room / 2 || !found.hidden);
		assert_true(found.device <= most[i] + MEMBERS);
		assert_true(found.device > most[i] / 2 || !found.hidden_device);
		assert_int_equal(found.hidden != 0, i > 0);
		assert_int_equal(found.hidden_device != 0, i > 1);
	}
}

static void numbers_come_back(void **state)
{
	static const int64_t values[] = { 0, -1, 1, 63, 64, -64, -65, INT64_MAX,
		INT64_MIN };
	struct tauti_blob blob = { .data = NULL };
	const uint8_t *at;

	(void)state;
	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
		tauti_blob_int(&blob, values[i]);
	at = blob.data;
	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
		uint64_t coded = read_uint(&at);

		assert_int_equal((int64_t)(coded >> 1) ^ -(int64_t)(coded & 1),
			values[i]);
	}
	assert_ptr_equal(at, blob.data + blob.count);
	tauti_blob_free(&blob);
}

/* --- what can go wrong -------------------------------------------------- */
static void a_run_of_nothing_is_a_page(void **state)
{
	struct taut_run run = { .path = "empty" };
	struct taut_graph graph = { .run = &run, .names = made.names };
	struct taut_report report = { .run = &run, .graph = &graph };
	char *page = write_page(&report);

	(void)state;
	assert_non_null(strstr(page, "\"ranks\":[]"));
	free(page);
}

static void refusal_is_told(void **state)
{
	(void)state;
	renderer_tells_refusal(taut_report_html, &made.report);
}

static void no_memory_is_told(void **state)
{
	(void)state;
	renderer_tells_no_memory(taut_report_html, &made.report, 20);
}

static int make(void **state)
{
	(void)state;
	synthetic_make(&made, 3, 700);
	return 0;
}

static int unmake(void **state)
{
	(void)state;
	synthetic_free(&made);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(page_is_whole),
		cmocka_unit_test(page_fetches_nothing),
		cmocka_unit_test(columns_hold_every_event),
		cmocka_unit_test(a_full_page_keeps_the_longest),
		cmocka_unit_test(numbers_come_back),
		cmocka_unit_test(a_run_of_nothing_is_a_page),
		cmocka_unit_test(refusal_is_told),
		cmocka_unit_test(no_memory_is_told),
	};

	return cmocka_run_group_tests(tests, make, unmake);
}

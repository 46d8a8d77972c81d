/* One suite over every source: the same items, made as a folder, as archives and as a
 * list, and the index of each, are the same set; and what holds of all of them. */
#include "load/set_by_hand.h"

#include "load/set.h"
#include "tests/support/alloc_fail.h"

enum { ITEMS = 40, CLASSES = 5, OF_CLASS = ITEMS / CLASSES, MOST_BYTES = 700 };

/* Item i: its class, how many bytes, and which ones. Some are empty. */
static int64_t label_of(unsigned i)
{
	return i / OF_CLASS;
}

static size_t content_of(unsigned i, unsigned char *into)
{
	size_t n = i * 17 % MOST_BYTES;

	for (size_t at = 0; at < n; at++)
		into[at] = (unsigned char)(i * 31 + at * 7);
	return n;
}

static void name_of(unsigned i, char *into, size_t room)
{
	snprintf(into, room, "c%u/n%03u", i / OF_CLASS, i);
}

/* --- the same items, three times ---------------------------------------------------------*/

static void make_tree(const struct hand *hand)
{
	unsigned char bytes[MOST_BYTES];
	char name[64], path[80];

	/* The last first: order is not that of making. */
	for (unsigned i = ITEMS; i-- > 0;) {
		name_of(i, name, sizeof name);
		snprintf(path, sizeof path, "tree/%s.jpg", name);
		hand_file(hand, path, bytes, content_of(i, bytes));
	}
}

static void make_lines(const struct hand *hand)
{
	char text[ITEMS * 40], name[64];
	size_t n = 0;

	make_tree(hand);
	for (unsigned i = 0; i < ITEMS; i++) {
		name_of(i, name, sizeof name);
		n += (size_t)snprintf(text + n, sizeof text - n, "%s.jpg\t%d\n", name,
			(int)label_of(i));
	}
	hand_file(hand, "tree/list", text, n);
}

static void make_tars(const struct hand *hand)
{
	struct hand_tar tar = { 0 };
	unsigned char bytes[MOST_BYTES];
	char name[64], path[80], label[16];

	for (unsigned i = 0; i < ITEMS; i++) {
		name_of(i, name, sizeof name);
		snprintf(path, sizeof path, "%s.jpg", name);
		hand_member(&tar, path, '0', bytes, content_of(i, bytes));
		snprintf(path, sizeof path, "%s.cls", name);
		snprintf(label, sizeof label, "%d", (int)label_of(i));
		hand_text_member(&tar, path, label);
		if (i == ITEMS / 3)
			hand_end(hand, "s-00.tar", &tar);
	}
	hand_end(hand, "s-01.tar", &tar);
}

static const struct made {
	const char *source, *path, *ending; /* of keys */
	void (*make)(const struct hand *hand);
	uint32_t n_files, n_classes;
} sources[] = {
	{ "tree", "tree", ".jpg", make_tree, ITEMS, CLASSES },
	{ "lines", "tree/list", ".jpg", make_lines, ITEMS, 0 },
	{ "tar", "s-{00..01}.tar", "", make_tars, 2, 0 },
};

static void check_item(const struct taut_set *set, const struct made *made, unsigned i)
{
	unsigned char bytes[MOST_BYTES];
	char name[64], key[80];
	size_t n = content_of(i, bytes);

	name_of(i, name, sizeof name);
	snprintf(key, sizeof key, "%s%s", name, made->ending);
	hand_key(set, i, key);
	assert_int_equal(taut_set_at(set, i).label, label_of(i));
	hand_bytes(set, i, bytes, n);
	assert_int_equal(taut_set_find(set, key), i);
}

static void check_set(const struct taut_set *set, const struct made *made)
{
	unsigned char bytes[MOST_BYTES];
	uint64_t total = 0, largest = 0;

	assert_int_equal(taut_set_count(set), ITEMS);
	assert_int_equal(taut_set_files(set), made->n_files);
	assert_int_equal(taut_set_whole(set), made->n_files == ITEMS);
	assert_int_equal(taut_set_classes(set), made->n_classes);
	for (unsigned i = 0; i < ITEMS; i++) {
		size_t n = content_of(i, bytes);

		total += n;
		largest = n > largest ? n : largest;
		check_item(set, made, i);
	}
	for (uint32_t i = 0; i < made->n_classes; i++) {
		char name[] = { 'c', (char)('0' + i), 0 };

		assert_string_equal(taut_set_class(set, i), name);
	}
	assert_int_equal(taut_set_bytes(set), total);
	assert_int_equal(taut_set_largest(set), largest);
	assert_int_equal(taut_set_find(set, "c0/n"), UINT64_MAX);
	assert_int_equal(taut_set_find(set, "n000"), UINT64_MAX);
	assert_int_equal(taut_set_find(set, ""), UINT64_MAX);
	assert_int_equal(taut_set_check(set, 2, NULL), TAUT_OK);
}

static void check_source(const struct hand *hand, const struct made *made)
{
	const struct taut_set_options quick = { .quick_find = 1, .threads = 3 };
	const struct taut_set *set, *again, *index;
	struct hand_path path = hand_path(hand, "index");

	made->make(hand);
	set = hand_open(hand, made->path);
	assert_string_equal(taut_set_source(set), made->source);
	check_set(set, made);
	again = hand_open_with(hand, made->path, &quick);
	check_set(again, made);
	assert_int_equal(taut_set_write(set, path.text, NULL), TAUT_OK);
	index = hand_open(hand, "index");
	assert_string_equal(taut_set_source(index), "index");
	check_set(index, made);
	check_set(hand_open_with(hand, "index", &quick), made);
	assert_true(taut_set_fingerprint(set) == taut_set_fingerprint(again));
	assert_true(taut_set_fingerprint(set) == taut_set_fingerprint(index));
}

static void test_sources(void **state)
{
	for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
		check_source(*state, &sources[i]);
}

/* --- fingerprint and check ---------------------------------------------------------------*/

static void test_fingerprint(void **state)
{
	struct hand *hand = *state;
	uint64_t tree, list, prints[6];
	size_t n = 0;

	make_lines(hand);
	tree = taut_set_fingerprint(hand_open(hand, "tree"));
	list = taut_set_fingerprint(hand_open(hand, "tree/list"));
	/* The same files, the same labels, by another source. */
	assert_true(tree == list);
	prints[n++] = tree;
	hand_text(hand, "tree/two", "c0/n001.jpg\t0\nc0/n002.jpg\t0\n");
	prints[n++] = taut_set_fingerprint(hand_open(hand, "tree/two"));
	hand_text(hand, "tree/two", "c0/n002.jpg\t0\nc0/n001.jpg\t0\n");
	prints[n++] = taut_set_fingerprint(hand_open(hand, "tree/two"));
	hand_text(hand, "tree/two", "c0/n002.jpg\t0\nc0/n001.jpg\t1\n");
	prints[n++] = taut_set_fingerprint(hand_open(hand, "tree/two"));
	hand_text(hand, "tree/c0/n001.jpg", "another size");
	prints[n++] = taut_set_fingerprint(hand_open(hand, "tree/two"));
	assert_int_equal(rename(hand_path(hand, "tree").text,
		hand_path(hand, "moved").text), 0);
	prints[n++] = taut_set_fingerprint(hand_open(hand, "moved/two"));
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			assert_true(prints[i] != prints[j]);
}

static void expect_line(const struct hand *hand, const struct taut_error *err,
	taut_status code, const char *behind)
{
	char expected[PATH_MAX + 200];

	snprintf(expected, sizeof expected, "%s%s", hand->folder, behind);
	assert_int_equal(err->code, code);
	assert_string_equal(err->message, expected);
}

static void test_check(void **state)
{
	struct hand *hand = *state;
	const struct taut_set *set;
	struct taut_error err;

	make_tree(hand);
	set = hand_open(hand, "tree");
	hand_text(hand, "tree/c1/n010.jpg", "four");
	assert_int_equal(taut_set_check(set, 2, &err), TAUT_EMATCH);
	expect_line(hand, &err, TAUT_EMATCH, "/tree/c1/n010.jpg: has 4 bytes; it had "
		"170 when the set was made");
	assert_int_equal(remove(hand_path(hand, "tree/c0/n003.jpg").text), 0);
	assert_int_equal(taut_set_check(set, 2, &err), TAUT_EIO);
	expect_line(hand, &err, TAUT_EIO,
		"/tree/c0/n003.jpg: No such file or directory");
}

/* --- what is no set ----------------------------------------------------------------------*/

static void test_refused(void **state)
{
	static const struct taut_set_options points = { .extensions = "jpg .png" },
		none = { .extensions = "  " };
	struct hand *hand = *state;
	const struct taut_set *set = NULL;
	struct taut_error err;

	hand_refused(hand, "gone", TAUT_EIO, "@/gone: No such file or directory");
	hand_text(hand, "empty", "");
	hand_refused(hand, "empty", TAUT_EFORMAT, "@/empty: is empty; expected an "
		"archive, an index or a list of paths");
	hand_file(hand, "binary", "a\0b", 3);
	hand_refused(hand, "binary", TAUT_EFORMAT, "@/binary: expected a folder, a tar "
		"archive, an index of a set or a text with a path a line");
	assert_int_equal(mkfifo(hand_path(hand, "pipe").text, 0600), 0);
	hand_refused(hand, "pipe", TAUT_EIO, "@/pipe: is neither a folder nor a file");
	make_tree(hand);
	hand_refused(hand, "{tree,empty}", TAUT_EINVAL, "@/tree: is the first of 2 "
		"paths and no archive; only archives may be several");
	hand_refused(hand, "a{b", TAUT_EINVAL,
		"@/a{b: a brace is opened and not closed");
	hand_refused(hand, "{1..2000000}", TAUT_EINVAL, "@/{1..2000000}: its braces "
		"stand for more than 1000000 files");
	hand_refused_with(hand, "tree", &points, TAUT_EINVAL, "extensions 'jpg .png': "
		"expected them without points before and without '/', as \"jpg png\"");
	hand_refused_with(hand, "tree", &none, TAUT_EINVAL,
		"extensions: expected at least one, as \"jpg png\"");
	assert_int_equal(taut_set_open(NULL, 0, NULL, hand->arena, &set, &err),
		TAUT_EINVAL);
	assert_string_equal(err.message, "a set needs a path: of a folder, a list, an "
		"index or archives");
}

/* --- braces --------------------------------------------------------------------------------*/

struct joined {
	char text[256];
};

static taut_status join(void *context, const char *path, struct taut_error *err)
{
	struct joined *joined = context;
	size_t n = strlen(joined->text);

	(void)err;
	snprintf(joined->text + n, sizeof joined->text - n, "%s%s", n ? " " : "", path);
	return TAUT_OK;
}

static void test_braces(void **state)
{
	static const char *const cases[][2] = {
		{ "a", "a" },
		{ "{8..11}", "8 9 10 11" },
		{ "s{08..11}.tar", "s08.tar s09.tar s10.tar s11.tar" },
		{ "{000..2}", "000 001 002" },
		{ "{2..0}", "2 1 0" },
		{ "{0..0}", "0" },
		{ "{a,b}{1..2}", "a1 a2 b1 b2" },
		{ "x{a,b{1..2}c,}y", "xay xb1cy xb2cy xy" },
		{ "{x}", "{x}" },
		{ "{}{1..2}", "{}1 {}2" },
		{ "{1..x}", "{1..x}" },
		{ "{1..}", "{1..}" },
		{ "{-1..2}", "{-1..2}" },
		{ "{x{1,2}}", "{x1} {x2}" },
		{ "a}b", "a}b" },
		{ "{1..9999999999999999999}", "{1..9999999999999999999}" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct joined joined = { "" };

		assert_int_equal(tauti_braces(cases[i][0], 100, join, &joined, NULL),
			TAUT_OK);
		assert_string_equal(joined.text, cases[i][1]);
	}
}

/* An archive whose name has braces is meant as it is. */
static void test_braces_of_a_name(void **state)
{
	struct hand *hand = *state;
	struct hand_tar tar = { 0 };

	hand_text_member(&tar, "a.jpg", "x");
	hand_end(hand, "s{0..1}.tar", &tar);
	assert_int_equal(taut_set_count(hand_open(hand, "s{0..1}.tar")), 1);
}

/* --- keys and paths ------------------------------------------------------------------------*/

static void test_room(void **state)
{
	struct hand *hand = *state;
	const struct taut_set *set;
	char small[6] = "-----", path[PATH_MAX];

	make_tree(hand);
	set = hand_open(hand, "tree");
	assert_int_equal(taut_set_key(set, 0, small, sizeof small), 11);
	assert_string_equal(small, "c0/n0");
	assert_int_equal(taut_set_key(set, 0, small, 3), 11);
	assert_string_equal(small, "c0");
	assert_int_equal(taut_set_key(set, 0, small, 4), 11);
	assert_string_equal(small, "c0/");
	assert_int_equal(taut_set_key(set, 0, small, 1), 11);
	assert_string_equal(small, "");
	assert_int_equal(taut_set_key(set, 0, NULL, 0), 11);
	assert_int_equal(taut_set_path(set, 0, path, sizeof path),
		strlen(hand->folder) + 17);
	assert_string_equal(path, hand_path(hand, "tree/c0/n000.jpg").text);
}

static void test_join(void **state)
{
	static const char *const cases[][3] = { /* folder, name, both */
		{ "", "c", "c" },
		{ "a/b", "c", "a/b/c" },
		{ "/", "c", "/c" },
		{ "/a", "c", "/a/c" },
	};
	char path[16];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *both = cases[i][2];
		struct tauti_split split = tauti_split(both, strlen(both));

		tauti_join(path, sizeof path, cases[i][0], cases[i][1]);
		assert_string_equal(path, both);
		assert_int_equal(split.folder_len, strlen(cases[i][0]));
		assert_string_equal(both + split.name_at, cases[i][1]);
	}
	assert_int_equal(tauti_split("a//b", 4).folder_len, 1);
	assert_int_equal(tauti_split("//b", 3).folder_len, 1);
	assert_int_equal(tauti_split("a/", 2).name_at, 2);
}

static void test_labels(void **state)
{
	static const struct {
		const char *text;
		bool valid;
		int32_t label;
	} cases[] = {
		{ "0", true, 0 }, { " 12\r\n", true, 12 }, { "-1", true, -1 },
		{ "+7", true, 7 }, { "2147483647", true, INT32_MAX },
		{ "-2147483648", true, INT32_MIN }, { "007", true, 7 },
		{ "2147483648", false, 0 }, { "-2147483649", false, 0 },
		{ "99999999999999999999", false, 0 }, { "", false, 0 },
		{ " ", false, 0 }, { "1.0", false, 0 }, { "1 2", false, 0 },
		{ "-", false, 0 }, { "x", false, 0 }, { "--1", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int32_t label = -77;

		assert_int_equal(tauti_label_of(cases[i].text,
			strlen(cases[i].text), &label), cases[i].valid);
		assert_int_equal(label, cases[i].valid ? cases[i].label : -77);
	}
}

/* --- texts -----------------------------------------------------------------------------------*/

/* More than one stretch, found again where they are. */
static void test_texts(void **state)
{
	enum { N = 3 * TAUTI_TEXTS_STRETCH + 5 };
	struct hand *hand = *state;
	struct tauti_texts texts;
	char *bytes = malloc(N * 8);
	size_t n = 0;

	assert_non_null(bytes);
	for (int i = 0; i < N; i++)
		n += (size_t)sprintf(bytes + n, "%d", i * 7) + 1;
	assert_int_equal(tauti_texts_find(&texts, hand->arena, bytes, n, N), TAUT_OK);
	for (int i = 0; i < N; i++)
		assert_int_equal(atoi(tauti_text(&texts, (uint64_t)i)), i * 7);
	assert_int_equal(tauti_texts_find(&texts, hand->arena, bytes, n, N - 1),
		TAUT_EFORMAT);
	assert_int_equal(tauti_texts_find(&texts, hand->arena, bytes, n, N + 1),
		TAUT_EFORMAT);
	assert_int_equal(tauti_texts_find(&texts, hand->arena, bytes, n - 1, N),
		TAUT_EFORMAT);
	assert_int_equal(tauti_texts_find(&texts, hand->arena, bytes, n, UINT64_MAX),
		TAUT_EFORMAT);
	free(bytes);
}

/* The first of several items of one key, with and without the table. */
static void test_same_keys(void **state)
{
	static const struct taut_set_options quick = { .quick_find = 1 };
	struct hand *hand = *state;
	struct hand_tar tar = { 0 };

	hand_text_member(&tar, "a.jpg", "1");
	hand_text_member(&tar, "b.jpg", "2");
	hand_text_member(&tar, "a.jpg", "3");
	hand_end(hand, "same.tar", &tar);
	assert_int_equal(taut_set_find(hand_open(hand, "same.tar"), "a"), 0);
	assert_int_equal(taut_set_find(hand_open_with(hand, "same.tar", &quick), "a"),
		0);
	assert_int_equal(taut_set_find(hand_open_with(hand, "same.tar", &quick), "b"),
		1);
}

/* --- memory ------------------------------------------------------------------------------------*/

static bool open_with_little(const struct hand *hand, const char *name)
{
	static const struct taut_set_options options = { .quick_find = 1,
		.threads = 1 };
	struct hand_path path = hand_path(hand, name);
	const char *paths[] = { path.text };
	struct taut_arena *arena = taut_arena_create();
	const struct taut_set *set = NULL;
	struct taut_error err = { .message = "" };
	taut_status status = TAUT_ENOMEM;

	if (arena)
		status = taut_set_open(paths, 1, &options, arena, &set, &err);
	assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
	assert_true(!arena || (status == TAUT_OK) == !err.message[0]);
	assert_true((status == TAUT_OK) == (set != NULL));
	taut_arena_destroy(arena);
	return status == TAUT_OK;
}

static void test_memory(void **state)
{
	struct hand *hand = *state;

	for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
		long n = 0;

		sources[i].make(hand);
		for (; alloc_fail_after(n), !open_with_little(hand, sources[i].path);
			n++)
			assert_in_range(n, 0, 2000);
		alloc_fail_never();
		assert_in_range(n, 5, 2000);
	}
	assert_int_equal(taut_set_write(hand_open(hand, "tree"),
		hand_path(hand, "index").text, NULL), TAUT_OK);
	for (long n = 0; alloc_fail_after(n), !open_with_little(hand, "index"); n++)
		assert_in_range(n, 0, 2000);
	alloc_fail_never();
}

/* --- progress ----------------------------------------------------------------------------------*/

static void note_progress(void *state, const char *what, uint64_t done, uint64_t total)
{
	assert_string_equal(what, "listing items");
	assert_int_equal(total, 0);
	assert_true(done >= *(uint64_t *)state);
	*(uint64_t *)state = done;
}

static void test_progress(void **state)
{
	struct hand *hand = *state;

	for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
		uint64_t done = 0;
		struct taut_set_options options = {
			.progress = { note_progress, &done } };

		sources[i].make(hand);
		hand_open_with(hand, sources[i].path, &options);
		assert_int_equal(done, ITEMS);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, hand_setup, hand_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_sources),
		TEST(test_fingerprint),
		TEST(test_check),
		TEST(test_refused),
		cmocka_unit_test(test_braces),
		TEST(test_braces_of_a_name),
		TEST(test_room),
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_labels),
		TEST(test_texts),
		TEST(test_same_keys),
		TEST(test_memory),
		TEST(test_progress),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

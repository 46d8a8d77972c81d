/* Lists of paths, and the line of a list in which one is wrong. */
#include "load/set_by_hand.h"

static void test_forms(void **state)
{
	struct hand *hand = *state;
	const struct taut_set *set;
	char text[PATH_MAX + 200];

	hand_text(hand, "d/a b.jpg", "one");
	hand_text(hand, "d/s/c", "two");
	hand_text(hand, "e.bin", "three");
	hand_text(hand, "#x", "four");
	snprintf(text, sizeof text, "\n%s/e.bin\t3\r\n\r\n\nd/a b.jpg\n../%s/d//s/c\t-1"
		"\n./#x\t 12 \nd/s/c\n#x", hand->folder,
		strrchr(hand->folder, '/') + 1);
	hand_text(hand, "list", text);
	set = hand_open(hand, "list");
	assert_int_equal(taut_set_count(set), 6);
	snprintf(text, sizeof text, "%s/e.bin", hand->folder);
	hand_item(set, 0, text, 3, "three");
	hand_item(set, 1, "d/a b.jpg", -1, "one");
	snprintf(text, sizeof text, "../%s/d//s/c", strrchr(hand->folder, '/') + 1);
	hand_item(set, 2, text, -1, "two");
	hand_item(set, 3, "./#x", 12, "four");
	hand_item(set, 4, "d/s/c", -1, "two");
	hand_item(set, 5, "#x", -1, "four");
	assert_int_equal(taut_set_find(set, "d/s/c"), 4);
	assert_int_equal(taut_set_find(set, "./#x"), 3);
	assert_int_equal(taut_set_largest(set), 5);
}

/* Folders that come and go, over more lines than one piece of work. */
static void test_many(void **state)
{
	enum { LINES = 5000, FILES = 50 };
	struct hand *hand = *state;
	const struct taut_set *set;
	char *text = malloc(LINES * 40), name[64];
	size_t n = 0;

	assert_non_null(text);
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof name, "f%d/%d", i % 3, i);
		hand_text(hand, name, name);
	}
	for (int i = 0; i < LINES; i++) {
		int file = i * 7 % FILES;

		n += (size_t)sprintf(text + n, "f%d/%d\t%d\n", file % 3, file, i);
	}
	hand_file(hand, "list", text, n);
	set = hand_open(hand, "list");
	assert_int_equal(taut_set_count(set), LINES);
	for (int i = 0; i < LINES; i++) {
		int file = i * 7 % FILES;

		snprintf(name, sizeof name, "f%d/%d", file % 3, file);
		hand_item(set, (uint64_t)i, name, i, name);
	}
	/* A fault far behind is told by its line, the first of several. */
	n += (size_t)sprintf(text + n, "\nf0/0\nf0/none\nf0/0\nf0/nothing\n");
	hand_file(hand, "list", text, n);
	hand_refused(hand, "list", TAUT_EIO,
		"@/list:5003: @/f0/none: No such file or directory");
	free(text);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text;
		taut_status code;
		const char *line;
	} cases[] = {
		{ "x\nnone\n", TAUT_EIO,
			"@/list:2: @/none: No such file or directory" },
		{ "x\t1\nx\tdog\n", TAUT_EFORMAT, "@/list:2: 'x?dog': behind the tab "
			"is no label; expected an integer of 32 bits" },
		{ "x\t2147483648\n", TAUT_EFORMAT, "@/list:1: 'x?2147483648': behind "
			"the tab is no label; expected an integer of 32 bits" },
		{ "x\n\nd/\n", TAUT_EFORMAT, "@/list:3: 'd/': names no file" },
		{ "\t1\n", TAUT_EFORMAT, "@/list:1: '?1': names no file" },
		{ "x\nd\n", TAUT_EFORMAT,
			"@/list:2: @/d: expected a file of less than 4 GiB" },
		{ "\n\r\n\n", TAUT_EFORMAT,
			"@/list: has only empty lines; expected a path a line" },
	};
	struct hand *hand = *state;

	hand_text(hand, "x", "x");
	hand_text(hand, "d/x", "x");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		hand_text(hand, "list", cases[i].text);
		hand_refused(hand, "list", cases[i].code, cases[i].line);
	}
}

/* Behind the bytes that are looked at. */
static void test_zero(void **state)
{
	struct hand *hand = *state;
	char text[2000];

	hand_text(hand, "x", "x");
	memset(text, '\n', sizeof text);
	memcpy(text + 1000, "x\0y", 3);
	hand_file(hand, "list", text, sizeof text);
	hand_refused(hand, "list", TAUT_EFORMAT, "@/list:1001: 'x?y': holds a zero "
		"byte; expected a path, and a tab and an integer");
}

static void test_too_long(void **state)
{
	struct hand *hand = *state;
	struct hand_path path = hand_path(hand, "list");
	const char *paths[] = { path.text };
	const struct taut_set *set;
	struct taut_error err;
	char text[2 * PATH_MAX], line[2 * PATH_MAX];

	memset(text, 'x', sizeof text);
	hand_file(hand, "list", text, sizeof text);
	assert_int_equal(taut_set_open(paths, 1, NULL, hand->arena, &set, &err),
		TAUT_EIO);
	snprintf(line, sizeof line, "%s:1: %.60s/xxxx", path.text, hand->folder);
	assert_memory_equal(err.message, line, strlen(line));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, hand_setup, hand_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_forms),
		TEST(test_many),
		TEST(test_refused),
		TEST(test_zero),
		TEST(test_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

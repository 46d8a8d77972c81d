/* The index: what was written is read; nothing else is. */
#include "load/set_by_hand.h"

#include <dirent.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>

#include "load/sources/index.h"

/* A tree of three items, and an archive of two; an index of each. */
static void make_both(const struct hand *hand)
{
	struct hand_tar tar = { 0 };

	hand_text(hand, "d/t/a/1.jpg", "one");
	hand_text(hand, "d/t/b/2.jpg", "two!!");
	hand_text(hand, "d/t/b/3.jpg", "");
	hand_text_member(&tar, "k.jpg", "first");
	hand_text_member(&tar, "l.jpg", "second");
	hand_text_member(&tar, "l.cls", "9");
	hand_end(hand, "d/s.tar", &tar);
	assert_int_equal(taut_set_write(hand_open(hand, "d/t"),
		hand_path(hand, "d/t.index").text, NULL), TAUT_OK);
	assert_int_equal(taut_set_write(hand_open(hand, "d/s.tar"),
		hand_path(hand, "d/s.index").text, NULL), TAUT_OK);
}

static void check_tree(const struct taut_set *set)
{
	assert_int_equal(taut_set_count(set), 3);
	hand_item(set, 0, "a/1.jpg", 0, "one");
	hand_item(set, 1, "b/2.jpg", 1, "two!!");
	hand_item(set, 2, "b/3.jpg", 1, "");
	assert_int_equal(taut_set_classes(set), 2);
	assert_string_equal(taut_set_class(set, 1), "b");
}

static void check_tar(const struct taut_set *set)
{
	assert_int_equal(taut_set_count(set), 2);
	hand_item(set, 0, "k", -1, "first");
	hand_item(set, 1, "l", 9, "second");
	assert_int_equal(taut_set_files(set), 1);
}

/* --- bytes of an index in memory ----------------------------------------------------------*/

struct image {
	uint64_t *words; /* aligned */
	char *bytes;
	size_t n;
};

static struct image read_image(const struct hand *hand, const char *name)
{
	FILE *file = fopen(hand_path(hand, name).text, "rb");
	struct image image = { .words = calloc(1, 4096) };

	assert_non_null(file);
	assert_non_null(image.words);
	image.bytes = (char *)image.words;
	image.n = fread(image.bytes, 1, 4096, file);
	assert_in_range(image.n, 128, 4000);
	fclose(file);
	return image;
}

static void sum(struct image *image)
{
	uint64_t of_all = tauti_index_sum(0, image->bytes, image->n - 8);

	memcpy(image->bytes + image->n - 8, &of_all, 8);
}

static taut_status parse(const struct hand *hand, const struct image *image, size_t n,
	struct taut_error *err)
{
	struct taut_set set = { .root = NULL };

	return tauti_index_parse(image->bytes, n, "x.index", hand->folder, hand->arena,
		&set, err);
}

/* --- the format -----------------------------------------------------------------------------*/

static uint64_t field(const struct image *image, size_t at, size_t n)
{
	uint64_t value = 0;

	memcpy(&value, image->bytes + at, n);
	return value;
}

/* As index.h tells it, so that a change is another version. */
static void test_format(void **state)
{
	static const char texts[] = "t\0\0\0\0\0\0\0" /* root */
		"a\0b\0\0\0\0\0"                     /* classes */
		"a\0b\0\0\0\0\0"                     /* folders */
		"1.jpg\0" "2.jpg\0" "3.jpg\0\0\0\0\0\0"; /* names */
	struct hand *hand = *state;
	struct image image;

	make_both(hand);
	image = read_image(hand, "d/t.index");
	assert_memory_equal(image.bytes, "TAUTSET\n", 8);
	assert_int_equal(field(&image, 8, 4), 1);    /* version */
	assert_int_equal(field(&image, 12, 4), 128); /* header_bytes */
	assert_int_equal(field(&image, 16, 8), image.n);
	assert_int_equal(field(&image, 24, 8), 2);   /* root_bytes */
	assert_int_equal(field(&image, 32, 8), 4);   /* classes_bytes */
	assert_int_equal(field(&image, 40, 8), 4);   /* folders_bytes */
	assert_int_equal(field(&image, 48, 8), 18);  /* names_bytes */
	assert_int_equal(field(&image, 56, 8), 0);   /* keys_bytes */
	assert_int_equal(field(&image, 64, 8), 3);   /* n_items */
	assert_int_equal(field(&image, 72, 4), 3);   /* n_files */
	assert_int_equal(field(&image, 76, 4), 2);   /* n_folders */
	assert_int_equal(field(&image, 80, 4), 2);   /* n_classes */
	assert_int_equal(field(&image, 84, 4), 1);   /* whole */
	assert_memory_equal(image.bytes + 128, texts, 48);
	assert_int_equal(field(&image, 176, 8), (uint64_t)1 << 32); /* folder_of 0 1 */
	assert_int_equal(field(&image, 184, 8), 1);
	assert_int_equal(field(&image, 192, 8), (uint64_t)5 << 32 | 3); /* bytes 3 5 0 */
	assert_int_equal(field(&image, 200, 8), 0);
	assert_int_equal(field(&image, 208, 8), (uint64_t)1 << 32); /* label 0 1 1 */
	assert_int_equal(field(&image, 216, 8), 1);
	assert_int_equal(image.n, 232);
	free(image.words);
}

/* The value that catalogues of checksums give for CRC-64/XZ; in pieces, too. */
static void test_sum(void **state)
{
	uint64_t before = tauti_index_sum(0, "1234", 4);

	(void)state;
	assert_true(tauti_index_sum(0, "123456789", 9) == 0x995dc9bbdf1939fau);
	assert_true(tauti_index_sum(before, "56789", 5) == 0x995dc9bbdf1939fau);
}

/* --- places ------------------------------------------------------------------------------------*/

static void test_moved(void **state)
{
	struct hand *hand = *state;
	struct hand_path to = hand_path(hand, "e/f");
	uint64_t tree;

	make_both(hand);
	check_tree(hand_open(hand, "d/t.index"));
	check_tar(hand_open(hand, "d/s.index"));
	tree = taut_set_fingerprint(hand_open(hand, "d/t"));
	assert_true(tree == taut_set_fingerprint(hand_open(hand, "d/t.index")));
	/* An index elsewhere has the place of the files. */
	hand_text(hand, "e/x", "");
	assert_int_equal(taut_set_write(hand_open(hand, "d/t"),
		hand_path(hand, "e/t.index").text, NULL), TAUT_OK);
	check_tree(hand_open(hand, "e/t.index"));
	assert_true(tree == taut_set_fingerprint(hand_open(hand, "e/t.index")));
	/* An index of an index is the same. */
	assert_int_equal(taut_set_write(hand_open(hand, "e/t.index"),
		hand_path(hand, "d/again").text, NULL), TAUT_OK);
	assert_true(tree == taut_set_fingerprint(hand_open(hand, "d/again")));
	/* Both moved together. */
	assert_int_equal(rename(hand_path(hand, "d").text, to.text), 0);
	check_tree(hand_open(hand, "e/f/t.index"));
	check_tree(hand_open(hand, "e/f/again"));
	check_tar(hand_open(hand, "e/f/s.index"));
	assert_true(tree != taut_set_fingerprint(hand_open(hand, "e/f/t.index")));
	assert_int_equal(taut_set_check(hand_open(hand, "e/t.index"), 1, NULL), TAUT_EIO);
}

static void test_relative_path(void **state)
{
	struct hand *hand = *state;
	const struct taut_set *set, *index;
	const char *paths[] = { "t" }, *written[] = { "i" };
	char here[PATH_MAX];

	make_both(hand);
	assert_non_null(getcwd(here, sizeof here));
	assert_int_equal(chdir(hand_path(hand, "d").text), 0);
	assert_int_equal(taut_set_open(paths, 1, NULL, hand->arena, &set, NULL), TAUT_OK);
	assert_int_equal(taut_set_write(set, "i", NULL), TAUT_OK);
	assert_int_equal(taut_set_open(written, 1, NULL, hand->arena, &index, NULL),
		TAUT_OK);
	assert_int_equal(chdir(here), 0);
	check_tree(set);
	check_tree(index);
}

/* --- damage ------------------------------------------------------------------------------------*/

/* Whatever byte is another one, whatever length it has. */
static void test_damaged(void **state)
{
	static const char *const names[] = { "d/t.index", "d/s.index" };
	struct hand *hand = *state;

	make_both(hand);
	for (int k = 0; k < 2; k++) {
		struct image image = read_image(hand, names[k]);

		assert_int_equal(parse(hand, &image, image.n, NULL), TAUT_OK);
		for (size_t i = 0; i < image.n; i++)
			for (int bit = 0; bit < 8; bit++) {
				image.bytes[i] ^= (char)(1 << bit);
				assert_int_equal(parse(hand, &image, image.n, NULL),
					TAUT_EFORMAT);
				image.bytes[i] ^= (char)(1 << bit);
			}
		for (size_t n = 0; n < image.n; n++)
			assert_int_equal(parse(hand, &image, n, NULL), TAUT_EFORMAT);
		assert_int_equal(parse(hand, &image, image.n + 8, NULL), TAUT_EFORMAT);
		free(image.words);
	}
}

static void refused_as(const struct hand *hand, const struct image *image, size_t n,
	const char *line)
{
	hand_file(hand, "bad", image->bytes, n);
	hand_refused(hand, "bad", TAUT_EFORMAT, line);
}

static void test_lines_of_damage(void **state)
{
	struct hand *hand = *state;
	struct image image;

	make_both(hand);
	image = read_image(hand, "d/t.index");
	refused_as(hand, &image, 100, "@/bad: byte 100: the index ends in its header");
	refused_as(hand, &image, 200, "@/bad: byte 200: the index ends; by its header it "
		"has 232 bytes: it was cut short, or is damaged");
	image.bytes[130] ^= 1;
	refused_as(hand, &image, image.n, "@/bad: byte 224: the index is damaged: its "
		"checksum is another; make it anew");
	image.bytes[8] = 2;
	sum(&image);
	refused_as(hand, &image, image.n, "@/bad: byte 8: an index of version 2; expected "
		"version 1: make it anew");
	free(image.words);
}

/* One number of it, and a checksum that fits. */
static void test_made_up(void **state)
{
	static const struct {
		const char *name;
		size_t at;
		uint32_t value;
		const char *line;
	} cases[] = {
		{ "d/t.index", 64, 5, "byte 16: the index is damaged: its parts are not as "
			"long as it is" },
		{ "d/t.index", 64, 4, "byte 192: the index is damaged: it has not as many "
			"items as files" },
		{ "d/t.index", 28, 0xffffffff, "byte 16: the index is damaged: its parts "
			"are not as long as it is" },
		{ "d/t.index", 60, 1u << 25, "byte 16: the index is damaged: its parts "
			"are not as long as it is" },
		{ "d/t.index", 68, 1, "byte 16: the index is damaged: its parts are not as "
			"long as it is" },
		{ "d/t.index", 72, 0xffffffff, "byte 16: the index is damaged: its parts "
			"are not as long as it is" },
		{ "d/t.index", 128, 0x01010101, "byte 128: the index is damaged: root is "
			"no text" },
		{ "d/t.index", 76, 3, "byte 144: the index is damaged: it has not as many "
			"texts" },
		{ "d/t.index", 80, 0xffffffff, "byte 136: the index is damaged: it has "
			"not as many texts" },
		{ "d/t.index", 152, 0x706a0000, "byte 152: the index is damaged: it has "
			"not as many texts" },
		{ "d/t.index", 152, 0x706a2f31, "byte 152: the index is damaged: a name is "
			"none of a file" },
		{ "d/t.index", 176, 2, "byte 176: the index is damaged: a file is in a "
			"folder that is not there" },
		{ "d/s.index", 72, 2, "byte 16: the index is damaged: its parts are not as "
			"long as it is" },
	};
	struct hand *hand = *state;
	char line[300];

	make_both(hand);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct image image = read_image(hand, cases[i].name);

		memcpy(image.bytes + cases[i].at, &cases[i].value, 4);
		sum(&image);
		snprintf(line, sizeof line, "@/bad: %s; make it anew", cases[i].line);
		refused_as(hand, &image, image.n, line);
		free(image.words);
	}
}

/* Columns of an archive: after root, folders, names and keys. */
static void test_made_up_archive(void **state)
{
	struct hand *hand = *state;
	struct tauti_index_header header;
	struct tauti_index_layout layout;
	struct image image;
	char line[300];
	uint64_t offset = 1 << 20;
	uint32_t file = 1, bytes = UINT32_MAX;
	const struct {
		enum tauti_index_part part;
		const void *value;
		size_t n;
		enum tauti_index_part told;
		const char *line;
	} cases[] = {
		{ TAUTI_INDEX_OFFSET, &offset, 8, TAUTI_INDEX_OFFSET,
			"an item ends behind its file" },
		{ TAUTI_INDEX_BYTES, &bytes, 4, TAUTI_INDEX_OFFSET,
			"an item ends behind its file" },
		{ TAUTI_INDEX_FILE, &file, 4, TAUTI_INDEX_FILE,
			"an item is in a file that is not there" },
	};

	make_both(hand);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		image = read_image(hand, "d/s.index");
		memcpy(&header, image.bytes, sizeof header);
		assert_true(tauti_index_lay(&header, &layout));
		assert_int_equal(layout.at[TAUTI_INDEX_PARTS] + 8, image.n);
		memcpy(image.bytes + layout.at[cases[i].part], cases[i].value,
			cases[i].n);
		sum(&image);
		snprintf(line, sizeof line, "@/bad: byte %d: the index is damaged: %s; "
			"make it anew", (int)layout.at[cases[i].told], cases[i].line);
		refused_as(hand, &image, image.n, line);
		free(image.words);
	}
}

/* --- writing -----------------------------------------------------------------------------------*/

static int count_entries(const struct hand *hand, const char *folder)
{
	DIR *stream = opendir(hand_path(hand, folder).text);
	int n = 0;

	assert_non_null(stream);
	while (readdir(stream))
		n++;
	closedir(stream);
	return n;
}

static void write_refused(const struct hand *hand, const struct taut_set *set,
	const char *name, const char *line)
{
	char expected[PATH_MAX + 300];
	struct taut_error err;

	assert_int_equal(taut_set_write(set, hand_path(hand, name).text, &err), TAUT_EIO);
	snprintf(expected, sizeof expected, "%s%s", hand->folder, line);
	assert_string_equal(err.message, expected);
}

/* What was there stays, and nothing is left beside it. */
static void test_write_refused(void **state)
{
	struct hand *hand = *state;
	struct rlimit before, few;
	const struct taut_set *set;
	int n;

	make_both(hand);
	set = hand_open(hand, "d/t");
	n = count_entries(hand, "d");
	write_refused(hand, set, "none/x", "/none: No such file or directory");
	write_refused(hand, set, "d/t", "/d/t: cannot be written: Is a directory");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	few = before;
	few.rlim_cur = 200;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
	write_refused(hand, set, "d/s.index",
		"/d/s.index: cannot be written: File too large");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(count_entries(hand, "d"), n);
	check_tar(hand_open(hand, "d/s.index"));
	assert_int_equal(taut_set_write(set, hand_path(hand, "d/s.index").text, NULL),
		TAUT_OK);
	check_tree(hand_open(hand, "d/s.index"));
	assert_int_equal(count_entries(hand, "d"), n);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, hand_setup, hand_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_format),
		cmocka_unit_test(test_sum),
		TEST(test_moved),
		TEST(test_relative_path),
		TEST(test_damaged),
		TEST(test_lines_of_damage),
		TEST(test_made_up),
		TEST(test_made_up_archive),
		TEST(test_write_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

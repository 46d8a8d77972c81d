/* Folders as torchvision's ImageFolder orders them, and those that are none. */
#include "load/set_by_hand.h"

#include "base/now.h"

static void expect_keys(
	const struct taut_set *set, const char *const *keys, const int64_t *labels, size_t n)
{
	assert_int_equal(taut_set_count(set), n);
	for (size_t i = 0; i < n; i++) {
		hand_key(set, i, keys[i]);
		assert_int_equal(taut_set_at(set, i).label, labels[i]);
	}
}

/* In a class folders come by their path, then files by name, all by bytes: "b" < "b-c" <
 * "b/a", as '-' is before '/', and 'B' before 'a'. */
static void test_order(void **state)
{
	static const char *const keys[] = { "B/z.png", "a/2.jpg", "a/A.JPEG", "a/b.Jpg",
		"a/b/x.webp", "a/b-c/x.jpg", "a/b/a/x.tiff", "a/c.jpg/1.bmp",
		"\xc3\xa9/x.jpg" };
	static const int64_t labels[] = { 0, 1, 1, 1, 1, 1, 1, 1, 2 };
	const size_t n = sizeof keys / sizeof *keys;
	struct hand *hand = *state;
	char path[64];

	for (size_t i = 0; i < n; i++) {
		snprintf(path, sizeof path, "t/%s", keys[i * 4 % n]);
		hand_text(hand, path, "x");
	}
	hand_text(hand, "t/a/readme.txt", "is no item");
	hand_text(hand, "t/a/jpg", "has no point");
	hand_text(hand, "t/at_root.jpg", "is in no class");
	expect_keys(hand_open(hand, "t"), keys, labels, n);
}

static void test_flat(void **state)
{
	static const char *const keys[] = { "1.jpg", "10.jpg", "2.jpg" };
	static const int64_t labels[] = { -1, -1, -1 };
	struct hand *hand = *state;
	const struct taut_set *set;

	for (int i = 0; i < 3; i++) {
		char path[32];

		snprintf(path, sizeof path, "t/%s", keys[i]);
		hand_text(hand, path, keys[i]);
	}
	hand_text(hand, "t/x.txt", "is no item");
	set = hand_open(hand, "t");
	expect_keys(set, keys, labels, 3);
	hand_item(set, 1, "10.jpg", -1, "10.jpg");
	assert_int_equal(taut_set_classes(set), 0);
	assert_int_equal(taut_set_find(set, "2.jpg"), 2);
}

static void test_extensions(void **state)
{
	static const struct taut_set_options sound = { .extensions = " wav  FLAC " };
	static const char *const keys[] = { "a/1.WAV", "a/2.flac" };
	static const int64_t labels[] = { 0, 0 };
	struct hand *hand = *state;

	hand_text(hand, "t/a/1.WAV", "x");
	hand_text(hand, "t/a/2.flac", "x");
	hand_text(hand, "t/a/3.jpg", "x");
	hand_text(hand, "t/a/4xwav", "x");
	expect_keys(hand_open_with(hand, "t", &sound), keys, labels, 2);
}

static void link_to(const struct hand *hand, const char *target, const char *name)
{
	assert_int_equal(symlink(target, hand_path(hand, name).text), 0);
}

/* To a file, a folder as a class, a folder in a class; and to folders that they lie in. */
static void test_links(void **state)
{
	static const char *const keys[] = { "a/1.jpg", "a/2.jpg", "a/in/3.jpg",
		"b/3.jpg", "b/back/1.jpg", "b/back/2.jpg" };
	static const int64_t labels[] = { 0, 0, 0, 1, 1, 1 };
	struct hand *hand = *state;

	hand_text(hand, "t/a/1.jpg", "1");
	hand_text(hand, "away/3.jpg", "three");
	link_to(hand, "1.jpg", "t/a/2.jpg");
	link_to(hand, "../../away", "t/a/in");
	link_to(hand, "../away", "t/b");
	link_to(hand, "..", "t/a/root");
	link_to(hand, ".", "t/a/self");
	link_to(hand, hand_path(hand, "t/a").text, "away/back");
	link_to(hand, "nowhere", "t/nowhere");
	expect_keys(hand_open(hand, "t"), keys, labels, 6);
	link_to(hand, "t", "linked");
	/* The same files under the same path: links to the folder are resolved. */
	assert_true(taut_set_fingerprint(hand_open(hand, "linked")) ==
		taut_set_fingerprint(hand_open(hand, "t")));
}

static void test_empty_classes(void **state)
{
	static const struct taut_set_options allow = { .empty_classes = 1 };
	static const char *const keys[] = { "b/1.jpg" };
	static const int64_t labels[] = { 1 };
	struct hand *hand = *state;
	const struct taut_set *set;

	hand_text(hand, "t/b/1.jpg", "x");
	hand_text(hand, "t/.ipynb_checkpoints/x.txt", "x");
	hand_refused(hand, "t", TAUT_EFORMAT, "@/t/.ipynb_checkpoints: a class without "
		"an item: no file below it ends in one of: jpg jpeg png ppm bmp pgm "
		"tif tiff webp; remove the folder, or allow empty classes");
	set = hand_open_with(hand, "t", &allow);
	expect_keys(set, keys, labels, 1);
	assert_int_equal(taut_set_classes(set), 2);
	assert_string_equal(taut_set_class(set, 0), ".ipynb_checkpoints");
	assert_string_equal(taut_set_class(set, 1), "b");
}

static void test_refused(void **state)
{
	static const struct taut_set_options one = { .extensions = "jpg", .threads = 1 };
	struct hand *hand = *state;

	hand_text(hand, "t/x.txt", "x");
	hand_refused_with(hand, "t", &one, TAUT_EFORMAT,
		"@/t: holds no item: no file ends in one of: jpg");
	hand_text(hand, "t/a/1.jpg", "x");
	link_to(hand, "nowhere", "t/a/2.jpg");
	hand_refused_with(hand, "t", &one, TAUT_EIO,
		"@/t/a/2.jpg: No such file or directory");
	assert_int_equal(remove(hand_path(hand, "t/a/2.jpg").text), 0);
	assert_int_equal(mkfifo(hand_path(hand, "t/a/3.jpg").text, 0600), 0);
	hand_refused_with(hand, "t", &one, TAUT_EFORMAT, "@/t/a/3.jpg: is not a file");
}

/* Whoever may read everything reads this, too. */
static void test_unreadable(void **state)
{
	struct hand *hand = *state;

	if (geteuid() == 0)
		skip();
	hand_text(hand, "t/a/1.jpg", "x");
	hand_text(hand, "t/a/shut/1.jpg", "x");
	assert_int_equal(chmod(hand_path(hand, "t/a/shut").text, 0), 0);
	hand_refused(hand, "t", TAUT_EIO,
		"@/t/a/shut: cannot list the folder: Permission denied");
	assert_int_equal(chmod(hand_path(hand, "t/a/shut").text, 0700), 0);
}

/* A path that no call takes any more. */
static void test_too_deep(void **state)
{
	enum { NAME = 250 };
	struct hand *hand = *state;
	struct taut_error err;
	const struct taut_set *set;
	struct hand_path path = hand_path(hand, "t");
	const char *paths[] = { path.text };
	char name[NAME + 1], line[2 * PATH_MAX];
	int fd, below;

	hand_text(hand, "t/a/1.jpg", "x");
	memset(name, 'd', NAME);
	name[NAME] = 0;
	fd = open(hand_path(hand, "t/a").text, O_RDONLY | O_DIRECTORY);
	for (int i = 0; i <= PATH_MAX / NAME; i++, fd = below) {
		assert_int_equal(mkdirat(fd, name, 0700), 0);
		below = openat(fd, name, O_RDONLY | O_DIRECTORY);
		assert_true(below >= 0);
		close(fd);
	}
	close(fd);
	assert_int_equal(taut_set_open(paths, 1, NULL, hand->arena, &set, &err),
		TAUT_EIO);
	snprintf(line, sizeof line, "%s/a/dddd", path.text);
	assert_memory_equal(err.message, line, strlen(line));
	/* Removed from within, as no path reaches it. */
	snprintf(line, sizeof line, "rm -r '%s'", path.text);
	assert_int_equal(system(line), 0);
}

static void test_threads(void **state)
{
	struct hand *hand = *state;
	uint64_t first = 0;
	char name[32];

	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof name, "t/c%d/%d.jpg", i % 7, i);
		hand_file(hand, name, name, (size_t)i % 20);
	}
	for (unsigned threads = 1; threads <= 8; threads++) {
		const struct taut_set_options options = { .threads = threads };
		uint64_t print = taut_set_fingerprint(
			hand_open_with(hand, "t", &options));

		first = threads == 1 ? print : first;
		assert_true(print == first);
	}
}

/* The same as a user of it waits; far more than what it takes. */
static void test_many(void **state)
{
	enum { FILES = 20000, CLASSES = 20 };
	struct hand *hand = *state;
	char name[64];
	int64_t from_ns, took_ns;

	for (int i = 0; i < FILES; i++) {
		struct hand_path path;
		int fd;

		snprintf(name, sizeof name, "t/%d/%d.jpg", i % CLASSES, i);
		if (i < CLASSES)
			hand_text(hand, name, "");
		path = hand_path(hand, name);
		fd = open(path.text, O_WRONLY | O_CREAT, 0600);
		assert_true(fd >= 0);
		close(fd);
	}
	from_ns = tauti_now_ns();
	assert_int_equal(taut_set_count(hand_open(hand, "t")), FILES);
	took_ns = tauti_now_ns() - from_ns;
	print_message("%d files in %.3f s\n", FILES, (double)took_ns * 1e-9);
	assert_true(took_ns < 1000000000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, hand_setup, hand_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_order),
		TEST(test_flat),
		TEST(test_extensions),
		TEST(test_links),
		TEST(test_empty_classes),
		TEST(test_refused),
		TEST(test_unreadable),
		TEST(test_too_deep),
		TEST(test_threads),
		TEST(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

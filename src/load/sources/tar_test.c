/* Archives of every writer, and every way of being none. */
#include "load/set_by_hand.h"

#include "load/sources/archive.h"
#include "load/sources/tar.h"

static struct hand_tar start(void)
{
	return (struct hand_tar){ 0 };
}

/* --- samples -----------------------------------------------------------------------------*/

static void test_samples(void **state)
{
	struct hand *hand = *state;
	struct hand_tar tar = start();
	const struct taut_set *set;

	hand_text_member(&tar, "./d.d/a.cls", " 7\n");
	hand_text_member(&tar, "./d.d/a.PNG", "first");
	hand_text_member(&tar, "./d.d/a.txt", "not read");
	hand_text_member(&tar, "b.seg.png", "another ending");
	hand_text_member(&tar, "c.jpeg", "third");
	hand_text_member(&tar, "README", "no point");
	hand_text_member(&tar, "x/.jpg", "no key");
	hand_text_member(&tar, "__meta__/m.jpg", "of no sample");
	hand_text_member(&tar, "__m/m.jpg", "fourth");
	hand_text_member(&tar, "d/e.png", "passed over");
	hand_text_member(&tar, "d/e.jpg", "earlier in the list");
	hand_text_member(&tar, "f.cls", "1");
	hand_text_member(&tar, "g.jpg", "last");
	hand_end(hand, "t.tar", &tar);
	set = hand_open(hand, "t.tar");
	assert_int_equal(taut_set_count(set), 5);
	hand_item(set, 0, "./d.d/a", 7, "first");
	hand_item(set, 1, "c", -1, "third");
	hand_item(set, 2, "__m/m", -1, "fourth");
	hand_item(set, 3, "d/e", -1, "earlier in the list");
	hand_item(set, 4, "g", -1, "last");
	assert_int_equal(taut_set_classes(set), 0);
	assert_int_equal(taut_set_file_bytes(set, 0), taut_set_at(set, 4).offset +
		512 + 1024);
}

static void test_extensions(void **state)
{
	static const struct taut_set_options seg = { .extensions = "seg.png txt" };
	struct hand *hand = *state;
	struct hand_tar tar = start();
	const struct taut_set *set;

	hand_text_member(&tar, "a.jpg", "no");
	hand_text_member(&tar, "a.seg.png", "yes");
	hand_text_member(&tar, "b.txt", "yes, too");
	hand_text_member(&tar, "b.png", "no");
	hand_end(hand, "t.tar", &tar);
	set = hand_open_with(hand, "t.tar", &seg);
	assert_int_equal(taut_set_count(set), 2);
	hand_item(set, 0, "a", -1, "yes");
	hand_item(set, 1, "b", -1, "yes, too");
}

/* Several folders, several archives, one of them without an item of ours. */
static void test_shards(void **state)
{
	struct hand *hand = *state;
	const struct taut_set *set;
	struct taut_error err;
	struct hand_tar tar;
	struct hand_path paths[] = { hand_path(hand, "p/s{0..1}.tar"),
		hand_path(hand, "p/q/s2.tar"), hand_path(hand, "r/s3.tar") };
	const char *given[] = { paths[0].text, paths[1].text, paths[2].text };
	char path[PATH_MAX];

	tar = start(), hand_text_member(&tar, "a.jpg", "0"), hand_end(hand, "p/s0.tar", &tar);
	tar = start(), hand_text_member(&tar, "a.txt", "1"), hand_end(hand, "p/s1.tar", &tar);
	tar = start(), hand_text_member(&tar, "a.jpg", "2"), hand_end(hand, "p/q/s2.tar", &tar);
	tar = start(), hand_text_member(&tar, "b.jpg", "3"), hand_end(hand, "r/s3.tar", &tar);
	assert_int_equal(taut_set_open(given, 3, NULL, hand->arena, &set, &err), TAUT_OK);
	assert_int_equal(taut_set_files(set), 4);
	assert_int_equal(taut_set_count(set), 3);
	hand_item(set, 0, "a", -1, "0");
	hand_item(set, 1, "a", -1, "2");
	hand_item(set, 2, "b", -1, "3");
	taut_set_path(set, 2, path, sizeof path);
	assert_string_equal(path, paths[1].text);
	taut_set_path(set, 3, path, sizeof path);
	assert_string_equal(path, paths[2].text);
	/* Written and moved with its folder, all but r/ is found again. */
	assert_int_equal(taut_set_write(set, hand_path(hand, "p/index").text, NULL),
		TAUT_OK);
	assert_int_equal(rename(hand_path(hand, "p").text,
		hand_path(hand, "moved").text), 0);
	set = hand_open(hand, "moved/index");
	hand_item(set, 0, "a", -1, "0");
	hand_item(set, 1, "a", -1, "2");
	hand_item(set, 2, "b", -1, "3");
}

/* --- names and sizes ---------------------------------------------------------------------*/

static void put_record(char *into, const char *key, const char *value)
{
	size_t n = strlen(key) + strlen(value) + 3, total = n;

	for (int i = 0; i < 3; i++)
		total = n + (size_t)snprintf(NULL, 0, "%zu", total);
	sprintf(into + strlen(into), "%zu %s=%s\n", total, key, value);
}

static void put_long_name(struct hand_tar *tar, char type, const char *name)
{
	hand_member(tar, "././@LongLink", type, name, strlen(name) + 1);
}

static void test_names(void **state)
{
	struct hand *hand = *state;
	struct hand_tar tar = start();
	const struct taut_set *set;
	char name[300], text[600] = "";
	unsigned char *header;

	memset(name, 'n', sizeof name);
	memcpy(name + 280, ".jpg", 5);
	put_long_name(&tar, 'K', "the target of a link");
	put_long_name(&tar, 'L', name);
	hand_text_member(&tar, "nnn.txt", "GNU's long name");
	put_record(text, "mtime", "1.5");
	put_record(text, "path", "pax/path.jpg");
	hand_member(&tar, "pax_header", 'x', text, strlen(text));
	hand_text_member(&tar, "short.jpg", "pax");
	hand_text_member(&tar, "p.jpg", "ustar's prefix");
	header = tar.bytes.data + tar.bytes.count - 1024;
	memcpy(header + 345, "in/front", 8);
	hand_sum(header);
	hand_text_member(&tar, "q.jpg", "GNU has no prefix");
	header = tar.bytes.data + tar.bytes.count - 1024;
	memcpy(header + 257, "ustar  ", 8);
	memcpy(header + 345, "12345", 5);
	hand_sum(header);
	hand_text_member(&tar, "r.jpg", "old");
	header = tar.bytes.data + tar.bytes.count - 1024;
	memset(header + 257, 0, 8);
	header[156] = 0;
	hand_sum(header);
	hand_text_member(&tar, "s", "all of the field");
	header = tar.bytes.data + tar.bytes.count - 1024;
	memset(header, 's', 100);
	memcpy(header + 96, ".jpg", 4);
	hand_sum(header);
	hand_end(hand, "t.tar", &tar);
	set = hand_open(hand, "t.tar");
	assert_int_equal(taut_set_count(set), 6);
	name[280] = 0;
	hand_item(set, 0, name, -1, "GNU's long name");
	hand_item(set, 1, "pax/path", -1, "pax");
	hand_item(set, 2, "in/front/p", -1, "ustar's prefix");
	hand_item(set, 3, "q", -1, "GNU has no prefix");
	hand_item(set, 4, "r", -1, "old");
	memset(name, 's', 96);
	name[96] = 0;
	hand_item(set, 5, name, -1, "all of the field");
}

/* What is told of a member holds for no other, nor for one that is no file. */
static void test_told_once(void **state)
{
	struct hand *hand = *state;
	struct hand_tar tar = start();
	const struct taut_set *set;

	put_long_name(&tar, 'L', "long/folder.jpg");
	hand_header(&tar, "long", '5', 0);
	hand_text_member(&tar, "a.jpg", "a");
	put_long_name(&tar, 'L', "long.jpg");
	hand_text_member(&tar, "b", "b");
	hand_text_member(&tar, "c.jpg", "c");
	hand_end(hand, "t.tar", &tar);
	set = hand_open(hand, "t.tar");
	assert_int_equal(taut_set_count(set), 3);
	hand_item(set, 0, "a", -1, "a");
	hand_item(set, 1, "long", -1, "b");
	hand_item(set, 2, "c", -1, "c");
}

static void test_sizes(void **state)
{
	struct hand *hand = *state;
	struct hand_tar tar = start();
	const struct taut_set *set;
	unsigned char *header;
	char text[64] = "";

	hand_text_member(&tar, "a.jpg", "base-256");
	header = tar.bytes.data + tar.bytes.count - 1024;
	memset(header + 124, 0, 12);
	header[124] = 0x80;
	header[135] = 8;
	hand_sum(header);
	put_record(text, "size", "3");
	hand_member(&tar, "pax", 'x', text, strlen(text));
	hand_header(&tar, "b.jpg", '0', 0);
	hand_put(&tar, "pax", 3);
	hand_text_member(&tar, "c.jpg", "");
	/* A link says how large its target is, and nothing follows. */
	hand_header(&tar, "d.jpg", '1', 5000);
	hand_header(&tar, "e.jpg", '2', 5000);
	hand_member(&tar, "f.jpg", 'Z', "of an unknown type", 18);
	hand_member(&tar, "g", 'g', "13 comment=a\n", 13);
	hand_text_member(&tar, "h.jpg", "spaces");
	header = tar.bytes.data + tar.bytes.count - 1024;
	memcpy(header + 124, "      6 \0\0\0\0", 12);
	hand_sum(header);
	hand_end(hand, "t.tar", &tar);
	set = hand_open(hand, "t.tar");
	assert_int_equal(taut_set_count(set), 4);
	hand_item(set, 0, "a", -1, "base-256");
	hand_item(set, 1, "b", -1, "pax");
	hand_item(set, 2, "c", -1, "");
	hand_item(set, 3, "h", -1, "spaces");
}

/* A file with a hole: 5 GiB before the second member, beyond 32 bits. */
static void test_large(void **state)
{
	const uint64_t large = (uint64_t)5 << 30;
	struct hand *hand = *state;
	struct hand_tar tar = start();
	struct hand_path path = hand_path(hand, "t.tar");
	const struct taut_set *set;
	struct taut_set_item item;
	int fd;

	hand_header(&tar, "a.bin", '0', large);
	hand_write(hand, "t.tar", &tar);
	hand_text_member(&tar, "b.jpg", "far");
	hand_put(&tar, (char[512]){ 0 }, 512);
	fd = open(path.text, O_WRONLY);
	assert_int_equal(pwrite(fd, tar.bytes.data, tar.bytes.count,
		(off_t)(large + 512)), tar.bytes.count);
	close(fd);
	taut_vec_free(&tar.bytes);
	set = hand_open(hand, "t.tar");
	item = taut_set_at(set, 0);
	assert_true(item.offset == large + 1024);
	hand_item(set, 0, "b", -1, "far");
	hand_refused_with(hand, "t.tar",
		&(struct taut_set_options){ .extensions = "bin" }, TAUT_EFORMAT,
		"@/t.tar: byte 0: 'a.bin': an item of 4 GiB or more; expected less");
}

/* --- what is refused ---------------------------------------------------------------------*/

static void make_good(struct hand_tar *tar)
{
	hand_text_member(tar, "a.jpg", "payload");
	hand_text_member(tar, "a.cls", "1");
}

static void test_faults_of_samples(void **state)
{
	static const struct {
		const char *name, *text, *line;
	} cases[] = {
		{ "a.JPG", "x", "@/t.tar: byte 2048: 'a.JPG': a second member of that "
			"ending in the same sample; expected one" },
		{ "a.cls", "1", "@/t.tar: byte 2048: 'a.cls': a second label of the "
			"same sample" },
		{ "b\n.cls", "cat", "@/t.tar: byte 2048: 'b?.cls': is no label; expected "
			"an integer of 32 bits" },
		{ "b.cls", "", "@/t.tar: byte 2048: 'b.cls': is no label; expected an "
			"integer of 32 bits" },
		{ "b.cls", "00000000000000000000000000000000000000000000000000000000000"
			"0000000001", "@/t.tar: byte 2048: 'b.cls': a label of more "
			"than 64 bytes; expected an integer" },
	};
	struct hand *hand = *state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct hand_tar tar = start();

		make_good(&tar);
		hand_text_member(&tar, cases[i].name, cases[i].text);
		hand_end(hand, "t.tar", &tar);
		hand_refused(hand, "t.tar", TAUT_EFORMAT, cases[i].line);
	}
}

static void test_nothing(void **state)
{
	static const struct taut_set_options jpg = { .extensions = "jpg" };
	struct hand *hand = *state;
	struct hand_tar tar = start();

	hand_text_member(&tar, "a.txt", "x");
	hand_end(hand, "t.tar", &tar);
	hand_refused_with(hand, "t.tar", &jpg, TAUT_EFORMAT, "@/t.tar: holds no item: "
		"no member's name goes on, behind its first point, with one of: jpg");
}

static void refuse_with(struct hand *hand, void (*add)(struct hand_tar *tar),
	const char *line)
{
	struct hand_tar tar = start();

	make_good(&tar);
	add(&tar);
	hand_end(hand, "t.tar", &tar);
	hand_refused(hand, "t.tar", TAUT_EFORMAT, line);
}

static void add_sparse(struct hand_tar *tar)
{
	hand_member(tar, "b.jpg", 'S', "x", 1);
}

static void add_pax_sparse(struct hand_tar *tar)
{
	char text[64] = "";

	put_record(text, "GNU.sparse.major", "1");
	hand_member(tar, "pax", 'x', text, strlen(text));
	hand_text_member(tar, "b.jpg", "x");
}

static void add_volume(struct hand_tar *tar)
{
	hand_member(tar, "b.jpg", 'M', "x", 1);
}

static void add_bad_sum(struct hand_tar *tar)
{
	hand_text_member(tar, "b.jpg", "x");
	tar->bytes.data[2048] = 'c';
}

static void add_bad_size(struct hand_tar *tar)
{
	hand_text_member(tar, "b.jpg", "x");
	memcpy(tar->bytes.data + 2048 + 124, "12x", 3);
	hand_sum(tar->bytes.data + 2048);
}

static void add_negative_size(struct hand_tar *tar)
{
	hand_text_member(tar, "b.jpg", "x");
	memset(tar->bytes.data + 2048 + 124, 0xff, 12);
	hand_sum(tar->bytes.data + 2048);
}

static void add_huge(struct hand_tar *tar)
{
	hand_header(tar, "b.jpg", '0', 1 << 20);
}

static void add_huge_name(struct hand_tar *tar)
{
	size_t n = (1 << 20) + 1;
	char *name = calloc(1, n);

	assert_non_null(name);
	hand_member(tar, "././@LongLink", 'L', name, n);
	free(name);
}

static void add_name_alone(struct hand_tar *tar)
{
	put_long_name(tar, 'L', "b.jpg");
}

static void add_bad_record(struct hand_tar *tar)
{
	hand_member(tar, "pax", 'x', "11 size=12\n99 path=x\n", 21);
	hand_text_member(tar, "b.jpg", "x");
}

static void add_bad_pax_size(struct hand_tar *tar)
{
	hand_member(tar, "pax", 'x', "11 size=-2\n", 11);
	hand_text_member(tar, "b.jpg", "x");
}

static void add_archive(struct hand_tar *tar)
{
	hand_put(tar, (char[1024]){ 0 }, 1024);
	make_good(tar);
}

static void test_faults_of_archives(void **state)
{
	static const struct {
		void (*add)(struct hand_tar *tar);
		const char *line;
	} cases[] = {
		{ add_sparse, "2048: 'b.jpg' is sparse, so its bytes do not lie "
			"together; pack it without --sparse" },
		{ add_pax_sparse, "3072: 'b.jpg' is sparse, so its bytes do not lie "
			"together; pack it without --sparse" },
		{ add_volume, "2048: goes on with a file of another volume; pack it "
			"without --multi-volume" },
		{ add_bad_sum, "2048: not the header of a member: its sum is wrong; the "
			"archive is damaged" },
		{ add_bad_size, "2048: a member's size is not a number; the archive is "
			"damaged" },
		{ add_negative_size, "2048: a member's size is not a number; the archive "
			"is damaged" },
		{ add_huge, "2048: a member of 1048576 bytes, and the file ends at 3584; "
			"it was cut short, or is damaged" },
		{ add_huge_name, "2560: a name or header of more than 1 MiB; the archive "
			"is damaged" },
		{ add_name_alone, "3072: the archive ends behind the name of a member "
			"that is not there; it is damaged" },
		{ add_bad_record, "2571: a record of a pax header is damaged; expected "
			"\"length key=value\"" },
		{ add_bad_pax_size, "2560: a record of a pax header is damaged; expected "
			"\"length key=value\"" },
		{ add_archive, "3072: another archive begins behind the end of this one, "
			"which no reader would see; expected each in a file" },
	};
	char line[300];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(line, sizeof line, "@/t.tar: byte %s", cases[i].line);
		refuse_with(*state, cases[i].add, line);
	}
}

static void test_packed(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *name, *unpack;
	} cases[] = {
		{ "\x1f\x8b\x08\0\0\0\0", 7, "gzip", "gunzip" },
		{ "\x28\xb5\x2f\xfd\0", 5, "zstd", "unzstd" },
		{ "\xfd" "7zXZ\0", 6, "xz", "unxz" },
		{ "BZh91AY", 7, "bzip2", "bunzip2" },
		{ "\x04\x22\x4d\x18", 4, "lz4", "unlz4" },
	};
	struct hand *hand = *state;
	char line[300];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		hand_file(hand, "t.x", cases[i].bytes, cases[i].n);
		snprintf(line, sizeof line, "@/t.x: is compressed with %s, so no item "
			"can be read by itself; unpack it first: %s @/t.x",
			cases[i].name, cases[i].unpack);
		hand_refused(hand, "t.x", TAUT_EFORMAT, line);
	}
}

static void test_wrong_shards(void **state)
{
	struct hand *hand = *state;
	struct hand_tar tar = start();

	make_good(&tar);
	hand_end(hand, "s0", &tar);
	hand_text(hand, "s1", "");
	hand_refused(hand, "s{0..1}", TAUT_EFORMAT,
		"@/s1: is empty; expected a tar archive");
	hand_text(hand, "s1", "short");
	hand_refused(hand, "s{0..1}", TAUT_EFORMAT, "@/s1: byte 5: the file ends, "
		"without the empty block that ends an archive; it was cut short");
	hand_text(hand, "f/x", "");
	hand_refused(hand, "{s0,f}", TAUT_EFORMAT,
		"@/f: is a folder; expected a tar archive");
	hand_refused(hand, "s{0,9}", TAUT_EIO, "@/s9: No such file or directory");
}

/* Cut at every byte it is refused, from memory as from a file, but where only the empty
 * blocks are cut. */
static void test_cut(void **state)
{
	struct hand_tar tar = start();
	char text[64] = "";

	(void)state;
	put_long_name(&tar, 'L', "long/name.jpg");
	hand_text_member(&tar, "x", "payload");
	put_record(text, "path", "p.jpg");
	hand_member(&tar, "pax", 'x', text, strlen(text));
	hand_text_member(&tar, "y", "payload");
	make_good(&tar);
	hand_put(&tar, (char[1024]){ 0 }, 1024);
	for (size_t n = 0; n <= tar.bytes.count; n++) {
		unsigned char *copy = malloc(n ? n : 1);
		struct tauti_archive_bytes *bytes = calloc(1, sizeof *bytes);
		struct tauti_part part = { 0 };
		bool whole = n >= tar.bytes.count - 512;

		assert_true(copy && bytes);
		memcpy(copy, tar.bytes.data, n);
		bytes->path = "cut";
		bytes->memory = copy;
		bytes->size = n;
		assert_int_equal(tauti_tar_scan(bytes, "jpg", &part, NULL),
			whole ? TAUT_OK : TAUT_EFORMAT);
		assert_int_equal(whole ? part.rows.count : 3, 3);
		taut_vec_free(&part.rows);
		taut_vec_free(&part.texts);
		free(bytes);
		free(copy);
	}
	taut_vec_free(&tar.bytes);
}

/* Between looking at its size and reading it. */
static void test_shorter(void **state)
{
	struct hand *hand = *state;
	struct hand_tar tar = start();
	struct tauti_archive_bytes *bytes = calloc(1, sizeof *bytes);
	struct tauti_part part = { 0 };
	struct taut_error err;

	assert_non_null(bytes);
	make_good(&tar);
	hand_write(hand, "t.tar", &tar);
	bytes->path = "t.tar";
	bytes->size = 10240;
	bytes->fd = open(hand_path(hand, "t.tar").text, O_RDONLY);
	assert_true(bytes->fd >= 0);
	assert_int_equal(tauti_tar_scan(bytes, "jpg", &part, &err), TAUT_EIO);
	assert_string_equal(err.message, "t.tar: byte 2048: cannot be read: the file has "
		"become shorter");
	close(bytes->fd);
	taut_vec_free(&part.rows);
	taut_vec_free(&part.texts);
	free(bytes);
}

/* As GNU tar writes them, where there is one. */
static void test_real(void **state)
{
	static const char *const forms[] = { "v7", "oldgnu", "gnu", "ustar", "pax" };
	struct hand *hand = *state;
	const struct taut_set *set;
	char line[2 * PATH_MAX], name[120];

	if (system("tar --version > /dev/null 2>&1") != 0)
		skip();
	memset(name, 'k', sizeof name);
	memcpy(name, "d/", 2);
	memcpy(name + 90, ".jpg", 5);
	hand_text(hand, name, "payload");
	hand_text(hand, "d/z.cls", "12\n");
	hand_text(hand, "d/z.jpg", "second");
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		snprintf(line, sizeof line, "cd '%s' && tar --sort=name --format=%s "
			"-cf real.tar d", hand->folder, forms[i]);
		assert_int_equal(system(line), 0);
		set = hand_open(hand, "real.tar");
		assert_int_equal(taut_set_count(set), 2);
		name[90] = 0;
		hand_item(set, 0, name, -1, "payload");
		hand_item(set, 1, "d/z", 12, "second");
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, hand_setup, hand_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_samples),
		TEST(test_extensions),
		TEST(test_shards),
		TEST(test_names),
		TEST(test_told_once),
		TEST(test_sizes),
		TEST(test_large),
		TEST(test_faults_of_samples),
		TEST(test_nothing),
		TEST(test_faults_of_archives),
		TEST(test_packed),
		TEST(test_wrong_shards),
		cmocka_unit_test(test_cut),
		TEST(test_shorter),
		TEST(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

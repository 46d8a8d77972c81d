/* Numbers that are samples: headers of .npy as NumPy writes them and as it does not, raw
 * bytes, cuts and padding. */
#include "tests/support/unit.h"

#include <string.h>

#include "load/kinds.h"
#include "load/kinds/made_npy.h"
#include "load/kinds/npy.h"
#include "tests/support/alloc_fail.h"

static const float some[6] = { 1, -2.5f, 3e20f, 0, -0.0f, 7 };

static struct tauti_item item_of(const void *bytes, size_t n, uint64_t number)
{
	return (struct tauti_item){ .bytes = bytes, .n = n, .name = "a/b.npy",
		.number = number, .label = 3, .draw = tauti_draw_begin(5, 1, number) };
}

/* One sample; the status of the making. */
static taut_status make(const struct taut_prepare_options *o, const void *bytes, size_t n,
	uint64_t number, void *sample, int64_t *length, struct taut_error *err)
{
	struct tauti_item item = item_of(bytes, n, number);
	struct tauti_maker *maker = NULL;
	taut_status status;

	if (tauti_maker_create(o, &maker, err) != TAUT_OK)
		fail_msg("%s", err->message);
	status = tauti_maker_make(maker, &item, sample, length, err);
	tauti_maker_destroy(maker);
	return status;
}

static void made(const struct taut_prepare_options *o, const void *bytes, size_t n,
	uint64_t number, void *sample, int64_t *length)
{
	struct taut_error err = { .offset = -1 };

	if (make(o, bytes, n, number, sample, length, &err) != TAUT_OK)
		fail_msg("%s", err.message);
}

static void refused(const struct taut_prepare_options *o, const void *bytes, size_t n,
	const char *message)
{
	struct taut_error err = { .offset = -1 };
	unsigned char sample[4096];
	int64_t length;

	assert_int_equal(make(o, bytes, n, 0, sample, &length, &err), TAUT_EFORMAT);
	assert_string_equal(err.message, message);
}

/* --- headers -----------------------------------------------------------------------------*/
static void read_text(unsigned major, const char *text, struct tauti_npy *npy)
{
	struct made_npy file = made_npy_text(major, text, NULL, 0);
	struct taut_error err = { .offset = -1 };

	if (tauti_npy_read(file.bytes, file.n, "x", npy, &err) != TAUT_OK)
		fail_msg("%s: %s", text, err.message);
	assert_int_equal(npy->at, file.n);
	free(file.bytes);
}

static void test_headers(void **state)
{
	struct tauti_npy npy;

	(void)state;
	read_text(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n", &npy);
	assert_int_equal(npy.type, TAUT_PIXEL_F32);
	assert_int_equal(npy.n_dims, 2);
	assert_int_equal(npy.dims[0] * 10 + npy.dims[1], 34);
	read_text(2, "{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", &npy);
	assert_int_equal(npy.type, TAUT_PIXEL_U8);
	assert_int_equal(npy.n_dims, 0);
	read_text(3, "{\"shape\":(0,9223372036854775807,7),\"fortran_order\":False,"
		"\"descr\":\"<i8\"}", &npy);
	assert_int_equal(npy.type, TAUT_NUMBER_I64);
	assert_int_equal(npy.n_dims, 3);
	read_text(1, "{'descr': '<u2', 'fortran_order': True, 'shape': (5,)}", &npy);
	assert_int_equal(npy.type, TAUT_NUMBER_U16);
	assert_int_equal(npy.dims[0], 5);
	read_text(1, "{'descr': '<f2', 'fortran_order': False, 'shape': "
		"(1, 1, 1, 1, 1, 1, 1, 2,)}", &npy);
	assert_int_equal(npy.n_dims, 8);
}

static void test_refused_headers(void **state)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{ "{'descr': '>f4', 'fortran_order': False, 'shape': (3,)}",
			"x: npy: byte 20: numbers of type '>f4', expected bool, integers or "
			"floats, little-endian" },
		{ "{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}",
			"x: npy: byte 20: numbers of type '<c8', expected bool, integers or "
			"floats, little-endian" },
		{ "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
			"x: npy: byte 20: expected a string" },
		{ "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2)}",
			"x: npy: byte 66: expected the order of C before it, not Fortran's" },
		{ "{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 2)}",
			"x: npy: byte 44: expected True or False" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
			"x: npy: byte 60: expected a shape in parentheses" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
			"x: npy: byte 63: expected a comma behind the only dimension" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
			"x: npy: byte 63: expected a comma between dimensions" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
			"x: npy: byte 61: expected a dimension" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}",
			"x: npy: byte 79: expected a dimension below 2^63" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
			"x: npy: byte 85: expected a shape of less than 2^63 bytes before it" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
			"x: npy: byte 78: expected 8 dimensions at most" },
		{ "{'descr': '<f4', 'fortran_order': False}",
			"x: npy: byte 50: expected descr, fortran_order and shape before it" },
		{ "{'descr': '<f4', 'descr': '<f4', 'shape': (3,)}",
			"x: npy: byte 35: expected each of descr, fortran_order and shape once" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} more",
			"x: npy: byte 66: expected the end of the header" },
		{ "{'descr': '<f4' 'fortran_order': False, 'shape': (3,)}",
			"x: npy: byte 26: expected a comma" },
		{ "{'descr': 'aaaaaaaaaaaaaaaa', 'shape': (3,)}",
			"x: npy: byte 20: expected a short string" },
		{ "", "x: npy: byte 10: expected {" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct made_npy file = made_npy_text(1, rows[i].text, NULL, 0);
		struct taut_error err = { .offset = -1 };
		struct tauti_npy npy;

		assert_int_equal(tauti_npy_read(file.bytes, file.n, "x", &npy, &err),
			TAUT_EFORMAT);
		assert_string_equal(err.message, rows[i].message);
		free(file.bytes);
	}
}

/* Whatever is cut off or claimed: a fault, and no byte behind the end is read. */
static void test_damaged(void **state)
{
	struct taut_prepare_options o = { .kind = TAUT_KIND_TENSOR, .type = TAUT_PIXEL_F32,
		.n_dims = 2, .dims = { 2, 3 } };
	struct made_npy file = made_npy("<f4", "2, 3", some, sizeof some);
	struct taut_error err = { .offset = -1 };
	float sample[6];

	(void)state;
	for (size_t n = 0; n < file.n; n++) {
		unsigned char *cut = malloc(n ? n : 1);

		assert_non_null(cut);
		memcpy(cut, file.bytes, n);
		assert_int_equal(make(&o, cut, n, 0, sample, NULL, &err), TAUT_EFORMAT);
		assert_memory_equal(err.message, "a/b.npy: npy: ", 14);
		free(cut);
	}
	file.bytes[6] = 4;
	refused(&o, file.bytes, file.n,
		"a/b.npy: npy: byte 6: version 4.0, expected 1.0, 2.0 or 3.0");
	file.bytes[6] = 2; /* a length of four bytes: two are of the text */
	refused(&o, file.bytes, file.n,
		"a/b.npy: npy: byte 12: expected a header of at most 64 KiB");
	file.bytes[0] = 'P';
	refused(&o, file.bytes, file.n, "a/b.npy: npy: byte 0: expected a file of .npy");
	free(file.bytes);
}

/* --- samples -----------------------------------------------------------------------------*/
static void test_npy(void **state)
{
	struct taut_prepare_options o = { .kind = TAUT_KIND_TENSOR, .type = TAUT_PIXEL_F32,
		.n_dims = 2, .dims = { 2, 3 } };
	struct made_npy file = made_npy("<f4", "2, 3", some, sizeof some);
	int64_t length = -7;
	float sample[6];

	(void)state;
	made(&o, file.bytes, file.n, 0, sample, &length);
	assert_memory_equal(sample, some, sizeof some);
	assert_int_equal(length, -7); /* none has one */
	o.dims[0] = 3;
	refused(&o, file.bytes, file.n, "a/b.npy: npy: shape 2 x 3, expected 3 x 3");
	o.n_dims = 0;
	refused(&o, file.bytes, file.n, "a/b.npy: npy: shape 2 x 3, expected one number");
	o = (struct taut_prepare_options){ .kind = TAUT_KIND_TENSOR, .n_dims = 2,
		.dims = { 2, 3 } };
	refused(&o, file.bytes, file.n, "a/b.npy: npy: numbers of type f32, expected u8");
	free(file.bytes);
	o = (struct taut_prepare_options){ .kind = TAUT_KIND_TENSOR, .format = "npy",
		.type = TAUT_NUMBER_F64 };
	file = made_npy("<f8", "", &(double){ 2.5 }, sizeof(double));
	made(&o, file.bytes, file.n, 0, sample, NULL);
	assert_memory_equal(sample, &(double){ 2.5 }, sizeof(double));
	free(file.bytes);
}

static void test_raw(void **state)
{
	struct taut_prepare_options o = { .kind = TAUT_KIND_TENSOR, .format = "raw",
		.type = TAUT_NUMBER_I16, .n_dims = 2, .dims = { 3, 2 } };
	int16_t from[6] = { 1, -1, 300, -32768, 0, 9 }, sample[6];

	(void)state;
	made(&o, from, sizeof from, 0, sample, NULL);
	assert_memory_equal(sample, from, sizeof from);
	refused(&o, from, 11, "a/b.npy: raw: 11 bytes, expected 12");
	refused(&o, from, 0, "a/b.npy: raw: 0 bytes, expected 12");
	o.varies = true;
	refused(&o, from, 11, "a/b.npy: raw: 11 bytes, expected a multiple of 4");
}

/* A text: cut where it is too long, zeros where it is too short. */
static void check_text(enum taut_prepare_cut cut, const char *text, uint64_t number,
	const char *expected)
{
	struct taut_prepare_options o = { .kind = TAUT_KIND_TENSOR, .format = "raw",
		.n_dims = 1, .dims = { 8 }, .varies = true, .cut = cut };
	size_t n = strlen(expected);
	char sample[8], zeros[8] = { 0 };
	int64_t length = -1;

	memset(sample, 'x', sizeof sample);
	made(&o, text, strlen(text), number, sample, &length);
	assert_int_equal(length, n);
	assert_memory_equal(sample, expected, n);
	assert_memory_equal(sample + n, zeros, 8 - n);
}

static void test_text(void **state)
{
	static const char *const pieces[] = { "abcdefgh", "bcdefghi", "cdefghij" };
	unsigned seen = 0;

	(void)state;
	for (int cut = 0; cut < TAUT_CUTS; cut++) {
		check_text(cut, "", 0, "");
		check_text(cut, "short", 0, "short");
		check_text(cut, "eight ch", 0, "eight ch");
	}
	check_text(TAUT_CUT_BEGINNING, "abcdefghij", 0, "abcdefgh");
	check_text(TAUT_CUT_CENTRE, "abcdefghij", 0, "bcdefghi");
	check_text(TAUT_CUT_END, "abcdefghij", 0, "cdefghij");
	for (uint64_t number = 0; number < 50; number++) {
		struct tauti_draw draw = tauti_draw_begin(5, 1, number);
		uint64_t first = tauti_draw_below(&draw, 3);

		check_text(TAUT_CUT_RANDOM, "abcdefghij", number, pieces[first]);
		seen |= 1u << first;
	}
	assert_int_equal(seen, 7);
}

/* Rows of .npy: frames of features, of which there are more or fewer. */
static void test_rows(void **state)
{
	struct taut_prepare_options o = { .kind = TAUT_KIND_TENSOR, .type = TAUT_PIXEL_F32,
		.n_dims = 2, .dims = { 2, 2 }, .varies = true, .cut = TAUT_CUT_END };
	struct made_npy file = made_npy("<f4", "3, 2", some, sizeof some);
	struct made_npy none = made_npy("<f4", "0, 2", NULL, 0);
	float sample[4], zeros[4] = { 0 };
	int64_t length;

	(void)state;
	made(&o, file.bytes, file.n, 0, sample, &length);
	assert_int_equal(length, 2);
	assert_memory_equal(sample, some + 2, sizeof sample);
	made(&o, none.bytes, none.n, 0, sample, &length);
	assert_int_equal(length, 0);
	assert_memory_equal(sample, zeros, sizeof sample);
	o.dims[1] = 3;
	refused(&o, file.bytes, file.n,
		"a/b.npy: npy: shape 3 x 2, expected 2 x 3, or another first dimension");
	free(file.bytes);
	free(none.bytes);
}

/* --- options -----------------------------------------------------------------------------*/
static void test_first(void **state)
{
	struct made_npy file = made_npy("<f4", "3, 2", some, sizeof some);
	struct taut_prepare_options o = { .kind = TAUT_KIND_TENSOR, .as_first = true };
	struct taut_prepare_options varies = { .kind = TAUT_KIND_TENSOR, .as_first = true,
		.varies = true, .n_dims = 1, .dims = { 77 } };
	struct taut_error err = { .offset = -1 };
	size_t header = file.n - sizeof some;

	(void)state;
	assert_int_equal(tauti_prepare_first(&o, file.bytes, header, file.n, "x", &err), 0);
	assert_false(o.as_first);
	assert_int_equal(o.type, TAUT_PIXEL_F32);
	assert_int_equal(o.n_dims, 2);
	assert_int_equal(o.dims[0] * 10 + o.dims[1], 32);
	assert_int_equal(
		tauti_prepare_first(&varies, file.bytes, header, file.n, "x", &err), 0);
	assert_int_equal(varies.dims[0] * 10 + varies.dims[1], 772);
	assert_int_equal(tauti_prepare_first(&o, file.bytes, header, file.n - 1, "x", &err),
		TAUT_EFORMAT);
	assert_string_equal(
		err.message, "x: npy: 23 bytes behind the header, expected 24");
	free(file.bytes);
	file = made_npy("<f4", "0, 2", NULL, 0);
	assert_int_equal(tauti_prepare_first(&o, file.bytes, file.n, file.n, "x", &err),
		TAUT_EFORMAT);
	assert_string_equal(err.message, "x: npy: the first item's shape is none of a sample: "
		"prepare: dims: expected each at least 1, and 2^32 bytes at most in all");
	free(file.bytes);
}

static void check_options(const struct taut_prepare_options *o, const char *message)
{
	struct taut_error err = { .offset = -1 };

	assert_int_equal(taut_prepare_check(o, &err), TAUT_EINVAL);
	assert_string_equal(err.message, message);
	assert_int_equal(taut_prepare_slot_bytes(o), 0);
}

static void test_options(void **state)
{
	struct taut_prepare_options o = { .kind = TAUT_KIND_TENSOR, .format = "png" };
	struct taut_prepare_shape shape;

	(void)state;
	check_options(&o, "prepare: format: expected npy, raw, or none");
	o = (struct taut_prepare_options){ .kind = TAUT_KINDS };
	check_options(&o, "prepare: kind: expected one of enum taut_prepare_kind");
	o = (struct taut_prepare_options){ .kind = TAUT_KIND_TENSOR, .n_dims = 9 };
	check_options(&o, "prepare: n_dims: expected at most 8");
	o.as_first = true;
	check_options(&o, "prepare: n_dims: expected at most 8");
	o = (struct taut_prepare_options){ .kind = TAUT_KIND_TENSOR, .varies = true };
	check_options(&o, "prepare: n_dims: expected one at least where it varies");
	o = (struct taut_prepare_options){ .kind = TAUT_KIND_TENSOR, .n_dims = 2,
		.dims = { 65536, 65537 } };
	check_options(&o, "prepare: dims: expected each at least 1, and 2^32 bytes at most in all");
	o = (struct taut_prepare_options){ .kind = TAUT_KIND_TENSOR, .format = "raw",
		.as_first = true };
	check_options(&o, "prepare: as_first: expected a format that tells types and shapes: npy");
	o = (struct taut_prepare_options){ .kind = TAUT_KIND_OWN };
	check_options(&o, "prepare: stage: expected one, where items are what it makes of them");
	o = (struct taut_prepare_options){ .kind = TAUT_KIND_TENSOR, .type = TAUT_NUMBER_I32,
		.n_dims = 3, .dims = { 2, 3, 4 }, .varies = true };
	assert_int_equal(taut_prepare_shape(&o, &shape, NULL), TAUT_OK);
	assert_int_equal(shape.bytes, 96);
	assert_int_equal(shape.dims[2], 4);
	assert_true(shape.varies);
}

/* Whatever a sample depends on is in it; of a stage, its name. */
static taut_status stage(void *context, const struct taut_stage_item *item, void *sample,
	struct taut_error *err)
{
	(void)context;
	(void)item;
	(void)sample;
	(void)err;
	return TAUT_OK;
}

static void test_fingerprint(void **state)
{
	struct taut_prepare_options p[14];
	uint64_t prints[14];

	(void)state;
	for (int i = 0; i < 14; i++)
		p[i] = (struct taut_prepare_options){ .kind = TAUT_KIND_TENSOR,
			.n_dims = 2, .dims = { 4, 3 } };
	p[1].kind = TAUT_KIND_AUDIO;
	p[2].n_dims = 1;
	p[3].dims[0] = 5;
	p[4].dims[1] = 4;
	p[5].varies = true;
	p[6].cut = TAUT_CUT_END;
	p[7].samples = 1;
	p[8].rate = 8000;
	p[9].channels = 1;
	p[10].type = TAUT_NUMBER_I8;
	p[11].stage = stage;
	p[12].stage = stage;
	p[12].stage_name = "a";
	p[13].stage = stage;
	p[13].stage_name = "b";
	for (int i = 0; i < 14; i++) {
		prints[i] = tauti_prepare_fingerprint(&p[i]);
		for (int k = 0; k < i; k++)
			if (prints[k] == prints[i])
				fail_msg("%d and %d are alike", k, i);
	}
	p[13].stage_context = &p;
	p[13].dims[2] = 9; /* there are two */
	assert_true(tauti_prepare_fingerprint(&p[13]) == prints[13]);
}

/* Each of the few requests for memory fails once. */
static void test_memory(void **state)
{
	struct taut_prepare_options o = { .kind = TAUT_KIND_TENSOR, .format = "raw",
		.n_dims = 1, .dims = { 4 } };
	struct tauti_maker *maker = NULL;
	long n = 0;

	(void)state;
	for (alloc_fail_after(0); tauti_maker_create(&o, &maker, NULL); alloc_fail_after(++n))
		assert_null(maker);
	alloc_fail_never();
	assert_int_equal(n, 2);
	tauti_maker_destroy(maker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_refused_headers),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_npy),
		cmocka_unit_test(test_raw),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_fingerprint),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

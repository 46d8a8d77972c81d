/* The plain kernels against arithmetic of another kind, and all others against
 * the plain ones, bit by bit. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/reduce.h"

static uint64_t random_bits(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* --- what makes trouble, by width of the exponent ------------------------------------*/

struct layout {
	unsigned bits, exponent, fraction;
};

static struct layout layout_of(enum taut_type type)
{
	switch (type) {
	case TAUT_FLOAT32:
		return (struct layout){ 32, 8, 23 };
	case TAUT_FLOAT64:
		return (struct layout){ 64, 11, 52 };
	case TAUT_FLOAT16:
		return (struct layout){ 16, 5, 10 };
	case TAUT_BFLOAT16:
		return (struct layout){ 16, 8, 7 };
	default:
		return (struct layout){ 8 * (unsigned)taut_type_bytes(type),
			0, 0 };
	}
}

/* Zero, denormals, infinity, NaN of both kinds, the least and the most, ties. */
static uint64_t special(struct layout l, uint64_t x)
{
	uint64_t one = 1, hidden = one << l.fraction;
	uint64_t top = ((one << l.exponent) - 1) << l.fraction;
	const uint64_t sizes[] = { 0, 1, hidden - 1, hidden, hidden + 1, top,
		top + 1, top + hidden / 2, top + hidden - 1, top - 1,
		(top / 2) & ~(hidden - 1), hidden / 2, 3 * hidden / 2 };
	uint64_t size = sizes[x % (sizeof sizes / sizeof sizes[0])];

	return size | (x >> 32 & 1) << (l.bits - 1);
}

static void put_bits(void *to, unsigned bits, uint64_t x)
{
	uint8_t x8 = (uint8_t)x;
	uint16_t x16 = (uint16_t)x;
	uint32_t x32 = (uint32_t)x;

	memcpy(to, bits == 8 ? (void *)&x8 : bits == 16 ? (void *)&x16 :
		bits == 32 ? (void *)&x32 : (void *)&x, bits / 8);
}

/* All bits random, so all exponents; a quarter is special, and a quarter near to
 * 1, where sums and products round. */
static uint64_t any_element(enum taut_type type, uint64_t *state)
{
	struct layout l = layout_of(type);
	uint64_t x = random_bits(state), kind = random_bits(state);
	uint64_t one = 1;

	if (l.exponent && kind % 4 == 0)
		return special(l, x);
	if (l.exponent && kind % 4 == 1) {
		uint64_t near = (one << (l.exponent - 1)) - 1;

		near += (kind >> 8) % l.fraction - l.fraction / 2;
		return near << l.fraction | (x & ((one << l.fraction) - 1)) |
			(kind >> 63) << (l.bits - 1);
	}
	return x;
}

static void fill(enum taut_type type, void *to, size_t count, uint64_t *state)
{
	struct layout l = layout_of(type);

	for (size_t i = 0; i < count; i++)
		put_bits((char *)to + i * (l.bits / 8), l.bits,
			any_element(type, state));
}

/* --- another arithmetic ----------------------------------------------------------------*/

/* Exact, for a float of 16 bits. */
static double value_16(uint16_t h, struct layout l)
{
	int exponent = h >> l.fraction & ((1 << l.exponent) - 1);
	int fraction = h & ((1 << l.fraction) - 1);
	int bias = (1 << (l.exponent - 1)) - 1;
	double size;

	if (exponent == (1 << l.exponent) - 1)
		size = fraction ? (double)NAN : (double)INFINITY;
	else if (exponent == 0)
		size = ldexp(fraction, 1 - bias - (int)l.fraction);
	else
		size = ldexp(fraction + (1 << l.fraction),
			exponent - bias - (int)l.fraction);
	return h >> 15 ? -size : size;
}

/* The nearest by search among all; what lies in the middle goes to the even one,
 * and half a step beyond the largest to infinity. */
static uint16_t nearest_16(double value, struct layout l)
{
	uint16_t infinite = (uint16_t)(((1 << l.exponent) - 1) << l.fraction);
	uint16_t sign = signbit(value) ? 0x8000 : 0, low = 0, high = infinite;
	double size = fabs(value), below, above;

	if (isnan(value))
		return (uint16_t)(infinite | 1 << (l.fraction - 1));
	while (high - low > 1) {
		uint16_t middle = (uint16_t)((low + high) / 2);

		if (value_16(middle, l) <= size)
			low = middle;
		else
			high = middle;
	}
	below = size - value_16(low, l);
	above = (high == infinite ? 2 * value_16(low, l) -
		value_16((uint16_t)(low - 1), l) : value_16(high, l)) - size;
	if (below > above || (below == above && low & 1))
		low = high;
	return low | sign;
}

/* A double has more than twice the digits of a float and two more: rounding twice
 * is rounding once. */
static double expected_real(
	enum taut_reduction reduction, double x, double y)
{
	switch (reduction) {
	case TAUT_SUM:
		return x + y;
	case TAUT_PRODUCT:
		return x * y;
	case TAUT_MIN:
	case TAUT_MAX:
		break;
	default:
		fail();
	}
	if (isnan(x) || isnan(y))
		return (double)NAN;
	if (x == 0 && y == 0)
		return reduction == TAUT_MIN ?
			(signbit(x) || signbit(y) ? -0.0 : 0.0) :
			(signbit(x) && signbit(y) ? -0.0 : 0.0);
	return (reduction == TAUT_MIN) == (x < y) ? x : y;
}

static uint64_t expected_float(enum taut_type type,
	enum taut_reduction reduction, const void *x, const void *y)
{
	uint64_t result = 0;

	if (type == TAUT_FLOAT64) {
		double a, b, r;

		memcpy(&a, x, 8);
		memcpy(&b, y, 8);
		r = expected_real(reduction, a, b);
		memcpy(&result, &r, 8);
		return isnan(r) ? UINT64_C(0x7ff8000000000000) : result;
	}
	if (type == TAUT_FLOAT32) {
		float a, b, r;

		memcpy(&a, x, 4);
		memcpy(&b, y, 4);
		r = (float)expected_real(reduction, (double)a, (double)b);
		memcpy(&result, &r, 4);
		return isnan(r) ? 0x7fc00000 : result;
	}
	struct layout l = layout_of(type);
	uint16_t a, b;

	memcpy(&a, x, 2);
	memcpy(&b, y, 2);
	/* Computed in 32 bits, then rounded. */
	return nearest_16((double)(float)expected_real(reduction,
		value_16(a, l), value_16(b, l)), l);
}

__extension__ typedef __int128 wide;

static wide integer_at(enum taut_type type, const void *at)
{
	int8_t i8;
	uint8_t u8;
	int32_t i32;
	int64_t i64;
	uint64_t u64;

	switch (type) {
	case TAUT_INT8:
		return memcpy(&i8, at, 1), i8;
	case TAUT_UINT8:
		return memcpy(&u8, at, 1), u8;
	case TAUT_INT32:
		return memcpy(&i32, at, 4), i32;
	case TAUT_INT64:
		return memcpy(&i64, at, 8), i64;
	default:
		return memcpy(&u64, at, 8), (wide)u64;
	}
}

static uint64_t expected_integer(enum taut_type type,
	enum taut_reduction reduction, const void *x, const void *y)
{
	wide a = integer_at(type, x), b = integer_at(type, y);

	switch (reduction) {
	case TAUT_SUM:
		return (uint64_t)(a + b);
	case TAUT_PRODUCT:
		return (uint64_t)a * (uint64_t)b;
	case TAUT_MIN:
		return (uint64_t)(a < b ? a : b);
	case TAUT_MAX:
		return (uint64_t)(a < b ? b : a);
	case TAUT_BIT_AND:
		return (uint64_t)(a & b);
	case TAUT_BIT_OR:
		return (uint64_t)(a | b);
	default:
		return (uint64_t)(a ^ b);
	}
}

static void check_arithmetic(enum taut_type type,
	enum taut_reduction reduction, const void *a, const void *b,
	const void *out, size_t count)
{
	size_t bytes = taut_type_bytes(type);
	struct layout l = layout_of(type);

	for (size_t i = 0; i < count; i++) {
		const char *x = (const char *)a + i * bytes;
		const char *y = (const char *)b + i * bytes;
		char expected[8];

		put_bits(expected, l.bits, l.exponent ?
			expected_float(type, reduction, x, y) :
			expected_integer(type, reduction, x, y));
		if (memcmp(expected, (const char *)out + i * bytes, bytes))
			fail_msg("%s of %s, element %zu: a wrong result",
				taut_reduction_name(reduction),
				taut_type_name(type), i);
	}
}

/* --- every kernel, on some elements ------------------------------------------------------*/

enum { MOST = 1 << 16 };

struct fields {
	uint64_t a[MOST], b[MOST], plain[MOST], out[MOST];
};

/* Of every set, also in place; `plain` has the first set's afterwards. */
static void compare_sets(enum taut_type type, enum taut_reduction reduction,
	struct fields *f, size_t count)
{
	const struct tauti_reduce_kernels *set;
	size_t bytes = count * taut_type_bytes(type);

	tauti_reduce_plain.of[type][reduction](f->plain, f->a, f->b, count);
	for (size_t i = 0; (set = tauti_reduce_set(i)) != NULL; i++) {
		set->of[type][reduction](f->out, f->a, f->b, count);
		if (memcmp(f->out, f->plain, bytes))
			fail_msg("%s: %s of %s is another", set->name,
				taut_reduction_name(reduction),
				taut_type_name(type));
		memcpy(f->out, f->a, bytes);
		set->of[type][reduction](f->out, f->out, f->b, count);
		assert_memory_equal(f->out, f->plain, bytes);
		memcpy(f->out, f->b, bytes);
		set->of[type][reduction](f->out, f->a, f->out, count);
		assert_memory_equal(f->out, f->plain, bytes);
	}
	taut_reduce(type, reduction, f->out, f->a, f->b, count);
	assert_memory_equal(f->out, f->plain, bytes);
}

typedef void on_kernel(enum taut_type type, enum taut_reduction reduction,
	struct fields *fields);

static void for_all(on_kernel *work)
{
	struct fields *fields = malloc(sizeof *fields);

	assert_non_null(fields);
	for (int type = 0; type < TAUT_TYPES; type++)
		for (int r = 0; r < TAUT_REDUCTIONS; r++)
			if (taut_reduces((enum taut_type)type,
				    (enum taut_reduction)r))
				work((enum taut_type)type,
					(enum taut_reduction)r, fields);
	free(fields);
}

static void random_elements(enum taut_type type,
	enum taut_reduction reduction, struct fields *f)
{
	uint64_t state = (uint64_t)type * 100 + (uint64_t)reduction;

	for (int turn = 0; turn < 3; turn++) {
		fill(type, f->a, 20000, &state);
		fill(type, f->b, 20000, &state);
		compare_sets(type, reduction, f, 20000);
		check_arithmetic(type, reduction, f->a, f->b, f->plain, 20000);
	}
}

static void test_random(void **state)
{
	(void)state;
	for_all(random_elements);
}

/* Each of all 65,536 with one other, which is then another. */
static void all_halves(enum taut_type type, enum taut_reduction reduction,
	struct fields *f)
{
	enum { OTHERS = 24, BY_HAND = 2 };
	uint16_t *a = (uint16_t *)f->a, *b = (uint16_t *)f->b;
	uint64_t state = (uint64_t)reduction;

	if (layout_of(type).bits != 16)
		return;
	for (uint32_t i = 0; i < 65536; i++)
		a[i] = (uint16_t)i;
	for (int other = 0; other < OTHERS; other++) {
		uint16_t one = (uint16_t)any_element(type, &state);

		for (uint32_t i = 0; i < 65536; i++)
			b[i] = other % 2 ? one :
				(uint16_t)any_element(type, &state);
		compare_sets(type, reduction, f, 65536);
		if (other < BY_HAND)
			check_arithmetic(type, reduction, a, b, f->plain,
				65536);
	}
}

static void test_all_halves(void **state)
{
	(void)state;
	for_all(all_halves);
}

/* Special with special. */
static void special_pairs(enum taut_type type, enum taut_reduction reduction,
	struct fields *f)
{
	struct layout l = layout_of(type);
	size_t n = 0;

	if (!l.exponent)
		return;
	for (uint64_t x = 0; x < 26; x++)
		for (uint64_t y = 0; y < 26; y++, n++) {
			put_bits((char *)f->a + n * (l.bits / 8), l.bits,
				special(l, x % 13 | (x / 13) << 32));
			put_bits((char *)f->b + n * (l.bits / 8), l.bits,
				special(l, y % 13 | (y / 13) << 32));
		}
	compare_sets(type, reduction, f, n);
	check_arithmetic(type, reduction, f->a, f->b, f->plain, n);
}

static void test_special(void **state)
{
	(void)state;
	for_all(special_pairs);
}

/* --- where the elements lie ------------------------------------------------------------*/

static void check_place(const struct tauti_reduce_kernels *set,
	enum taut_type type, enum taut_reduction reduction, struct fields *f,
	size_t count, const size_t at[3])
{
	enum { GUARD = 64 };
	size_t bytes = count * taut_type_bytes(type);
	char *a = (char *)f->a + at[0], *b = (char *)f->b + at[1];
	char *out = (char *)f->out + GUARD + at[2];

	/* The same elements, where the plain kernel finds them aligned. */
	memcpy(f->plain, a, bytes);
	memcpy(f->plain + 1024, b, bytes);
	tauti_reduce_plain.of[type][reduction](
		f->plain + 2048, f->plain, f->plain + 1024, count);
	memset(f->out, 0x5a, 2 * GUARD + 64 + bytes);
	set->of[type][reduction](out, a, b, count);
	assert_memory_equal(out, f->plain + 2048, bytes);
	for (size_t i = 0; i < GUARD; i++) {
		assert_int_equal(out[-1 - (int)i], 0x5a);
		assert_int_equal(out[bytes + i], 0x5a);
	}
}

static void places(enum taut_type type, enum taut_reduction reduction,
	struct fields *f)
{
	const struct tauti_reduce_kernels *set;
	uint64_t state = 7;

	fill(type, f->a, 400, &state);
	fill(type, f->b, 400, &state);
	for (size_t i = 0; (set = tauti_reduce_set(i)) != NULL; i++) {
		for (size_t count = 0; count < 140; count++)
			check_place(set, type, reduction, f, count,
				(size_t[]){ count % 7, 0, count % 3 });
		for (size_t at = 0; at < 64; at++) {
			uint64_t x = random_bits(&state);

			check_place(set, type, reduction, f, 100,
				(size_t[]){ at, x % 64, x >> 8 & 63 });
			check_place(set, type, reduction, f, 100,
				(size_t[]){ x % 64, at, at });
		}
	}
}

static void test_places(void **state)
{
	(void)state;
	for_all(places);
}

/* --- casts ---------------------------------------------------------------------------*/

static const enum taut_type SHORT[] = { TAUT_FLOAT16, TAUT_BFLOAT16 };
static const float FACTORS[] = { 1, 0.5f, 1.0f / 3, 1e-6f, -3e4f };

enum { N_FACTORS = sizeof FACTORS / sizeof *FACTORS };

/* What lies halfway between two of the type, and beside that; the rest as any. */
static void fill_between(enum taut_type type, uint32_t *to, size_t count,
	uint64_t *state)
{
	struct layout l = layout_of(type);

	fill(TAUT_FLOAT32, to, count, state);
	for (size_t i = 0; i < count; i += 2) {
		uint16_t h = (uint16_t)(any_element(type, state) & 0x7fff);
		double low = value_16(h, l);
		double high = value_16((uint16_t)(h + 1), l);
		float middle = (float)((low + high) / 2);
		uint32_t x;

		if (!isfinite(low) || !isfinite(high))
			continue;
		memcpy(&x, &middle, 4);
		to[i] = x + (uint32_t)(random_bits(state) % 3) - 1;
	}
}

static void check_narrow(enum taut_type type, const uint32_t *in,
	const uint16_t *out, size_t count, float factor)
{
	for (size_t i = 0; i < count; i++) {
		float value;

		memcpy(&value, &in[i], 4);
		value *= factor;
		if (out[i] != nearest_16((double)value, layout_of(type)))
			fail_msg("%#x times %g as %s: %#x", in[i],
				(double)factor, taut_type_name(type), out[i]);
	}
}

static void test_narrow(void **state)
{
	enum { COUNT = 20000 };
	const struct tauti_reduce_kernels *set;
	struct fields *f = malloc(sizeof *f);
	uint64_t random = 5;

	(void)state;
	assert_non_null(f);
	for (int t = 0; t < 2; t++)
		for (int k = 0; k < N_FACTORS; k++) {
			fill_between(SHORT[t], (uint32_t *)f->a, COUNT, &random);
			tauti_reduce_plain.narrow[SHORT[t]](
				f->plain, f->a, COUNT, FACTORS[k]);
			check_narrow(SHORT[t], (uint32_t *)f->a,
				(uint16_t *)f->plain, COUNT, FACTORS[k]);
			for (size_t i = 0; (set = tauti_reduce_set(i)); i++) {
				set->narrow[SHORT[t]](
					f->out, f->a, COUNT, FACTORS[k]);
				assert_memory_equal(f->out, f->plain, 2 * COUNT);
			}
			taut_narrow(SHORT[t], f->out, f->a, COUNT, FACTORS[k]);
			assert_memory_equal(f->out, f->plain, 2 * COUNT);
		}
	free(f);
}

/* Each there is. */
static void check_widened(
	enum taut_type type, const uint16_t *in, const uint32_t *out)
{
	for (uint32_t i = 0; i < MOST; i++) {
		float value = (float)value_16(in[i], layout_of(type));
		uint32_t right;

		memcpy(&right, &value, 4);
		if (isnan(value))
			right = 0x7fc00000;
		if (out[i] != right)
			fail_msg("%#x of %s: %#x", i, taut_type_name(type),
				out[i]);
	}
}

static void test_widen(void **state)
{
	const struct tauti_reduce_kernels *set;
	struct fields *f = malloc(sizeof *f);

	(void)state;
	assert_non_null(f);
	for (uint32_t i = 0; i < MOST; i++)
		((uint16_t *)f->a)[i] = (uint16_t)i;
	for (int t = 0; t < 2; t++) {
		for (size_t i = 0; (set = tauti_reduce_set(i)) != NULL; i++) {
			set->widen[SHORT[t]](f->out, f->a, MOST);
			check_widened(SHORT[t], (uint16_t *)f->a,
				(uint32_t *)f->out);
			/* There and back. */
			set->narrow[SHORT[t]](f->b, f->out, MOST, 1);
			set->widen[SHORT[t]](f->plain, f->b, MOST);
			assert_memory_equal(f->plain, f->out, 4 * MOST);
		}
		taut_widen(SHORT[t], f->plain, f->a, MOST);
		assert_memory_equal(f->plain, f->out, 4 * MOST);
	}
	free(f);
}

/* Of any count at any place, and nothing beside it. */
static void cast_places(
	const struct tauti_reduce_kernels *set, enum taut_type type, struct fields *f)
{
	enum { GUARD = 64 };
	char *out = (char *)f->out;

	for (size_t count = 0; count < 100; count++) {
		size_t at = count % 7, to = GUARD + count % 5;

		memset(out, 0x5a, 1024);
		set->narrow[type](out + to, (char *)f->a + at, count, 0.5f);
		memcpy(f->b, (char *)f->a + at, 4 * count);
		tauti_reduce_plain.narrow[type](f->plain, f->b, count, 0.5f);
		assert_memory_equal(out + to, f->plain, 2 * count);
		assert_int_equal(out[to - 1], 0x5a);
		assert_int_equal(out[to + 2 * count], 0x5a);
		memset(out, 0x5a, 1024);
		memcpy((char *)f->b + at, f->plain, 2 * count);
		set->widen[type](out + to, (char *)f->b + at, count);
		tauti_reduce_plain.widen[type](f->plain + 512, f->plain, count);
		assert_memory_equal(out + to, f->plain + 512, 4 * count);
		assert_int_equal(out[to - 1], 0x5a);
		assert_int_equal(out[to + 4 * count], 0x5a);
	}
}

static void test_cast_places(void **state)
{
	const struct tauti_reduce_kernels *set;
	struct fields *f = malloc(sizeof *f);
	uint64_t random = 9;

	(void)state;
	assert_non_null(f);
	fill(TAUT_FLOAT32, f->a, 200, &random);
	for (int t = 0; t < 2; t++)
		for (size_t i = 0; (set = tauti_reduce_set(i)) != NULL; i++)
			cast_places(set, SHORT[t], f);
	free(f);
}

/* --- names ---------------------------------------------------------------------------*/

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(taut_type_name(TAUT_FLOAT32), "float32");
	assert_string_equal(taut_type_name(TAUT_UINT64), "uint64");
	assert_string_equal(taut_type_name(TAUT_MXINT8), "mxint8");
	assert_string_equal(taut_type_name(TAUT_CARRIED_TYPES), "unknown");
	assert_string_equal(taut_reduction_name(TAUT_SUM), "sum");
	assert_string_equal(taut_reduction_name(TAUT_BIT_XOR), "bit_xor");
	assert_string_equal(taut_reduction_name(TAUT_REDUCTIONS), "unknown");
	assert_int_equal(taut_type_bytes(TAUT_BFLOAT16), 2);
	assert_int_equal(taut_type_bytes(TAUT_INT64), 8);
	assert_int_equal(taut_type_bytes(TAUT_MXINT8), 33);
	assert_int_equal(taut_type_bytes(TAUT_CARRIED_TYPES), 0);
	/* As ranks tell each other, and python/taut/_coll.py has it. */
	assert_int_equal(TAUT_MXINT8, 9);
	for (int t = 0; t < TAUT_CARRIED_TYPES; t++)
		assert_true(taut_type_bytes((enum taut_type)t) <= TAUTI_TYPE_BYTES);
	assert_int_equal(taut_type_numbers(TAUT_FLOAT64), 1);
	assert_int_equal(taut_type_numbers(TAUT_MXINT8), 32);
	assert_int_equal(taut_numbers_bytes(TAUT_FLOAT16, 5), 10);
	assert_int_equal(taut_numbers_bytes(TAUT_MXINT8, 0), 0);
	assert_int_equal(taut_numbers_bytes(TAUT_MXINT8, 32), 33);
	assert_int_equal(taut_numbers_bytes(TAUT_MXINT8, 33), 66);
	assert_false(taut_reduces(TAUT_FLOAT16, TAUT_BIT_AND));
	assert_true(taut_reduces(TAUT_FLOAT16, TAUT_MAX));
	assert_true(taut_reduces(TAUT_INT8, TAUT_BIT_AND));
	assert_true(taut_reduces(TAUT_MXINT8, TAUT_SUM));
	assert_false(taut_reduces(TAUT_MXINT8, TAUT_MAX));
	assert_false(taut_reduces(TAUT_CARRIED_TYPES, TAUT_SUM));
	assert_false(taut_reduces(TAUT_INT8, TAUT_REDUCTIONS));
}

/* There is a kernel exactly where there is such a reduction, in every set. */
static void test_sets(void **state)
{
	const struct tauti_reduce_kernels *set;

	(void)state;
	assert_ptr_equal(tauti_reduce_set(0), &tauti_reduce_plain);
	for (size_t i = 0; (set = tauti_reduce_set(i)) != NULL; i++)
		for (int t = 0; t < TAUT_CARRIED_TYPES; t++)
			for (int r = 0; r < TAUT_REDUCTIONS; r++)
				assert_int_equal(set->of[t][r] != NULL,
					taut_reduces((enum taut_type)t,
						(enum taut_reduction)r));
	for (size_t i = 0; (set = tauti_reduce_set(i)) != NULL; i++)
		for (int t = 0; t < TAUT_CARRIED_TYPES; t++) {
			bool is_wire = t == TAUT_FLOAT16 ||
				t == TAUT_BFLOAT16 || t == TAUT_MXINT8;

			assert_int_equal(set->narrow[t] != NULL, is_wire);
			assert_int_equal(set->widen[t] != NULL, is_wire);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_sets),
		cmocka_unit_test(test_special),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_all_halves),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_widen),
		cmocka_unit_test(test_cast_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

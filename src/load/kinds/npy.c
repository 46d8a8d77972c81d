/* npy.c - see npy.h. */
#include "load/kinds/npy.h"

#include <stdbool.h>
#include <string.h>

enum { PREFIX = 8, MOST_WORD = 16 };

static const struct {
	const char *text;
	enum taut_prepare_type type;
} types[] = {
	{ "|b1", TAUT_PIXEL_U8 },   { "|u1", TAUT_PIXEL_U8 },   { "|i1", TAUT_NUMBER_I8 },
	{ "<f2", TAUT_PIXEL_F16 },  { "<f4", TAUT_PIXEL_F32 },  { "<f8", TAUT_NUMBER_F64 },
	{ "<i2", TAUT_NUMBER_I16 }, { "<i4", TAUT_NUMBER_I32 }, { "<i8", TAUT_NUMBER_I64 },
	{ "<u2", TAUT_NUMBER_U16 }, { "<u4", TAUT_NUMBER_U32 }, { "<u8", TAUT_NUMBER_U64 },
};

/* The text on its way. */
struct reader {
	const char *bytes;
	size_t at, end;
	const char *name;
	struct taut_error *err;
	struct tauti_npy npy;
	bool is_fortran;
	unsigned known; /* keys that were there: bits */
};

enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL_KEYS = 7 };

static taut_status refuse(const struct reader *r, const char *expected)
{
	return taut_error_set(r->err, TAUT_EFORMAT, (int64_t)r->at,
		"%s: npy: byte %zu: expected %s", r->name, r->at, expected);
}

/* --- words -------------------------------------------------------------------------------*/
static void skip_blanks(struct reader *r)
{
	while (r->at < r->end && strchr(" \t\n", r->bytes[r->at]) && r->bytes[r->at])
		r->at++;
}

static bool takes(struct reader *r, char c)
{
	skip_blanks(r);
	if (r->at == r->end || r->bytes[r->at] != c)
		return false;
	r->at++;
	return true;
}

static bool takes_word(struct reader *r, const char *word)
{
	size_t n = strlen(word);

	skip_blanks(r);
	if (r->end - r->at < n || memcmp(r->bytes + r->at, word, n) != 0)
		return false;
	r->at += n;
	return true;
}

/* A short string in quotes. */
static taut_status take_text(struct reader *r, char text[MOST_WORD])
{
	size_t n = 0, from;
	char quote;

	skip_blanks(r);
	if (r->at == r->end || (r->bytes[r->at] != '\'' && r->bytes[r->at] != '"'))
		return refuse(r, "a string");
	quote = r->bytes[r->at];
	from = r->at + 1;
	while (from + n < r->end && n < MOST_WORD && r->bytes[from + n] != quote)
		n++;
	if (from + n == r->end || n == MOST_WORD || memchr(r->bytes + from, 0, n))
		return refuse(r, "a short string");
	memcpy(text, r->bytes + from, n);
	text[n] = '\0';
	r->at = from + n + 1;
	return TAUT_OK;
}

/* --- values ------------------------------------------------------------------------------*/
static taut_status take_descr(struct reader *r)
{
	char text[MOST_WORD];
	size_t from, i = 0;
	taut_status status;

	skip_blanks(r);
	from = r->at;
	status = take_text(r, text);
	if (status != TAUT_OK)
		return status;
	while (i < sizeof types / sizeof *types && strcmp(types[i].text, text) != 0)
		i++;
	if (i == sizeof types / sizeof *types)
		return taut_error_set(r->err, TAUT_EFORMAT, (int64_t)from,
			"%s: npy: byte %zu: numbers of type '%s', expected bool, "
			"integers or floats, little-endian", r->name, from, text);
	r->npy.type = types[i].type;
	return TAUT_OK;
}

static taut_status take_order(struct reader *r)
{
	r->is_fortran = takes_word(r, "True");
	if (!r->is_fortran && !takes_word(r, "False"))
		return refuse(r, "True or False");
	return TAUT_OK;
}

static taut_status take_dim(struct reader *r)
{
	uint64_t value = 0;
	size_t from = r->at;

	for (; r->at < r->end; r->at++) {
		unsigned digit = (unsigned char)r->bytes[r->at] - (unsigned)'0';

		if (digit > 9)
			break;
		if (value > ((uint64_t)INT64_MAX - digit) / 10)
			return refuse(r, "a dimension below 2^63");
		value = value * 10 + digit;
	}
	if (r->at == from)
		return refuse(r, "a dimension");
	if (r->npy.n_dims == TAUT_MOST_DIMS)
		return refuse(r, "8 dimensions at most");
	r->npy.dims[r->npy.n_dims++] = value;
	return TAUT_OK;
}

/* (), (3,), (3, 4), (3, 4,) */
static taut_status take_shape(struct reader *r)
{
	taut_status status = TAUT_OK;
	bool may_go_on = true;

	r->npy.n_dims = 0;
	if (!takes(r, '('))
		return refuse(r, "a shape in parentheses");
	while (!takes(r, ')')) {
		if (!may_go_on)
			return refuse(r, "a comma between dimensions");
		status = take_dim(r);
		if (status != TAUT_OK)
			return status;
		may_go_on = takes(r, ',');
	}
	if (r->npy.n_dims == 1 && !may_go_on) /* (3) is no tuple */
		return refuse(r, "a comma behind the only dimension");
	return TAUT_OK;
}

/* --- the whole ---------------------------------------------------------------------------*/
static taut_status take_pair(struct reader *r)
{
	static const struct {
		const char *text;
		unsigned bit;
		taut_status (*take)(struct reader *r);
	} keys[] = {
		{ "descr", DESCR, take_descr },
		{ "fortran_order", ORDER, take_order },
		{ "shape", SHAPE, take_shape },
	};
	char text[MOST_WORD];
	taut_status status = take_text(r, text);

	if (status != TAUT_OK)
		return status;
	if (!takes(r, ':'))
		return refuse(r, "a colon");
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (strcmp(text, keys[i].text) == 0 && !(r->known & keys[i].bit)) {
			r->known |= keys[i].bit;
			return keys[i].take(r);
		}
	return refuse(r, "each of descr, fortran_order and shape once");
}

static taut_status take_dict(struct reader *r)
{
	bool may_go_on = true;

	if (!takes(r, '{'))
		return refuse(r, "{");
	while (!takes(r, '}')) {
		taut_status status = may_go_on ? take_pair(r) : refuse(r, "a comma");

		if (status != TAUT_OK)
			return status;
		may_go_on = takes(r, ',');
	}
	skip_blanks(r);
	if (r->at != r->end)
		return refuse(r, "the end of the header");
	if (r->known != ALL_KEYS)
		return refuse(r, "descr, fortran_order and shape before it");
	return TAUT_OK;
}

/* A product with a 0 is small, whatever the others. */
static taut_status check_product(const struct reader *r)
{
	uint64_t left = INT64_MAX / taut_prepare_type_bytes(r->npy.type);

	for (uint32_t i = 0; i < r->npy.n_dims; i++)
		if (!r->npy.dims[i])
			return TAUT_OK;
	for (uint32_t i = 0; i < r->npy.n_dims; i++) {
		if (r->npy.dims[i] > left)
			return refuse(r, "a shape of less than 2^63 bytes before it");
		left /= r->npy.dims[i];
	}
	if (r->is_fortran && r->npy.n_dims > 1)
		return refuse(r, "the order of C before it, not Fortran's");
	return TAUT_OK;
}

/* Where the text begins and ends. */
static taut_status take_prefix(struct reader *r, size_t n)
{
	const unsigned char *bytes = (const unsigned char *)r->bytes;
	uint64_t length = 0;
	size_t wide;

	if (n < PREFIX || memcmp(bytes, "\x93NUMPY", 6) != 0)
		return refuse(r, "a file of .npy");
	if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
		return taut_error_set(r->err, TAUT_EFORMAT, 6,
			"%s: npy: byte 6: version %u.%u, expected 1.0, 2.0 or 3.0",
			r->name, bytes[6], bytes[7]);
	wide = bytes[6] == 1 ? 2 : 4;
	r->at = PREFIX;
	if (n < PREFIX + wide)
		return refuse(r, "the length of the header, found the end");
	for (size_t i = 0; i < wide; i++)
		length |= (uint64_t)bytes[PREFIX + i] << 8 * i;
	r->at += wide;
	if (length > TAUTI_NPY_MOST_HEADER - r->at)
		return refuse(r, "a header of at most 64 KiB");
	if (length > n - r->at)
		return refuse(r, "a header, found its end cut off");
	r->end = r->at + length;
	return TAUT_OK;
}

taut_status tauti_npy_read(const void *bytes, size_t n, const char *name,
	struct tauti_npy *ret_npy, struct taut_error *err)
{
	struct reader r = { .bytes = bytes, .name = name, .err = err };
	taut_status status = take_prefix(&r, n);

	if (status == TAUT_OK)
		status = take_dict(&r);
	if (status == TAUT_OK)
		status = check_product(&r);
	if (status != TAUT_OK)
		return status;
	r.npy.at = r.end;
	*ret_npy = r.npy;
	return TAUT_OK;
}

/* tensor.c - numbers as they are: checked, cut, copied, padded. Rows are what the first
 * dimension counts. */
#include "load/kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/kinds/npy.h"

struct tensor {
	struct taut_prepare_options options;
	bool is_raw;
	uint64_t rows; /* of a sample; where it has no dimension: 1 */
	uint64_t row_bytes;
};

/* Numbers that were found. */
struct found {
	const unsigned char *at;
	uint64_t rows;
};

static bool is_raw(const struct taut_prepare_options *o)
{
	return o->format && strcmp(o->format, "raw") == 0;
}

static taut_status check(const struct taut_prepare_options *o, struct taut_error *err)
{
	if (o->format && !is_raw(o) && strcmp(o->format, "npy") != 0)
		return tauti_prepare_refuse(err, "format", "npy, raw, or none");
	if (!o->as_first || o->n_dims > TAUT_MOST_DIMS)
		return tauti_prepare_check_dims(o, err);
	if (is_raw(o))
		return tauti_prepare_refuse(
			err, "as_first", "a format that tells types and shapes: npy");
	return TAUT_OK;
}

static taut_status create(const struct taut_prepare_options *options, void **ret_state,
	struct taut_error *err)
{
	struct tensor *tensor = calloc(1, sizeof *tensor);

	if (!tensor)
		return taut_error_set(err, TAUT_ENOMEM, -1, "prepare: no memory");
	tensor->options = *options;
	tensor->is_raw = is_raw(options);
	tensor->rows = options->n_dims ? options->dims[0] : 1;
	tensor->row_bytes = taut_prepare_slot_bytes(options) / tensor->rows;
	*ret_state = tensor;
	return TAUT_OK;
}

/* --- what is there -----------------------------------------------------------------------*/
static void put_shape(char *into, size_t room, uint32_t n_dims, const uint64_t *dims)
{
	size_t n = 0;

	into[0] = '\0';
	for (uint32_t i = 0; i < n_dims && n < room; i++)
		n += (size_t)snprintf(into + n, room - n, "%s%llu", i ? " x " : "",
			(unsigned long long)dims[i]);
	if (!n_dims)
		snprintf(into, room, "one number");
}

static taut_status refuse_shape(const struct tensor *tensor, const struct tauti_npy *npy,
	const char *name, struct taut_error *err)
{
	const struct taut_prepare_options *o = &tensor->options;
	char is[192], expected[192];

	put_shape(is, sizeof is, npy->n_dims, npy->dims);
	put_shape(expected, sizeof expected, o->n_dims, o->dims);
	return taut_error_set(err, TAUT_EFORMAT, -1, "%s: npy: shape %s, expected %s%s",
		name, is, expected, o->varies ? ", or another first dimension" : "");
}

static bool is_shape(const struct taut_prepare_options *o, const struct tauti_npy *npy)
{
	if (npy->n_dims != o->n_dims)
		return false;
	for (uint32_t i = o->varies; i < o->n_dims; i++)
		if (npy->dims[i] != o->dims[i])
			return false;
	return true;
}

static const char *type_name(enum taut_prepare_type type)
{
	static const char *const names[TAUT_NUMBERS] = { "u8", "f32", "f16", "bf16", "i8",
		"i16", "i32", "i64", "u16", "u32", "u64", "f64" };

	return names[type];
}

static taut_status check_npy_bytes(uint64_t expected, uint64_t n, size_t at,
	const char *name, struct taut_error *err)
{
	if (n - at == expected)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EFORMAT, (int64_t)at,
		"%s: npy: %llu bytes behind the header, expected %llu", name,
		(unsigned long long)(n - at), (unsigned long long)expected);
}

static taut_status find_npy(const struct tensor *tensor, const struct tauti_item *item,
	struct found *ret_found, struct taut_error *err)
{
	const struct taut_prepare_options *o = &tensor->options;
	struct tauti_npy npy;
	taut_status status = tauti_npy_read(item->bytes, item->n, item->name, &npy, err);

	if (status != TAUT_OK)
		return status;
	if (npy.type != o->type)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: npy: numbers of type %s, expected %s", item->name,
			type_name(npy.type), type_name(o->type));
	if (!is_shape(o, &npy))
		return refuse_shape(tensor, &npy, item->name, err);
	ret_found->at = (const unsigned char *)item->bytes + npy.at;
	ret_found->rows = o->n_dims ? npy.dims[0] : 1;
	return check_npy_bytes(ret_found->rows * tensor->row_bytes, item->n, npy.at,
		item->name, err);
}

static taut_status find_raw(const struct tensor *tensor, const struct tauti_item *item,
	struct found *ret_found, struct taut_error *err)
{
	uint64_t rows = item->n / tensor->row_bytes;

	if (tensor->options.varies && item->n % tensor->row_bytes)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: raw: %zu bytes, expected a multiple of %llu", item->name,
			item->n, (unsigned long long)tensor->row_bytes);
	if (!tensor->options.varies && item->n != tensor->rows * tensor->row_bytes)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: raw: %zu bytes, expected %llu", item->name, item->n,
			(unsigned long long)(tensor->rows * tensor->row_bytes));
	*ret_found = (struct found){ item->bytes, rows };
	return TAUT_OK;
}

/* --- a sample ----------------------------------------------------------------------------*/
static taut_status make(void *state, const struct tauti_item *item, void *sample,
	int64_t *ret_length, struct taut_error *err)
{
	const struct tensor *tensor = state;
	struct tauti_draw draw = item->draw;
	struct found found = { NULL, 0 };
	taut_status status = tensor->is_raw ? find_raw(tensor, item, &found, err) :
					      find_npy(tensor, item, &found, err);
	uint64_t first, n;

	if (status != TAUT_OK)
		return status;
	first = tauti_cut(tensor->options.cut, found.rows, tensor->rows, &draw);
	n = found.rows < tensor->rows ? found.rows : tensor->rows;
	if (n)
		memcpy(sample, found.at + first * tensor->row_bytes, n * tensor->row_bytes);
	memset((char *)sample + n * tensor->row_bytes, 0,
		(tensor->rows - n) * tensor->row_bytes);
	*ret_length = (int64_t)n;
	return TAUT_OK;
}

const struct tauti_kind tauti_kind_tensor = {
	.check = check,
	.create = create,
	.destroy = free,
	.make = make,
};

/* --- as the first ------------------------------------------------------------------------*/
taut_status tauti_prepare_first(struct taut_prepare_options *options, const void *bytes,
	size_t n, uint64_t all_bytes, const char *name, struct taut_error *err)
{
	struct taut_prepare_options o = *options;
	struct tauti_npy npy;
	struct taut_error why = { .offset = -1 };
	taut_status status = tauti_npy_read(bytes, n, name, &npy, err);
	uint64_t all;

	if (status != TAUT_OK)
		return status;
	o.as_first = false;
	o.type = npy.type;
	o.n_dims = npy.n_dims;
	for (uint32_t i = 0; i < npy.n_dims; i++)
		if (!(i == 0 && o.varies && o.dims[0]))
			o.dims[i] = npy.dims[i];
	if (tauti_prepare_check_dims(&o, &why) != TAUT_OK)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: npy: the first item's shape is none of a sample: %s", name,
			why.message);
	all = taut_prepare_type_bytes(npy.type);
	for (uint32_t i = 0; i < npy.n_dims; i++)
		all *= npy.dims[i];
	status = check_npy_bytes(all, all_bytes, npy.at, name, err);
	if (status == TAUT_OK)
		*options = o;
	return status;
}

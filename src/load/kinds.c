/* kinds.c - the table of kinds, what all of them need, and the stage behind them. */
#include "load/kinds.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "load/image/crop.h"

static const struct tauti_kind *const kinds[TAUT_KINDS] = {
	[TAUT_KIND_IMAGE] = &tauti_kind_image,
	[TAUT_KIND_TENSOR] = &tauti_kind_tensor,
	[TAUT_KIND_AUDIO] = &tauti_kind_audio,
	[TAUT_KIND_OWN] = &tauti_kind_own,
};

static const struct taut_prepare_options no_options;

/* Of a sample: so that those of a loader's batches can be counted. */
#define MOST_BYTES (UINT64_C(1) << 32)

struct tauti_maker {
	struct taut_prepare_options options;
	struct taut_prepare_shape shape;
	const struct tauti_kind *kind;
	void *state;
};

/* --- options -----------------------------------------------------------------------------*/
taut_status tauti_prepare_refuse(
	struct taut_error *err, const char *field, const char *expected)
{
	return taut_error_set(err, TAUT_EINVAL, -1, "prepare: %s: expected %s", field,
		expected);
}

taut_status tauti_prepare_check_dims(
	const struct taut_prepare_options *o, struct taut_error *err)
{
	uint64_t left = MOST_BYTES;

	if ((unsigned)o->type >= TAUT_NUMBERS)
		return tauti_prepare_refuse(
			err, "type", "one of enum taut_prepare_type");
	if (o->n_dims > TAUT_MOST_DIMS)
		return tauti_prepare_refuse(err, "n_dims", "at most 8");
	if (o->varies && !o->n_dims)
		return tauti_prepare_refuse(err, "n_dims", "one at least where it varies");
	left /= taut_prepare_type_bytes(o->type);
	for (uint32_t i = 0; i < o->n_dims; i++) {
		if (!o->dims[i] || o->dims[i] > left)
			return tauti_prepare_refuse(err, "dims",
				"each at least 1, and 2^32 bytes at most in all");
		left /= o->dims[i];
	}
	if ((unsigned)o->cut >= TAUT_CUTS)
		return tauti_prepare_refuse(err, "cut", "one of enum taut_prepare_cut");
	return TAUT_OK;
}

taut_status taut_prepare_check(
	const struct taut_prepare_options *options, struct taut_error *err)
{
	const struct taut_prepare_options *o = options ? options : &no_options;

	if ((unsigned)o->kind >= TAUT_KINDS)
		return tauti_prepare_refuse(
			err, "kind", "one of enum taut_prepare_kind");
	return kinds[o->kind]->check(o, err);
}

static struct taut_prepare_shape shape_of(const struct taut_prepare_options *o)
{
	struct taut_prepare_shape shape = { .type = o->type, .n_dims = o->n_dims,
		.varies = o->varies };

	for (uint32_t i = 0; i < TAUT_MOST_DIMS; i++)
		shape.dims[i] = i < o->n_dims ? (int64_t)o->dims[i] : 0;
	if (kinds[o->kind]->shape)
		kinds[o->kind]->shape(o, &shape);
	shape.bytes = taut_prepare_type_bytes(shape.type);
	for (uint32_t i = 0; i < shape.n_dims; i++)
		shape.bytes *= (uint64_t)shape.dims[i];
	return shape;
}

taut_status taut_prepare_shape(const struct taut_prepare_options *options,
	struct taut_prepare_shape *ret_shape, struct taut_error *err)
{
	taut_status status = taut_prepare_check(options, err);

	if (status == TAUT_OK)
		*ret_shape = shape_of(options ? options : &no_options);
	return status;
}

size_t taut_prepare_slot_bytes(const struct taut_prepare_options *options)
{
	struct taut_prepare_shape shape = { .bytes = 0 };

	(void)!taut_prepare_shape(options, &shape, NULL);
	return shape.bytes;
}

/* --- alike -------------------------------------------------------------------------------*/
static uint64_t bits_of(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static uint64_t text_of(const char *text)
{
	return text ? tauti_hash(text, strlen(text)) : 0;
}

static uint64_t mix(uint64_t x, const uint64_t *fields, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x = tauti_hash_mix(x ^ TAUTI_HASH_A, fields[i] ^ TAUTI_HASH_B);
	return x;
}

/* All fields, after defaults: what is asked for by zero is the same as what is asked for by
 * its value. */
uint64_t tauti_prepare_fingerprint(const struct taut_prepare_options *given)
{
	const struct taut_prepare_options o = tauti_prepare_defaults(given);
	const uint64_t fields[] = {
		text_of(o.format),
		o.raw_height, o.raw_width, o.height, o.width,
		(uint64_t)o.crop, (uint64_t)o.filter,
		bits_of(o.least_area), bits_of(o.most_area),
		bits_of(o.least_ratio), bits_of(o.most_ratio),
		o.short_side, bits_of(o.flip),
		bits_of(o.brightness), bits_of(o.contrast),
		bits_of(o.saturation), bits_of(o.hue),
		(uint64_t)o.type, (uint64_t)o.layout,
		bits_of(o.mean[0]), bits_of(o.mean[1]), bits_of(o.mean[2]),
		bits_of(o.deviation[0]), bits_of(o.deviation[1]),
		bits_of(o.deviation[2]),
		o.scale_in_decoder, o.orient, o.strict, o.most_pixels,
		(uint64_t)o.kind, o.n_dims, o.varies, (uint64_t)o.cut,
		o.samples, o.rate, o.channels,
		o.stage != NULL, text_of(o.stage ? o.stage_name : NULL),
	};
	uint64_t x = mix(0, fields, sizeof fields / sizeof *fields);

	return o.n_dims <= TAUT_MOST_DIMS ? mix(x, o.dims, o.n_dims) : x;
}

/* --- for kinds ---------------------------------------------------------------------------*/
uint64_t tauti_cut(enum taut_prepare_cut cut, uint64_t whole, uint64_t n,
	struct tauti_draw *draw)
{
	if (whole <= n)
		return 0;
	switch (cut) {
	case TAUT_CUT_RANDOM:
		return tauti_draw_below(draw, whole - n + 1);
	case TAUT_CUT_CENTRE:
		return (whole - n) / 2;
	case TAUT_CUT_END:
		return whole - n;
	default:
		return 0;
	}
}

/* --- makers ------------------------------------------------------------------------------*/
taut_status tauti_maker_create(const struct taut_prepare_options *options,
	struct tauti_maker **ret_maker, struct taut_error *err)
{
	struct tauti_maker *maker;
	taut_status status = taut_prepare_check(options, err);

	if (status != TAUT_OK)
		return status;
	maker = calloc(1, sizeof *maker);
	if (!maker)
		return taut_error_set(err, TAUT_ENOMEM, -1, "prepare: no memory");
	maker->options = options ? *options : no_options;
	maker->shape = shape_of(&maker->options);
	maker->kind = kinds[maker->options.kind];
	status = maker->kind->create(&maker->options, &maker->state, err);
	if (status == TAUT_OK)
		*ret_maker = maker;
	else
		free(maker);
	return status;
}

void tauti_maker_destroy(struct tauti_maker *maker)
{
	if (!maker)
		return;
	maker->kind->destroy(maker->state);
	free(maker);
}

/* The loader's own meaning of other codes is not for stages. */
static taut_status fault_of_stage(const struct tauti_item *item, taut_status status,
	struct taut_error *why, struct taut_error *err)
{
	why->message[sizeof why->message - 1] = '\0';
	return taut_error_set(err,
		status == TAUT_ENOMEM || status == TAUT_EIO ? status : TAUT_EFORMAT, -1,
		"%s: stage: %s", item->name,
		why->message[0] ? why->message : taut_status_name(status));
}

static taut_status run_stage(const struct tauti_maker *maker,
	const struct tauti_item *item, void *sample, int64_t *length,
	struct taut_error *err)
{
	const struct taut_stage_item told = {
		.bytes = item->bytes,
		.n_bytes = item->n,
		.name = item->name,
		.number = item->number,
		.label = item->label,
		.epoch = item->epoch,
		.draw = tauti_draw_finish(item->draw.key ^ TAUTI_HASH_A),
		.sample_bytes = maker->shape.bytes,
		.length = maker->shape.varies ? length : NULL,
	};
	struct taut_error why = { .offset = -1 };
	taut_status status = maker->options.stage(
		maker->options.stage_context, &told, sample, &why);

	return status == TAUT_OK ? TAUT_OK : fault_of_stage(item, status, &why, err);
}

/* Of audio, dims[0] may be the channels. */
static int64_t most_length(const struct tauti_maker *maker)
{
	return maker->options.kind == TAUT_KIND_AUDIO ? maker->options.samples :
							maker->shape.dims[0];
}

static taut_status check_length(const struct tauti_maker *maker,
	const struct tauti_item *item, int64_t length, struct taut_error *err)
{
	int64_t most = most_length(maker);

	if (length >= 0 && length <= most)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EFORMAT, -1,
		"%s: stage: the length is %lld, expected 0 to %lld", item->name,
		(long long)length, (long long)most);
}

taut_status tauti_maker_make(struct tauti_maker *maker, const struct tauti_item *item,
	void *sample, int64_t *ret_length, struct taut_error *err)
{
	int64_t length = 0;
	taut_status status = maker->kind->make(maker->state, item, sample, &length, err);

	if (status == TAUT_OK && maker->options.stage)
		status = run_stage(maker, item, sample, &length, err);
	if (status != TAUT_OK || !maker->shape.varies)
		return status;
	status = check_length(maker, item, length, err);
	if (status == TAUT_OK)
		*ret_length = length;
	return status;
}

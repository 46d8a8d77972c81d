/* options.c - what may be asked for of an image, and what is meant by zero. */
#include <math.h>
#include <string.h>

#include <taut/prepare.h>

#include "load/image/crop.h"
#include "load/image/decoder.h"
#include "load/kinds.h"

enum { SIDE = 224, MOST_SIDE = 16384 };

static const double MOST_FACTOR = 1e6; /* of colours, where nothing is left of them */

static void set_if_zero(double *value, double fallback)
{
	if (*value == 0)
		*value = fallback;
}

static uint32_t given(uint32_t value, uint32_t fallback)
{
	return value ? value : fallback;
}

struct taut_prepare_options tauti_prepare_defaults(
	const struct taut_prepare_options *options)
{
	struct taut_prepare_options o = { 0 };
	uint32_t shorter, longer;

	if (options)
		o = *options;
	o.height = given(o.height, SIDE);
	o.width = given(o.width, SIDE);
	o.raw_height = given(o.raw_height, o.height);
	o.raw_width = given(o.raw_width, o.width);
	set_if_zero(&o.least_area, 0.08);
	set_if_zero(&o.most_area, 1);
	set_if_zero(&o.least_ratio, 3.0 / 4);
	set_if_zero(&o.most_ratio, 4.0 / 3);
	shorter = o.height < o.width ? o.height : o.width;
	longer = o.height < o.width ? o.width : o.height;
	o.short_side = given(o.short_side, (uint32_t)((uint64_t)shorter * 8 / 7));
	if (o.short_side < longer)
		o.short_side = longer;
	for (int c = 0; c < 3; c++)
		if (o.deviation[c] == 0)
			o.deviation[c] = 1;
	if (o.most_pixels == 0)
		o.most_pixels = 178956970;
	return o;
}

uint32_t taut_prepare_height(const struct taut_prepare_options *options)
{
	return options ? given(options->height, SIDE) : SIDE;
}

uint32_t taut_prepare_width(const struct taut_prepare_options *options)
{
	return options ? given(options->width, SIDE) : SIDE;
}

size_t taut_prepare_type_bytes(enum taut_prepare_type type)
{
	static const unsigned char bytes[TAUT_NUMBERS] = {
		1, 4, 2, 2, /* pixels */
		1, 2, 4, 8, 2, 4, 8, 8,
	};

	return (unsigned)type < TAUT_NUMBERS ? bytes[type] : 0;
}

static bool inside(double x, double least, double most)
{
	return x >= least && x <= most;
}

static taut_status check_shape(
	const struct taut_prepare_options *o, struct taut_error *err)
{
	if (o->format && tauti_decoder_of_name(o->format) == TAUTI_DECODERS)
		return tauti_prepare_refuse(err, "format", "jpeg, png, raw, or none");
	if (o->height > MOST_SIDE)
		return tauti_prepare_refuse(err, "height", "at most 16384");
	if (o->width > MOST_SIDE)
		return tauti_prepare_refuse(err, "width", "at most 16384");
	if (o->short_side > MOST_SIDE)
		return tauti_prepare_refuse(err, "short_side", "at most 16384");
	if ((unsigned)o->crop >= TAUT_CROPS)
		return tauti_prepare_refuse(err, "crop", "one of enum taut_prepare_crop");
	if ((unsigned)o->filter >= TAUT_FILTERS)
		return tauti_prepare_refuse(err, "filter", "one of enum taut_prepare_filter");
	if ((unsigned)o->type >= TAUT_PIXELS)
		return tauti_prepare_refuse(err, "type", "u8, f32, f16 or bf16");
	if ((unsigned)o->layout >= TAUT_LAYOUTS)
		return tauti_prepare_refuse(err, "layout", "one of enum taut_prepare_layout");
	return TAUT_OK;
}

static taut_status check_dice(
	const struct taut_prepare_options *o, struct taut_error *err)
{
	if (!inside(o->least_area, 0, o->most_area) || o->least_area <= 0 ||
		o->most_area > 1)
		return tauti_prepare_refuse(err, "least_area, most_area",
			"0 < least_area <= most_area <= 1");
	if (!inside(o->least_ratio, 1e-4, o->most_ratio) || o->most_ratio > 1e4)
		return tauti_prepare_refuse(err, "least_ratio, most_ratio",
			"0.0001 <= least_ratio <= most_ratio <= 10000");
	if (!inside(o->flip, 0, 1))
		return tauti_prepare_refuse(err, "flip", "0 to 1");
	if (!inside(o->brightness, 0, MOST_FACTOR))
		return tauti_prepare_refuse(err, "brightness", "0 to 1000000");
	if (!inside(o->contrast, 0, MOST_FACTOR))
		return tauti_prepare_refuse(err, "contrast", "0 to 1000000");
	if (!inside(o->saturation, 0, MOST_FACTOR))
		return tauti_prepare_refuse(err, "saturation", "0 to 1000000");
	if (!inside(o->hue, 0, 0.5))
		return tauti_prepare_refuse(err, "hue", "0 to 0.5");
	return TAUT_OK;
}

/* What becomes of 0 and of 255 must be numbers, so that all between are. */
static taut_status check_norm(
	const struct taut_prepare_options *o, struct taut_error *err)
{
	for (int c = 0; c < 3; c++) {
		double deviation = o->deviation[c], mean = o->mean[c];
		double most = fabs(1 / deviation) + fabs(mean / deviation);

		if (o->type == TAUT_PIXEL_U8 && (mean != 0 || deviation != 1))
			return tauti_prepare_refuse(err, "mean, deviation",
				"none where the type is u8");
		if (!(deviation > 0) || !(most < 1e37))
			return tauti_prepare_refuse(err, "mean, deviation",
				"numbers whose quotients are below 1e37, and "
				"deviations above 0");
	}
	return TAUT_OK;
}

taut_status tauti_image_check(
	const struct taut_prepare_options *options, struct taut_error *err)
{
	struct taut_prepare_options o = tauti_prepare_defaults(options);
	taut_status status = check_shape(&o, err);

	if (!status)
		status = check_dice(&o, err);
	if (!status)
		status = check_norm(&o, err);
	return status;
}

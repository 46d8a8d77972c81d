/* crop.c - random and centred crops, of the distribution of torchvision's. */
#include <math.h>

#include "load/image/crop.h"

enum { TRIES = 10 };

static struct tauti_crop from_box(const struct taut_prepare_options *o,
	uint32_t top, uint32_t left, uint32_t height, uint32_t width)
{
	return (struct tauti_crop){
		.down = { .from = top, .size = height, .whole = o->height },
		.across = { .from = left, .size = width, .whole = o->width },
	};
}

/* The largest box of an allowed ratio, in the middle. */
static struct tauti_crop largest(const struct taut_prepare_options *o,
	uint32_t height, uint32_t width)
{
	double ratio = (double)width / height;
	double h = height, w = width;

	if (ratio < o->least_ratio)
		h = fmax(1, rint(w / o->least_ratio));
	else if (ratio > o->most_ratio)
		w = fmax(1, rint(h * o->most_ratio));
	h = fmin(h, height);
	w = fmin(w, width);
	return from_box(o, (height - (uint32_t)h) / 2, (width - (uint32_t)w) / 2,
		(uint32_t)h, (uint32_t)w);
}

static struct tauti_crop random_crop(const struct taut_prepare_options *o,
	uint32_t height, uint32_t width, struct tauti_draw *draw)
{
	double all = (double)height * width;
	double least = log(o->least_ratio), most = log(o->most_ratio);

	for (int i = 0; i < TRIES; i++) {
		double area = all * tauti_draw_between(
			draw, o->least_area, o->most_area);
		double ratio = exp(tauti_draw_between(draw, least, most));
		double w = rint(sqrt(area * ratio)), h = rint(sqrt(area / ratio));
		uint32_t top;

		if (!(w > 0 && w <= width && h > 0 && h <= height))
			continue;
		top = (uint32_t)tauti_draw_below(
			draw, (uint64_t)height - (uint32_t)h + 1);
		return from_box(o, top,
			(uint32_t)tauti_draw_below(
				draw, (uint64_t)width - (uint32_t)w + 1),
			(uint32_t)h, (uint32_t)w);
	}
	return largest(o, height, width);
}

/* Half of the rest, to the nearest, ties to even. */
static uint32_t middle(uint32_t whole, uint32_t part)
{
	return (uint32_t)rint((whole - part) / 2.0);
}

static struct tauti_crop centre(const struct taut_prepare_options *o,
	uint32_t height, uint32_t width)
{
	uint32_t shorter = height < width ? height : width;
	uint32_t h = (uint32_t)((uint64_t)o->short_side * height / shorter);
	uint32_t w = (uint32_t)((uint64_t)o->short_side * width / shorter);

	return (struct tauti_crop){
		.down = { 0, height, h, middle(h, o->height) },
		.across = { 0, width, w, middle(w, o->width) },
	};
}

struct tauti_crop tauti_crop_choose(const struct taut_prepare_options *o,
	uint32_t height, uint32_t width, struct tauti_draw *draw)
{
	switch (o->crop) {
	case TAUT_CROP_RANDOM:
		return random_crop(o, height, width, draw);
	case TAUT_CROP_CENTRE:
		return centre(o, height, width);
	default:
		return from_box(o, 0, 0, height, width);
	}
}

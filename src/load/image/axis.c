/* axis.c - tables of weights for one direction. */
#include <math.h>
#include <stdlib.h>

#include "load/image/axis.h"
#include "load/image/decoder.h"

/* The source pixels start .. start + taps - 1 of one output pixel. Here and below they are
 * counted from the one that the origin is in, so that where a crop lies changes no bit. */
struct window {
	double centre; /* of the output pixel */
	uint32_t start, taps;
};

struct source {
	double origin, scale, half; /* half the filter's width */
	uint32_t end;
};

static uint32_t clamped(double x, uint32_t least, uint32_t end)
{
	if (!(x > least))
		return least;
	return x < end ? (uint32_t)x : end;
}

static struct source source_of(const struct tauti_axis_wish *wish)
{
	double base = floor(wish->origin);
	struct source source = { .origin = wish->origin - base,
		.scale = wish->size / wish->whole,
		.end = wish->end - (uint32_t)base };

	source.half = source.scale > 1 ? source.scale : 1;
	return source;
}

/* Of output i of the whole. */
static struct window window_of(const struct source *source,
	enum taut_prepare_filter filter, uint32_t i)
{
	struct window window = { .centre =
		source->origin + (i + 0.5) * source->scale };
	double left = filter == TAUT_FILTER_NEAREST ? window.centre :
		window.centre - source->half + 0.5;
	uint32_t end;

	window.start = clamped(left, 0, source->end - 1);
	window.taps = 1;
	if (filter == TAUT_FILTER_NEAREST)
		return window;
	end = clamped(window.centre + source->half + 0.5, window.start + 1,
		source->end);
	window.taps = end - window.start;
	return window;
}

/* Triangle at the centre of each source pixel, as fractions of their sum. */
static void weigh(const struct window *window, double reach_inverse,
	double *weights)
{
	double sum = 0;

	if (window->taps == 1) {
		weights[0] = 1;
		return;
	}
	for (uint32_t t = 0; t < window->taps; t++) {
		double x = fabs((window->start + t - window->centre + 0.5) *
			reach_inverse);

		weights[t] = x < 1 ? 1 - x : 0;
		sum += weights[t];
	}
	if (sum == 0) { /* not on a centre by the last bit of a double */
		weights[0] = 1;
		return;
	}
	for (uint32_t t = 0; t < window->taps; t++)
		weights[t] /= sum;
}

static uint32_t rounded(double weight)
{
	return (uint32_t)(0.5 + weight * (1 << TAUTI_WEIGHT_BITS));
}

static void put_pair(uint32_t pair[2], const double weights[2])
{
	uint32_t a = rounded(weights[0]), b = rounded(weights[1]);
	uint32_t low = (1u << TAUTI_WEIGHT_LOW_BITS) - 1;

	pair[0] = a >> TAUTI_WEIGHT_LOW_BITS |
		b >> TAUTI_WEIGHT_LOW_BITS << 16;
	pair[1] = (a & low) | (b & low) << 16;
}

/* Taps of any output; the window is 2 * half wide, rounded at both ends. */
static uint32_t most_taps(const struct source *source,
	enum taut_prepare_filter filter)
{
	double most = floor(2 * source->half) + 1;

	if (filter == TAUT_FILTER_NEAREST)
		return 1;
	if (2 * source->half == most - 1)
		most--;
	return most < source->end ? (uint32_t)most : source->end;
}

/* Windows move to the right with the output, so the first and the last one tell which
 * source pixels are used. */
static void find_used(struct tauti_axis *axis, const struct tauti_axis_wish *wish,
	const struct source *source)
{
	uint32_t last = wish->first + wish->outputs - 1;
	struct window left = window_of(source, wish->filter, wish->first);
	struct window right = window_of(source, wish->filter, last);

	axis->least = left.start;
	axis->end = right.start + right.taps;
}

/* All outputs have the same number of pairs. Where that goes beyond the last source pixel,
 * the window begins earlier, with weights of zero: what is read stays inside, but for
 * one pixel where the count is odd. By the last bit of a double a window may have one
 * pixel more than there is room for, at either end, which weighs nothing.
 * weights: room for 2 * pairs + 1. */
static void put_output(struct tauti_axis *axis, uint32_t at,
	const struct window *window, double inverse, double *weights)
{
	uint32_t (*pairs)[2] = axis->weights + (size_t)at * axis->pairs;
	uint32_t all = 2 * axis->pairs, used = axis->end - axis->least;
	uint32_t start = window->start - axis->least;
	uint32_t most = used > all ? used - all : 0;
	uint32_t before = start > most ? start - most : 0;

	axis->starts[at] = start - before;
	for (uint32_t t = 0; t < before; t++)
		weights[t] = 0;
	for (uint32_t t = before + window->taps; t < all; t++)
		weights[t] = 0;
	weigh(window, inverse, weights + before);
	if (window->taps > all && rounded(weights[0]) == 0) {
		axis->starts[at]++;
		weights++;
	}
	for (uint32_t p = 0; p < axis->pairs; p++)
		put_pair(pairs[p], weights + 2 * p);
}

/* Starts rise, or fall where it is mirrored. */
static uint32_t group_span(const struct tauti_axis *axis)
{
	const uint32_t *starts = axis->starts;
	uint32_t step = TAUTI_AXIS_GROUP - 1, most = 0;

	if (step >= axis->outputs)
		step = axis->outputs - 1;
	for (uint32_t i = step; i < axis->outputs; i++) {
		uint32_t a = starts[i - step], b = starts[i];
		uint32_t apart = a < b ? b - a : a - b;

		most = apart > most ? apart : most;
	}
	return most + 2 * axis->pairs;
}

static bool take_room(struct tauti_axis *axis)
{
	size_t most = 2 * (size_t)axis->pairs + 1;
	double *weights;

	if (!tauti_scratch(&axis->memory[0], &axis->capacity[0],
		    axis->outputs * sizeof *axis->starts) ||
		!tauti_scratch(&axis->memory[1], &axis->capacity[1],
			most * sizeof *weights + (size_t)axis->outputs *
				axis->pairs * sizeof *axis->weights))
		return false;
	axis->starts = axis->memory[0];
	weights = axis->memory[1]; /* of one output, before they are rounded */
	axis->weights = (void *)(weights + most);
	return true;
}

bool tauti_axis_set(struct tauti_axis *axis, const struct tauti_axis_wish *wish)
{
	struct source source = source_of(wish);
	uint32_t most = most_taps(&source, wish->filter);
	double inverse = 1 / source.half, *weights;

	find_used(axis, wish, &source);
	if (most > axis->end - axis->least)
		most = axis->end - axis->least;
	axis->outputs = wish->outputs;
	axis->pairs = (most + 1) / 2;
	axis->copies = wish->size == wish->whole && !wish->mirrored &&
		source.origin == 0;
	if (!take_room(axis))
		return false;
	weights = axis->memory[1];
	for (uint32_t i = 0; i < wish->outputs; i++) {
		struct window window =
			window_of(&source, wish->filter, wish->first + i);

		put_output(axis, wish->mirrored ? wish->outputs - 1 - i : i,
			&window, inverse, weights);
	}
	axis->group_span = group_span(axis);
	axis->least += (uint32_t)wish->origin;
	axis->end += (uint32_t)wish->origin;
	return true;
}

void tauti_axis_fini(struct tauti_axis *axis)
{
	free(axis->memory[0]);
	free(axis->memory[1]);
}

/* jitter.c - changes of colour. */
#include <math.h>

#include "load/image/jitter.h"

bool tauti_jitter_asked(const struct taut_prepare_options *o)
{
	return o->brightness > 0 || o->contrast > 0 || o->saturation > 0 ||
		o->hue > 0;
}

struct tauti_jitter tauti_jitter_draw(
	const struct taut_prepare_options *o, struct tauti_draw *draw)
{
	const double spread[TAUTI_JITTER_STEPS] = { o->brightness, o->contrast,
		o->saturation, o->hue };
	struct tauti_jitter jitter = { .order = { TAUTI_BRIGHTNESS,
		TAUTI_CONTRAST, TAUTI_SATURATION, TAUTI_HUE } };

	for (unsigned i = TAUTI_JITTER_STEPS - 1; i > 0; i--) {
		unsigned with = (unsigned)tauti_draw_below(draw, i + 1);
		enum tauti_jitter_step step = jitter.order[i];

		jitter.order[i] = jitter.order[with];
		jitter.order[with] = step;
	}
	for (unsigned i = 0; i < TAUTI_JITTER_STEPS; i++) {
		double middle = i == TAUTI_HUE ? 0 : 1;
		double least = middle - spread[i];

		jitter.wanted[i] = spread[i] > 0;
		if (!jitter.wanted[i])
			continue;
		if (i != TAUTI_HUE)
			least = fmax(0, least);
		jitter.factor[i] =
			tauti_draw_between(draw, least, middle + spread[i]);
	}
	return jitter;
}

static unsigned char to_u8(float x)
{
	x += 0.5f;
	return (unsigned char)(x <= 0 ? 0 : x < 255 ? x : 255);
}

static float grey_of(const unsigned char *pixel)
{
	return 0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2];
}

static void away_from(unsigned char *pixel, float grey, float factor)
{
	for (int c = 0; c < 3; c++)
		pixel[c] = to_u8(grey + (pixel[c] - grey) * factor);
}

static void change_contrast(unsigned char *pixels, size_t n, float factor)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += grey_of(pixels + 3 * i);
	for (size_t i = 0; i < n; i++)
		away_from(pixels + 3 * i, (float)(sum / (double)n), factor);
}

static void change_saturation(unsigned char *pixels, size_t n, float factor)
{
	for (size_t i = 0; i < n; i++)
		away_from(pixels + 3 * i, grey_of(pixels + 3 * i), factor);
}

static void change_brightness(unsigned char *pixels, size_t n, float factor)
{
	for (size_t i = 0; i < n; i++)
		away_from(pixels + 3 * i, 0, factor);
}

/* Where the pixel is on the circle of colours, in sixths from red, 0 .. 6. */
static float sixth_of(const unsigned char *p, int most, float spread)
{
	float sixth;

	if (most == p[0])
		sixth = (p[1] - p[2]) / spread;
	else if (most == p[1])
		sixth = 2 + (p[2] - p[0]) / spread;
	else
		sixth = 4 + (p[0] - p[1]) / spread;
	return sixth < 0 ? sixth + 6 : sixth;
}

/* Turning keeps the largest and the least component. A component is the largest within
 * a sixth of its own colour, the least beyond two, and goes straight in between. */
static void turn(unsigned char *p, float by)
{
	static const float own[3] = { 0, 2, 4 };
	int most = p[0] > p[1] ? p[0] : p[1], least = p[0] < p[1] ? p[0] : p[1];
	float sixth;

	most = p[2] > most ? p[2] : most;
	least = p[2] < least ? p[2] : least;
	if (most == least)
		return;
	sixth = sixth_of(p, most, (float)(most - least)) + by;
	for (int c = 0; c < 3; c++) {
		float away = fabsf(sixth - own[c]);

		while (away > 6)
			away -= 6;
		away = 2 - fminf(away, 6 - away); /* of 3 at most */
		p[c] = to_u8(least +
			(most - least) * fminf(1, fmaxf(0, away)));
	}
}

static void change_hue(unsigned char *pixels, size_t n, float turns)
{
	for (size_t i = 0; i < n; i++)
		turn(pixels + 3 * i, turns * 6);
}

void tauti_jitter_apply(
	const struct tauti_jitter *jitter, unsigned char *pixels, size_t n)
{
	static void (*const steps[TAUTI_JITTER_STEPS])(unsigned char *pixels,
		size_t n, float factor) = { change_brightness, change_contrast,
		change_saturation, change_hue };

	for (unsigned i = 0; i < TAUTI_JITTER_STEPS; i++) {
		enum tauti_jitter_step step = jitter->order[i];

		if (jitter->wanted[step])
			steps[step](pixels, n, (float)jitter->factor[step]);
	}
}

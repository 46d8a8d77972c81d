/* jitter.h - brightness, contrast, saturation and hue, drawn and applied.
 *
 * As torchvision's ColorJitter, on u8, each step rounded to nearest and held in 0 .. 255:
 *   brightness: x * f            contrast: mean + (x - mean) * f, mean that of all grey
 *   saturation: grey + (x - grey) * f    hue: a turn in HSV
 * with grey = 0.299 red + 0.587 green + 0.114 blue.
 *
 * Threads: pure functions. */
#ifndef TAUT_LOAD_IMAGE_JITTER_H
#define TAUT_LOAD_IMAGE_JITTER_H

#include <stdbool.h>
#include <stddef.h>

#include <taut/prepare.h>

#include "load/draw.h"

enum tauti_jitter_step {
	TAUTI_BRIGHTNESS,
	TAUTI_CONTRAST,
	TAUTI_SATURATION,
	TAUTI_HUE,
	TAUTI_JITTER_STEPS
};

struct tauti_jitter {
	enum tauti_jitter_step order[TAUTI_JITTER_STEPS];
	double factor[TAUTI_JITTER_STEPS]; /* HUE: part of a circle to turn by */
	bool wanted[TAUTI_JITTER_STEPS];
};

/* Are any colours to be changed? */
bool tauti_jitter_asked(const struct taut_prepare_options *options);
/* Draws the order, then the factors of the wanted steps. */
struct tauti_jitter tauti_jitter_draw(
	const struct taut_prepare_options *options, struct tauti_draw *draw);
void tauti_jitter_apply(
	const struct tauti_jitter *jitter, unsigned char *pixels, size_t n);

#endif /* TAUT_LOAD_IMAGE_JITTER_H */

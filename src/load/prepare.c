/* prepare.c - decode, crop, resize and store, a few rows at a time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load/image/axis.h"
#include "load/image/crop.h"
#include "load/image/decoder.h"
#include "load/image/exif.h"
#include "load/image/jitter.h"
#include "load/image/kernels.h"
#include "load/prepare.h"

struct tauti_prepare {
	struct taut_prepare_options options; /* without zeros */
	const struct tauti_image_kernels *kernels;
	struct tauti_store store;
	unsigned forced; /* decoder that the options ask for, or TAUTI_DECODERS */
	void *decoders[TAUTI_DECODERS]; /* made when first needed */
	struct tauti_prepare_counts counts;
	struct tauti_axis down, across;
	bool colours; /* whole pictures are kept, for their colours to be changed */
	/* Memory that is kept between images. */
	void *ring, *pointers, *line, *picture, *turned;
	size_t ring_bytes, pointer_bytes, line_bytes, picture_bytes, turned_bytes;
};

/* One image on its way. */
struct work {
	struct tauti_prepare *p;
	const struct tauti_decoder *decoder;
	void *state; /* the decoder's */
	const char *name;
	struct taut_error *err;
	struct tauti_image image;
	struct tauti_crop crop;
	unsigned scale;
	bool flipped;
	struct tauti_jitter jitter;
	unsigned char *slot;
	/* rows of the region that the axes use */
	uint32_t height, width;
	uint32_t taken; /* resized across so far */
	uint32_t ring_rows; /* a power of two */
	size_t ring_stride;
};

/* --- one for each thread ---------------------------------------------------------------*/

static void set_store(struct tauti_prepare *p)
{
	const struct taut_prepare_options *o = &p->options;

	p->store = (struct tauti_store){ .type = o->type, .layout = o->layout,
		.plane_bytes = (size_t)o->height * o->width *
			taut_prepare_type_bytes(o->type) };
	for (int c = 0; c < 3; c++) {
		p->store.factor[c] = (float)(1 / (255 * (double)o->deviation[c]));
		p->store.term[c] = (float)(-(double)o->mean[c] / o->deviation[c]);
	}
}

taut_status tauti_prepare_create(const struct taut_prepare_options *options,
	struct tauti_prepare **ret_prepare, struct taut_error *err)
{
	struct tauti_prepare *p;
	taut_status status = tauti_image_check(options, err);

	if (status)
		return status;
	p = calloc(1, sizeof *p);
	if (!p)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "prepare: no memory");
	p->options = tauti_prepare_defaults(options);
	p->kernels = tauti_image_kernels();
	p->forced = p->options.format ? tauti_decoder_of_name(p->options.format) :
		TAUTI_DECODERS;
	p->colours = tauti_jitter_asked(&p->options);
	set_store(p);
	*ret_prepare = p;
	return TAUT_OK;
}

void tauti_prepare_destroy(struct tauti_prepare *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < TAUTI_DECODERS; i++)
		if (p->decoders[i])
			tauti_decoders[i]->destroy(p->decoders[i]);
	tauti_axis_fini(&p->down);
	tauti_axis_fini(&p->across);
	free(p->ring);
	free(p->pointers);
	free(p->line);
	free(p->picture);
	free(p->turned);
	free(p);
}

struct tauti_prepare_counts tauti_prepare_counts(const struct tauti_prepare *p)
{
	return p->counts;
}

static taut_status no_memory(const struct work *w)
{
	return taut_error_set(w->err, TAUT_ENOMEM, -1,
		"%s: no memory to prepare %u x %u pixels", w->name,
		w->image.height, w->image.width);
}

/* --- which pixels ----------------------------------------------------------------------*/

static taut_status find_decoder(
	struct work *w, const unsigned char *bytes, size_t n)
{
	struct tauti_prepare *p = w->p;
	struct tauti_decoder_limits limits = {
		.most_pixels = p->options.most_pixels,
		.raw_height = p->options.raw_height,
		.raw_width = p->options.raw_width,
		.strict = p->options.strict,
		.orient = p->options.orient,
	};
	unsigned i = p->forced;

	if (i == TAUTI_DECODERS)
		i = tauti_decoder_of_bytes(bytes, n);
	if (i == TAUTI_DECODERS)
		return taut_error_set(w->err, TAUT_EFORMAT, 0,
			"%s: byte 0: expected a JPEG or PNG image, found "
			"neither's first bytes (of %zu)", w->name, n);
	w->decoder = tauti_decoders[i];
	if (!p->decoders[i])
		p->decoders[i] = w->decoder->create(&limits);
	w->state = p->decoders[i];
	return w->state ? TAUT_OK : no_memory(w);
}

static bool is_turned(const struct work *w)
{
	return w->image.orientation != 1;
}

/* The largest of 1/2, 1/4 and 1/8 that leaves at least as many pixels as are wanted. */
static unsigned choose_scale(const struct work *w)
{
	const struct tauti_side *d = &w->crop.down, *a = &w->crop.across;
	unsigned scale = 1;

	if (!w->p->options.scale_in_decoder || !w->image.scales || is_turned(w))
		return 1;
	while (scale < 8 && d->size / (scale * 2) >= d->whole &&
		a->size / (scale * 2) >= a->whole)
		scale *= 2;
	return scale;
}

/* pixels are all that the image has in this direction, at full size. */
static struct tauti_axis_wish wish_of(const struct work *w,
	const struct tauti_side *side, uint32_t pixels, uint32_t outputs)
{
	double scale = w->scale;
	double end = ceil(((double)side->from + side->size) / scale);
	double most = ceil(pixels / scale);

	return (struct tauti_axis_wish){
		.origin = side->from / scale,
		.size = side->size / scale,
		.end = (uint32_t)fmin(end, most),
		.whole = side->whole,
		.first = side->first,
		.outputs = outputs,
		.filter = w->p->options.filter,
	};
}

static taut_status choose(struct work *w, struct tauti_draw *draw)
{
	struct tauti_prepare *p = w->p;
	const struct taut_prepare_options *o = &p->options;
	bool sideways = w->image.orientation >= 5; /* rows are columns */
	uint32_t height = sideways ? w->image.width : w->image.height;
	uint32_t width = sideways ? w->image.height : w->image.width;
	struct tauti_axis_wish across;
	struct tauti_axis_wish down;

	if (o->crop == TAUT_CROP_NONE && (height != o->height || width != o->width))
		return taut_error_set(w->err, TAUT_EFORMAT, -1,
			"%s: %s: %u x %u pixels, expected %u x %u", w->name,
			w->decoder->name, height, width, o->height, o->width);
	w->flipped = tauti_draw_unit(draw) < o->flip;
	w->crop = tauti_crop_choose(o, height, width, draw);
	if (p->colours)
		w->jitter = tauti_jitter_draw(o, draw);
	w->scale = choose_scale(w);
	p->counts.scaled += w->scale > 1;
	down = wish_of(w, &w->crop.down, height, o->height);
	across = wish_of(w, &w->crop.across, width, o->width);
	across.mirrored = w->flipped;
	if (!tauti_axis_set(&p->down, &down) ||
		!tauti_axis_set(&p->across, &across))
		return no_memory(w);
	w->height = p->down.end - p->down.least;
	w->width = p->across.end - p->across.least;
	return TAUT_OK;
}

/* --- rows of the region ------------------------------------------------------------------*/

/* A picture that was stored turned is turned back as a whole. */
static taut_status turn_back(struct work *w, const struct tauti_region *stored)
{
	const unsigned char *rows[TAUTI_ROWS_AT_ONCE];
	struct tauti_prepare *p = w->p;
	size_t bytes = (size_t)w->height * w->width * 3 + TAUTI_ROW_SLACK;

	if (!tauti_scratch(&p->turned, &p->turned_bytes, bytes))
		return no_memory(w);
	for (uint32_t done = 0; done < stored->height;) {
		uint32_t left = stored->height - done;
		unsigned n = left < TAUTI_ROWS_AT_ONCE ? left : TAUTI_ROWS_AT_ONCE;
		taut_status status = w->decoder->rows(w->state, n, rows, w->err);

		if (status)
			return status;
		for (unsigned i = 0; i < n; i++, done++)
			tauti_orient_row(w->image.orientation, stored->height,
				stored->width, done, rows[i], p->turned);
	}
	return TAUT_OK;
}

static taut_status begin(struct work *w)
{
	struct tauti_region region = { w->p->down.least, w->p->across.least,
		w->height, w->width };
	taut_status status;

	if (is_turned(w))
		region = tauti_orient_region(w->image.orientation,
			w->image.height, w->image.width, &region);
	status = w->decoder->begin(w->state, w->scale, &region, w->err);
	if (!status && is_turned(w))
		status = turn_back(w, &region);
	return status;
}

static taut_status next_rows(
	struct work *w, unsigned n, const unsigned char **ret_rows)
{
	if (!is_turned(w))
		return w->decoder->rows(w->state, n, ret_rows, w->err);
	for (unsigned i = 0; i < n; i++)
		ret_rows[i] = (unsigned char *)w->p->turned +
			(size_t)(w->taken + i) * w->width * 3;
	return TAUT_OK;
}

/* --- resized rows ----------------------------------------------------------------------*/

static unsigned char *ring_row(const struct work *w, uint32_t row)
{
	return (unsigned char *)w->p->ring + (row & (w->ring_rows - 1)) * w->ring_stride;
}

/* Resizes the next rows across, until those before `end` are in the ring. */
static taut_status take_rows(struct work *w, uint32_t end)
{
	const unsigned char *from[TAUTI_ROWS_AT_ONCE];
	unsigned char *to[TAUTI_ROWS_AT_ONCE];

	while (w->taken < end) {
		uint32_t left = w->height - w->taken;
		unsigned n = left < TAUTI_ROWS_AT_ONCE ? left : TAUTI_ROWS_AT_ONCE;
		taut_status status = next_rows(w, n, from);

		if (status)
			return status;
		for (unsigned i = 0; i < n; i++)
			to[i] = ring_row(w, w->taken + i);
		if (!w->p->across.copies)
			w->p->kernels->across(&w->p->across, from, to, n);
		else
			for (unsigned i = 0; i < n; i++)
				memcpy(to[i], from[i], (size_t)w->width * 3);
		w->taken += n;
	}
	return TAUT_OK;
}

/* Output row y, resized down from the ring. */
static void put_row(struct work *w, uint32_t y, unsigned char *to)
{
	const struct tauti_axis *down = &w->p->down;
	const unsigned char **rows = w->p->pointers;
	size_t bytes = (size_t)w->p->options.width * 3;

	for (uint32_t i = 0; i < 2 * down->pairs; i++) {
		uint32_t row = down->starts[y] + i;

		rows[i] = ring_row(w, row < w->taken ? row : w->taken - 1);
	}
	if (down->copies)
		memcpy(to, ring_row(w, y), bytes);
	else
		w->p->kernels->down((const uint32_t(*)[2])down->weights +
			(size_t)y * down->pairs, down->pairs, rows, to, bytes);
}

static unsigned char *slot_row(const struct work *w, uint32_t y)
{
	size_t bytes = (size_t)w->p->options.width *
		taut_prepare_type_bytes(w->p->options.type);

	if (w->p->options.layout == TAUT_LAYOUT_HWC)
		bytes *= 3;
	return w->slot + y * bytes;
}

/* Where output row y is put as u8: right where it belongs, if that is what it stays. */
static unsigned char *row_place(const struct work *w, uint32_t y)
{
	const struct tauti_prepare *p = w->p;

	if (p->colours)
		return (unsigned char *)p->picture +
			(size_t)y * p->options.width * 3;
	if (p->options.type == TAUT_PIXEL_U8 &&
		p->options.layout == TAUT_LAYOUT_HWC)
		return slot_row(w, y);
	return p->line;
}

static bool take_room(struct work *w)
{
	struct tauti_prepare *p = w->p;
	size_t row = (size_t)p->options.width * 3;

	w->ring_stride = (row + TAUTI_ROW_SLACK + 63) / 64 * 64;
	w->ring_rows = 1;
	while (w->ring_rows < 2 * p->down.pairs + TAUTI_ROWS_AT_ONCE)
		w->ring_rows *= 2;
	w->taken = 0;
	return tauti_scratch(&p->ring, &p->ring_bytes,
		       w->ring_rows * w->ring_stride) &&
		tauti_scratch(&p->pointers, &p->pointer_bytes,
			2 * p->down.pairs * sizeof(unsigned char *)) &&
		tauti_scratch(&p->line, &p->line_bytes, row + TAUTI_ROW_SLACK) &&
		(!p->colours ||
			tauti_scratch(&p->picture, &p->picture_bytes,
				row * p->options.height + TAUTI_ROW_SLACK));
}

static void store_picture(struct work *w)
{
	struct tauti_prepare *p = w->p;
	uint32_t width = p->options.width;

	tauti_jitter_apply(&w->jitter, p->picture,
		(size_t)p->options.height * width);
	for (uint32_t y = 0; y < p->options.height; y++)
		p->kernels->store(&p->store, row_place(w, y), width,
			slot_row(w, y));
}

static taut_status fill_slot(struct work *w)
{
	struct tauti_prepare *p = w->p;
	taut_status status;

	if (!take_room(w))
		return no_memory(w);
	for (uint32_t y = 0; y < p->options.height; y++) {
		uint32_t end = p->down.starts[y] + 2 * p->down.pairs;
		unsigned char *to = row_place(w, y);

		status = take_rows(w, end < w->height ? end : w->height);
		if (status)
			return status;
		put_row(w, y, to);
		if (to == p->line)
			p->kernels->store(&p->store, to, p->options.width,
				slot_row(w, y));
	}
	if (p->colours)
		store_picture(w);
	p->kernels->settle();
	return TAUT_OK;
}

/* --- an image --------------------------------------------------------------------------*/

static taut_status run(struct work *w, const unsigned char *bytes, size_t n,
	struct tauti_draw *draw)
{
	taut_status status = find_decoder(w, bytes, n);

	if (status)
		return status;
	status = w->decoder->open(
		w->state, bytes, n, w->name, &w->image, w->err);
	if (!status)
		status = choose(w, draw);
	if (!status)
		status = begin(w);
	if (!status)
		status = fill_slot(w);
	if (w->decoder->close(w->state) && !status)
		w->p->counts.warnings++;
	return status;
}

taut_status tauti_prepare_image(struct tauti_prepare *p, const void *bytes,
	size_t n, const char *name, struct tauti_draw draw, void *slot,
	struct taut_error *err)
{
	struct work w = { .p = p, .name = name, .err = err, .slot = slot };
	taut_status status = run(&w, bytes, n, &draw);

	if (status)
		p->counts.faults++;
	else
		p->counts.images++;
	return status;
}

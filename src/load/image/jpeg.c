/* jpeg.c - JPEG by libjpeg: any that it reads, as RGB; of a crop only what it needs.
 *
 * libjpeg leaves a fault by longjmp. There is one setjmp, in guarded(); what runs below it
 * keeps everything that must not leak in struct jpeg.
 *
 * Coefficients are read by jpeg_bits.c. Where that gives up, the image is begun again with
 * libjpeg alone, up to the row that is next: rows that were given are as they would be. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "load/image/decoder.h"
#include "load/image/exif.h"
#include "load/image/jpeg_bits.h"

enum {
	MOST_SCANS = 256, /* progressive images have some ten; each costs a pass */
	/* Columns at a region's sides that upsampling fills from one neighbour
	 * only. They are decoded too, and not given out. */
	SIDE_COLUMNS = 2,
	LEAST_COLUMNS = 16, /* libjpeg upsamples narrower ones in another way */
	ROW_ALIGNMENT = 64,
	ROW_OFFSET = 8,
	EXIF_MARKER = JPEG_APP0 + 1,
};

struct jpeg {
	struct jpeg_decompress_struct d;
	struct jpeg_error_mgr errors;
	struct jpeg_source_mgr source;
	struct jpeg_progress_mgr progress;
	jmp_buf jump;
	struct tauti_decoder_limits limits;
	const unsigned char *bytes; /* of the image, n of them */
	size_t n;
	const char *name;
	struct taut_error *err;
	taut_status status; /* TAUT_EAGAIN: with libjpeg alone */
	bool warned;
	struct tauti_jpeg_bits *bits;
	bool is_plain; /* libjpeg alone */
	/* what a step is given and gives back */
	struct tauti_image image;
	struct tauti_region region;
	unsigned scale, n_rows;
	uint32_t n_given; /* rows of the region */
	const unsigned char **rows;
	uint32_t cut_columns; /* decoded, left of the region */
	unsigned char *first_row;
	size_t row_bytes; /* from a row to the next */
	void *memory;     /* rows */
	size_t capacity;
};

static unsigned long long position(const struct jpeg *j)
{
	return j->n - j->source.bytes_in_buffer;
}

/* Does not return. */
static void fault(struct jpeg *j, taut_status status, const char *what)
{
	j->status = taut_error_set(j->err, status, (int64_t)position(j),
		"%s: jpeg: byte %llu: %s", j->name, position(j), what);
	longjmp(j->jump, 1);
}

static void on_error(j_common_ptr common)
{
	struct jpeg *j = common->client_data;
	char text[JMSG_LENGTH_MAX];

	j->errors.format_message(common, text);
	fault(j, j->errors.msg_code == JERR_OUT_OF_MEMORY ? TAUT_ENOMEM :
		TAUT_EFORMAT, text);
}

static void on_message(j_common_ptr common, int level)
{
	struct jpeg *j = common->client_data;

	if (level >= 0)
		return;
	j->warned = true;
	if (j->limits.strict)
		on_error(common);
}

static void no_output(j_common_ptr common)
{
	(void)common;
}

/* Each scan of a progressive image is a pass over all of it. */
static void on_progress(j_common_ptr common)
{
	struct jpeg *j = common->client_data;

	if (j->d.input_scan_number > MOST_SCANS)
		fault(j, TAUT_EFORMAT, "more than 256 scans");
}

static void source_begin(j_decompress_ptr d)
{
	(void)d;
}

static boolean source_more(j_decompress_ptr d)
{
	struct jpeg *j = d->client_data;

	j->source.bytes_in_buffer = 0; /* libjpeg has looked at the rest */
	fault(j, TAUT_EFORMAT,
		"the image goes on, expected the end of the bytes after it");
	return FALSE;
}

static void source_skip(j_decompress_ptr d, long n)
{
	struct jpeg *j = d->client_data;

	if (n <= 0)
		return;
	if ((size_t)n > j->source.bytes_in_buffer)
		source_more(d);
	j->source.next_input_byte += n;
	j->source.bytes_in_buffer -= (size_t)n;
}

static taut_status guarded(
	struct jpeg *j, void (*step)(struct jpeg *j), struct taut_error *err)
{
	j->status = TAUT_OK;
	j->err = err;
	if (setjmp(j->jump) == 0)
		step(j);
	return j->status;
}

/* --- one for each thread ---------------------------------------------------------------*/

static void destroy(void *state)
{
	struct jpeg *j = state;

	if (!j)
		return;
	jpeg_destroy_decompress(&j->d);
	tauti_jpeg_bits_destroy(j->bits);
	free(j->memory);
	free(j);
}

static void *create(const struct tauti_decoder_limits *limits)
{
	struct jpeg *j = calloc(1, sizeof *j);

	if (!j)
		return NULL;
	j->bits = tauti_jpeg_bits_create();
	if (!j->bits) {
		free(j);
		return NULL;
	}
	j->limits = *limits;
	j->name = "";
	j->d.err = jpeg_std_error(&j->errors);
	j->errors.error_exit = on_error;
	j->errors.emit_message = on_message;
	j->errors.output_message = no_output;
	j->source.init_source = source_begin;
	j->source.fill_input_buffer = source_more;
	j->source.skip_input_data = source_skip;
	j->source.resync_to_restart = jpeg_resync_to_restart;
	j->source.term_source = source_begin;
	j->progress.progress_monitor = on_progress;
	j->d.client_data = j;
	return j;
}

/* --- an image --------------------------------------------------------------------------*/

static bool probe(const unsigned char *bytes, size_t n)
{
	return n >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

static unsigned orientation(const struct jpeg *j)
{
	static const unsigned char head[6] = "Exif\0";

	for (jpeg_saved_marker_ptr m = j->d.marker_list; m; m = m->next)
		if (m->marker == EXIF_MARKER && m->data_length > sizeof head &&
			memcmp(m->data, head, sizeof head) == 0)
			return tauti_exif_orientation(m->data + sizeof head,
				m->data_length - sizeof head);
	return 1;
}

/* Anew for each image: libjpeg keeps an image's tables for the next one, which would then
 * depend on what was decoded before it, where it lacks some. */
static void create_anew(struct jpeg *j)
{
	jpeg_create_decompress(&j->d);
	j->d.src = &j->source;
	j->d.progress = &j->progress;
	if (j->limits.orient)
		jpeg_save_markers(&j->d, EXIF_MARKER, 0xffff);
}

static void step_open(struct jpeg *j)
{
	taut_status status;

	j->source.next_input_byte = j->bytes;
	j->source.bytes_in_buffer = j->n;
	create_anew(j);
	jpeg_read_header(&j->d, TRUE);
	status = tauti_image_size_check(j->name, "jpeg", j->d.image_height,
		j->d.image_width, &j->limits, j->err);
	if (status) {
		j->status = status;
		return;
	}
	switch (j->d.jpeg_color_space) {
	case JCS_GRAYSCALE:
	case JCS_YCbCr:
	case JCS_RGB:
		j->d.out_color_space = JCS_RGB;
		break;
	case JCS_CMYK:
	case JCS_YCCK:
		j->d.out_color_space = JCS_CMYK;
		break;
	default:
		fault(j, TAUT_EFORMAT,
			"colours of no known kind, expected 1, 3 or 4 components");
	}
	j->image = (struct tauti_image){ .height = j->d.image_height,
		.width = j->d.image_width, .orientation = 1, .scales = true };
	if (j->limits.orient)
		j->image.orientation = orientation(j);
}

static taut_status open_image(void *state, const unsigned char *bytes, size_t n,
	const char *name, struct tauti_image *ret_image, struct taut_error *err)
{
	struct jpeg *j = state;
	taut_status status;

	j->bytes = bytes;
	j->n = n;
	j->name = name;
	j->warned = false;
	j->is_plain = j->limits.plain;
	status = guarded(j, step_open, err);
	if (!status)
		*ret_image = j->image;
	return status;
}

/* Size of a block of a component, and the least of all. */
#if JPEG_LIB_VERSION >= 70
#define BLOCK_SIZE(component) ((component)->DCT_h_scaled_size)
#define LEAST_BLOCK_SIZE(d) ((d)->min_DCT_h_scaled_size)
#else
#define BLOCK_SIZE(component) ((component)->DCT_scaled_size)
#define LEAST_BLOCK_SIZE(d) ((d)->min_DCT_scaled_size)
#endif

/* libjpeg's cropping is not made for odd ratios between components' widths, nor for one
 * that becomes wider by a part in the transform and by the rest in upsampling: it takes
 * it for narrower than it is. */
static bool can_crop(const struct jpeg *j)
{
	int least = LEAST_BLOCK_SIZE(&j->d);

	for (int i = 0; i < j->d.num_components; i++) {
		const jpeg_component_info *c = &j->d.comp_info[i];

		if (j->d.max_h_samp_factor % c->h_samp_factor)
			return false;
		if (BLOCK_SIZE(c) != least && c->h_samp_factor * BLOCK_SIZE(c) !=
			j->d.max_h_samp_factor * least)
			return false;
	}
	return true;
}

/* Tells libjpeg which columns are not wanted. */
static void crop_columns(struct jpeg *j)
{
	JDIMENSION left = j->region.left, width,
		end = j->region.left + j->region.width;

	j->cut_columns = j->region.left;
	if (!can_crop(j))
		return;
	if (j->d.max_h_samp_factor > 1) {
		left = left > SIDE_COLUMNS ? left - SIDE_COLUMNS : 0;
		end += SIDE_COLUMNS;
	}
	if (end < left + LEAST_COLUMNS)
		end = left + LEAST_COLUMNS;
	if (end > j->d.output_width)
		end = j->d.output_width;
	if (end < left + LEAST_COLUMNS)
		left = end > LEAST_COLUMNS ? end - LEAST_COLUMNS : 0;
	width = end - left;
	jpeg_crop_scanline(&j->d, &left, &width);
	j->cut_columns = j->region.left - left;
	if (!j->is_plain)
		tauti_jpeg_bits_want(j->bits, left, left + width);
}

/* libjpeg-turbo writes a row past the caches where its address is a multiple of its
 * registers' size; it would then be read back from memory. So none begins at one. */
static void take_rows(struct jpeg *j)
{
	size_t pixels = (size_t)j->d.output_width * j->d.output_components;
	unsigned n = j->region.height < TAUTI_ROWS_AT_ONCE ? j->region.height :
		TAUTI_ROWS_AT_ONCE;
	uintptr_t first;

	j->row_bytes = (pixels + TAUTI_ROW_SLACK + ROW_ALIGNMENT - 1) /
		ROW_ALIGNMENT * ROW_ALIGNMENT;
	if (!tauti_scratch(&j->memory, &j->capacity,
		    j->row_bytes * n + ROW_ALIGNMENT + ROW_OFFSET))
		fault(j, TAUT_ENOMEM, "no memory for its rows");
	first = (uintptr_t)j->memory;
	first = (ROW_ALIGNMENT - first % ROW_ALIGNMENT) % ROW_ALIGNMENT;
	j->first_row = (unsigned char *)j->memory + first + ROW_OFFSET;
}

static void give_up(j_decompress_ptr d)
{
	struct jpeg *j = d->client_data;

	j->status = TAUT_EAGAIN;
	longjmp(j->jump, 1);
}

static void step_begin(struct jpeg *j)
{
	j->d.scale_num = 1;
	j->d.scale_denom = j->scale;
	jpeg_start_decompress(&j->d);
	j->is_plain = j->is_plain || !tauti_jpeg_bits_attach(j->bits, &j->d, give_up);
	if (j->region.width < j->d.output_width)
		crop_columns(j);
	else
		j->cut_columns = 0;
	take_rows(j);
	if (j->region.top > 0)
		jpeg_skip_scanlines(&j->d, j->region.top);
}

/* Rows that were given once, again. */
static void step_pass(struct jpeg *j)
{
	for (uint32_t i = 0; i < j->n_given;)
		i += jpeg_read_scanlines(&j->d, &j->first_row, 1);
}

static taut_status begin_again(struct jpeg *j, struct taut_error *err)
{
	taut_status status;

	jpeg_destroy_decompress(&j->d);
	j->is_plain = true;
	status = guarded(j, step_open, err);
	if (!status)
		status = guarded(j, step_begin, err);
	if (!status)
		status = guarded(j, step_pass, err);
	return status;
}

static taut_status begin(void *state, unsigned scale,
	const struct tauti_region *region, struct taut_error *err)
{
	struct jpeg *j = state;
	taut_status status;

	j->scale = scale;
	j->region = *region;
	j->n_given = 0;
	status = guarded(j, step_begin, err);
	return status == TAUT_EAGAIN ? begin_again(j, err) : status;
}

/* a * b / 255, rounded, for a and b of 0 .. 255. */
static unsigned part(unsigned a, unsigned b)
{
	unsigned x = a * b + 128;

	return (x + (x >> 8)) >> 8;
}

/* Inks are stored as what is left of white, as Adobe does and Pillow assumes; in
 * place, for three bytes never overtake four. */
static void ink_to_rgb(const unsigned char *from, unsigned char *to, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, from += 4, to += 3) {
		unsigned light = from[3];
		unsigned red = light - part(255u - from[0], light);
		unsigned green = light - part(255u - from[1], light);
		unsigned blue = light - part(255u - from[2], light);

		to[0] = (unsigned char)red;
		to[1] = (unsigned char)green;
		to[2] = (unsigned char)blue;
	}
}

static void step_rows(struct jpeg *j)
{
	JSAMPROW to[TAUTI_ROWS_AT_ONCE];
	unsigned done = 0;

	for (unsigned i = 0; i < j->n_rows; i++)
		to[i] = j->first_row + i * j->row_bytes;
	while (done < j->n_rows)
		done += jpeg_read_scanlines(
			&j->d, to + done, j->n_rows - done);
	for (unsigned i = 0; i < j->n_rows; i++) {
		if (j->d.out_color_space == JCS_CMYK) {
			ink_to_rgb(to[i] + (size_t)j->cut_columns * 4, to[i],
				j->region.width);
			j->rows[i] = to[i];
		} else {
			j->rows[i] = to[i] + (size_t)j->cut_columns * 3;
		}
	}
}

static taut_status rows(void *state, unsigned n, const unsigned char **ret_rows,
	struct taut_error *err)
{
	struct jpeg *j = state;
	taut_status status;

	j->n_rows = n;
	j->rows = ret_rows;
	status = guarded(j, step_rows, err);
	if (status == TAUT_EAGAIN) {
		status = begin_again(j, err);
		if (!status)
			status = guarded(j, step_rows, err);
	}
	j->n_given += n;
	return status;
}

static bool close_image(void *state)
{
	struct jpeg *j = state;

	jpeg_destroy_decompress(&j->d);
	j->bytes = NULL;
	j->name = "";
	return j->warned;
}

const struct tauti_decoder tauti_decoder_jpeg = {
	.name = "jpeg",
	.probe = probe,
	.create = create,
	.destroy = destroy,
	.open = open_image,
	.begin = begin,
	.rows = rows,
	.close = close_image,
};

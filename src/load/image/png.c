/* png.c - PNG by libpng: any that it reads, as RGB in u8, without what is not a pixel.
 *
 * As Pillow's convert("RGB"): palettes are looked up, grey is spread, of 16 bits the upper
 * 8 are taken, but of grey without alpha the value, 255 at most; alpha and transparent
 * colours are dropped, gamma and profiles left alone.
 *
 * libpng leaves a fault by longjmp. There is one setjmp, in guarded(); what runs below it
 * keeps everything that must not leak in struct png. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "load/image/decoder.h"
#include "load/image/exif.h"

struct png {
	png_structp png; /* of an image, between open and close */
	png_infop info;
	jmp_buf jump;
	struct tauti_decoder_limits limits;
	const unsigned char *bytes;
	size_t n, at;
	const char *name;
	struct taut_error *err;
	taut_status status;
	bool warned;
	/* what a step is given and gives back */
	struct tauti_image image;
	struct tauti_region region;
	unsigned n_rows;
	const unsigned char **rows;
	size_t row_bytes;
	bool interlaced;
	uint32_t next; /* row of the region, in an interlaced image */
	void *memory;  /* rows; all of an interlaced image */
	size_t capacity;
	void *table; /* of pointers to all rows of an interlaced image */
	size_t table_capacity;
};

/* Does not return. */
static void fault(struct png *p, taut_status status, const char *what)
{
	p->status = taut_error_set(p->err, status, (int64_t)p->at,
		"%s: png: byte %zu: %s", p->name, p->at, what);
	longjmp(p->jump, 1);
}

static void on_error(png_structp png, const char *text)
{
	fault(png_get_error_ptr(png),
		strcmp(text, "Out of memory") == 0 ? TAUT_ENOMEM : TAUT_EFORMAT,
		text);
}

static void on_warning(png_structp png, const char *text)
{
	struct png *p = png_get_error_ptr(png);

	p->warned = true;
	if (p->limits.strict)
		fault(p, TAUT_EFORMAT, text);
}

static void on_read(png_structp png, png_bytep to, size_t n)
{
	struct png *p = png_get_io_ptr(png);

	if (n > p->n - p->at) {
		p->at = p->n;
		fault(p, TAUT_EFORMAT,
			"the image goes on, expected the end of the bytes after it");
	}
	memcpy(to, p->bytes + p->at, n);
	p->at += n;
}

static taut_status guarded(
	struct png *p, void (*step)(struct png *p), struct taut_error *err)
{
	p->status = TAUT_OK;
	p->err = err;
	if (setjmp(p->jump) == 0)
		step(p);
	return p->status;
}

static void *create(const struct tauti_decoder_limits *limits)
{
	struct png *p = calloc(1, sizeof *p);

	if (p)
		p->limits = *limits;
	return p;
}

static bool close_image(void *state)
{
	struct png *p = state;

	png_destroy_read_struct(&p->png, &p->info, NULL);
	p->bytes = NULL;
	return p->warned;
}

static void destroy(void *state)
{
	struct png *p = state;

	if (!p)
		return;
	free(p->memory);
	free(p->table);
	free(p);
}

/* --- an image --------------------------------------------------------------------------*/

static bool probe(const unsigned char *bytes, size_t n)
{
	static const unsigned char head[8] = { 0x89, 'P', 'N', 'G', '\r', '\n',
		0x1a, '\n' };

	return n >= sizeof head && memcmp(bytes, head, sizeof head) == 0;
}

/* Chunks that change no pixel are not unpacked, however large they would become. */
static void ignore_chunks(struct png *p)
{
	static const unsigned char names[] =
		"bKGD\0cHRM\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0"
		"sCAL\0sPLT\0sRGB\0sTER\0tEXt\0tIME\0zTXt";

	png_set_keep_unknown_chunks(p->png, PNG_HANDLE_CHUNK_NEVER, NULL, 0);
	png_set_keep_unknown_chunks(p->png, PNG_HANDLE_CHUNK_NEVER, names,
		sizeof names / 5);
}

/* In place: RGB of 16 bits (big-endian) to RGB of 8. */
static void clip_16(png_structp png, png_row_infop info, png_bytep row)
{
	(void)png;
	for (size_t i = 0; i < (size_t)info->width * 3; i++)
		row[i] = row[2 * i] ? 255 : row[2 * i + 1];
}

static void choose_transforms(struct png *p)
{
	png_byte colours = png_get_color_type(p->png, p->info);
	png_byte depth = png_get_bit_depth(p->png, p->info);

	if (depth == 16 && colours == PNG_COLOR_TYPE_GRAY) {
		png_set_read_user_transform_fn(p->png, clip_16);
		png_set_user_transform_info(p->png, NULL, 8, 3);
	} else if (depth == 16) {
		png_set_strip_16(p->png);
	}
	if (colours == PNG_COLOR_TYPE_PALETTE)
		png_set_palette_to_rgb(p->png);
	if (colours == PNG_COLOR_TYPE_GRAY && depth < 8)
		png_set_expand_gray_1_2_4_to_8(p->png);
	if (colours == PNG_COLOR_TYPE_GRAY ||
		colours == PNG_COLOR_TYPE_GRAY_ALPHA)
		png_set_gray_to_rgb(p->png);
	png_set_strip_alpha(p->png);
}

static unsigned orientation(struct png *p)
{
	png_uint_32 n = 0;
	png_bytep tiff = NULL;

	if (!png_get_eXIf_1(p->png, p->info, &n, &tiff))
		return 1;
	return tauti_exif_orientation(tiff, n);
}

static void step_open(struct png *p)
{
	p->png = png_create_read_struct(
		PNG_LIBPNG_VER_STRING, p, on_error, on_warning);
	p->info = p->png ? png_create_info_struct(p->png) : NULL;
	if (!p->info)
		fault(p, TAUT_ENOMEM, "no memory for its decoder");
	png_set_read_fn(p->png, p, on_read);
	png_set_user_limits(p->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
	ignore_chunks(p);
	png_read_info(p->png, p->info);
	p->status = tauti_image_size_check(p->name, "png",
		png_get_image_height(p->png, p->info),
		png_get_image_width(p->png, p->info), &p->limits, p->err);
	if (p->status)
		return;
	p->image = (struct tauti_image){
		.height = png_get_image_height(p->png, p->info),
		.width = png_get_image_width(p->png, p->info),
		.orientation = 1,
	};
	if (p->limits.orient)
		p->image.orientation = orientation(p);
	choose_transforms(p);
}

static taut_status open_image(void *state, const unsigned char *bytes, size_t n,
	const char *name, struct tauti_image *ret_image, struct taut_error *err)
{
	struct png *p = state;
	taut_status status;

	p->bytes = bytes;
	p->n = n;
	p->at = 0;
	p->name = name;
	p->warned = false;
	status = guarded(p, step_open, err);
	if (!status)
		*ret_image = p->image;
	return status;
}

static unsigned char *row_at(const struct png *p, size_t row)
{
	return (unsigned char *)p->memory + row * p->row_bytes;
}

/* Every pass writes to all rows. */
static void read_interlaced(struct png *p)
{
	png_bytep *table;

	if (!tauti_scratch(&p->table, &p->table_capacity,
		    sizeof *table * p->image.height))
		fault(p, TAUT_ENOMEM, "no memory for its rows");
	table = p->table;
	for (uint32_t i = 0; i < p->image.height; i++)
		table[i] = row_at(p, i);
	png_read_image(p->png, table);
}

static void step_begin(struct png *p)
{
	size_t kept = p->region.height < TAUTI_ROWS_AT_ONCE ? p->region.height :
		TAUTI_ROWS_AT_ONCE;

	p->interlaced = png_set_interlace_handling(p->png) > 1;
	png_read_update_info(p->png, p->info);
	if (png_get_rowbytes(p->png, p->info) != (size_t)p->image.width * 3)
		fault(p, TAUT_EFORMAT, "rows of another size than expected");
	p->row_bytes = (size_t)p->image.width * 3 + TAUTI_ROW_SLACK;
	p->next = 0;
	if (p->interlaced)
		kept = p->image.height;
	if (!tauti_scratch(&p->memory, &p->capacity, p->row_bytes * kept))
		fault(p, TAUT_ENOMEM, "no memory for its rows");
	if (p->interlaced)
		read_interlaced(p);
	else
		for (uint32_t i = 0; i < p->region.top; i++)
			png_read_row(p->png, row_at(p, 0), NULL);
}

static taut_status begin(void *state, unsigned scale,
	const struct tauti_region *region, struct taut_error *err)
{
	struct png *p = state;

	(void)scale;
	p->region = *region;
	return guarded(p, step_begin, err);
}

static void step_rows(struct png *p)
{
	for (unsigned i = 0; i < p->n_rows; i++) {
		unsigned char *row = row_at(p, i);

		if (p->interlaced)
			row = row_at(p, p->region.top + p->next++);
		else
			png_read_row(p->png, row, NULL);
		p->rows[i] = row + (size_t)p->region.left * 3;
	}
}

static taut_status rows(void *state, unsigned n, const unsigned char **ret_rows,
	struct taut_error *err)
{
	struct png *p = state;

	p->n_rows = n;
	p->rows = ret_rows;
	return guarded(p, step_rows, err);
}

const struct tauti_decoder tauti_decoder_png = {
	.name = "png",
	.probe = probe,
	.create = create,
	.destroy = destroy,
	.open = open_image,
	.begin = begin,
	.rows = rows,
	.close = close_image,
};

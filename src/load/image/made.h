/* made.h - images for tests and measurements: pixels like those of a photo, and files of
 * them by libjpeg and libpng. Ends the program when memory is missing.
 * Owner: the caller frees pixels and bytes. */
#ifndef TAUT_LOAD_IMAGE_MADE_H
#define TAUT_LOAD_IMAGE_MADE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

struct made {
	unsigned char *bytes;
	size_t n;
};

struct made_how {
	uint32_t height, width;
	uint64_t seed;
	int quality;        /* JPEG; 0: 90 */
	int across, down;   /* JPEG: samples of the first component; 0: 2 x 2 */
	int components;     /* JPEG: 1, 3, 4; 0: 3 */
	bool progressive;
	bool optimised;     /* JPEG: codes of its own */
	int restart;        /* MCUs between restart markers */
	unsigned orientation; /* EXIF; 0: none */
	int colours, depth; /* PNG: colour type and bits; 0: grey... say so */
	bool interlaced, transparent; /* PNG; with a tRNS chunk */
};

static inline uint32_t made_random(uint64_t *x)
{
	*x = *x * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*x >> 33);
}

/* Slopes, waves, edges and noise. */
static inline unsigned char *made_pixels(const struct made_how *how, int channels)
{
	size_t n = (size_t)how->height * how->width * (size_t)channels, at = 0;
	unsigned char *pixels = malloc(n ? n : 1);
	uint64_t seed = how->seed * 2 + 1;
	double wave = 0.02 + made_random(&seed) % 100 * 0.002;
	double turn = made_random(&seed) % 100 * 0.06;
	double edge = how->width * (0.3 + made_random(&seed) % 100 * 0.004);

	if (!pixels)
		abort();
	for (uint32_t y = 0; y < how->height; y++)
		for (uint32_t x = 0; x < how->width; x++)
			for (int c = 0; c < channels; c++) {
				double v = 120 + 60 * sin(wave * (x * cos(turn) +
					y * sin(turn)) + c) +
					40.0 * y / how->height;

				if (x + 0.3 * y > edge)
					v -= 50 + 20 * c;
				v += made_random(&seed) % 24;
				v += 15 * sin(x * 0.9 + c) * cos(y * 0.7);
				pixels[at++] = (unsigned char)(v < 0 ? 0 :
					v > 255 ? 255 : v);
			}
	return pixels;
}

static inline void made_exif(struct jpeg_compress_struct *c, unsigned orientation)
{
	unsigned char exif[32] = "Exif\0\0II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0";

	exif[24] = (unsigned char)orientation;
	jpeg_write_marker(c, JPEG_APP0 + 1, exif, sizeof exif);
}

static inline struct made made_jpeg_of(
	const struct made_how *how, const unsigned char *pixels)
{
	int components = how->components ? how->components : 3;
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr errors;
	unsigned char *bytes = NULL;
	unsigned long n = 0;

	c.err = jpeg_std_error(&errors);
	jpeg_create_compress(&c);
	jpeg_mem_dest(&c, &bytes, &n);
	c.image_width = how->width;
	c.image_height = how->height;
	c.input_components = components;
	c.in_color_space = components == 1 ? JCS_GRAYSCALE :
		components == 3 ? JCS_RGB : JCS_CMYK;
	jpeg_set_defaults(&c);
	jpeg_set_quality(&c, how->quality ? how->quality : 90, TRUE);
	c.comp_info[0].h_samp_factor = how->across ? how->across : 2;
	c.comp_info[0].v_samp_factor = how->down ? how->down : 2;
	c.restart_interval = (unsigned)how->restart;
	c.optimize_coding = how->optimised;
	if (how->progressive)
		jpeg_simple_progression(&c);
	jpeg_start_compress(&c, TRUE);
	if (how->orientation)
		made_exif(&c, how->orientation);
	while (c.next_scanline < c.image_height) {
		JSAMPROW row = (JSAMPROW)(pixels + (size_t)c.next_scanline *
			how->width * (size_t)components);
		jpeg_write_scanlines(&c, &row, 1);
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	return (struct made){ bytes, n };
}

static inline struct made made_jpeg(const struct made_how *how)
{
	unsigned char *pixels =
		made_pixels(how, how->components ? how->components : 3);
	struct made made = made_jpeg_of(how, pixels);

	free(pixels);
	return made;
}

/* --- PNG ---------------------------------------------------------------------------------*/

static inline void made_png_write(png_structp png, png_bytep bytes, size_t n)
{
	struct made *made = png_get_io_ptr(png);

	made->bytes = realloc(made->bytes, made->n + n);
	if (!made->bytes)
		abort();
	memcpy(made->bytes + made->n, bytes, n);
	made->n += n;
}

static inline void made_png_flush(png_structp png)
{
	(void)png;
}

static inline void made_png_colours(
	png_structp png, png_infop info, const struct made_how *how)
{
	png_color palette[256];
	png_byte alpha[4] = { 0, 100, 200, 255 };
	png_color_16 clear = { .index = 1, .red = 1, .green = 2, .blue = 3,
		.gray = 1 };

	for (int i = 0; i < 256; i++)
		palette[i] = (png_color){ (png_byte)i, (png_byte)(255 - i),
			(png_byte)(i * 7) };
	if (how->colours == PNG_COLOR_TYPE_PALETTE)
		png_set_PLTE(png, info, palette, 1 << how->depth);
	if (!how->transparent)
		return;
	if (how->colours == PNG_COLOR_TYPE_PALETTE)
		png_set_tRNS(png, info, alpha, 1 << how->depth > 4 ? 4 : 2, NULL);
	else
		png_set_tRNS(png, info, NULL, 0, &clear);
}

static inline struct made made_png_of(
	const struct made_how *how, const unsigned char *rows, size_t row_bytes)
{
	png_structp png = png_create_write_struct(
		PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
	png_infop info = png_create_info_struct(png);
	png_bytep *table = malloc(how->height * sizeof *table);
	struct made made = { NULL, 0 };

	if (!table)
		abort();
	for (uint32_t y = 0; y < how->height; y++)
		table[y] = (png_bytep)rows + y * row_bytes;
	png_set_write_fn(png, &made, made_png_write, made_png_flush);
	png_set_compression_level(png, 1);
	png_set_IHDR(png, info, how->width, how->height, how->depth,
		how->colours, how->interlaced ? PNG_INTERLACE_ADAM7 :
		PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
		PNG_FILTER_TYPE_DEFAULT);
	made_png_colours(png, info, how);
	png_write_info(png, info);
	png_write_image(png, table);
	png_write_end(png, NULL);
	png_destroy_write_struct(&png, &info);
	free(table);
	return made;
}

#endif /* TAUT_LOAD_IMAGE_MADE_H */

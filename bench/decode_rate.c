/* decode_rate.c - images a second on one thread: libjpeg alone, and all of preparing.
 *
 *     decode_rate [IMAGES|FOLDER [TURNS [HEIGHT WIDTH]]]    default 64 31 375 500
 *
 * Made images, quality 90, 4:2:0; or the first 256 of a folder, all of that size. All ways use the same crops, drawn anew for each turn.
 * libjpeg alone writes all rows to one place, that its registers' size does not divide,
 * for it is faster there (src/load/image/jpeg.c says why). Ways take turns, so
 * that a machine that slows down slows all; medians of turns. "of region" is a way's rate
 * by that of libjpeg decoding the same regions and nothing else: median of the quotients
 * of each turn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <limits.h>

#include <taut/set.h>

#include "base/now.h"
#include "load/image/crop.h"
#include "load/image/made.h"
#include "load/prepare.h"

enum { MOST_TURNS = 1001, MOST_SIDE = 8192, MOST_FILES = 256 };

struct job {
	struct made *images, *pixels;
	const char *folder; /* NULL: made */
	unsigned n;
	uint32_t height, width;
	uint64_t turn;
	struct taut_prepare_options options;
	struct jpeg_decompress_struct jpeg;
	struct jpeg_error_mgr errors;
	unsigned char *rows, *row; /* the latter in the former */
	unsigned char *slot;
};

struct way {
	const char *name;
	void (*run)(struct job *job, struct tauti_prepare *p);
	struct taut_prepare_options options;
	struct tauti_prepare *p;
	double rates[MOST_TURNS], quotients[MOST_TURNS];
};

static struct tauti_draw draw_of(const struct job *job, unsigned i)
{
	return tauti_draw_begin(1, job->turn, i);
}

static void decode(struct job *job, const struct made *image,
	const struct tauti_side *down, const struct tauti_side *across)
{
	struct jpeg_decompress_struct *d = &job->jpeg;

	jpeg_mem_src(d, image->bytes, image->n);
	jpeg_read_header(d, TRUE);
	d->out_color_space = JCS_RGB;
	jpeg_start_decompress(d);
	if (across) {
		JDIMENSION left = across->from, width = across->size;

		if (width < d->output_width)
			jpeg_crop_scanline(d, &left, &width);
		if (down->from > 0)
			jpeg_skip_scanlines(d, down->from);
	}
	while (d->output_scanline < (down ? down->from + down->size : job->height))
		jpeg_read_scanlines(d, &job->row, 1);
	jpeg_abort_decompress(d);
}

static void run_full(struct job *job, struct tauti_prepare *p)
{
	(void)p;
	for (unsigned i = 0; i < job->n; i++)
		decode(job, &job->images[i], NULL, NULL);
}

static void run_region(struct job *job, struct tauti_prepare *p)
{
	struct taut_prepare_options o = tauti_prepare_defaults(&job->options);

	(void)p;
	for (unsigned i = 0; i < job->n; i++) {
		struct tauti_draw draw = draw_of(job, i);
		struct tauti_crop crop;

		tauti_draw_unit(&draw); /* flip */
		crop = tauti_crop_choose(
			&o, job->height, job->width, &draw);
		decode(job, &job->images[i], &crop.down, &crop.across);
	}
}

static void run_on(struct job *job, struct tauti_prepare *p,
	const struct made *items)
{
	struct taut_error err;

	for (unsigned i = 0; i < job->n; i++)
		if (tauti_prepare_image(p, items[i].bytes, items[i].n, "made",
			    draw_of(job, i), job->slot, &err)) {
			fprintf(stderr, "%s\n", err.message);
			exit(1);
		}
}

static void run_prepare(struct job *job, struct tauti_prepare *p)
{
	run_on(job, p, job->images);
}

static void run_pixels(struct job *job, struct tauti_prepare *p)
{
	run_on(job, p, job->pixels);
}

static struct way ways[] = {
	{ .name = "libjpeg, same region", .run = run_region },
	{ .name = "libjpeg, whole image", .run = run_full },
	{ .name = "prepare, u8 HWC", .run = run_prepare },
	{ .name = "prepare, f32 CHW", .run = run_prepare,
		.options = { .type = TAUT_PIXEL_F32, .layout = TAUT_LAYOUT_CHW } },
	{ .name = "prepare, f16 CHW", .run = run_prepare,
		.options = { .type = TAUT_PIXEL_F16, .layout = TAUT_LAYOUT_CHW } },
	{ .name = "prepare, u8 HWC, scaled", .run = run_prepare,
		.options = { .scale_in_decoder = true } },
	{ .name = "from pixels, u8 HWC", .run = run_pixels,
		.options = { .format = "raw" } },
	{ .name = "from pixels, f32 CHW", .run = run_pixels,
		.options = { .format = "raw", .type = TAUT_PIXEL_F32,
			.layout = TAUT_LAYOUT_CHW } },
	{ .name = "from pixels, u8, nearest", .run = run_pixels,
		.options = { .format = "raw", .filter = TAUT_FILTER_NEAREST } },
};

enum { WAYS = sizeof ways / sizeof ways[0] };

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, unsigned n)
{
	qsort(values, n, sizeof *values, by_size);
	return values[n / 2];
}

static struct made read_item(const struct taut_set *set, uint64_t item)
{
	struct taut_set_item at = taut_set_at(set, item);
	struct made made = { malloc(at.bytes), at.bytes };
	char path[PATH_MAX];
	FILE *file;

	taut_set_path(set, at.file, path, sizeof path);
	file = fopen(path, "rb");
	if (!made.bytes || !file || fread(made.bytes, 1, made.n, file) != made.n) {
		perror(path);
		exit(1);
	}
	fclose(file);
	return made;
}

static void open_folder(struct job *job)
{
	struct taut_arena *arena = taut_arena_create();
	const struct taut_set *set;
	struct taut_error err = { .message = "no memory" };

	if (!arena || taut_set_open(&job->folder, 1, NULL, arena, &set, &err)) {
		fprintf(stderr, "decode_rate: %s\n", err.message);
		exit(1);
	}
	job->n = taut_set_count(set) < MOST_FILES ? (unsigned)taut_set_count(set) :
		MOST_FILES;
	job->images = calloc(job->n, sizeof *job->images);
	for (unsigned i = 0; job->images && i < job->n; i++)
		job->images[i] = read_item(set, i * (taut_set_count(set) / job->n));
	taut_arena_destroy(arena);
}

static void make(struct job *job)
{
	if (job->folder)
		open_folder(job);
	else
		job->images = calloc(job->n, sizeof *job->images);
	job->pixels = calloc(job->n, sizeof *job->pixels);
	job->rows = aligned_alloc(64, ((size_t)job->width * 3 / 64 + 2) * 64);
	job->slot = aligned_alloc(64, 224 * 224 * 12);
	if (!job->images || !job->pixels || !job->rows || !job->slot)
		exit(1);
	job->row = job->rows + 8;
	for (unsigned i = 0; i < job->n; i++) {
		struct made_how how = { .height = job->height,
			.width = job->width, .seed = i };

		if (!job->folder)
			job->images[i] = made_jpeg(&how);
		job->pixels[i].bytes = made_pixels(&how, 3);
		job->pixels[i].n = (size_t)job->height * job->width * 3;
	}
	job->options.flip = 0.5;
	job->jpeg.err = jpeg_std_error(&job->errors);
	jpeg_create_decompress(&job->jpeg);
	for (unsigned i = 0; i < WAYS; i++) {
		ways[i].options.flip = 0.5;
		ways[i].options.raw_height = job->height;
		ways[i].options.raw_width = job->width;
		if (tauti_prepare_create(&ways[i].options, &ways[i].p, NULL))
			exit(1);
	}
}

static void run_turn(struct job *job, int turn)
{
	for (unsigned i = 0; i < WAYS; i++) {
		struct way *way = &ways[i];
		int64_t begin = tauti_now_ns();
		double rate;

		job->turn = (uint64_t)turn;
		way->run(job, way->p);
		rate = 1e9 * job->n / (double)(tauti_now_ns() - begin);
		way->rates[turn] = rate;
		way->quotients[turn] = rate / ways[0].rates[turn];
	}
}

int main(int argc, char **argv)
{
	struct job job = { .n = argc > 1 ? (unsigned)atoi(argv[1]) : 64 };
	int turns = argc > 2 ? atoi(argv[2]) : 31;
	size_t bytes = 0;

	if (argc > 1 && strspn(argv[1], "0123456789") != strlen(argv[1])) {
		job.folder = argv[1];
		job.n = 1;
	}
	job.height = argc > 4 ? (uint32_t)atoi(argv[3]) : 375;
	job.width = argc > 4 ? (uint32_t)atoi(argv[4]) : 500;
	if (job.n < 1 || turns < 1 || turns > MOST_TURNS || job.height < 1 ||
		job.height > MOST_SIDE || job.width < 1 || job.width > MOST_SIDE)
		return 2;
	make(&job);
	for (unsigned i = 0; i < job.n; i++)
		bytes += job.images[i].n;
	run_turn(&job, 0); /* warms, and is measured anew */
	for (int turn = 0; turn < turns; turn++)
		run_turn(&job, turn);
	printf("%u images of %u x %u, %zu bytes each, %d turns\n", job.n,
		job.width, job.height, bytes / job.n, turns);
	printf("%-28s %10s %8s %10s\n", "way", "images/s", "us", "of region");
	for (unsigned i = 0; i < WAYS; i++) {
		double rate = median(ways[i].rates, (unsigned)turns);

		printf("%-28s %10.0f %8.1f %10.3f\n", ways[i].name, rate,
			1e6 / rate, median(ways[i].quotients, (unsigned)turns));
		tauti_prepare_destroy(ways[i].p);
	}
	jpeg_destroy_decompress(&job.jpeg);
	for (unsigned i = 0; i < job.n; i++) {
		free(job.images[i].bytes);
		free(job.pixels[i].bytes);
	}
	free(job.images);
	free(job.pixels);
	free(job.rows);
	free(job.slot);
	return 0;
}

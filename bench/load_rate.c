/* load_rate.c - the loader beside as many bare threads of libjpeg, and where the rest goes.
 *
 *     load_rate FOLDER [WORKERS [TURNS [BATCH]]]    default 2 15 64
 *
 * A folder of JPEGs, from the page cache; random crop, flip, 224 x 224, u8. Each way goes once
 * over all of it in each turn, with the same crops, drawn anew for each turn:
 *
 *   libjpeg            threads that decode the regions into one row, from memory
 *   + resize, store    threads that prepare into a place that is used again
 *   + batch            into places of the batches that a loader would have
 *   + read             of which each reads its images first
 *   loader, cache      the loader, from its cache
 *   loader, files      the loader, from files
 *
 * us: of one core, by the clock: threads * seconds / images. CPU us: of the whole process,
 * also in the kernel. "of libjpeg" is the rate by that of the first way: median of the
 * quotients of each turn. "by CPU" is the same of CPU us, which other work on the machine
 * disturbs less. Ways take turns, so that a machine that slows down slows all. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <jpeglib.h>

#include <taut/load.h>
#include <taut/set.h>

#include "base/now.h"
#include "load/draw.h"
#include "load/image/crop.h"
#include "load/prepare.h"

enum { MOST_TURNS = 1001, MOST_THREADS = 256, SEED = 1, SIDE = 224, DEPTH = 3 };
enum { SLOT_BYTES = SIDE * SIDE * 3 };

struct job;

struct item {
	unsigned char *bytes;
	size_t n;
	uint32_t height, width;
	char *path;
};

struct thread {
	struct job *job;
	pthread_t thread;
	struct tauti_prepare *prepare;
	struct jpeg_decompress_struct jpeg;
	struct jpeg_error_mgr errors;
	unsigned char *row, *room, *slot;
};

struct job {
	const struct taut_set *set;
	struct item *items;
	unsigned n, n_threads, batch;
	size_t most_bytes;
	uint64_t turn;
	struct taut_prepare_options options, defaults;
	struct thread threads[MOST_THREADS];
	unsigned char *slots; /* DEPTH batches */
	struct taut_load *files, *cached;
	void (*one)(struct thread *thread, unsigned item, unsigned place);
	atomic_uint next;
};

struct way {
	const char *name;
	void (*one)(struct thread *thread, unsigned item, unsigned place);
	bool cached; /* a loader, where there is no one() */
	double ns[MOST_TURNS], cpu_ns[MOST_TURNS]; /* an image */
	double quotients[MOST_TURNS], cpu_quotients[MOST_TURNS];
};

static void give_up(const char *what)
{
	fprintf(stderr, "load_rate: %s\n", what);
	exit(1);
}

/* --- one image ---------------------------------------------------------------------------*/
static void decode(struct thread *t, unsigned i, unsigned place)
{
	const struct item *item = &t->job->items[i];
	struct tauti_draw draw = tauti_draw_begin(SEED, t->job->turn, i);
	struct jpeg_decompress_struct *d = &t->jpeg;
	JDIMENSION left, width;
	struct tauti_crop crop;

	(void)place;
	tauti_draw_unit(&draw); /* flip */
	crop = tauti_crop_choose(&t->job->defaults, item->height, item->width, &draw);
	left = crop.across.from;
	width = crop.across.size;
	jpeg_mem_src(d, item->bytes, item->n);
	jpeg_read_header(d, TRUE);
	d->out_color_space = JCS_RGB;
	jpeg_start_decompress(d);
	if (width < d->output_width)
		jpeg_crop_scanline(d, &left, &width);
	if (crop.down.from > 0)
		jpeg_skip_scanlines(d, crop.down.from);
	while (d->output_scanline < crop.down.from + crop.down.size)
		jpeg_read_scanlines(d, &t->row, 1);
	jpeg_abort_decompress(d);
}

static void prepare_into(
	struct thread *t, unsigned i, const unsigned char *bytes, unsigned char *slot)
{
	const struct item *item = &t->job->items[i];
	struct taut_error err;

	if (tauti_prepare_image(t->prepare, bytes, item->n, item->path,
		    tauti_draw_begin(SEED, t->job->turn, i), slot, &err))
		give_up(err.message);
}

static void prepare(struct thread *t, unsigned i, unsigned place)
{
	(void)place;
	prepare_into(t, i, t->job->items[i].bytes, t->slot);
}

static unsigned char *slot_of(struct thread *t, unsigned place)
{
	size_t at = place % (DEPTH * t->job->batch);

	return t->job->slots + at * SLOT_BYTES;
}

static void prepare_batch(struct thread *t, unsigned i, unsigned place)
{
	prepare_into(t, i, t->job->items[i].bytes, slot_of(t, place));
}

static void read_item(struct thread *t, const struct item *item)
{
	int fd = open(item->path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, t->room, item->n) != (ssize_t)item->n)
		give_up(item->path);
	close(fd);
}

static void read_prepare(struct thread *t, unsigned i, unsigned place)
{
	read_item(t, &t->job->items[i]);
	prepare_into(t, i, t->room, slot_of(t, place));
}

static struct way ways[] = {
	{ .name = "libjpeg", .one = decode },
	{ .name = "+ resize, store", .one = prepare },
	{ .name = "+ batch", .one = prepare_batch },
	{ .name = "+ read", .one = read_prepare },
	{ .name = "loader, cache", .cached = true },
	{ .name = "loader, files" },
};

enum { WAYS = sizeof ways / sizeof ways[0] };

/* --- all images --------------------------------------------------------------------------*/
/* Not in the order that they lie in. */
static void *run_thread(void *context)
{
	struct thread *t = context;
	struct job *job = t->job;
	unsigned place;

	while ((place = atomic_fetch_add(&job->next, 1)) < job->n)
		job->one(t, (unsigned)((place * UINT64_C(7919)) % job->n), place);
	return NULL;
}

static void run_threads(struct job *job)
{
	atomic_store(&job->next, 0);
	for (unsigned i = 0; i < job->n_threads; i++)
		if (pthread_create(&job->threads[i].thread, NULL, run_thread,
			    &job->threads[i]))
			give_up("no thread");
	for (unsigned i = 0; i < job->n_threads; i++)
		pthread_join(job->threads[i].thread, NULL);
}

static void run_epoch(struct taut_load *load, uint64_t epoch)
{
	struct taut_batch *batch;
	struct taut_error err;

	if (taut_load_seek(load, epoch, &err))
		give_up(err.message);
	for (;;) {
		if (taut_load_next(load, -1, &batch, &err))
			give_up(err.message);
		if (!batch)
			return;
		taut_batch_release(batch);
	}
}

/* What it makes ahead of the next epoch is not the next way's. */
static void wait_until_idle(struct taut_load *load)
{
	struct taut_load_counts before = { 0 }, now;

	for (;;) {
		usleep(20000);
		taut_load_counts(load, &now);
		if (now.prepare_ns == before.prepare_ns)
			return;
		before = now;
	}
}

static double cpu_ns(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return 1e9 * (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		1e3 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void run_way(struct job *job, struct way *way, int turn)
{
	struct taut_load *load = way->cached ? job->cached : job->files;
	double cpu = cpu_ns();
	int64_t begin = tauti_now_ns();

	job->one = way->one;
	if (way->one)
		run_threads(job);
	else
		run_epoch(load, job->turn);
	way->ns[turn] = (double)(tauti_now_ns() - begin) / job->n;
	way->cpu_ns[turn] = (cpu_ns() - cpu) / job->n;
	way->quotients[turn] = ways[0].ns[turn] / way->ns[turn];
	way->cpu_quotients[turn] = ways[0].cpu_ns[turn] / way->cpu_ns[turn];
	if (!way->one)
		wait_until_idle(load);
}

static void run_turn(struct job *job, int turn)
{
	job->turn = 2 * (uint64_t)turn; /* loaders have made ahead of the one between */
	for (unsigned i = 0; i < WAYS; i++)
		run_way(job, &ways[i], turn);
}

/* --- made --------------------------------------------------------------------------------*/
static void look_at(struct job *job, struct item *item)
{
	struct jpeg_decompress_struct *d = &job->threads[0].jpeg;

	jpeg_mem_src(d, item->bytes, item->n);
	jpeg_read_header(d, TRUE);
	item->height = d->image_height;
	item->width = d->image_width;
	jpeg_abort_decompress(d);
}

static void open_items(struct job *job)
{
	char path[PATH_MAX];

	job->n = (unsigned)taut_set_count(job->set);
	job->items = calloc(job->n, sizeof *job->items);
	for (unsigned i = 0; job->items && i < job->n; i++) {
		struct taut_set_item at = taut_set_at(job->set, i);
		struct item *item = &job->items[i];

		taut_set_path(job->set, at.file, path, sizeof path);
		*item = (struct item){ .bytes = malloc(at.bytes), .n = at.bytes,
			.path = strdup(path) };
		if (item->n > job->most_bytes)
			job->most_bytes = item->n;
	}
	for (unsigned i = 0; i < job->n; i++) {
		job->threads[0].room = job->items[i].bytes;
		read_item(&job->threads[0], &job->items[i]);
		look_at(job, &job->items[i]);
	}
}

static void open_set(struct job *job, const char *folder)
{
	struct taut_arena *arena = taut_arena_create();
	struct taut_error err = { .message = "no memory" };

	if (!arena || taut_set_open(&folder, 1, NULL, arena, &job->set, &err))
		give_up(err.message);
	if (!taut_set_whole(job->set))
		give_up("expected a folder of files");
}

static void open_thread(struct job *job, struct thread *t)
{
	t->job = job;
	t->jpeg.err = jpeg_std_error(&t->errors);
	jpeg_create_decompress(&t->jpeg);
	if (tauti_prepare_create(&job->options, &t->prepare, NULL))
		give_up("no memory");
}

static struct taut_load *open_load(struct job *job, uint64_t cache_bytes)
{
	struct taut_load_options options = {
		.prepare = &job->options,
		.batch = job->batch,
		.seed = SEED,
		.shuffle = true,
		.n_workers = job->n_threads,
		.depth = DEPTH,
		.cache_bytes = cache_bytes,
	};
	struct taut_load *load;
	struct taut_error err;

	if (taut_load_create(job->set, &options, &load, &err))
		give_up(err.message);
	return load;
}

/* Rows begin where libjpeg is fastest: src/load/image/jpeg.c says why. */
static void open_all(struct job *job, const char *folder)
{
	size_t row_bytes = (size_t)JPEG_MAX_DIMENSION * 3 + 72;

	job->options.flip = 0.5;
	job->defaults = tauti_prepare_defaults(&job->options);
	open_set(job, folder);
	for (unsigned i = 0; i < job->n_threads; i++)
		open_thread(job, &job->threads[i]);
	open_items(job);
	job->slots = malloc((size_t)DEPTH * job->batch * SLOT_BYTES);
	for (unsigned i = 0; i < job->n_threads; i++) {
		struct thread *t = &job->threads[i];

		t->room = malloc(job->most_bytes);
		t->slot = aligned_alloc(64, SLOT_BYTES);
		t->row = aligned_alloc(64, row_bytes / 64 * 64);
		if (!t->room || !t->slot || !t->row)
			give_up("no memory");
		t->row += 8;
	}
	job->files = open_load(job, 0);
	job->cached = open_load(job, taut_set_bytes(job->set) * 5 / 4);
	run_epoch(job->cached, UINT64_MAX / 2);
	wait_until_idle(job->cached);
	wait_until_idle(job->files);
}

/* --- told --------------------------------------------------------------------------------*/
static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double part(double *values, int n, int of_ten)
{
	qsort(values, (size_t)n, sizeof *values, by_size);
	return values[(n - 1) * of_ten / 10];
}

static void tell(struct job *job, int turns)
{
	printf("%u images of %llu bytes, %u threads, batch %u, medians of %d turns\n",
		job->n, (unsigned long long)(taut_set_bytes(job->set) / job->n),
		job->n_threads, job->batch, turns);
	printf("%-18s %9s %7s %7s %10s %-18s %7s\n", "way", "images/s", "us", "CPU us",
		"of libjpeg", "(tenth .. ninth)", "by CPU");
	for (unsigned i = 0; i < WAYS; i++) {
		double ns = part(ways[i].ns, turns, 5);

		printf("%-18s %9.0f %7.1f %7.1f %10.3f (%.3f .. %.3f)   %7.3f\n", ways[i].name,
			1e9 / ns, ns * job->n_threads / 1e3,
			part(ways[i].cpu_ns, turns, 5) / 1e3,
			part(ways[i].quotients, turns, 5),
			part(ways[i].quotients, turns, 1),
			part(ways[i].quotients, turns, 9),
			part(ways[i].cpu_quotients, turns, 5));
	}
}

int main(int argc, char **argv)
{
	static struct job job;
	int turns = argc > 3 ? atoi(argv[3]) : 15;

	job.n_threads = argc > 2 ? (unsigned)atoi(argv[2]) : 2;
	job.batch = argc > 4 ? (unsigned)atoi(argv[4]) : 64;
	if (argc < 2 || turns < 1 || turns > MOST_TURNS || job.n_threads < 1 ||
		job.n_threads > MOST_THREADS || job.batch < 1) {
		fprintf(stderr, "usage: load_rate FOLDER [WORKERS [TURNS [BATCH]]]\n");
		return 2;
	}
	open_all(&job, argv[1]);
	run_turn(&job, 0); /* warms, and is measured anew */
	for (int turn = 0; turn < turns; turn++)
		run_turn(&job, turn);
	tell(&job, turns);
	return 0;
}

/* probe.c - how fast the storage is that a job reads from: its own files, read again.
 *
 * A unit is a file, or of a larger one a mebibyte. Units are taken in an order without one,
 * each once before any comes again, by more and more threads. Stores give more at first than
 * they can keep up: some time goes by before the first point. A point's speed is not bytes over time, for threads
 * begin and end at once: as many reads as threads are always asked for, so it is their
 * number over what a read takes (Little). The first of each thread does not count: fewer
 * are asked for before it. */
#include <taut/stalls.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/now.h"
#include "load/order.h"
#include "stalls/cold.h"
#include "stalls/fit.h"
#include "stalls/listed.h"

enum {
	N_POINTS = 6,
	UNIT_BYTES = 1 << 20, /* of a file larger than: */
	WHOLE_BYTES = 4 << 20,
	HELD_BYTES = 2 << 20, /* together, at most: cold.h */
	LEAST_HALF = 8,       /* reads */
	LEAST_UNITS = 16,     /* and three for each thread */
	MOST_READS = 1 << 20, /* at a point */
	BEFORE = 4,           /* threads, before the first point */
	N_TIMES = 3,          /* each point is measured, by turns */
	N_WINDOWS = 16,       /* of a point's time */
	CHECKED = 32,
};

static const uint32_t threads_of[N_POINTS] = { 1, 2, 4, 8, 16, 32 };
static const int64_t usual_limit_ns = 10000000000;
static const double steady = 0.01; /* of the mean, as far as a point may still be off */
static const double doubt = 0.02;  /* of what was measured, in any case */

struct unit {
	size_t file;
	uint64_t from, bytes;
	bool is_whole;
};

struct probe {
	struct tauti_listed listed;
	TAUT_VEC(uint64_t) ends; /* units of the files up to and with this one */
	struct tauti_deal deal;
	uint64_t next;           /* positions that were taken */
	_Atomic uint64_t bytes;  /* read */
};

struct one { /* read */
	uint64_t bytes;
	int64_t begin_ns, ns; /* 0: it was none */
};

struct point {
	struct probe *probe;
	uint32_t n_threads;
	uint64_t first;          /* position */
	_Atomic uint64_t taken;
	struct one *ones;        /* MOST_READS */
	int64_t begin_ns, limit_ns;
	_Atomic bool is_over;
	_Atomic uint32_t window; /* that a read has ended in */
	_Atomic uint64_t window_bytes[N_WINDOWS];
};

/* --- units ---------------------------------------------------------------------------*/

static uint64_t count_units(uint64_t bytes)
{
	return bytes <= WHOLE_BYTES ? bytes > 0 : bytes / UNIT_BYTES;
}

/* Without the models and libraries of the job; but a loader may hold its files open since
 * before it was at work: where too little else is listed, all is read. */
static void keep_loaded(struct tauti_listed *listed)
{
	uint64_t n = 0;

	for (size_t i = 0; i < listed->files.count; i++)
		if (listed->files.data[i].is_loaded)
			n += count_units(listed->files.data[i].bytes);
	if (n >= LEAST_UNITS)
		tauti_listed_keep_loaded(listed);
}

static taut_status count_all(struct probe *probe, uint64_t seed, struct taut_error *err)
{
	uint64_t n = 0;

	keep_loaded(&probe->listed);
	for (size_t i = 0; i < probe->listed.files.count; i++) {
		n += count_units(probe->listed.files.data[i].bytes);
		if (!taut_vec_push(&probe->ends, n))
			return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
	}
	probe->deal = (struct tauti_deal){ .n_items = n, .seed = seed, .shuffle = true };
	return TAUT_OK;
}

static struct unit unit_at(const struct probe *probe, uint64_t position)
{
	uint64_t n = probe->deal.n_items, bytes;
	uint64_t item = tauti_deal_item(&probe->deal, position / n, position % n);
	size_t low = 0, high = probe->ends.count - 1;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (probe->ends.data[middle] > item)
			high = middle;
		else
			low = middle + 1;
	}
	bytes = probe->listed.files.data[low].bytes;
	item -= low ? probe->ends.data[low - 1] : 0;
	return bytes <= WHOLE_BYTES ? (struct unit){ low, 0, bytes, true } :
		(struct unit){ low, item * UNIT_BYTES, UNIT_BYTES, false };
}

/* --- a read ---------------------------------------------------------------------------*/

static int open_unit(const struct probe *probe, const struct unit *unit)
{
	return open(tauti_listed_path(&probe->listed, unit->file),
		O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

/* All of its file; of a large one what is held together with it, which others may read: that
 * comes again. False: it is no longer one that can be read. */
static bool forget(const struct probe *probe, const struct unit *unit)
{
	uint64_t from = unit->from / HELD_BYTES * HELD_BYTES;
	int fd = open_unit(probe, unit);
	struct stat at;
	bool is_file;

	if (fd < 0)
		return false;
	is_file = !fstat(fd, &at) && S_ISREG(at.st_mode);
	if (is_file)
		tauti_cold_range(fd, from, unit->is_whole ? 0 : HELD_BYTES);
	close(fd);
	return is_file;
}

static uint64_t read_unit(const struct unit *unit, int fd, unsigned char *into)
{
	uint64_t n = 0;

	while (n < unit->bytes) {
		ssize_t got = pread(fd, into + n, unit->bytes - n,
			(off_t)(unit->from + n));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (uint64_t)got;
	}
	return n;
}

/* As a loader does it: open, read, close. Of a large file what lies behind is not read
 * ahead. */
static struct one read_one(
	const struct probe *probe, const struct unit *unit, unsigned char *into)
{
	struct one one = { .bytes = 0 };
	int fd;

	if (!forget(probe, unit))
		return one;
	one.begin_ns = tauti_now_ns();
	fd = open_unit(probe, unit);
	if (fd < 0)
		return one;
	if (!unit->is_whole)
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	one.bytes = read_unit(unit, fd, into);
	close(fd);
	if (one.bytes)
		one.ns = tauti_now_ns() - one.begin_ns + 1;
	return one;
}

/* --- a point --------------------------------------------------------------------------*/

/* Whether the windows before this one agree; the first is that of the beginning. */
static bool is_steady(struct point *point, uint32_t window)
{
	double n = window - 1, sum = 0, squares = 0;

	if (window < 7)
		return false;
	for (uint32_t i = 1; i < window; i++) {
		double bytes = (double)atomic_load(&point->window_bytes[i]);

		sum += bytes;
		squares += bytes * bytes;
	}
	return sum > 0 && squares / n - sum * sum / (n * n) <
		(n - 1) * steady * steady * sum * sum / (n * n);
}

static void note(struct point *point, const struct one *one)
{
	int64_t ns = tauti_now_ns() - point->begin_ns;
	uint32_t window, before = atomic_load(&point->window);

	if (ns >= point->limit_ns) {
		atomic_store(&point->is_over, true);
		return;
	}
	window = (uint32_t)(ns * N_WINDOWS / point->limit_ns);
	atomic_fetch_add(&point->window_bytes[window], one->bytes);
	if (window > before &&
		atomic_compare_exchange_strong(&point->window, &before, window) &&
		is_steady(point, window))
		atomic_store(&point->is_over, true);
}

static taut_status read_some(void *context, size_t index, struct taut_error *err)
{
	struct point *point = context;
	unsigned char *into = malloc(WHOLE_BYTES);

	(void)index;
	if (!into)
		return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
	while (!atomic_load(&point->is_over)) {
		uint64_t i = atomic_fetch_add(&point->taken, 1);
		struct unit unit;

		if (i >= MOST_READS)
			break;
		unit = unit_at(point->probe, point->first + i);
		point->ones[i] = read_one(point->probe, &unit, into);
		atomic_fetch_add(&point->probe->bytes, point->ones[i].bytes);
		note(point, &point->ones[i]);
	}
	free(into);
	return TAUT_OK;
}

/* --- whether it was cold ----------------------------------------------------------------*/

/* Bytes that this process has had from storage; -1: the system does not say. */
static int64_t from_storage(void)
{
	FILE *in = fopen("/proc/self/io", "re");
	long long bytes = -1;
	char line[128];

	while (in && fgets(line, sizeof line, in))
		if (sscanf(line, "read_bytes: %lld", &bytes) == 1)
			break;
	if (in)
		fclose(in);
	return bytes;
}

/* Forgotten, what would have to be waited for is not there. */
static bool is_gone(const struct probe *probe, const struct unit *unit)
{
	char byte;
	struct iovec to = { &byte, 1 };
	int fd = forget(probe, unit) ? open_unit(probe, unit) : -1;
	bool gone;

	if (fd < 0)
		return false;
	gone = preadv2(fd, &to, 1, (off_t)unit->from, RWF_NOWAIT) < 0 && errno == EAGAIN;
	close(fd);
	return gone;
}

/* A fast device may have it there again before it is looked at: half is enough. */
static bool are_gone(const struct probe *probe)
{
	uint32_t n = 0, n_gone = 0;

	for (; n < CHECKED && n < probe->next; n++) {
		struct unit unit = unit_at(probe, n);

		n_gone += is_gone(probe, &unit);
	}
	return n_gone * 2 > n;
}

static taut_status check_cold(
	const struct probe *probe, int64_t before, struct taut_error *err)
{
	double bytes = (double)atomic_load(&probe->bytes);
	int64_t after = from_storage();
	double share = after < 0 || before < 0 ? 0 : (double)(after - before) / bytes;

	if (share >= 0.9 || are_gone(probe))
		return TAUT_OK;
	return taut_error_set(err, TAUT_EAGAIN, -1, "%s: expected a file that comes from "
		"storage when the system was told to forget it; of %.1f MB that were read "
		"so, %.0f %% did", tauti_listed_path(&probe->listed, 0),
		bytes / 1e6, share * 100);
}

/* --- all points ---------------------------------------------------------------------------*/

static int by_bytes(const void *a, const void *b)
{
	const struct one *x = a, *y = b;

	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static double bytes_of(const struct one *ones, uint32_t n)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += (double)ones[i].bytes;
	return sum;
}

static taut_status make_fit(const struct one *ones, uint32_t n, uint32_t n_threads,
	struct tauti_fit_point *ret_fit, struct taut_error *err)
{
	uint64_t *bytes = malloc(n * sizeof *bytes);
	double sum = 0, squares = 0;

	if (!bytes)
		return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
	for (uint32_t i = 0; i < n; i++) {
		double ns = (double)ones[i].ns;

		bytes[i] = ones[i].bytes;
		sum += ns;
		squares += ns * ns;
	}
	ret_fit->n_threads = n_threads;
	ret_fit->reads_s = n_threads * 1e9 * n / sum;
	ret_fit->doubt = doubt;
	if (ret_fit->is_part) /* its reads wait for those of the other part */
		ret_fit->doubt += sqrt(squares / (sum * sum));
	tauti_fit_sizes(ret_fit, bytes, n);
	free(bytes);
	return TAUT_OK;
}

/* What a point gave, once. */
struct taken {
	struct taut_stalls_point point; /* n_threads 0: it was not measured */
	double burst_bytes, quick_ns;   /* of one thread; 0: none */
	struct tauti_fit_point fits[3];
	uint32_t n_fits;
};

struct found {
	struct taken taken[N_POINTS][N_TIMES];
};

/* Of one thread, what small and large files took, too, where they differ. */
static taut_status add_fits(
	struct taken *taken, struct one *ones, uint32_t n, struct taut_error *err)
{
	uint32_t n_threads = taken->point.n_threads, half = n / 2;
	taut_status status = make_fit(ones, n, n_threads, &taken->fits[0], err);

	taken->n_fits = 1;
	qsort(ones, n, sizeof *ones, by_bytes);
	if (status || n_threads > 1 || half < LEAST_HALF ||
		bytes_of(ones + half, n - half) < 1.2 * bytes_of(ones, half))
		return status;
	for (uint32_t k = 0; !status && k < 2; k++) {
		taken->fits[1 + k].is_part = true;
		status = make_fit(ones + k * half, half, 1, &taken->fits[1 + k], err);
	}
	taken->n_fits = 3;
	return status;
}

/* All or nothing: without memory there is no burst. */
static void find_burst(struct taken *taken, const struct one *ones, uint32_t n)
{
	double *ns = malloc(2 * n * sizeof *ns), *bytes = ns ? ns + n : NULL;

	for (uint32_t i = 0; ns && i < n; i++) {
		ns[i] = (double)ones[i].ns;
		bytes[i] = (double)ones[i].bytes;
	}
	if (ns && n >= LEAST_HALF)
		(void)tauti_fit_burst(
			ns, bytes, n, &taken->burst_bytes, &taken->quick_ns);
	free(ns);
}

static taut_status take(struct taken *taken, struct one *ones, uint32_t n,
	uint32_t n_threads, struct taut_error *err)
{
	double bytes = bytes_of(ones, n), ns = 0;

	for (uint32_t i = 0; i < n; i++)
		ns += (double)ones[i].ns;
	taken->point = (struct taut_stalls_point){ n_threads,
		n_threads * bytes * 1e9 / ns, n_threads * 1e9 * n / ns };
	if (n_threads == 1)
		find_burst(taken, ones, n);
	return add_fits(taken, ones, n, err);
}

/* Those that count come first: not what a thread reads first, nor what may still be held
 * back for what was read at the point before. */
static uint32_t keep_some(const struct point *point, uint64_t n)
{
	int64_t since_ns = point->begin_ns + point->limit_ns / 8;
	struct one *ones = point->ones;
	uint32_t kept = 0;

	for (uint64_t i = point->n_threads; i < n; i++)
		if (ones[i].ns && ones[i].begin_ns >= since_ns)
			ones[kept++] = ones[i];
	return kept;
}

static taut_status measure(struct probe *probe, struct point *point,
	struct taken *taken, struct taut_error *err)
{
	uint64_t n;
	uint32_t kept;
	taut_status status;

	point->ones = calloc(MOST_READS, sizeof *point->ones);
	if (!point->ones)
		return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
	point->begin_ns = tauti_now_ns();
	status = taut_parallel_for(
		point->n_threads, point->n_threads, read_some, point, err);
	n = atomic_load(&point->taken);
	n = n < MOST_READS ? n : MOST_READS;
	probe->next += n;
	kept = keep_some(point, n);
	if (!status && kept)
		status = take(taken, point->ones, kept, point->n_threads, err);
	free(point->ones);
	return status;
}

static struct point point_of(struct probe *probe, uint32_t n_threads, int64_t limit_ns)
{
	return (struct point){ .probe = probe, .n_threads = n_threads,
		.first = probe->next, .limit_ns = limit_ns };
}

/* Reads that are under way when the time is over are waited for: on a slow store that is
 * long. */
static bool is_too_slow(
	const struct found *found, size_t i, size_t k, int64_t point_ns)
{
	const struct taut_stalls_point *before = i ? &found->taken[i - 1][k].point : NULL;

	return before && (!before->n_threads ||
		threads_of[i] * 1e9 / before->reads_s > (double)point_ns);
}

static taut_status measure_once(struct probe *probe, int64_t point_ns, size_t k,
	struct found *found, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < N_POINTS; i++) {
		struct point point = point_of(probe, threads_of[i], point_ns);

		if (probe->deal.n_items < 3 * (uint64_t)threads_of[i] ||
			is_too_slow(found, i, k, point_ns))
			break;
		status = measure(probe, &point, &found->taken[i][k], err);
	}
	return status;
}

static taut_status measure_all(struct probe *probe, int64_t limit_ns, struct found *found,
	struct taut_error *err)
{
	int64_t point_ns = limit_ns / (N_POINTS * N_TIMES + 1);
	struct point point = point_of(probe, BEFORE, point_ns);
	struct taken nothing = { .n_fits = 0 };
	taut_status status;

	if (probe->deal.n_items < LEAST_UNITS)
		return taut_error_set(err, TAUT_EAGAIN, -1, "expected at least %d files "
			"that the job has read, to read them again: there are %zu",
			LEAST_UNITS, probe->listed.files.count);
	status = measure(probe, &point, &nothing, err);
	for (size_t k = 0; !status && k < N_TIMES; k++)
		status = measure_once(probe, point_ns, k, found, err);
	if (!status && !found->taken[0][0].point.n_threads)
		status = taut_error_set(err, TAUT_EAGAIN, -1, "%s: expected a file that "
			"can be read, as the job did",
			tauti_listed_path(&probe->listed, 0));
	return status;
}

static int by_speed(const void *a, const void *b)
{
	double x = ((const struct taken *)a)->point.bytes_s;
	double y = ((const struct taken *)b)->point.bytes_s;

	return x < y ? -1 : x > y;
}

/* Found at most of the times at which one thread read. */
static void add_burst(struct found *found, struct taut_stalls_storage *storage)
{
	uint32_t n = 0;
	double burst_bytes = 0, quick_ns = 0;

	for (size_t k = 0; k < N_TIMES; k++) {
		n += found->taken[0][k].burst_bytes > 0;
		burst_bytes += found->taken[0][k].burst_bytes;
		quick_ns += found->taken[0][k].quick_ns;
	}
	if (2 * n <= N_TIMES)
		return;
	storage->burst_bytes = (uint64_t)(burst_bytes / n);
	storage->latency_ns = llround(quick_ns / n);
}

/* Of the times at which a point was measured, the middle one; those at which it was not
 * come first. */
static const struct taken *middle_of(struct taken *taken)
{
	size_t n = 0;

	qsort(taken, N_TIMES, sizeof *taken, by_speed);
	for (size_t k = 0; k < N_TIMES; k++)
		n += taken[k].n_fits > 0;
	return n ? &taken[N_TIMES - n + n / 2] : NULL;
}

static void fit_all(struct found *found, struct taut_stalls_storage *ret_storage)
{
	struct taut_stalls_storage storage = { .n_points = 0 };
	struct tauti_fit_point fits[TAUTI_FIT_POINTS];
	uint32_t n_fits = 0;
	struct tauti_fit fit;

	for (size_t i = 0; i < N_POINTS; i++) {
		const struct taken *middle = middle_of(found->taken[i]);

		if (!middle)
			continue;
		storage.points[storage.n_points++] = middle->point;
		for (uint32_t k = 0; k < middle->n_fits; k++)
			fits[n_fits++] = middle->fits[k];
	}
	fit = tauti_fit_store(fits, n_fits);
	storage.rate_bytes_s = fit.rate_bytes_s;
	storage.latency_ns = llround(fit.latency_ns);
	storage.n_served = fit.n_served;
	storage.error = fit.error;
	add_burst(found, &storage);
	*ret_storage = storage;
}

static taut_status probe_all(struct probe *probe, int64_t limit_ns,
	struct taut_stalls_storage *ret_storage, struct taut_error *err)
{
	struct found *found = calloc(1, sizeof *found);
	int64_t before = from_storage();
	taut_status status;

	if (!found)
		return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
	status = measure_all(probe, limit_ns, found, err);
	if (!status)
		status = check_cold(probe, before, err);
	if (!status)
		fit_all(found, ret_storage);
	free(found);
	return status;
}

taut_status taut_stalls_probe(const char *folder,
	const struct taut_stalls_probe_options *options,
	struct taut_stalls_storage *ret_storage, struct taut_error *reterr)
{
	int64_t limit_ns = options && options->limit_ns > 0 ? options->limit_ns :
		usual_limit_ns;
	struct probe probe = { .next = 0 };
	taut_status status = tauti_listed_read(folder, &probe.listed, reterr);

	if (!status)
		status = count_all(&probe, options ? options->seed : 0, reterr);
	if (!status)
		status = probe_all(&probe, limit_ns, ret_storage, reterr);
	taut_vec_free(&probe.ends);
	tauti_listed_fini(&probe.listed);
	return status;
}

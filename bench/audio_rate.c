/* audio_rate.c - pieces of sound a second on one thread: libsndfile and libsoxr alone, and all
 * of preparing.
 *
 *     audio_rate [FILES [TURNS [SECONDS]]]    default 16 31 10
 *
 * Made tones of two channels, 44,100 a second, as FLAC of 16 bits and as WAV; of each a piece
 * of one second, drawn anew for each turn, mixed to one channel, at its own rate or at 16,000.
 * "bare" seeks, decodes and mixes the frames that make the piece, and resamples them, with
 * nothing around; "whole" decodes all, resamples all, and copies the piece. Ways take turns,
 * so that a machine that slows down slows all; medians of turns. "of bare" is the median of
 * the quotients of each turn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "load/kinds.h"
#include "load/kinds/made_sound.h"

enum { MOST_TURNS = 1001, RATE = 44100, LOW = 16000, MARGIN = 512 * 3 };

struct job {
	struct made_sound *files;
	unsigned n;
	uint64_t frames, turn;
	uint32_t rate; /* of the output */
	struct tauti_audio_libs libs;
	struct tauti_maker *maker;
	float *in, *out, *sample;
};

static struct tauti_draw draw_of(const struct job *job, unsigned i)
{
	return tauti_draw_begin(1, job->turn, i);
}

static void die(const char *what)
{
	fprintf(stderr, "audio_rate: %s\n", what);
	exit(1);
}

/* Frames from..from + n, mixed and resampled, into job->out or, at their rate, job->in. */
static void decode(struct job *job, unsigned i, uint64_t from, uint64_t n)
{
	struct tauti_sound_io io = { made_length, made_seek, made_read, made_write, made_tell };
	struct made_file file = { job->files[i], 0 };
	struct tauti_sound_quality quality =
		job->libs.soxr_quality_spec(TAUTI_SOUND_HIGH, 0);
	struct tauti_sound_info info = { 0 };
	void *sound = job->libs.sf_open_virtual(&io, TAUTI_SOUND_READ, &info, &file);
	size_t used, done;

	if (!sound || (from && job->libs.sf_seek(sound, (int64_t)from, SEEK_SET) < 0) ||
		job->libs.sf_readf_float(sound, job->in, (int64_t)n) != (int64_t)n)
		die("a file cannot be decoded");
	job->libs.sf_close(sound);
	for (uint64_t k = 0; k < n; k++)
		job->in[k] = (job->in[2 * k] + job->in[2 * k + 1]) / 2;
	if (job->rate != RATE)
		(void)job->libs.soxr_oneshot(RATE, job->rate, 1, job->in, n, &used,
			job->out, n, &done, NULL, &quality, NULL);
}

static void run_bare(struct job *job)
{
	uint64_t margin = job->rate == RATE ? 0 : MARGIN;

	for (unsigned i = 0; i < job->n; i++) {
		struct tauti_draw draw = draw_of(job, i);
		uint64_t first = tauti_cut(TAUT_CUT_RANDOM, job->frames, RATE, &draw);
		uint64_t end = first + RATE + margin;

		first -= margin < first ? margin : first;
		decode(job, i, first, (end < job->frames ? end : job->frames) - first);
	}
}

static void run_whole(struct job *job)
{
	for (unsigned i = 0; i < job->n; i++) {
		struct tauti_draw draw = draw_of(job, i);
		uint64_t n = job->frames * job->rate / RATE;
		uint64_t first = tauti_cut(TAUT_CUT_RANDOM, n, job->rate, &draw);

		decode(job, i, 0, job->frames);
		memcpy(job->sample, (job->rate == RATE ? job->in : job->out) + first,
			job->rate * sizeof(float));
	}
}

static void run_prepare(struct job *job)
{
	for (unsigned i = 0; i < job->n; i++) {
		struct tauti_item item = { .bytes = job->files[i].bytes,
			.n = job->files[i].n, .name = "made", .draw = draw_of(job, i) };
		struct taut_error err;
		int64_t length;

		if (tauti_maker_make(job->maker, &item, job->sample, &length, &err))
			die(err.message);
	}
}

static struct way {
	const char *name;
	void (*run)(struct job *job);
	double rates[MOST_TURNS], quotients[MOST_TURNS];
} ways[] = {
	{ .name = "bare", .run = run_bare },
	{ .name = "prepare", .run = run_prepare },
	{ .name = "whole", .run = run_whole },
};

enum { WAYS = sizeof ways / sizeof ways[0] };

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, int n)
{
	qsort(values, (size_t)n, sizeof *values, by_size);
	return values[n / 2];
}

static void run_turn(struct job *job, int turn)
{
	job->turn = (uint64_t)turn;
	for (unsigned i = 0; i < WAYS; i++) {
		int64_t begin = tauti_now_ns();

		ways[i].run(job);
		ways[i].rates[turn] = 1e9 * job->n / (double)(tauti_now_ns() - begin);
		ways[i].quotients[turn] = ways[i].rates[turn] / ways[0].rates[turn];
	}
}

static void measure(struct job *job, const char *name, int turns)
{
	struct taut_prepare_options o = { .kind = TAUT_KIND_AUDIO, .samples = job->rate,
		.rate = job->rate == RATE ? 0 : job->rate, .cut = TAUT_CUT_RANDOM };

	if (tauti_maker_create(&o, &job->maker, NULL) != TAUT_OK)
		die("no maker");
	run_turn(job, 0); /* warms, and is measured anew */
	for (int turn = 0; turn < turns; turn++)
		run_turn(job, turn);
	for (unsigned i = 0; i < WAYS; i++) {
		double rate = median(ways[i].rates, turns);

		printf("%-5s to %5u  %-8s %10.0f %8.1f %8.3f\n", name, job->rate,
			ways[i].name, rate, 1e6 / rate, median(ways[i].quotients, turns));
	}
	tauti_maker_destroy(job->maker);
}

static void make_files(struct job *job, int format)
{
	for (unsigned i = 0; i < job->n; i++) {
		free(job->files[i].bytes);
		job->files[i] = made_coded(format, RATE, 2, job->frames);
		if (!job->files[i].n)
			die("libsndfile cannot write such a file");
	}
}

int main(int argc, char **argv)
{
	struct job job = { .n = argc > 1 ? (unsigned)atoi(argv[1]) : 16 };
	int turns = argc > 2 ? atoi(argv[2]) : 31;
	int seconds = argc > 3 ? atoi(argv[3]) : 10;
	static const struct {
		const char *name;
		int format;
	} rows[] = { { "FLAC", 0x170002 }, { "WAV", 0x010002 } };
	struct taut_error err;

	if (job.n < 1 || turns < 1 || turns > MOST_TURNS || seconds < 2 || seconds > 3600)
		return 2;
	if (tauti_audio_open(TAUTI_SNDFILE, TAUTI_SOXR, &job.libs, &err) != TAUT_OK)
		die(err.message);
	job.frames = (uint64_t)seconds * RATE;
	job.files = calloc(job.n, sizeof *job.files);
	job.in = malloc(job.frames * 2 * sizeof(float));
	job.out = malloc(job.frames * sizeof(float));
	job.sample = malloc(RATE * sizeof(float));
	if (!job.files || !job.in || !job.out || !job.sample)
		die("no memory");
	printf("%u files of %d s, %d turns\n%-15s %-8s %10s %8s %8s\n", job.n, seconds, turns,
		"format, rate", "way", "pieces/s", "us", "of bare");
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		make_files(&job, rows[r].format);
		for (int low = 0; low < 2; low++) {
			job.rate = low ? LOW : RATE;
			measure(&job, rows[r].name, turns);
		}
	}
	for (unsigned i = 0; i < job.n; i++)
		free(job.files[i].bytes);
	free(job.files);
	free(job.in);
	free(job.out);
	free(job.sample);
	tauti_audio_close(&job.libs);
	return 0;
}

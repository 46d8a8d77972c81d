/* audio.c - sound of a file in memory: the piece that is wanted is found by a seek, decoded,
 * mixed and resampled.
 *
 * Where rates differ, in to out as m to l without common divisors, frame k * m of the item
 * and sample k * l of the output are the same instant. A piece of the item that begins at
 * such a frame, and a margin on both sides of what is wanted, so gives what the whole would:
 * but for what the resampler's filter has left beyond the margin, which is below what it
 * rounds. */
#include "load/kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/image/decoder.h"
#include "load/kinds/audio_libs.h"

enum {
	MARGIN = 512, /* frames, or samples where those are fewer: five times what the
	                 filter needs */
	CHUNK = 16384, /* numbers that are decoded at a time */
	LEAST_RATE = 1000,
	MOST_RATE = 768000,
	MOST_CHANNELS = 1024, /* libsndfile's */
};

#define MOST_FRAMES (INT64_C(1) << 40)

struct audio {
	struct taut_prepare_options options;
	struct tauti_audio_libs libs;
	/* Memory that is kept between items. */
	void *chunk, *input, *output;
	size_t chunk_bytes, input_bytes, output_bytes;
};

/* The item's bytes, as libsndfile reads a file. */
struct file {
	const unsigned char *bytes;
	int64_t n, at;
};

/* An item on its way. */
struct work {
	struct audio *audio;
	const char *name;
	struct taut_error *err;
	struct file file;
	void *sound;
	struct tauti_sound_info info;
	uint32_t kept;     /* channels after mixing */
	uint64_t l, m;     /* samples l are frames m */
	uint64_t margin;   /* frames; 0: no other rate */
	uint64_t first, n; /* of the output */
	uint64_t from, n_frames; /* of the item, to be decoded */
	uint64_t skipped;  /* of what they give, before the first */
};

/* --- options -----------------------------------------------------------------------------*/
static taut_status check(const struct taut_prepare_options *o, struct taut_error *err)
{
	uint64_t channels = o->channels ? o->channels : 1;

	if (o->format)
		return tauti_prepare_refuse(err, "format", "none: a file of audio says it");
	if (o->type != TAUT_PIXEL_U8 && o->type != TAUT_PIXEL_F32)
		return tauti_prepare_refuse(err, "type", "f32");
	if (o->channels > MOST_CHANNELS)
		return tauti_prepare_refuse(err, "channels", "at most 1024");
	if (!o->samples || o->samples * channels > (UINT64_C(1) << 30))
		return tauti_prepare_refuse(
			err, "samples", "at least 1, and 2^30 at most of all channels");
	if (o->rate && (o->rate < LEAST_RATE || o->rate > MOST_RATE))
		return tauti_prepare_refuse(err, "rate", "1000 to 768000, or none");
	if ((unsigned)o->cut >= TAUT_CUTS)
		return tauti_prepare_refuse(err, "cut", "one of enum taut_prepare_cut");
	if ((unsigned)o->layout >= TAUT_LAYOUTS)
		return tauti_prepare_refuse(
			err, "layout", "one of enum taut_prepare_layout");
	return TAUT_OK;
}

static void shape(
	const struct taut_prepare_options *o, struct taut_prepare_shape *ret_shape)
{
	bool is_chw = o->layout == TAUT_LAYOUT_CHW;

	ret_shape->type = TAUT_PIXEL_F32;
	ret_shape->n_dims = o->channels ? 2 : 1;
	ret_shape->dims[0] = o->samples;
	ret_shape->varies = true;
	if (!o->channels)
		return;
	ret_shape->dims[is_chw ? 1 : 0] = o->samples;
	ret_shape->dims[is_chw ? 0 : 1] = o->channels;
}

static taut_status create(const struct taut_prepare_options *options, void **ret_state,
	struct taut_error *err)
{
	struct audio *audio = calloc(1, sizeof *audio);
	taut_status status;

	if (!audio)
		return taut_error_set(err, TAUT_ENOMEM, -1, "prepare: no memory");
	audio->options = *options;
	status = tauti_audio_open(TAUTI_SNDFILE, options->rate ? TAUTI_SOXR : NULL,
		&audio->libs, err);
	if (status == TAUT_OK)
		*ret_state = audio;
	else
		free(audio);
	return status;
}

static void destroy(void *state)
{
	struct audio *audio = state;

	if (!audio)
		return;
	tauti_audio_close(&audio->libs);
	free(audio->chunk);
	free(audio->input);
	free(audio->output);
	free(audio);
}

/* --- a file in memory --------------------------------------------------------------------*/
static int64_t file_length(void *user)
{
	return ((struct file *)user)->n;
}

static int64_t file_tell(void *user)
{
	return ((struct file *)user)->at;
}

static int64_t file_seek(int64_t offset, int whence, void *user)
{
	struct file *file = user;
	int64_t base = whence == SEEK_CUR ? file->at : whence == SEEK_END ? file->n : 0;
	int64_t at;

	if (__builtin_add_overflow(base, offset, &at) || at < 0)
		return -1;
	return file->at = at;
}

static int64_t file_read(void *into, int64_t n, void *user)
{
	struct file *file = user;
	int64_t left = file->at < file->n ? file->n - file->at : 0;

	if (n > left)
		n = left;
	if (n <= 0)
		return 0;
	memcpy(into, file->bytes + file->at, (size_t)n);
	file->at += n;
	return n;
}

/* --- what it is --------------------------------------------------------------------------*/
static taut_status refuse(const struct work *w, const char *expected)
{
	return taut_error_set(w->err, TAUT_EFORMAT, -1,
		"%s: audio: %lld samples of %d channels, %d a second, expected %s", w->name,
		(long long)w->info.frames, w->info.channels, w->info.rate, expected);
}

static uint32_t word_at(const struct file *file, int64_t at)
{
	const unsigned char *b = file->bytes + at;

	return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* libsndfile takes a WAV that ends early for a shorter one. A size of all ones, or 0, is of
 * who wrote it without knowing. */
static taut_status check_wav(const struct work *w)
{
	const struct file *file = &w->file;
	int64_t at = 12;

	if (file->n < at || memcmp(file->bytes, "RIFF", 4) != 0 ||
		memcmp(file->bytes + 8, "WAVE", 4) != 0)
		return TAUT_OK;
	while (file->n - at >= 8) {
		uint32_t bytes = word_at(file, at + 4);

		if (memcmp(file->bytes + at, "data", 4) != 0) {
			at += 8 + (int64_t)bytes + (bytes & 1);
			continue;
		}
		if (bytes == UINT32_MAX || bytes <= file->n - at - 8)
			return TAUT_OK;
		return taut_error_set(w->err, TAUT_EFORMAT, at + 8,
			"%s: audio: byte %lld: %lld bytes of sound, expected %u", w->name,
			(long long)at + 8, (long long)(file->n - at - 8), bytes);
	}
	return TAUT_OK;
}

static taut_status open_sound(struct work *w)
{
	struct tauti_sound_io io = { file_length, file_seek, file_read, NULL, file_tell };
	taut_status status = check_wav(w);

	if (status != TAUT_OK)
		return status;
	w->sound = w->audio->libs.sf_open_virtual(
		&io, TAUTI_SOUND_READ, &w->info, &w->file);
	if (!w->sound)
		return taut_error_set(w->err, TAUT_EFORMAT, -1,
			"%s: audio: libsndfile cannot open it (%lld bytes), expected WAV, "
			"FLAC, OGG or another that it knows", w->name,
			(long long)w->file.n);
	if (w->info.channels < 1 || w->info.channels > MOST_CHANNELS || w->info.rate < 1 ||
		w->info.frames < 0 || w->info.frames > MOST_FRAMES)
		return refuse(w, "1 to 1024 channels and a length that is known");
	return TAUT_OK;
}

static uint64_t up(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* How many channels, and which rates. */
static taut_status choose_form(struct work *w)
{
	const struct taut_prepare_options *o = &w->audio->options;
	uint64_t common;

	w->kept = o->channels > 1 ? (uint32_t)w->info.channels : 1;
	if (w->kept != 1 && w->kept != o->channels)
		return refuse(w, "as many channels as were asked for, or one");
	w->l = w->m = 1;
	w->margin = 0;
	if (!o->rate || o->rate == (uint32_t)w->info.rate)
		return TAUT_OK;
	if (w->info.rate < LEAST_RATE || w->info.rate > MOST_RATE)
		return refuse(w, "a rate of 1000 to 768000");
	common = divisor(o->rate, (uint32_t)w->info.rate);
	w->l = o->rate / common;
	w->m = (uint32_t)w->info.rate / common;
	w->margin = MARGIN * up(w->m, w->l);
	return TAUT_OK;
}

/* Which samples of the output, and which frames give them. */
static void choose_piece(struct work *w, struct tauti_draw *draw)
{
	const struct taut_prepare_options *o = &w->audio->options;
	uint64_t frames = (uint64_t)w->info.frames;
	uint64_t whole = up(frames * w->l, w->m), back = up(w->margin, w->m), end;

	w->first = tauti_cut(o->cut, whole, o->samples, draw);
	w->n = whole - w->first < o->samples ? whole - w->first : o->samples;
	w->from = w->first / w->l;
	w->from -= back < w->from ? back : w->from;
	w->skipped = w->first - w->from * w->l;
	w->from *= w->m;
	end = up((w->first + w->n) * w->m, w->l) + w->margin;
	w->n_frames = (end < frames ? end : frames) - w->from;
}

/* --- sound -------------------------------------------------------------------------------*/
static taut_status no_memory(const struct work *w)
{
	return taut_error_set(w->err, TAUT_ENOMEM, -1, "%s: audio: no memory for %llu "
		"samples", w->name, (unsigned long long)w->n_frames);
}

static taut_status ends_early(const struct work *w, uint64_t at)
{
	return taut_error_set(w->err, TAUT_EFORMAT, -1,
		"%s: audio: it cannot be decoded from sample %llu of %lld: %s", w->name,
		(unsigned long long)at, (long long)w->info.frames,
		w->audio->libs.sf_strerror(w->sound));
}

/* n frames of all channels. */
static taut_status decode(
	const struct work *w, uint64_t at, uint64_t n, float *into)
{
	int64_t got = w->audio->libs.sf_readf_float(w->sound, into, (int64_t)n);

	return got == (int64_t)n ? TAUT_OK : ends_early(w, at + (got > 0 ? (uint64_t)got : 0));
}

/* As mix() does it, without a division. */
static void mix_two(const float *from, uint64_t n, float *to)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = (from[2 * i] + from[2 * i + 1]) * 0.5f;
}

static void mix(const float *from, uint64_t n, uint32_t channels, float *to)
{
	for (uint64_t i = 0; i < n; i++, from += channels) {
		float sum = from[0];

		for (uint32_t c = 1; c < channels; c++)
			sum += from[c];
		to[i] = sum / (float)channels;
	}
}

/* Frames in pieces that fit into the chunk; into NULL: they are passed over. */
static taut_status decode_mixed(struct work *w, uint64_t at, uint64_t n, float *into)
{
	uint32_t channels = (uint32_t)w->info.channels;
	uint64_t most = CHUNK / channels;
	taut_status status = TAUT_OK;

	for (uint64_t done = 0, some; done < n && status == TAUT_OK; done += some) {
		some = n - done < most ? n - done : most;
		status = decode(w, at + done, some, w->audio->chunk);
		if (status != TAUT_OK || !into)
			continue;
		if (channels == 2)
			mix_two(w->audio->chunk, some, into + done);
		else
			mix(w->audio->chunk, some, channels, into + done);
	}
	return status;
}

/* Where a seek is known to give what decoding from the beginning does: codecs of a number
 * a sample, FLAC's among them, and Vorbis. */
static bool seeks(const struct work *w)
{
	int codec = w->info.format & TAUTI_SOUND_CODEC;

	return w->info.seekable && ((codec >= TAUTI_SOUND_PCM_S8 &&
		codec <= TAUTI_SOUND_ALAW) || codec == TAUTI_SOUND_VORBIS);
}

static taut_status go_to_piece(struct work *w)
{
	if (!w->from)
		return TAUT_OK;
	if (!seeks(w))
		return decode_mixed(w, 0, w->from, NULL);
	if (w->audio->libs.sf_seek(w->sound, (int64_t)w->from, SEEK_SET) != (int64_t)w->from)
		return ends_early(w, w->from);
	return TAUT_OK;
}

/* What is beyond the item's end is silence. */
static taut_status take_input(struct work *w)
{
	struct audio *a = w->audio;
	uint64_t numbers = w->n_frames * w->kept, silence = w->margin * w->kept;
	taut_status status;

	if (!tauti_scratch(&a->chunk, &a->chunk_bytes, CHUNK * sizeof(float)) ||
		!tauti_scratch(&a->input, &a->input_bytes,
			(numbers + silence + 1) * sizeof(float)))
		return no_memory(w);
	status = go_to_piece(w);
	if (status != TAUT_OK)
		return status;
	memset((float *)a->input + numbers, 0, silence * sizeof(float));
	if (w->kept == (uint32_t)w->info.channels)
		return decode(w, w->from, w->n_frames, a->input);
	return decode_mixed(w, w->from, w->n_frames, a->input);
}

static taut_status resample(struct work *w, const float **ret_samples)
{
	struct audio *a = w->audio;
	const struct tauti_sound_quality quality =
		a->libs.soxr_quality_spec(TAUTI_SOUND_HIGH, 0);
	uint64_t n = w->n_frames + w->margin;
	uint64_t most = up(n * w->l, w->m) + 1; /* all that it gives */
	size_t used, done = 0;
	const char *fault;

	if (!tauti_scratch(&a->output, &a->output_bytes, most * w->kept * sizeof(float)))
		return no_memory(w);
	fault = a->libs.soxr_oneshot(w->info.rate, a->options.rate, w->kept, a->input,
		n, &used, a->output, most, &done, NULL, &quality, NULL);
	if (fault || done < w->skipped + w->n)
		return refuse(w, fault ? fault : "more of libsoxr");
	*ret_samples = (float *)a->output + w->skipped * w->kept;
	return TAUT_OK;
}

/* --- a sample ----------------------------------------------------------------------------*/
static void store_channel(const struct work *w, const float *from, float *to, size_t step)
{
	uint64_t n = w->n, all = w->audio->options.samples;

	if (step == 1 && w->kept == 1)
		memcpy(to, from, n * sizeof *to);
	else
		for (uint64_t i = 0; i < n; i++)
			to[i * step] = from[i * w->kept];
	for (uint64_t i = n; i < all; i++)
		to[i * step] = 0;
}

static void store(const struct work *w, const float *from, float *sample)
{
	const struct taut_prepare_options *o = &w->audio->options;
	uint32_t channels = o->channels ? o->channels : 1;
	size_t step = 1, plane = o->samples;

	if (o->layout == TAUT_LAYOUT_HWC) {
		step = channels;
		plane = 1;
	}
	for (uint32_t c = 0; c < channels; c++) {
		uint32_t of = w->kept > 1 ? c : 0;

		store_channel(w, from + of, sample + c * plane, step);
	}
}

static taut_status run(struct work *w, struct tauti_draw *draw, float *sample)
{
	taut_status status = open_sound(w);
	const float *samples;

	if (status == TAUT_OK)
		status = choose_form(w);
	if (status != TAUT_OK)
		return status;
	choose_piece(w, draw);
	if (!w->n) {
		memset(sample, 0, taut_prepare_slot_bytes(&w->audio->options));
		return TAUT_OK;
	}
	status = take_input(w);
	samples = w->audio->input;
	if (status == TAUT_OK && w->margin)
		status = resample(w, &samples);
	if (status == TAUT_OK)
		store(w, samples, sample);
	return status;
}

static taut_status make(void *state, const struct tauti_item *item, void *sample,
	int64_t *ret_length, struct taut_error *err)
{
	struct work w = { .audio = state, .name = item->name, .err = err,
		.file = { item->bytes, (int64_t)item->n, 0 } };
	struct tauti_draw draw = item->draw;
	taut_status status = run(&w, &draw, sample);

	if (w.sound)
		w.audio->libs.sf_close(w.sound);
	if (status == TAUT_OK)
		*ret_length = (int64_t)w.n;
	return status;
}

const struct tauti_kind tauti_kind_audio = {
	.check = check,
	.shape = shape,
	.create = create,
	.destroy = destroy,
	.make = make,
};

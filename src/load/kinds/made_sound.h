/* made_sound.h - files of sound for tests: WAV by hand, others by libsndfile where it is. */
#ifndef TAUT_LOAD_KINDS_MADE_SOUND_H
#define TAUT_LOAD_KINDS_MADE_SOUND_H

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/kinds/audio_libs.h"

struct made_sound {
	unsigned char *bytes; /* the caller's; exactly n */
	size_t n;
};

/* Sample i of a channel: tones, of which each channel has others; below 1. */
static inline float made_tone(uint64_t i, unsigned channel, double rate)
{
	double t = (double)i / rate;

	return (float)(0.5 * sin(2 * M_PI * (220 + 70 * channel) * t) +
		0.3 * sin(2 * M_PI * 1330 * t + channel));
}

static inline void made_put(unsigned char **at, uint64_t value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		*(*at)++ = (unsigned char)(value >> 8 * i);
}

/* 16 bits, as most are. */
static inline struct made_sound made_wav(
	uint32_t rate, unsigned channels, const int16_t *numbers, uint64_t frames)
{
	uint32_t data = (uint32_t)(frames * channels * 2);
	struct made_sound made = { malloc(44 + data), 44 + data };
	unsigned char *at = made.bytes;

	if (!at)
		abort();
	memcpy(at, "RIFF", 4), at += 4;
	made_put(&at, 36 + data, 4);
	memcpy(at, "WAVEfmt ", 8), at += 8;
	made_put(&at, 16, 4);
	made_put(&at, 1, 2);
	made_put(&at, channels, 2);
	made_put(&at, rate, 4);
	made_put(&at, rate * channels * 2, 4);
	made_put(&at, channels * 2, 2);
	made_put(&at, 16, 2);
	memcpy(at, "data", 4), at += 4;
	made_put(&at, data, 4);
	for (uint64_t i = 0; i < frames * channels; i++)
		made_put(&at, (uint16_t)numbers[i], 2);
	return made;
}

static inline struct made_sound made_wav_tone(
	uint32_t rate, unsigned channels, uint64_t frames)
{
	int16_t *numbers = malloc(frames * channels * 2 + 1);
	struct made_sound made;

	if (!numbers)
		abort();
	for (uint64_t i = 0; i < frames; i++)
		for (unsigned c = 0; c < channels; c++)
			numbers[i * channels + c] =
				(int16_t)lrintf(32767 * made_tone(i, c, rate));
	made = made_wav(rate, channels, numbers, frames);
	free(numbers);
	return made;
}

/* --- by libsndfile -----------------------------------------------------------------------*/
struct made_file {
	struct made_sound sound;
	int64_t at;
};

static inline int64_t made_length(void *user)
{
	return (int64_t)((struct made_file *)user)->sound.n;
}

static inline int64_t made_tell(void *user)
{
	return ((struct made_file *)user)->at;
}

static inline int64_t made_seek(int64_t offset, int whence, void *user)
{
	struct made_file *file = user;

	file->at = offset + (whence == SEEK_CUR ? file->at :
		whence == SEEK_END ? (int64_t)file->sound.n : 0);
	return file->at;
}

static inline int64_t made_read(void *into, int64_t n, void *user)
{
	struct made_file *file = user;
	int64_t left = (int64_t)file->sound.n - file->at;

	n = n < left ? n : left > 0 ? left : 0;
	memcpy(into, file->sound.bytes + file->at, (size_t)n);
	file->at += n;
	return n;
}

static inline int64_t made_write(const void *from, int64_t n, void *user)
{
	struct made_file *file = user;

	if ((size_t)(file->at + n) > file->sound.n) {
		file->sound.n = (size_t)(file->at + n);
		file->sound.bytes = realloc(file->sound.bytes, file->sound.n + 1);
		if (!file->sound.bytes)
			abort();
	}
	memcpy(file->sound.bytes + file->at, from, (size_t)n);
	file->at += n;
	return n;
}

/* Tones in a format of libsndfile's; no bytes: it cannot write that here. */
static inline struct made_sound made_coded(
	int format, uint32_t rate, unsigned channels, uint64_t frames)
{
	struct tauti_sound_io io = { made_length, made_seek, made_read, made_write, made_tell };
	struct tauti_sound_info info = { .rate = (int)rate, .channels = (int)channels,
		.format = format };
	int64_t (*write_floats)(void *file, const float *from, int64_t frames);
	void *library = dlopen(TAUTI_SNDFILE, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	struct made_file file = { { NULL, 0 }, 0 };
	struct tauti_audio_libs libs;
	void *sound, *symbol;

	if (!library || tauti_audio_open(TAUTI_SNDFILE, NULL, &libs, NULL) != TAUT_OK)
		return file.sound;
	symbol = dlsym(library, "sf_writef_float");
	memcpy(&write_floats, &symbol, sizeof symbol);
	sound = libs.sf_open_virtual(&io, 0x20, &info, &file);
	for (uint64_t i = 0; sound && i < frames; i++) {
		float frame[8];

		for (unsigned c = 0; c < channels; c++)
			frame[c] = made_tone(i, c, rate);
		if (write_floats(sound, frame, 1) != 1)
			abort();
	}
	if (sound)
		libs.sf_close(sound);
	tauti_audio_close(&libs);
	dlclose(library);
	return file.sound;
}

#endif /* TAUT_LOAD_KINDS_MADE_SOUND_H */

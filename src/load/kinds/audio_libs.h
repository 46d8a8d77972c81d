/* audio_libs.h - libsndfile and libsoxr, looked for when a loader is made: the build needs
 * neither, and what is declared here is all that is used of them.
 *
 * Threads: functions of theirs that take a handle, by one thread at a time for each. What
 *          libsndfile knows of files that did not open is of the process, and not asked. */
#ifndef TAUT_LOAD_KINDS_AUDIO_LIBS_H
#define TAUT_LOAD_KINDS_AUDIO_LIBS_H

#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

#define TAUTI_SNDFILE "libsndfile.so.1"
#define TAUTI_SOXR "libsoxr.so.0"

/* SF_INFO */
struct tauti_sound_info {
	int64_t frames;
	int rate, channels, format, sections, seekable;
};

/* SF_VIRTUAL_IO */
struct tauti_sound_io {
	int64_t (*length)(void *user);
	int64_t (*seek)(int64_t offset, int whence, void *user);
	int64_t (*read)(void *into, int64_t n, void *user);
	int64_t (*write)(const void *from, int64_t n, void *user);
	int64_t (*tell)(void *user);
};

enum {
	TAUTI_SOUND_READ = 0x10,
	/* Of info.format: the codec. Those from PCM_S8 to ALAW are a number a sample. */
	TAUTI_SOUND_CODEC = 0xffff,
	TAUTI_SOUND_PCM_S8 = 0x01,
	TAUTI_SOUND_ALAW = 0x11,
	TAUTI_SOUND_VORBIS = 0x60,
};

/* soxr_quality_spec_t */
struct tauti_sound_quality {
	double precision, phase, pass, stop;
	void *error;
	unsigned long flags;
};

enum { TAUTI_SOUND_HIGH = 4 }; /* SOXR_HQ: 20 bits */

struct tauti_audio_libs {
	void *sndfile, *soxr; /* handles; soxr NULL: not asked for */
	void *(*sf_open_virtual)(struct tauti_sound_io *io, int mode,
		struct tauti_sound_info *info, void *user);
	int (*sf_close)(void *file);
	int64_t (*sf_seek)(void *file, int64_t frames, int whence);
	int64_t (*sf_readf_float)(void *file, float *into, int64_t frames);
	const char *(*sf_strerror)(void *file);
	struct tauti_sound_quality (*soxr_quality_spec)(
		unsigned long recipe, unsigned long flags);
	/* Returns what went wrong, or NULL. io and runtime NULL: floats side by side, one
	 * thread. It fills `out` only where that has room for all that `in` gives. */
	const char *(*soxr_oneshot)(double in_rate, double out_rate, unsigned channels,
		const float *in, size_t n_in, size_t *in_done, float *out, size_t n_out,
		size_t *out_done, const void *io, const void *quality,
		const void *runtime);
};

/* soxr NULL: not needed. TAUT_EIO: one is not there, or is another than it should be; the
 * line names the package. */
TAUT_NODISCARD taut_status tauti_audio_open(const char *sndfile, const char *soxr,
	struct tauti_audio_libs *ret_libs, struct taut_error *err);
void tauti_audio_close(struct tauti_audio_libs *libs);

#endif /* TAUT_LOAD_KINDS_AUDIO_LIBS_H */

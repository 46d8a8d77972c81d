/* audio_libs.c - see audio_libs.h. */
#include "load/kinds/audio_libs.h"

#include <dlfcn.h>
#include <string.h>

struct name {
	const char *name;
	size_t at;
};

#define NAME(name) { #name, offsetof(struct tauti_audio_libs, name) }

static const struct name sndfile_names[] = { NAME(sf_open_virtual), NAME(sf_close),
	NAME(sf_seek), NAME(sf_readf_float), NAME(sf_strerror), { NULL, 0 } };
static const struct name soxr_names[] = { NAME(soxr_quality_spec),
	NAME(soxr_oneshot), { NULL, 0 } };

static taut_status open_one(const char *name, const char *package, const struct name *names,
	struct tauti_audio_libs *libs, void **ret_handle, struct taut_error *err)
{
	/* It may have brought others that keep threads: it is never taken out again. */
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!handle)
		return taut_error_set(err, TAUT_EIO, -1,
			"audio: %s is not there: install it (Debian's package is %s)", name,
			package);
	for (; names->name; names++) {
		void *symbol = dlsym(handle, names->name);

		if (!symbol) {
			dlclose(handle);
			return taut_error_set(err, TAUT_EIO, -1,
				"audio: %s has no %s: install a later one (Debian's "
				"package is %s)", name, names->name, package);
		}
		memcpy((char *)libs + names->at, &symbol, sizeof symbol);
	}
	*ret_handle = handle;
	return TAUT_OK;
}

taut_status tauti_audio_open(const char *sndfile, const char *soxr,
	struct tauti_audio_libs *ret_libs, struct taut_error *err)
{
	struct tauti_audio_libs libs = { .sndfile = NULL };
	taut_status status = open_one(
		sndfile, "libsndfile1", sndfile_names, &libs, &libs.sndfile, err);

	if (status == TAUT_OK && soxr)
		status = open_one(soxr, "libsoxr0", soxr_names, &libs, &libs.soxr, err);
	if (status == TAUT_OK)
		*ret_libs = libs;
	else
		tauti_audio_close(&libs);
	return status;
}

void tauti_audio_close(struct tauti_audio_libs *libs)
{
	if (libs->sndfile)
		dlclose(libs->sndfile);
	if (libs->soxr)
		dlclose(libs->soxr);
	libs->sndfile = libs->soxr = NULL;
}

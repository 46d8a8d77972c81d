/* real.c - fake.h's questions and wishes, answered beside a real driver: preloaded with it
 * before a test of this folder, whose other calls then reach a device. Nothing is counted and no
 * wish comes true, so a test that lives by those asks fake_is_there(). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/gpu/fake.h"

int fake_nvrtc_fails, fake_nvrtc_compiled;

bool fake_is_there(void)
{
	return false;
}

struct fake_counts fake_counts(void)
{
	return (struct fake_counts){ 0 };
}

void fake_fail(const char *name, int nth, unsigned code)
{
	(void)name, (void)nth, (void)code;
}

static void must(tauti_gpu_result result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "real: %s: %u\n", what, result);
	exit(9);
}

/* A stream of its own, in the mode in which no thread may do what is unsafe. */
void fake_capture(bool begins)
{
	static tauti_gpu_stream stream;
	tauti_gpu_result (*begin)(tauti_gpu_stream, unsigned mode) = NULL;
	tauti_gpu_result (*end)(tauti_gpu_stream, void **graph) = NULL;
	void *graph;

	*(void **)&begin = dlsym(RTLD_DEFAULT, "cuStreamBeginCapture_v2");
	*(void **)&end = dlsym(RTLD_DEFAULT, "cuStreamEndCapture");
	if (begins) {
		must(cuStreamCreate(&stream, 1), "cuStreamCreate");
		must(begin(stream, 0), "cuStreamBeginCapture");
	} else if (stream) {
		must(end(stream, &graph), "cuStreamEndCapture");
		must(cuStreamDestroy_v2(stream), "cuStreamDestroy");
		stream = NULL;
	}
}

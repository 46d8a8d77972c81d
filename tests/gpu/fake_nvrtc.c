/* fake_nvrtc.c - a compiler that compiles nothing: its "code" names the device that it is
 * for, and the fake driver has the kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct _nvrtcProgram {
	char code[64];
};

int fake_nvrtc_fails; /* what compiling gives */
int fake_nvrtc_compiled; /* programs, so far; $FAKE_NVRTC_TELL: a line for each */

unsigned nvrtcCreateProgram(struct _nvrtcProgram **made, const char *text,
	const char *name, int n_headers, const char *const *headers,
	const char *const *names)
{
	(void)name, (void)headers, (void)names;
	if (n_headers || !strstr(text, "__global__"))
		return 3; /* NVRTC_ERROR_INVALID_INPUT */
	*made = calloc(1, sizeof **made);
	return *made ? 0 : 1;
}

unsigned nvrtcCompileProgram(
	struct _nvrtcProgram *program, int n, const char *const *options)
{
	static const char wanted[] = "--gpu-architecture=";

	fake_nvrtc_compiled++;
	if (getenv("FAKE_NVRTC_TELL"))
		fprintf(stderr, "fake: a program is compiled\n");
	if (fake_nvrtc_fails || getenv("FAKE_NVRTC_FAIL"))
		return 6; /* NVRTC_ERROR_COMPILATION */
	for (int i = 0; i < n; i++)
		if (!strncmp(options[i], wanted, sizeof wanted - 1))
			snprintf(program->code, sizeof program->code,
				"fake code for %.16s",
				options[i] + sizeof wanted - 1);
	return program->code[0] ? 0 : 5; /* NVRTC_ERROR_INVALID_OPTION */
}

unsigned nvrtcGetCUBINSize(struct _nvrtcProgram *program, size_t *bytes)
{
	*bytes = strlen(program->code) + 1;
	return 0;
}

unsigned nvrtcGetCUBIN(struct _nvrtcProgram *program, char *code)
{
	memcpy(code, program->code, strlen(program->code) + 1);
	return 0;
}

unsigned nvrtcDestroyProgram(struct _nvrtcProgram **program)
{
	free(*program);
	*program = NULL;
	return 0;
}

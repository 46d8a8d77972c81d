/* golden.h - a text against the file that it should equal. With
 * TAUT_UPDATE_GOLDEN set in the environment the file is written instead, for
 * somebody to read before it goes in. The version of the build is VERSION in the
 * file, so that a release changes none of them. */
#ifndef TAUT_TESTS_GOLDEN_H
#define TAUT_TESTS_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

enum { GOLDEN_BYTES = 1 << 16 };

/* printed, with VERSION for the first "version":"...". Not inlined: gcc 12
 * takes a text that open_memstream gave for a dangling pointer. */
static __attribute__((noinline)) void golden_neutral(const char *printed, char *ret_text)
{
	static const char key[] = "\"version\":\"";
	const char *found = strstr(printed, key);
	size_t head = found ? (size_t)(found - printed) + sizeof key - 1 : 0;
	const char *rest = found ? strchr(printed + head, '"') : printed;

	snprintf(ret_text, GOLDEN_BYTES, "%.*s%s%s", (int)head, printed,
		found ? "VERSION" : "", rest ? rest : "");
}

static inline void golden_check(const char *path, const char *printed)
{
	static char expected[GOLDEN_BYTES], text[GOLDEN_BYTES];
	int update = getenv("TAUT_UPDATE_GOLDEN") != NULL;
	FILE *file = fopen(path, update ? "w" : "r");
	size_t n;

	golden_neutral(printed, text);
	if (!file)
		fail_msg("%s cannot be opened", path);
	if (update) {
		fputs(text, file);
		fclose(file);
		return;
	}
	n = fread(expected, 1, sizeof expected - 1, file);
	expected[n] = '\0';
	fclose(file);
	if (strcmp(expected, text))
		fail_msg("%s differs; this was printed:\n%s", path, text);
}

#endif /* TAUT_TESTS_GOLDEN_H */

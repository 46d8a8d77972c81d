/* renderer.h - what every renderer of a report must do when it cannot write.
 * A renderer's test calls both with its own function. */
#ifndef TAUT_TESTS_RENDERER_H
#define TAUT_TESTS_RENDERER_H

#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include <taut/report.h>

#include "tests/support/alloc_fail.h"

typedef taut_status (*render_fn)(const struct taut_report *report, FILE *out,
	struct taut_error *reterr);

/* A full disk is told, by the status and in the error. */
static inline void renderer_tells_refusal(
	render_fn render, const struct taut_report *report)
{
	FILE *full = fopen("/dev/full", "w");
	struct taut_error err = { 0 };

	if (!full)
		skip();
	assert_int_equal(render(report, full, &err), TAUT_EIO);
	assert_int_equal(err.code, TAUT_EIO);
	fclose(full);
}

/* Whichever request for memory fails, it is told; a renderer makes at least
 * `least` requests, so that this is known to have tried some. */
static inline void renderer_tells_no_memory(
	render_fn render, const struct taut_report *report, long least)
{
	FILE *out = fopen("/dev/null", "w");
	taut_status status = TAUT_ENOMEM;
	long n = 0;

	assert_non_null(out);
	for (; status && n < 10000; n++) {
		alloc_fail_after(n);
		status = render(report, out, NULL);
		alloc_fail_never();
		if (status)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	assert_int_equal(status, TAUT_OK);
	assert_true(n > least);
	fclose(out);
}

/* How often `what` stands in text. */
static inline int count(const char *text, const char *what)
{
	int n = 0;

	while ((text = strstr(text, what)) != NULL) {
		text++;
		n++;
	}
	return n;
}

#endif /* TAUT_TESTS_RENDERER_H */

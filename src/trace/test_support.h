/* test_support.h - what the tests of this room share. */
#ifndef TAUT_TRACE_TEST_SUPPORT_H
#define TAUT_TRACE_TEST_SUPPORT_H

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <isa-l/igzip_lib.h>

#include <taut/trace.h>

/* A gzip member of bytes at to, which has len + 256 bytes of room. */
static inline size_t gzip_member(const void *bytes, size_t len, char *to)
{
	struct isal_zstream *z = malloc(sizeof *z);
	assert_non_null(z);
	isal_deflate_stateless_init(z);
	z->gzip_flag = IGZIP_GZIP;
	z->next_in = (uint8_t *)bytes;
	z->avail_in = (uint32_t)len;
	z->next_out = (uint8_t *)to;
	z->avail_out = (uint32_t)len + 256;
	z->end_of_stream = 1;
	assert_int_equal(isal_deflate_stateless(z), COMP_OK);
	size_t out = z->total_out;
	free(z);
	return out;
}

/* The run of one trace in text; the test fails where it is refused. */
static inline struct taut_run *open_text(const char *text)
{
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };
	if (taut_run_open_memory(
		    "t.json", text, strlen(text), -1, &run, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	return run;
}

/* The line with which text is refused, in a static buffer. */
static inline const char *refusal(const char *text)
{
	static struct taut_error err;
	struct taut_run *run = NULL;
	err.message[0] = '\0';
	taut_status status = taut_run_open_memory(
		"t.json", text, strlen(text), -1, &run, &err);
	assert_int_equal(status, TAUT_EFORMAT);
	assert_int_equal(status, err.code);
	assert_null(run);
	return err.message;
}

#endif /* TAUT_TRACE_TEST_SUPPORT_H */

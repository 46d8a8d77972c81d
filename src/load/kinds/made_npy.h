/* made_npy.h - files of .npy by hand, for tests. */
#ifndef TAUT_LOAD_KINDS_MADE_NPY_H
#define TAUT_LOAD_KINDS_MADE_NPY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct made_npy {
	unsigned char *bytes; /* the caller's; exactly n, so that a read behind them is seen */
	size_t n;
};

/* The text as it is given, then `data`. */
static inline struct made_npy made_npy_text(
	unsigned major, const char *text, const void *data, size_t data_bytes)
{
	size_t wide = major == 1 ? 2 : 4, length = strlen(text), at = 0;
	struct made_npy made = { malloc(8 + wide + length + data_bytes), 0 };

	if (!made.bytes)
		abort();
	memcpy(made.bytes, "\x93NUMPY", 6);
	made.bytes[6] = (unsigned char)major;
	made.bytes[7] = 0;
	for (at = 8; at < 8 + wide; at++)
		made.bytes[at] = (unsigned char)(length >> 8 * (at - 8));
	memcpy(made.bytes + at, text, length);
	if (data_bytes)
		memcpy(made.bytes + at + length, data, data_bytes);
	made.n = at + length + data_bytes;
	return made;
}

/* As NumPy writes it: version 1.0, numbers at a multiple of 64. */
static inline struct made_npy made_npy(
	const char *descr, const char *shape, const void *data, size_t data_bytes)
{
	char text[256];
	size_t n = (size_t)snprintf(text, sizeof text,
		"{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);

	while ((10 + n + 1) % 64)
		text[n++] = ' ';
	text[n++] = '\n';
	text[n] = '\0';
	return made_npy_text(1, text, data, data_bytes);
}

#endif /* TAUT_LOAD_KINDS_MADE_NPY_H */

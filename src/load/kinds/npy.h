/* npy.h - the header of a file of .npy (NumPy's format, versions 1 to 3): type and shape.
 *
 *   \x93NUMPY, major, minor, length of the text (2 or 4 bytes, little-endian), and a text:
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } spaces, newline
 *
 * The text is a literal of Python; taken is what NumPy writes, in any order and with either
 * quote, and nothing else.
 *
 * Threads: pure functions. Units: bytes. */
#ifndef TAUT_LOAD_KINDS_NPY_H
#define TAUT_LOAD_KINDS_NPY_H

#include <stddef.h>
#include <stdint.h>

#include <taut/prepare.h>

enum { TAUTI_NPY_MOST_HEADER = 65536 + 12 };

struct tauti_npy {
	enum taut_prepare_type type; /* of bools: U8 */
	uint32_t n_dims;
	uint64_t dims[TAUT_MOST_DIMS]; /* may be 0; with the type's bytes their product
	                                  is below 2^63 */
	size_t at; /* where the numbers begin */
};

/* bytes are the first n of a file; a header needs no more than TAUTI_NPY_MOST_HEADER.
 * TAUT_EFORMAT: it is cut, damaged, or of a type, order or number of dimensions that is not
 * taken; the line begins with name. */
TAUT_NODISCARD taut_status tauti_npy_read(const void *bytes, size_t n, const char *name,
	struct tauti_npy *ret_npy, struct taut_error *err);

#endif /* TAUT_LOAD_KINDS_NPY_H */

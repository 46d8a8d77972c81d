/* vec.h - a growable array of any type, on realloc.
 *
 *     TAUT_VEC(struct row) rows = { 0 };
 *     if (!taut_vec_push(&rows, row))
 *             return TAUT_ENOMEM;
 *     for (size_t i = 0; i < rows.count; i++)
 *             use(&rows.data[i]);
 *     taut_vec_free(&rows);
 *
 * Invariants: count <= capacity; data is NULL when capacity is 0. Zero is an
 * empty array. A call that fails leaves the array as it was.
 * Owner:      whoever holds the struct; taking data away and setting the
 *             struct to zero hands the memory (from malloc) over. */
#ifndef TAUT_BASE_VEC_H
#define TAUT_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

#define TAUT_VEC(type) \
	struct { \
		type *data; \
		size_t count, capacity; \
	}

/* Room for n more elements? 1 or 0. */
#define taut_vec_reserve(vec, n) \
	((vec)->capacity - (vec)->count >= (size_t)(n) || \
		tauti_vec_grow((vec), sizeof *(vec)->data, (n)))

/* Appends value; 1, or 0: no memory. vec is evaluated more than once. */
#define taut_vec_push(vec, value) \
	(taut_vec_reserve((vec), 1) && \
		((vec)->data[(vec)->count++] = (value), 1))

/* Gives back what was reserved and not used. */
#define taut_vec_trim(vec) tauti_vec_trim((vec), sizeof *(vec)->data)

#define taut_vec_clear(vec) ((void)((vec)->count = 0))
#define taut_vec_free(vec) tauti_vec_free(vec)

/* vec is a pointer to any TAUT_VEC: the three fields lie alike in all. */
TAUT_NODISCARD bool tauti_vec_grow(void *vec, size_t size, size_t n);
void tauti_vec_trim(void *vec, size_t size);
void tauti_vec_free(void *vec);

TAUT_END_DECLS
#endif /* TAUT_BASE_VEC_H */

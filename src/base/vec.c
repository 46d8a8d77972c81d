/* vec.c - the part of vec.h that does not know the type. */
#include "base/vec.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 16

/* Read and written by memcpy: the caller's struct has another type. */
struct raw {
	void *data;
	size_t count, capacity;
};

static bool resize(struct raw *raw, size_t size, size_t capacity)
{
	size_t bytes;
	if (__builtin_mul_overflow(capacity, size, &bytes))
		return false;
	void *data = realloc(raw->data, bytes);
	if (!data)
		return false;
	raw->data = data;
	raw->capacity = capacity;
	return true;
}

bool tauti_vec_grow(void *vec, size_t size, size_t n)
{
	struct raw raw;
	memcpy(&raw, vec, sizeof raw);
	size_t need;
	if (__builtin_add_overflow(raw.count, n, &need))
		return false;
	size_t capacity = raw.capacity + raw.capacity / 2;
	if (capacity < FIRST_CAPACITY)
		capacity = FIRST_CAPACITY;
	if (capacity < need)
		capacity = need;
	if (!resize(&raw, size, capacity))
		return false;
	memcpy(vec, &raw, sizeof raw);
	return true;
}

void tauti_vec_trim(void *vec, size_t size)
{
	struct raw raw;
	memcpy(&raw, vec, sizeof raw);
	if (raw.count == 0) {
		tauti_vec_free(vec);
		return;
	}
	if (raw.count < raw.capacity && resize(&raw, size, raw.count))
		memcpy(vec, &raw, sizeof raw);
}

void tauti_vec_free(void *vec)
{
	struct raw raw;
	memcpy(&raw, vec, sizeof raw);
	free(raw.data);
	memset(vec, 0, sizeof raw);
}

/* alloc_fail.c - see alloc_fail.h. */
#include "alloc_fail.h"

#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

static atomic_long limit = LONG_MAX;
static atomic_long requests;

static int must_fail(void)
{
	return atomic_fetch_add(&requests, 1) >= atomic_load(&limit);
}

void alloc_fail_after(long n)
{
	atomic_store(&requests, 0);
	atomic_store(&limit, n);
}

void alloc_fail_never(void)
{
	alloc_fail_after(LONG_MAX);
}

long alloc_fail_count(void)
{
	return atomic_load(&requests);
}

void *__wrap_malloc(size_t size)
{
	return must_fail() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return must_fail() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	return must_fail() ? NULL : __real_realloc(old, size);
}

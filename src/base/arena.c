/* arena.c - memory that dies together, cut from blocks that double.
 *
 *     first -> [header|used ....|free]      the block that is being cut
 *                |
 *                v
 *              [header|used ..........]     older blocks, and large objects
 *                |                          that have one of their own
 *                v
 *               NULL
 *
 * The block being cut is always first; a large object is put behind it, so
 * that the space left in the first block is not lost. */
#include <taut/base.h>

#include <assert.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Under AddressSanitizer what was not handed out is out of bounds, and
 * objects lie apart, so that running over the end of one is found. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(POISONED)
#include <sanitizer/asan_interface.h>
#define poison(at, size) ASAN_POISON_MEMORY_REGION(at, size)
#define unpoison(at, size) ASAN_UNPOISON_MEMORY_REGION(at, size)
#define APART_BYTES ((size_t)16)
#else
#define poison(at, size) ((void)(at), (void)(size))
#define unpoison(at, size) ((void)(at), (void)(size))
#define APART_BYTES ((size_t)0)
#endif

#define FIRST_BLOCK_BYTES ((size_t)4 << 10)
#define LARGEST_BLOCK_BYTES ((size_t)64 << 20)

struct block {
	struct block *next;
	size_t used, size; /* bytes after the header; used <= size */
	alignas(max_align_t) unsigned char data[];
};

struct taut_arena {
	struct block *first;
	size_t next_size; /* bytes, header included, of the next block */
	size_t bytes, blocks;
};

/* What an object of size bytes takes of a block; 0: more than there is. */
static size_t room_of(size_t size)
{
	const size_t mask = alignof(max_align_t) - 1;
	if (size > SIZE_MAX / 2)
		return 0;
	return ((size ? size : 1) + APART_BYTES + mask) & ~mask;
}

struct taut_arena *taut_arena_create(void)
{
	struct taut_arena *arena = calloc(1, sizeof *arena);
	if (arena)
		arena->next_size = FIRST_BLOCK_BYTES;
	return arena;
}

void taut_arena_destroy(struct taut_arena *arena)
{
	if (!arena)
		return;
	for (struct block *block = arena->first; block;) {
		struct block *next = block->next;
		free(block);
		block = next;
	}
	free(arena);
}

/* Whole pages of 2 MB are given at once where the system has them: the arrays of
 * a large job are gigabytes, and a fault for each 4 kB costs more than filling
 * them. It is a wish, and nothing depends on it. */
static void wish_for_large_pages(void *at, size_t bytes)
{
#ifdef MADV_HUGEPAGE
	uintptr_t page = (uintptr_t)2 << 20;
	uintptr_t from = ((uintptr_t)at + page - 1) & ~(page - 1);
	uintptr_t to = ((uintptr_t)at + bytes) & ~(page - 1);
	if (bytes >= 8 * page && to > from)
		(void)madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
	(void)at;
	(void)bytes;
#endif
}

/* Not linked yet. Cleared memory comes from calloc, which need not touch
 * pages that are fresh from the system. */
static struct block *get_block(
	struct taut_arena *arena, size_t total, int cleared)
{
	struct block *block = cleared ? calloc(1, total) : malloc(total);
	if (!block)
		return NULL;
	wish_for_large_pages(block, total);
	block->next = NULL;
	block->used = 0;
	block->size = total - sizeof *block;
	arena->bytes += total;
	arena->blocks++;
	if (arena->next_size < LARGEST_BLOCK_BYTES)
		arena->next_size *= 2;
	return block;
}

static void *alloc_large(struct taut_arena *arena, size_t size, int cleared)
{
	struct block *block = get_block(arena, sizeof *block + size, cleared);
	if (!block)
		return NULL;
	block->used = block->size;
	if (arena->first) {
		block->next = arena->first->next;
		arena->first->next = block;
	} else {
		arena->first = block;
	}
	return block->data;
}

static struct block *next_block(struct taut_arena *arena)
{
	struct block *block = get_block(arena, arena->next_size, 0);
	if (!block)
		return NULL;
	block->next = arena->first;
	arena->first = block;
	poison(block->data, block->size);
	return block;
}

static int is_large(const struct taut_arena *arena, size_t size)
{
	return size > (arena->next_size - sizeof(struct block)) / 4;
}

void *taut_arena_alloc(struct taut_arena *arena, size_t size)
{
	size_t room = room_of(size);
	if (!room)
		return NULL;
	struct block *block = arena->first;
	if (!block || room > block->size - block->used) {
		if (is_large(arena, room))
			return alloc_large(arena, size, 0);
		block = next_block(arena);
		if (!block)
			return NULL;
	}
	void *object = block->data + block->used;
	block->used += room;
	assert(block->used <= block->size);
	unpoison(object, size);
	return object;
}

void *taut_arena_calloc(struct taut_arena *arena, size_t n, size_t size)
{
	size_t total;
	if (__builtin_mul_overflow(n, size, &total) || total > SIZE_MAX / 2)
		return NULL;
	if (is_large(arena, total))
		return alloc_large(arena, total, 1);
	void *object = taut_arena_alloc(arena, total);
	return object ? memset(object, 0, total) : NULL;
}

char *taut_arena_strndup(struct taut_arena *arena, const char *text, size_t len)
{
	if (len == SIZE_MAX)
		return NULL;
	char *copy = taut_arena_alloc(arena, len + 1);
	if (!copy)
		return NULL;
	if (len)
		memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

char *taut_arena_printf(struct taut_arena *arena, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int len = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (len < 0)
		return NULL;
	char *text = taut_arena_alloc(arena, (size_t)len + 1);
	if (!text)
		return NULL;
	va_start(args, fmt);
	vsnprintf(text, (size_t)len + 1, fmt, args);
	va_end(args);
	return text;
}

size_t taut_arena_bytes(const struct taut_arena *arena)
{
	return arena->bytes;
}

size_t taut_arena_blocks(const struct taut_arena *arena)
{
	return arena->blocks;
}

/* taut/base.h - what every room stands on: status, error, arena, names.
 * Threads: an arena or a name table belongs to one thread at a time; once
 *          nobody writes to it, any thread may read. */
#ifndef TAUT_BASE_H
#define TAUT_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define TAUT_BEGIN_DECLS extern "C" {
#define TAUT_END_DECLS }
#else
#define TAUT_BEGIN_DECLS
#define TAUT_END_DECLS
#endif

#define TAUT_API __attribute__((visibility("default")))
#define TAUT_NODISCARD __attribute__((warn_unused_result))
#define TAUT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

#define TAUT_NONE UINT32_MAX /* "no such index", in every table of ids */

TAUT_BEGIN_DECLS

/* 0, or one negative code. Whoever first knows the fault fills the caller's
 * struct taut_error; everybody above passes it up unchanged. */
typedef enum taut_status {
	TAUT_OK = 0,
	TAUT_ENOMEM = -1,  /* memory could not be had */
	TAUT_EIO = -2,     /* the system refused to open, read or write */
	TAUT_EFORMAT = -3, /* the bytes are not what they should be */
	TAUT_EINVAL = -4,  /* an argument is outside what the header allows */
	TAUT_EMATCH = -5,  /* the ranks do not belong together */
	TAUT_EAGAIN = -6,  /* not now; the same call may succeed later */
} taut_status;

/* Caller-held, no allocation. message is one line without a newline:
 * file, place, what was expected. */
struct taut_error {
	taut_status code;
	int64_t offset; /* byte in the input, -1 when there is none */
	char message[496];
};

/* Fills err (may be NULL) and returns code, so that a fault is one line:
 * return taut_error_set(err, TAUT_EFORMAT, at, "%s: ...", path); */
TAUT_API taut_status taut_error_set(struct taut_error *err, taut_status code,
	int64_t offset, const char *fmt, ...) TAUT_PRINTF(4, 5);

/* "out of memory", "input/output error", ...; never NULL. */
TAUT_API const char *taut_status_name(taut_status code);

/* --- arena: everything of one life, freed in one call ------------------
 * Blocks double in size, so a million small objects cost few mallocs. */
struct taut_arena;

TAUT_API struct taut_arena *taut_arena_create(void); /* NULL: no memory */
TAUT_API void taut_arena_destroy(struct taut_arena *arena); /* NULL is fine */

/* size bytes, not cleared, aligned for any type; NULL: no memory. */
TAUT_API TAUT_NODISCARD void *taut_arena_alloc(
	struct taut_arena *arena, size_t size);
/* n cleared elements of size bytes; NULL: no memory or n*size overflows. */
TAUT_API TAUT_NODISCARD void *taut_arena_calloc(
	struct taut_arena *arena, size_t n, size_t size);
/* A zero-terminated copy of len bytes; NULL: no memory. */
TAUT_API TAUT_NODISCARD char *taut_arena_strndup(
	struct taut_arena *arena, const char *text, size_t len);
TAUT_API TAUT_NODISCARD char *taut_arena_printf(
	struct taut_arena *arena, const char *fmt, ...) TAUT_PRINTF(2, 3);

#define TAUT_ARENA_ARRAY(arena, type, n) \
	((type *)taut_arena_calloc((arena), (n), sizeof(type)))

/* Bytes asked of the system, and how many requests that took. */
TAUT_API size_t taut_arena_bytes(const struct taut_arena *arena);
TAUT_API size_t taut_arena_blocks(const struct taut_arena *arena);

/* --- names: each distinct string once, as a dense 32-bit id -------------
 * Id 0 is the empty string. Texts stay where they are until destroy. */
struct taut_names;

TAUT_API struct taut_names *taut_names_create(void); /* NULL: no memory */
TAUT_API void taut_names_destroy(struct taut_names *names);
/* The id of text, new or known; TAUT_NONE: no memory. */
TAUT_API TAUT_NODISCARD uint32_t taut_names_add(
	struct taut_names *names, const char *text, size_t len);
/* The id of text, or TAUT_NONE when it was never added. */
TAUT_API uint32_t taut_names_find(
	const struct taut_names *names, const char *text, size_t len);
TAUT_API const char *taut_names_text(
	const struct taut_names *names, uint32_t id); /* zero-terminated */
TAUT_API size_t taut_names_length(
	const struct taut_names *names, uint32_t id); /* bytes of the text */
TAUT_API uint32_t taut_names_count(const struct taut_names *names);

/* --- threads: the same call for every index 0..n-1 -----------------------
 * work(context, i) runs on up to `threads` threads (0: one per core that
 * this process may use). Indices are taken in order; the call returns when
 * all are done. The first failing index's status is returned, whatever the
 * timing, and its error is the one in err. work writes its own error. */
typedef taut_status (*taut_work_fn)(
	void *context, size_t index, struct taut_error *err);
TAUT_API TAUT_NODISCARD taut_status taut_parallel_for(size_t n,
	unsigned threads, taut_work_fn work, void *context,
	struct taut_error *err);
TAUT_API unsigned taut_cores(void); /* at least 1; respects affinity */

/* --- clock: handed to whatever acts in a step, real or virtual -----------*/
struct taut_clock {
	int64_t (*now_ns)(void *state); /* never runs backward */
	void *state;
};
TAUT_API struct taut_clock taut_clock_monotonic(void);

/* --- progress: long work tells its caller how far it is ------------------
 * Called from one thread at a time; done <= total; total 0 = not known. */
struct taut_progress {
	void (*update)(void *state, const char *what, uint64_t done,
		uint64_t total);
	void *state;
};

TAUT_API const char *taut_version(void); /* "0.1.0" */

TAUT_END_DECLS
#endif /* TAUT_BASE_H */

/* fake_inside.h - what the files of the fake driver share. Names of other programs are
 * not taken: those here are hidden. */
#ifndef TAUT_TESTS_GPU_FAKE_INSIDE_H
#define TAUT_TESTS_GPU_FAKE_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "fake.h"

enum {
	DEVICES = 2, MOST_BLOCKS = 4096, DEPTH = 32, BOUNDARY = 512, PAGE = 4096,
	MAJOR = 9, MINOR = 0, PROCESSORS = 2, BLOCKS_AT_ONCE = 3,
	SOURCES = 8, NON_BLOCKING = 1,
	UNKNOWN_ERROR = 999, ILLEGAL_ADDRESS = 700, NOT_FOUND = 500,
	INVALID_IMAGE = 200, CAPTURE_UNSUPPORTED = 900,
};
#define ARENA ((size_t)512 << 20)
/* Behind it in the file, for each place where a block may begin: how many processes have
 * that open. */
#define OPENERS (ARENA / BOUNDARY * sizeof(int))

struct CUctx_st {
	int device;
	bool alive;
	unsigned long long id;
	int n_references; /* to a primary one */
	int n_streams, n_events, n_modules;
	struct CUstream_st *null; /* the legacy one; NULL: not used yet */
	struct CUctx_st *older; /* none is given out twice */
};

enum kind { OF_DEVICE, MANAGED, OF_POOL, PINNED, OF_PEER };

struct block {
	uint64_t at;
	char *alias; /* where the fake can touch it */
	size_t bytes;
	unsigned long long id;
	struct CUctx_st *context;
	enum kind kind;
	int *openers; /* OF_PEER: the owner's count of them */
};

enum todo_kind { COPY, FILL, KERNEL, EVENT };

struct todo {
	struct todo *next;
	enum todo_kind kind;
	void *to;
	const void *from;
	size_t bytes;
	unsigned word; /* FILL */
	struct CUevent_st *event;
	tauti_gpu_function function;
	unsigned blocks, threads;
	struct {
		const void *from[SOURCES];
		unsigned n;
	} sources;
	unsigned long long count;
};

struct CUstream_st {
	struct CUctx_st *context;
	unsigned long long context_id;
	bool apart; /* CU_STREAM_NON_BLOCKING: no order with the null stream */
	struct todo *first, **last;
	struct CUstream_st *next;
};

struct CUevent_st {
	struct CUctx_st *context;
	unsigned long long context_id;
	struct CUstream_st *stream; /* that it waits in; NULL: none */
	bool destroyed;
	struct CUevent_st *older; /* none is given out twice */
};

struct CUmod_st {
	struct CUctx_st *context;
	unsigned long long context_id;
	bool unloaded;
	struct CUmod_st *older;
};

#pragma GCC visibility push(hidden)
extern struct block blocks[MOST_BLOCKS]; /* by address */
extern int n_blocks, arena_fd;
extern char *arena;
extern struct fake_counts counts;

/* Takes the lock; not 0: what the call is to return. */
unsigned entered(const char *name);
unsigned left(unsigned result);
unsigned fault(unsigned code);
struct CUctx_st *current(void);
struct block *block_at(uint64_t at, size_t bytes);
unsigned add_block(struct block block);
void drop_block(int i);
void close_peer(const struct block *block);
uint64_t number(const void *at);
bool is_of(const struct CUctx_st *context, unsigned long long id);
bool is_device(uint64_t at, size_t bytes);
/* Where the fake touches an address; NULL: nobody may. */
void *touchable(uint64_t at, size_t bytes);
/* To the stream, as the last. */
unsigned add(struct CUstream_st *stream, struct todo what);
#pragma GCC visibility pop

#define ENTER \
	do { \
		unsigned wished = entered(__func__); \
\
		if (wished) \
			return left(wished); \
	} while (0)

#endif /* TAUT_TESTS_GPU_FAKE_INSIDE_H */

/* fake_cuda.c - a CUDA driver without a device. See fake.h. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_inside.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialised;
static pid_t owner;
static struct CUctx_st primary[DEVICES] = {
	{ .device = 0 }, { .device = 1 },
};
struct block blocks[MOST_BLOCKS]; /* by address */
int n_blocks, arena_fd = -1;
char *arena;
static char *arena_alias;
static unsigned long long last_id, last_context;
static struct CUstream_st *streams;
struct fake_counts counts;
static struct CUctx_st *newest;
static struct CUevent_st *newest_event;
static __thread struct CUctx_st *stack[DEPTH];
static __thread int depth;
static __thread unsigned capture_mode;
static bool captures;

/* --- failures on demand -------------------------------------------------------------------*/

static struct {
	char name[64];
	int nth, seen;
	unsigned code;
} failing;

void fake_fail(const char *name, int nth, unsigned code)
{
	pthread_mutex_lock(&lock);
	memset(&failing, 0, sizeof failing);
	if (name)
		snprintf(failing.name, sizeof failing.name, "%s", name);
	failing.nth = nth;
	failing.code = code;
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void read_wishes(void)
{
	const char *wish = getenv("FAKE_CUDA_FAIL");
	char name[64];
	int nth;
	unsigned code;

	if (wish && sscanf(wish, "%63[^:]:%d:%u", name, &nth, &code) == 3)
		fake_fail(name, nth, code);
}

unsigned entered(const char *name)
{
	pthread_mutex_lock(&lock);
	if (!initialised || getpid() != owner)
		return TAUTI_GPU_NOT_INITIALIZED;
	if (strcmp(name, failing.name))
		return 0;
	failing.seen++;
	return !failing.nth || failing.seen == failing.nth ? failing.code : 0;
}

unsigned left(unsigned result)
{
	pthread_mutex_unlock(&lock);
	return result;
}

bool fake_is_there(void)
{
	return true;
}

struct fake_counts fake_counts(void)
{
	struct fake_counts now;

	pthread_mutex_lock(&lock);
	now = counts;
	now.blocks = 0;
	for (int i = 0; i < n_blocks; i++)
		now.blocks += blocks[i].kind < PINNED;
	now.depth = depth;
	pthread_mutex_unlock(&lock);
	return now;
}

unsigned fault(unsigned code)
{
	counts.faults++;
	return code;
}

/* --- captures -----------------------------------------------------------------------------*/

void fake_capture(bool begins)
{
	pthread_mutex_lock(&lock);
	captures = begins;
	pthread_mutex_unlock(&lock);
}

#define BE_SAFE \
	do { \
		if (captures && capture_mode != TAUTI_GPU_CAPTURE_RELAXED) \
			return left(fault(CAPTURE_UNSUPPORTED)); \
	} while (0)

tauti_gpu_result cuThreadExchangeStreamCaptureMode(unsigned *mode)
{
	unsigned before = capture_mode;

	ENTER;
	capture_mode = *mode;
	*mode = before;
	return left(0);
}

/* --- contexts -----------------------------------------------------------------------------*/

struct CUctx_st *current(void)
{
	return depth && stack[depth - 1] && stack[depth - 1]->alive ?
		stack[depth - 1] : NULL;
}

tauti_gpu_result cuInit(unsigned flags)
{
	(void)flags;
	pthread_mutex_lock(&lock);
	if (!initialised) {
		initialised = true;
		owner = getpid();
		arena_fd = memfd_create("fake-cuda", MFD_CLOEXEC);
		if (arena_fd < 0 || ftruncate(
			arena_fd, (off_t)(ARENA + OPENERS)))
			return left(UNKNOWN_ERROR);
		arena = mmap(NULL, ARENA, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		arena_alias = mmap(NULL, ARENA + OPENERS, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_NORESERVE, arena_fd, 0);
	}
	return left(0);
}

tauti_gpu_result cuDeviceGetCount(int *n)
{
	ENTER;
	*n = DEVICES;
	return left(0);
}

tauti_gpu_result cuCtxCreate_v2(
	tauti_gpu_context *context, unsigned flags, int device)
{
	ENTER;
	(void)flags;
	*context = calloc(1, sizeof **context);
	(*context)->device = device;
	(*context)->alive = true;
	(*context)->id = ++last_context;
	(*context)->older = newest;
	newest = *context;
	counts.contexts++;
	if (depth < DEPTH)
		stack[depth++] = *context;
	return left(0);
}

void drop_block(int i)
{
	if (blocks[i].kind == PINNED) {
		free(blocks[i].alias);
		counts.pinned--;
	}
	if (blocks[i].kind == OF_PEER)
		close_peer(&blocks[i]);
	memmove(&blocks[i], &blocks[i + 1],
		(size_t)(n_blocks - i - 1) * sizeof blocks[0]);
	n_blocks--;
}

bool is_of(const struct CUctx_st *context, unsigned long long id)
{
	return context->alive && context->id == id;
}

static void drop_todos(struct CUstream_st *stream)
{
	while (stream->first) {
		struct todo *todo = stream->first;

		stream->first = todo->next;
		free(todo);
	}
	stream->last = &stream->first;
}

/* What was made in it goes with it. */
static void end_context(struct CUctx_st *context)
{
	for (struct CUstream_st *s = streams; s; s = s->next)
		if (s->context == context && s->context_id == context->id)
			drop_todos(s);
	context->alive = false;
	counts.streams -= context->n_streams;
	counts.events -= context->n_events;
	counts.modules -= context->n_modules;
	context->n_streams = context->n_events = context->n_modules = 0;
	for (int i = n_blocks - 1; i >= 0; i--)
		if (blocks[i].context == context)
			drop_block(i);
}

/* It is never given out again. */
tauti_gpu_result cuCtxDestroy_v2(tauti_gpu_context context)
{
	ENTER;
	end_context(context);
	counts.contexts--;
	if (depth && stack[depth - 1] == context)
		depth--;
	return left(0);
}

tauti_gpu_result cuCtxGetId(tauti_gpu_context context, unsigned long long *id)
{
	ENTER;
	if (!context || !context->alive)
		return left(TAUTI_GPU_CONTEXT_IS_DESTROYED);
	*id = context->id;
	return left(0);
}

/* The one of a device is always at the same address. */
tauti_gpu_result cuDevicePrimaryCtxRetain(tauti_gpu_context *context, int device)
{
	ENTER;
	if (device < 0 || device >= DEVICES)
		return left(TAUTI_GPU_INVALID_DEVICE);
	*context = &primary[device];
	if (!primary[device].alive) {
		primary[device].alive = true;
		primary[device].id = ++last_context;
		counts.primaries++;
	}
	primary[device].n_references++;
	counts.contexts++;
	return left(0);
}

tauti_gpu_result cuDevicePrimaryCtxRelease_v2(int device)
{
	ENTER;
	if (!primary[device].n_references)
		return left(fault(TAUTI_GPU_INVALID_CONTEXT));
	counts.contexts--;
	if (!--primary[device].n_references && primary[device].alive)
		end_context(&primary[device]);
	return left(0);
}

/* References stay, as if somebody were to use them. */
tauti_gpu_result cuDevicePrimaryCtxReset_v2(int device)
{
	ENTER;
	if (primary[device].alive)
		end_context(&primary[device]);
	return left(0);
}

tauti_gpu_result cuDevicePrimaryCtxGetState(
	int device, unsigned *flags, int *active)
{
	ENTER;
	if (device < 0 || device >= DEVICES)
		return left(TAUTI_GPU_INVALID_DEVICE);
	*flags = 0;
	*active = primary[device].alive;
	return left(0);
}

tauti_gpu_result cuCtxGetCurrent(tauti_gpu_context *context)
{
	ENTER;
	*context = current();
	return left(0);
}

tauti_gpu_result cuCtxSetCurrent(tauti_gpu_context context)
{
	ENTER;
	if (!depth)
		depth = 1;
	stack[depth - 1] = context;
	return left(0);
}

tauti_gpu_result cuCtxGetDevice(int *device)
{
	ENTER;
	if (!current())
		return left(fault(TAUTI_GPU_INVALID_CONTEXT));
	*device = current()->device;
	return left(0);
}

tauti_gpu_result cuCtxPushCurrent_v2(tauti_gpu_context context)
{
	ENTER;
	if (!context || !context->alive || depth == DEPTH)
		return left(TAUTI_GPU_INVALID_CONTEXT);
	stack[depth++] = context;
	return left(0);
}

tauti_gpu_result cuCtxPopCurrent_v2(tauti_gpu_context *context)
{
	ENTER;
	if (!depth)
		return left(fault(TAUTI_GPU_INVALID_CONTEXT));
	*context = stack[--depth];
	return left(0);
}

tauti_gpu_result cuDeviceGetAttribute(int *value, unsigned what, int device)
{
	ENTER;
	(void)device;
	*value = what == TAUTI_GPU_DEVICE_MAJOR ? MAJOR :
		what == TAUTI_GPU_DEVICE_MINOR ? MINOR : PROCESSORS;
	return left(0);
}

tauti_gpu_result cuGetErrorName(tauti_gpu_result result, const char **name)
{
	*name = result == TAUTI_GPU_OUT_OF_MEMORY ?
		"CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_WISHED_FOR";
	return 0;
}

/* --- memory -------------------------------------------------------------------------------*/

struct block *block_at(uint64_t at, size_t bytes)
{
	for (int i = 0; i < n_blocks; i++)
		if (at >= blocks[i].at && at + bytes <=
			blocks[i].at + blocks[i].bytes)
			return &blocks[i];
	return NULL;
}

static bool in_arena(uint64_t at)
{
	return arena && at >= (uint64_t)(uintptr_t)arena &&
		at < (uint64_t)(uintptr_t)arena + ARENA;
}

/* Where the fake touches an address; NULL: nobody may. */
void *touchable(uint64_t at, size_t bytes)
{
	struct block *block = block_at(at, bytes);

	if (block)
		return block->alias + (at - block->at);
	return in_arena(at) ? NULL : (void *)(uintptr_t)at;
}

unsigned add_block(struct block block)
{
	int i = n_blocks;

	if (n_blocks == MOST_BLOCKS)
		return TAUTI_GPU_OUT_OF_MEMORY;
	while (i && blocks[i - 1].at > block.at)
		i--;
	memmove(&blocks[i + 1], &blocks[i],
		(size_t)(n_blocks - i) * sizeof blocks[0]);
	blocks[i] = block;
	blocks[i].id = ++last_id;
	n_blocks++;
	return 0;
}

/* The lowest gap: what was freed last is likely to be given out next. */
static unsigned alloc(tauti_gpu_address *at, size_t bytes, enum kind kind)
{
	uint64_t from = (uint64_t)(uintptr_t)arena;
	struct block block = { .bytes = bytes, .kind = kind,
		.context = current() };

	if (!block.context || !bytes)
		return fault(TAUTI_GPU_INVALID_CONTEXT);
	for (int i = 0; i < n_blocks; i++) {
		if (!in_arena(blocks[i].at))
			continue;
		if (blocks[i].at >= from + bytes)
			break;
		from = (blocks[i].at + blocks[i].bytes + BOUNDARY - 1) /
			BOUNDARY * BOUNDARY;
	}
	if (from + bytes > (uint64_t)(uintptr_t)arena + ARENA)
		return TAUTI_GPU_OUT_OF_MEMORY;
	block.at = from;
	block.alias = arena_alias + (from - (uint64_t)(uintptr_t)arena);
	*at = from;
	return add_block(block);
}

/* What another process has open is not to be freed. */
static bool is_open(uint64_t at)
{
	const int *openers = (void *)(arena_alias + ARENA);

	return __atomic_load_n(&openers[(at - number(arena)) / BOUNDARY],
		__ATOMIC_SEQ_CST) > 0;
}

static unsigned release(tauti_gpu_address at)
{
	for (int i = 0; i < n_blocks; i++)
		if (blocks[i].at == at && blocks[i].kind < PINNED) {
			if (is_open(at))
				return fault(TAUTI_GPU_INVALID_VALUE);
			drop_block(i);
			return 0;
		}
	return at ? fault(TAUTI_GPU_INVALID_VALUE) : 0;
}

tauti_gpu_result cuMemAlloc_v2(tauti_gpu_address *at, size_t bytes)
{
	ENTER;
	BE_SAFE;
	return left(alloc(at, bytes, OF_DEVICE));
}

tauti_gpu_result cuMemAllocManaged(
	tauti_gpu_address *at, size_t bytes, unsigned flags)
{
	ENTER;
	(void)flags;
	return left(alloc(at, bytes, MANAGED));
}

tauti_gpu_result cuMemAllocAsync(
	tauti_gpu_address *at, size_t bytes, tauti_gpu_stream stream)
{
	ENTER;
	(void)stream;
	return left(alloc(at, bytes, OF_POOL));
}

tauti_gpu_result cuMemFree_v2(tauti_gpu_address at)
{
	ENTER;
	BE_SAFE;
	return left(release(at));
}

tauti_gpu_result cuMemFreeAsync(tauti_gpu_address at, tauti_gpu_stream stream)
{
	ENTER;
	(void)stream;
	return left(release(at));
}

tauti_gpu_result cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	struct block block = { .bytes = bytes, .kind = PINNED };

	ENTER;
	BE_SAFE;
	block.context = current();
	if (!block.context || flags != TAUTI_GPU_PORTABLE)
		return left(fault(TAUTI_GPU_INVALID_CONTEXT));
	block.alias = malloc(bytes);
	block.at = (uint64_t)(uintptr_t)block.alias;
	*memory = block.alias;
	counts.pinned++;
	counts.pins++;
	return left(add_block(block));
}

tauti_gpu_result cuMemFreeHost(void *memory)
{
	ENTER;
	BE_SAFE;
	if (!current())
		return left(fault(TAUTI_GPU_INVALID_CONTEXT));
	for (int i = 0; i < n_blocks; i++)
		if (blocks[i].kind == PINNED && blocks[i].alias == memory) {
			drop_block(i);
			return left(0);
		}
	return left(fault(TAUTI_GPU_INVALID_VALUE));
}

static unsigned attribute(void *data, unsigned what, const struct block *block,
	uint64_t at)
{
	bool has_context = block && block->kind != OF_POOL;

	(void)at;
	switch (what) {
	case TAUTI_GPU_POINTER_CONTEXT:
		*(struct CUctx_st **)data =
			has_context ? block->context : NULL;
		return 0;
	case TAUTI_GPU_POINTER_MEMORY_TYPE:
		*(unsigned *)data = !block ? 0 : block->kind == PINNED ?
			TAUTI_GPU_MEMORY_HOST : TAUTI_GPU_MEMORY_DEVICE;
		return 0;
	case TAUTI_GPU_POINTER_BUFFER_ID:
		*(unsigned long long *)data = block ? block->id : 0;
		return 0;
	case TAUTI_GPU_POINTER_IS_MANAGED:
		*(unsigned *)data = block && block->kind == MANAGED;
		return 0;
	case TAUTI_GPU_POINTER_DEVICE:
		*(int *)data = block ? block->context->device : -2;
		return 0;
	case TAUTI_GPU_POINTER_RANGE_START:
		*(tauti_gpu_address *)data = block ? block->at : 0;
		return 0;
	case TAUTI_GPU_POINTER_RANGE_BYTES:
		*(size_t *)data = block ? block->bytes : 0;
		return 0;
	default:
		return TAUTI_GPU_INVALID_VALUE;
	}
}

tauti_gpu_result cuPointerGetAttribute(
	void *data, unsigned what, tauti_gpu_address at)
{
	const struct block *block;

	ENTER;
	counts.id_questions++;
	block = block_at(at, 1);
	if (!block) /* of what it does not know it says that, asked for one */
		return left(TAUTI_GPU_INVALID_VALUE);
	return left(attribute(data, what, block, at));
}

tauti_gpu_result cuPointerGetAttributes(
	unsigned n, unsigned *what, void **data, tauti_gpu_address at)
{
	const struct block *block;
	unsigned result = 0;

	ENTER;
	counts.questions++;
	block = block_at(at, 1);
	for (unsigned i = 0; i < n && !result; i++)
		result = attribute(data[i], what[i], block, at);
	return left(result);
}

/* --- streams ------------------------------------------------------------------------------*/

void fake_run(void *kernel, unsigned n_blocks, unsigned n_threads, void *out,
	const void *sources, unsigned long long count);

static void fill(unsigned *to, unsigned word, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof word; i++)
		to[i] = word;
}

/* What waits in the null stream of its context comes first. */
static void carry_out(struct CUstream_st *stream)
{
	struct todo *todo = stream->first;
	struct CUstream_st *null = stream->context->null;

	if (!todo)
		return;
	while (null && null != stream && !stream->apart && null->first)
		carry_out(null);
	stream->first = todo->next;
	if (!stream->first)
		stream->last = &stream->first;
	if (todo->kind == COPY) {
		memcpy(todo->to, todo->from, todo->bytes);
		counts.copies++;
	} else if (todo->kind == FILL) {
		fill(todo->to, todo->word, todo->bytes);
	} else if (todo->kind == KERNEL) {
		fake_run((void *)todo->function, todo->blocks, todo->threads,
			todo->to, &todo->sources, todo->count);
		counts.launches++;
	} else if (todo->event) {
		todo->event->stream = NULL;
	}
	free(todo);
}

/* A use of what is no more: a driver may do anything then. */
static bool is_gone(const struct CUstream_st *stream)
{
	return !stream || !is_of(stream->context, stream->context_id);
}

static bool is_lost(const struct CUevent_st *event)
{
	return event->destroyed || !is_of(event->context, event->context_id);
}

unsigned add(struct CUstream_st *stream, struct todo what)
{
	struct todo *todo;

	if (is_gone(stream) || stream->context != current())
		return fault(TAUTI_GPU_INVALID_HANDLE);
	todo = malloc(sizeof *todo);
	*todo = what;
	todo->next = NULL;
	*stream->last = todo;
	stream->last = &todo->next;
	return 0;
}

static struct CUstream_st *new_stream(struct CUctx_st *context, unsigned flags)
{
	struct CUstream_st *stream = calloc(1, sizeof *stream);

	stream->context = context;
	stream->context_id = context->id;
	stream->apart = flags == NON_BLOCKING;
	stream->last = &stream->first;
	stream->next = streams;
	streams = stream;
	return stream;
}

tauti_gpu_result cuStreamCreate(tauti_gpu_stream *made, unsigned flags)
{
	ENTER;
	if (!current())
		return left(fault(TAUTI_GPU_INVALID_CONTEXT));
	*made = new_stream(current(), flags);
	counts.streams++;
	current()->n_streams++;
	return left(0);
}

tauti_gpu_result cuStreamQuery(tauti_gpu_stream stream)
{
	ENTER;
	BE_SAFE;
	if (is_gone(stream))
		return left(fault(TAUTI_GPU_INVALID_HANDLE));
	carry_out(stream);
	return left(stream->first ? TAUTI_GPU_NOT_READY : 0);
}

tauti_gpu_result cuStreamSynchronize(tauti_gpu_stream stream)
{
	ENTER;
	BE_SAFE;
	if (is_gone(stream))
		return left(fault(TAUTI_GPU_INVALID_HANDLE));
	while (stream->first)
		carry_out(stream);
	return left(0);
}

tauti_gpu_result cuStreamDestroy_v2(tauti_gpu_stream stream)
{
	struct CUstream_st **at = &streams;

	ENTER;
	if (is_gone(stream))
		return left(fault(TAUTI_GPU_INVALID_HANDLE));
	if (stream->first)
		counts.faults++;
	while (*at != stream)
		at = &(*at)->next;
	*at = stream->next;
	stream->context->n_streams--;
	free(stream);
	counts.streams--;
	return left(0);
}

tauti_gpu_result cuEventCreate(tauti_gpu_event *made, unsigned flags)
{
	ENTER;
	if (!current() || flags != TAUTI_GPU_DISABLE_TIMING)
		return left(fault(TAUTI_GPU_INVALID_CONTEXT));
	*made = calloc(1, sizeof **made);
	(*made)->context = current();
	(*made)->context_id = current()->id;
	(*made)->older = newest_event;
	newest_event = *made;
	counts.events++;
	current()->n_events++;
	return left(0);
}

tauti_gpu_result cuEventRecord(tauti_gpu_event event, tauti_gpu_stream stream)
{
	ENTER;
	if (is_lost(event) || event->context != stream->context)
		return left(fault(TAUTI_GPU_INVALID_HANDLE));
	event->stream = stream;
	return left(add(stream, (struct todo){ .kind = EVENT, .event = event }));
}

/* Each question carries out one thing. */
tauti_gpu_result cuEventQuery(tauti_gpu_event event)
{
	ENTER;
	BE_SAFE;
	if (is_lost(event))
		return left(fault(TAUTI_GPU_INVALID_HANDLE));
	if (event->stream)
		carry_out(event->stream);
	return left(event->stream ? TAUTI_GPU_NOT_READY : 0);
}

tauti_gpu_result cuEventDestroy_v2(tauti_gpu_event event)
{
	ENTER;
	if (is_lost(event))
		return left(fault(TAUTI_GPU_INVALID_HANDLE));
	counts.faults += event->stream != NULL;
	event->context->n_events--;
	event->destroyed = true;
	counts.events--;
	return left(0);
}

/* --- copies -------------------------------------------------------------------------------*/

bool is_device(uint64_t at, size_t bytes)
{
	const struct block *block = block_at(at, bytes);

	return block && block->kind != PINNED;
}

static unsigned copy(uint64_t to, uint64_t from, size_t bytes, bool to_device,
	bool from_device, tauti_gpu_stream stream)
{
	struct todo todo = { .kind = COPY, .bytes = bytes };

	if (is_device(to, bytes) != to_device ||
		is_device(from, bytes) != from_device)
		return fault(TAUTI_GPU_INVALID_VALUE);
	todo.to = touchable(to, bytes);
	todo.from = touchable(from, bytes);
	return todo.to && todo.from ? add(stream, todo) :
		fault(TAUTI_GPU_INVALID_VALUE);
}

uint64_t number(const void *at)
{
	return (uint64_t)(uintptr_t)at;
}

tauti_gpu_result cuMemcpyDtoHAsync_v2(void *to, tauti_gpu_address from,
	size_t bytes, tauti_gpu_stream stream)
{
	ENTER;
	return left(copy(number(to), from, bytes, false, true, stream));
}

tauti_gpu_result cuMemcpyHtoDAsync_v2(tauti_gpu_address to, const void *from,
	size_t bytes, tauti_gpu_stream stream)
{
	ENTER;
	return left(copy(to, number(from), bytes, true, false, stream));
}

tauti_gpu_result cuMemcpyAsync(tauti_gpu_address to, tauti_gpu_address from,
	size_t bytes, tauti_gpu_stream stream)
{
	ENTER;
	return left(copy(to, from, bytes, true, true, stream));
}

/* As the null stream has it: after all that was begun. */
static unsigned copy_now(uint64_t to, uint64_t from, size_t bytes)
{
	void *into = touchable(to, bytes);
	const void *source = touchable(from, bytes);

	for (struct CUstream_st *s = streams; s; s = s->next)
		while (s->first)
			carry_out(s);
	if (!into || !source || !current())
		return fault(TAUTI_GPU_INVALID_VALUE);
	memcpy(into, source, bytes);
	return 0;
}

tauti_gpu_result cuMemcpyHtoD_v2(
	tauti_gpu_address to, const void *from, size_t bytes)
{
	ENTER;
	return left(copy_now(to, number(from), bytes));
}

tauti_gpu_result cuMemcpyDtoH_v2(
	void *to, tauti_gpu_address from, size_t bytes)
{
	ENTER;
	return left(copy_now(number(to), from, bytes));
}

/* To the current context's null stream, behind what its others have by now. */
tauti_gpu_result cuMemsetD32_v2(tauti_gpu_address at, unsigned word, size_t n)
{
	struct todo todo = { .kind = FILL, .word = word,
		.bytes = n * sizeof word };
	struct CUctx_st *context;

	ENTER;
	context = current();
	todo.to = touchable(at, todo.bytes);
	if (!context || !todo.to)
		return left(fault(TAUTI_GPU_INVALID_VALUE));
	if (!context->null || is_gone(context->null))
		context->null = new_stream(context, 0);
	for (struct CUstream_st *s = streams; s; s = s->next)
		while (s->context == context && s != context->null &&
			!s->apart && s->first)
			carry_out(s);
	return left(add(context->null, todo));
}

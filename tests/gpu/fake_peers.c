/* fake_peers.c - handles between processes, of the fake driver. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_inside.h"

struct handle { /* in the 64 bytes of a handle */
	uint64_t mark;
	int32_t pid, fd;
	uint64_t offset, bytes;
};
enum { MARK = 0x7a0be5 };

tauti_gpu_result cuIpcGetMemHandle(
	tauti_gpu_handle *handle, tauti_gpu_address at)
{
	struct handle inside = { .mark = MARK };
	const struct block *block;

	ENTER;
	block = block_at(at, 1);
	if (!block || block->kind != OF_DEVICE)
		return left(fault(TAUTI_GPU_INVALID_VALUE));
	inside.pid = getpid();
	inside.fd = arena_fd;
	inside.offset = block->at - number(arena);
	inside.bytes = block->bytes;
	memset(handle, 0, sizeof *handle);
	memcpy(handle, &inside, sizeof inside);
	return left(0);
}

/* The owner's count; NULL: it cannot be had. */
static int *openers_of(int fd, uint64_t offset)
{
	uint64_t at = ARENA + offset / BOUNDARY * sizeof(int);
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		(off_t)(at - at % PAGE));

	return page == MAP_FAILED ? NULL : (void *)(page + at % PAGE);
}

void close_peer(const struct block *block)
{
	uint64_t past = block->at % PAGE, counted = number(block->openers);

	__atomic_fetch_sub(block->openers, 1, __ATOMIC_SEQ_CST);
	munmap((void *)(uintptr_t)(counted - counted % PAGE), PAGE);
	munmap(block->alias - past, block->bytes + past);
	munmap((void *)(uintptr_t)(block->at - past), block->bytes + past);
	counts.peers--;
}

tauti_gpu_result cuIpcOpenMemHandle_v2(
	tauti_gpu_address *at, tauti_gpu_handle handle, unsigned flags)
{
	struct block block = { .kind = OF_PEER };
	struct handle inside;
	char path[64];
	char *view, *alias;
	uint64_t past;
	int fd;

	ENTER;
	memcpy(&inside, &handle, sizeof inside);
	if (inside.mark != MARK || inside.pid == getpid() || !current() ||
		flags != TAUTI_GPU_LAZY_PEER)
		return left(fault(TAUTI_GPU_INVALID_HANDLE));
	snprintf(path, sizeof path, "/proc/%d/fd/%d", inside.pid, inside.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return left(TAUTI_GPU_INVALID_HANDLE);
	past = inside.offset % PAGE;
	alias = mmap(NULL, inside.bytes + past, PROT_READ | PROT_WRITE,
		MAP_SHARED, fd, (off_t)(inside.offset - past));
	block.openers = openers_of(fd, inside.offset);
	close(fd);
	view = mmap(NULL, inside.bytes + past, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (alias == MAP_FAILED || view == MAP_FAILED || !block.openers)
		return left(fault(UNKNOWN_ERROR));
	__atomic_fetch_add(block.openers, 1, __ATOMIC_SEQ_CST);
	block.at = number(view + past);
	block.alias = alias + past;
	block.bytes = inside.bytes;
	block.context = current();
	*at = block.at;
	counts.peers++;
	return left(add_block(block));
}

tauti_gpu_result cuIpcCloseMemHandle(tauti_gpu_address at)
{
	ENTER;
	for (int i = 0; i < n_blocks; i++)
		if (blocks[i].kind == OF_PEER && blocks[i].at == at) {
			drop_block(i);
			return left(0);
		}
	return left(fault(TAUTI_GPU_INVALID_HANDLE));
}

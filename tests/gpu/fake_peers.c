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
	close(fd);
	view = mmap(NULL, inside.bytes + past, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (alias == MAP_FAILED || view == MAP_FAILED)
		return left(fault(UNKNOWN_ERROR));
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
			uint64_t past = at % PAGE;

			munmap(blocks[i].alias - past, blocks[i].bytes + past);
			munmap((void *)(uintptr_t)(at - past),
				blocks[i].bytes + past);
			counts.peers--;
			drop_block(i);
			return left(0);
		}
	return left(fault(TAUTI_GPU_INVALID_HANDLE));
}

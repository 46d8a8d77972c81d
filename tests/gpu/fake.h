/* fake.h - a CUDA driver without a device, libcuda.so.1 to who asks for that: so much
 * of it as Taut and these tests call, and what a test may ask and tell it.
 *
 * "Device" memory is two views of one piece of memory. The addresses that it gives out
 * cannot be read or written, so code that touches a device's memory from the host dies
 * of it; only the fake's own copies and kernels use the other view. What is freed is
 * given out again at once, at the same address. Streams do nothing until somebody asks:
 * each question carries out one thing that waits, and before that, unless the stream has no
 * order with it, what waits in the context's null stream: cuMemsetD32 puts it there. Kernels are reduce.cu, compiled for
 * the host. Handles between processes open the other's memory by /proc; to
 * free what another has open is a fault. */
#ifndef TAUT_TESTS_GPU_FAKE_H
#define TAUT_TESTS_GPU_FAKE_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/driver.h"

struct fake_counts {
	int streams, events, pinned, modules, peers, blocks, contexts;
	int primaries;  /* primary contexts that were made, so far */
	int depth;      /* contexts pushed on this thread */
	int faults;     /* uses of memory, contexts or streams that are not there */
	int questions;  /* of pointers, so far: all attributes at once, */
	int id_questions; /* or one of them */
	int copies, launches, pins; /* so far */
};
struct fake_counts fake_counts(void);
/* False: a real driver is in its place (real.c). */
bool fake_is_there(void);
/* The nth call from now on of that function gives `code`; 0: all of them. n 0 and name
 * NULL: none does. $FAKE_CUDA_FAIL is "name:nth:code". */
void fake_fail(const char *name, int nth, unsigned code);
/* Somebody captures a graph, so that calls which cannot be part of one are faults, in all
 * threads that have not said that they are not meant. */
void fake_capture(bool begins);

/* What programs call. Two devices. */
tauti_gpu_result cuInit(unsigned flags);
tauti_gpu_result cuDeviceGetCount(int *n);
tauti_gpu_result cuMemsetD32_v2(tauti_gpu_address at, unsigned word, size_t n);
tauti_gpu_result cuCtxCreate_v2(
	tauti_gpu_context *context, unsigned flags, int device);
tauti_gpu_result cuCtxDestroy_v2(tauti_gpu_context context);
tauti_gpu_result cuCtxSetCurrent(tauti_gpu_context context);
tauti_gpu_result cuDevicePrimaryCtxReset_v2(int device);
tauti_gpu_result cuMemAllocManaged(
	tauti_gpu_address *at, size_t bytes, unsigned flags);
tauti_gpu_result cuMemAllocAsync(
	tauti_gpu_address *at, size_t bytes, tauti_gpu_stream stream);
tauti_gpu_result cuMemFreeAsync(tauti_gpu_address at, tauti_gpu_stream stream);
tauti_gpu_result cuMemcpyHtoD_v2(
	tauti_gpu_address to, const void *from, size_t bytes);
tauti_gpu_result cuMemcpyDtoH_v2(
	void *to, tauti_gpu_address from, size_t bytes);
#define DECLARE(name, symbol, args) tauti_gpu_result symbol args;
TAUTI_GPU_CALLS(DECLARE)
TAUTI_GPU_CALLS_LATER(DECLARE)
#undef DECLARE

#endif /* TAUT_TESTS_GPU_FAKE_H */

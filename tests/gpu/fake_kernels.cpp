// fake_kernels.cpp - reduce.cu for the host: words of CUDA given a meaning, a thread of
// the device after another.
#include <cstdint>
#include <cstring>

#include "base/half.h"

#define TAUT_ON_HOST
#define __global__ __attribute__((visibility("default")))

struct fake_place {
	unsigned x;
};
static thread_local fake_place blockIdx, blockDim, threadIdx, gridDim;

static inline uint32_t bits_of(float x)
{
	return tauti_bits_of(x);
}

static inline float float_of(uint32_t x)
{
	return tauti_float_of(x);
}

static inline unsigned long long bits_of(double x)
{
	unsigned long long bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

static inline double double_of(unsigned long long x)
{
	double value;

	memcpy(&value, &x, sizeof value);
	return value;
}

static inline float of_half(unsigned short x)
{
	return tauti_float_of(tauti_of_half(x));
}

static inline unsigned short to_half(float x)
{
	return tauti_to_half(x, 0x7e00);
}

#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#pragma GCC diagnostic ignored "-Wmissing-declarations"
#include "gpu/reduce.cu"

typedef void kernel(void *out, const sources from, u64 count);

extern "C" void fake_run(kernel *run, unsigned n_blocks, unsigned n_threads,
	void *out, const sources *from, u64 count);
extern "C" void fake_run(kernel *run, unsigned n_blocks, unsigned n_threads,
	void *out, const sources *from, u64 count)
{
	gridDim.x = n_blocks;
	blockDim.x = n_threads;
	for (blockIdx.x = 0; blockIdx.x < n_blocks; blockIdx.x++)
		for (threadIdx.x = 0; threadIdx.x < n_threads; threadIdx.x++)
			run(out, *from, count);
}

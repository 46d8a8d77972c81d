/* driver.h - the functions of the CUDA driver that we call, and the numbers that it
 * gives and takes: facts of its documented binary interface (CUDA Driver API
 * reference, NVRTC reference). No header of CUDA is used; where there is one,
 * tests/gpu/abi.c compares this file with it.
 *
 * The driver is never loaded and never initialised for us: where the program has
 * not done so, no memory of a device can be.
 *
 * Threads: any, once it is open. */
#ifndef TAUT_GPU_DRIVER_H
#define TAUT_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

typedef unsigned long long tauti_gpu_address; /* of memory, on any device or host */
typedef struct CUctx_st *tauti_gpu_context;
typedef struct CUmod_st *tauti_gpu_module;
typedef struct CUfunc_st *tauti_gpu_function;
typedef struct CUstream_st *tauti_gpu_stream;
typedef struct CUevent_st *tauti_gpu_event;
typedef unsigned tauti_gpu_result; /* an enum; 0: done */

#ifndef CU_IPC_HANDLE_SIZE /* else it has been said */
struct CUipcMemHandle_st {
	char reserved[64];
};
#endif
typedef struct CUipcMemHandle_st tauti_gpu_handle;

enum { /* results */
	TAUTI_GPU_INVALID_VALUE = 1, TAUTI_GPU_OUT_OF_MEMORY = 2,
	TAUTI_GPU_NOT_INITIALIZED = 3, TAUTI_GPU_DEINITIALIZED = 4,
	TAUTI_GPU_STUB_LIBRARY = 34, TAUTI_GPU_DEVICE_UNAVAILABLE = 46,
	TAUTI_GPU_NO_DEVICE = 100, TAUTI_GPU_INVALID_DEVICE = 101,
	TAUTI_GPU_INVALID_CONTEXT = 201,
	TAUTI_GPU_INVALID_HANDLE = 400, TAUTI_GPU_NOT_READY = 600,
	TAUTI_GPU_CONTEXT_IS_DESTROYED = 709,
	TAUTI_GPU_SYSTEM_NOT_READY = 802, TAUTI_GPU_DRIVER_MISMATCH = 803,
	TAUTI_GPU_COMPAT_NOT_SUPPORTED = 804, TAUTI_GPU_UNKNOWN = 999,
};
enum { /* what may be asked of a pointer */
	TAUTI_GPU_POINTER_CONTEXT = 1,     /* a context; NULL: of a pool */
	TAUTI_GPU_POINTER_MEMORY_TYPE = 2, /* unsigned: one of those below */
	TAUTI_GPU_POINTER_BUFFER_ID = 7,   /* unsigned long long, of an allocation:
	                                      never used again in a process */
	TAUTI_GPU_POINTER_IS_MANAGED = 8,  /* unsigned */
	TAUTI_GPU_POINTER_DEVICE = 9,      /* int */
	TAUTI_GPU_POINTER_RANGE_START = 11, /* address */
	TAUTI_GPU_POINTER_RANGE_BYTES = 12, /* size_t */
};
enum { TAUTI_GPU_MEMORY_HOST = 1, TAUTI_GPU_MEMORY_DEVICE = 2,
	TAUTI_GPU_MEMORY_UNIFIED = 4 };
enum { /* what may be asked of a device */
	TAUTI_GPU_DEVICE_PROCESSORS = 16, TAUTI_GPU_DEVICE_MAJOR = 75,
	TAUTI_GPU_DEVICE_MINOR = 76,
};
enum { /* flags */
	TAUTI_GPU_PORTABLE = 1,       /* pinned for all contexts */
	TAUTI_GPU_DISABLE_TIMING = 2, /* of an event */
	TAUTI_GPU_LAZY_PEER = 1,      /* of memory of another process */
	TAUTI_GPU_CAPTURE_RELAXED = 2, /* of a thread, for captures by others */
};

/* X(our name, the driver's symbol, arguments) */
#define TAUTI_GPU_CALLS(X) \
	X(pointer_attribute, cuPointerGetAttribute, \
		(void *data, unsigned what, tauti_gpu_address at)) \
	X(pointer_attributes, cuPointerGetAttributes, \
		(unsigned n, unsigned *what, void **data, \
			tauti_gpu_address at)) \
	X(error_name, cuGetErrorName, \
		(tauti_gpu_result result, const char **name)) \
	X(device_attribute, cuDeviceGetAttribute, \
		(int *value, unsigned what, int device)) \
	X(primary_retain, cuDevicePrimaryCtxRetain, \
		(tauti_gpu_context *context, int device)) \
	X(primary_release, cuDevicePrimaryCtxRelease_v2, (int device)) \
	X(primary_state, cuDevicePrimaryCtxGetState, \
		(int device, unsigned *flags, int *active)) \
	X(context_current, cuCtxGetCurrent, (tauti_gpu_context *context)) \
	X(context_device, cuCtxGetDevice, (int *device)) \
	X(context_push, cuCtxPushCurrent_v2, (tauti_gpu_context context)) \
	X(context_pop, cuCtxPopCurrent_v2, (tauti_gpu_context *context)) \
	X(capture_mode, cuThreadExchangeStreamCaptureMode, (unsigned *mode)) \
	X(stream_create, cuStreamCreate, \
		(tauti_gpu_stream *stream, unsigned flags)) \
	X(stream_query, cuStreamQuery, (tauti_gpu_stream stream)) \
	X(stream_wait, cuStreamSynchronize, (tauti_gpu_stream stream)) \
	X(stream_destroy, cuStreamDestroy_v2, (tauti_gpu_stream stream)) \
	X(event_create, cuEventCreate, \
		(tauti_gpu_event *event, unsigned flags)) \
	X(event_record, cuEventRecord, \
		(tauti_gpu_event event, tauti_gpu_stream stream)) \
	X(event_query, cuEventQuery, (tauti_gpu_event event)) \
	X(event_destroy, cuEventDestroy_v2, (tauti_gpu_event event)) \
	X(host_alloc, cuMemHostAlloc, \
		(void **memory, size_t bytes, unsigned flags)) \
	X(host_free, cuMemFreeHost, (void *memory)) \
	X(alloc, cuMemAlloc_v2, (tauti_gpu_address *at, size_t bytes)) \
	X(free, cuMemFree_v2, (tauti_gpu_address at)) \
	X(copy_down, cuMemcpyDtoHAsync_v2, \
		(void *to, tauti_gpu_address from, size_t bytes, \
			tauti_gpu_stream stream)) \
	X(copy_up, cuMemcpyHtoDAsync_v2, \
		(tauti_gpu_address to, const void *from, size_t bytes, \
			tauti_gpu_stream stream)) \
	X(copy_across, cuMemcpyAsync, \
		(tauti_gpu_address to, tauti_gpu_address from, size_t bytes, \
			tauti_gpu_stream stream)) \
	X(module_load, cuModuleLoadData, \
		(tauti_gpu_module *module, const void *image)) \
	X(module_function, cuModuleGetFunction, \
		(tauti_gpu_function *function, tauti_gpu_module module, \
			const char *name)) \
	X(module_unload, cuModuleUnload, (tauti_gpu_module module)) \
	X(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor, \
		(int *blocks, tauti_gpu_function function, int threads, \
			size_t shared_bytes)) \
	X(launch, cuLaunchKernel, \
		(tauti_gpu_function function, unsigned grid_x, \
			unsigned grid_y, unsigned grid_z, unsigned block_x, \
			unsigned block_y, unsigned block_z, \
			unsigned shared_bytes, tauti_gpu_stream stream, \
			void **arguments, void **extra)) \
	X(handle_get, cuIpcGetMemHandle, \
		(tauti_gpu_handle *handle, tauti_gpu_address at)) \
	X(handle_open, cuIpcOpenMemHandle_v2, \
		(tauti_gpu_address *at, tauti_gpu_handle handle, \
			unsigned flags)) \
	X(handle_close, cuIpcCloseMemHandle, (tauti_gpu_address at))

/* Of newer drivers alone; NULL in another.
 * context_id: CUDA 12.0. A number that no other context of the process ever has, also
 * not one that comes to lie where this one was. */
#define TAUTI_GPU_CALLS_LATER(X) \
	X(context_id, cuCtxGetId, \
		(tauti_gpu_context context, unsigned long long *id))

struct tauti_gpu_driver {
#define FIELD(name, symbol, args) tauti_gpu_result(*name) args;
	TAUTI_GPU_CALLS(FIELD)
	TAUTI_GPU_CALLS_LATER(FIELD)
#undef FIELD
	void *library;
};

/* Whether the process has a driver loaded. */
bool tauti_gpu_driver_is_there(void);
/* TAUT_EIO: it has not; TAUT_EMATCH: one without a function that we need, which the
 * line names. Nothing is loaded. */
TAUT_NODISCARD taut_status tauti_gpu_driver_open(
	struct tauti_gpu_driver *ret_driver, struct taut_error *reterr);
/* TAUT_OK for 0; else the line "what: CUDA_ERROR_...", TAUT_ENOMEM where memory was
 * short and TAUT_EIO otherwise. */
TAUT_NODISCARD taut_status tauti_gpu_check(
	const struct tauti_gpu_driver *driver, tauti_gpu_result result,
	const char *what, struct taut_error *reterr);

#endif /* TAUT_GPU_DRIVER_H */

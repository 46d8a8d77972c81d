/* v3.c - version 3 of the interface: see abi_v3.h. */
#include "record/nccl/abi_v3.h"

#define TAUTI_NCCL_VERSION 3
#define TAUTI_NCCL_EVENT tauti_nccl_event_v3
#define TAUTI_NCCL_INTERFACE tauti_nccl_v3
#define TAUTI_NCCL_EXPORT ncclProfiler_v3
#include "record/nccl/like_v2.h"

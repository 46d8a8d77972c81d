/* v2.c - version 2 of the interface: see abi_v2.h. */
#include "record/nccl/abi_v2.h"

#define TAUTI_NCCL_VERSION 2
#define TAUTI_NCCL_EVENT tauti_nccl_event_v2
#define TAUTI_NCCL_INTERFACE tauti_nccl_v2
#define TAUTI_NCCL_EXPORT ncclProfiler_v2
#include "record/nccl/like_v2.h"

/* v5.c - version 5 of the interface: see abi_v5.h. */
#include "record/nccl/abi_v5.h"

#define TAUTI_NCCL_VERSION 5
#define TAUTI_NCCL_EVENT tauti_nccl_event_v5
#define TAUTI_NCCL_INTERFACE tauti_nccl_v5
#define TAUTI_NCCL_EXPORT ncclProfiler_v5
#include "record/nccl/like_v5.h"

/* v6.c - version 6 of the interface: see abi_v6.h. */
#include "record/nccl/abi_v6.h"

#define TAUTI_NCCL_VERSION 6
#define TAUTI_NCCL_EVENT tauti_nccl_event_v6
#define TAUTI_NCCL_INTERFACE tauti_nccl_v6
#define TAUTI_NCCL_EXPORT ncclProfiler_v6
#include "record/nccl/like_v5.h"

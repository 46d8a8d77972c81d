/* abi_v7.h - NCCL's profiler interface, version 7 (NCCL 2.31): as version 6, with
 * tags of the user at the end of collectives and phases of kernels, which are not
 * asked for. */
#ifndef TAUT_RECORD_NCCL_ABI_V7_H
#define TAUT_RECORD_NCCL_ABI_V7_H

#include "record/nccl/abi_v5.h"

#define tauti_nccl_event_v7 tauti_nccl_event_v5
#define tauti_nccl_v7 tauti_nccl_v5

#endif /* TAUT_RECORD_NCCL_ABI_V7_H */

/* abi_v6.h - NCCL's profiler interface, version 6 (NCCL 2.29): as version 5, with
 * events of collectives that the copy engines carry out, which are not asked for. */
#ifndef TAUT_RECORD_NCCL_ABI_V6_H
#define TAUT_RECORD_NCCL_ABI_V6_H

#include "record/nccl/abi_v5.h"

#define tauti_nccl_event_v6 tauti_nccl_event_v5
#define tauti_nccl_v6 tauti_nccl_v5

#endif /* TAUT_RECORD_NCCL_ABI_V6_H */

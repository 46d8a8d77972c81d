/* plugin.h - between the versions of the interface (vN.c) and the recorder: one
 * recorder for the process, which is there or not.
 *
 * The interface hands no pointer of ours to stopEvent(), so that the recorder is
 * a variable here: the only one in the tree.
 *
 * Threads: any, but tauti_plugin_init() waits for others. Each callback is between
 *          an enter and a leave, so that the log is not closed under it. */
#ifndef TAUT_RECORD_NCCL_PLUGIN_H
#define TAUT_RECORD_NCCL_PLUGIN_H

#include "record/nccl/recorder.h"

#define TAUTI_NCCL_NAME "Taut"

extern uint32_t tauti_nccl_recording; /* the switch; see abi.h */

#define TAUTI_NCCL_TAIL \
	{ { NULL, NULL, NULL, NULL }, "TAUTNCCL", &tauti_nccl_recording }

/* A communicator begins: fills in context and mask, if there is something to
 * record, and makes the recorder when it is the first. Any failure means that
 * nothing is recorded, and is told by nobody but recording.json. */
void tauti_plugin_init(
	void **ret_context, const struct tauti_nccl_comm_info *info);
void tauti_plugin_finalize(void *context);

/* A callback begins; NULL: there is no recorder, and no leave. */
struct tauti_nccl_recorder *tauti_plugin_enter(void);
void tauti_plugin_leave(void);

struct tauti_nccl_op_event;
struct tauti_nccl_part { /* an event that is no task */
	int version, rank, step;
	void *parent;
	const struct tauti_nccl_op_event *op;
	uint64_t gpu_ns; /* 0 not told */
};

/* Handles, or NULL; type: one bit. Other types than those of parts: NULL. */
void *tauti_plugin_start_part(void *context, uint64_t type,
	const struct tauti_nccl_part *part);
void *tauti_plugin_start_task(
	void *context, const struct tauti_nccl_task_info *info);
/* v4 on: any event. */
union tauti_nccl_details_v4;
void *tauti_plugin_start_v4(void *context, uint64_t type,
	const struct tauti_nccl_part *part,
	const union tauti_nccl_details_v4 *details);

/* All versions: of whatever kind the handle is. */
int tauti_plugin_stop(void *handle);
/* v1 to v3, and v4 on. update may be NULL. */
union tauti_nccl_update;
int tauti_plugin_state_v1(
	void *handle, int state, const union tauti_nccl_update *update);
int tauti_plugin_state_v4(
	void *handle, int state, const union tauti_nccl_update *update);

/* Ends everything, as the end of the process does; for tests. */
void tauti_plugin_end(void);

#endif /* TAUT_RECORD_NCCL_PLUGIN_H */

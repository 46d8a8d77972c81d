/* attach.h - work before and behind an all-reduce, and for a gradient: casts,
 * selections, copies, hand-overs. */
#ifndef TAUT_WHATIF_ATTACH_H
#define TAUT_WHATIF_ATTACH_H

#include "whatif/ddp.h"

/* dur_ns of work behind an op, on its lane: a kernel on a stream, else the host's.
 * TAUT_EINVAL: a change before removed the op. */
taut_status tauti_insert_work(struct tauti_whatif *w, uint32_t after,
	const char *name, int64_t dur_ns, uint32_t *ret_op,
	struct taut_error *err);
/* dur_ns of work before the bucket is handed over, where its last gradient is
 * copied: on the thread of the backward pass, or on the device. */
taut_status tauti_work_before(struct tauti_whatif *w,
	const struct tauti_ddp *ddp, const struct tauti_ddp_step *step,
	const struct tauti_bucket *bucket, const char *name, int64_t dur_ns,
	struct taut_error *err);
/* Behind the transfer, on its lane; who waited for the transfer waits for this
 * instead. */
taut_status tauti_work_behind(struct tauti_whatif *w,
	const struct tauti_bucket *bucket, const char *name, int64_t dur_ns,
	struct taut_error *err);
/* That work, or such behind it: the next op after id on its lane; TAUT_NONE: none. */
uint32_t tauti_made_behind(const struct tauti_whatif *w, uint32_t id);
/* Who waited for op `from` waits for `to`; waits of a collective stay. */
taut_status tauti_move_waits(struct tauti_whatif *w, uint32_t from, uint32_t to,
	struct taut_error *err);

#endif /* TAUT_WHATIF_ATTACH_H */

/* predict.h - an epoch of any scene, for predict.c and advise.c. */
#ifndef TAUT_STALLS_PREDICT_H
#define TAUT_STALLS_PREDICT_H

#include "stalls/calibrate.h"

TAUT_NODISCARD taut_status tauti_predict_scene(const struct tauti_scene *scene,
	const struct taut_feed_set *set, struct taut_stalls_epoch *ret_epoch,
	struct taut_error *reterr);

/* So many times as fast, above 0. */
void tauti_set_rate(struct taut_feed_host *host, double times);
/* workers 1 or more. */
void tauti_set_workers(struct taut_feed_job *job, uint32_t workers);

#endif /* TAUT_STALLS_PREDICT_H */

/* random.c - any point that was not measured, each as likely. */
#include "tune/tune.h"

static taut_status next(struct taut_tune *tune, uint32_t *ret_point,
	struct taut_error *err)
{
	uint64_t any = tauti_tune_mix(
		tauti_tune_mix(tune->options.seed) ^ tune->told.count);

	(void)err;
	*ret_point = tauti_tune_untold(
		tune, (uint32_t)(any % tauti_tune_n_untold(tune)));
	return TAUT_OK;
}

const struct tauti_strategy tauti_tune_random = { next, tauti_tune_least };

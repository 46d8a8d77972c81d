/* own.c - items that a stage makes samples of: it finds zeros, and the length of an empty
 * one. */
#include "load/kinds.h"

#include <stdlib.h>
#include <string.h>

struct own {
	uint64_t sample_bytes;
};

static taut_status check(const struct taut_prepare_options *o, struct taut_error *err)
{
	if (!o->stage)
		return tauti_prepare_refuse(
			err, "stage", "one, where items are what it makes of them");
	if (o->as_first)
		return tauti_prepare_refuse(
			err, "as_first", "none, where items are what a stage makes of them");
	return tauti_prepare_check_dims(o, err);
}

static taut_status create(const struct taut_prepare_options *options, void **ret_state,
	struct taut_error *err)
{
	struct own *own = calloc(1, sizeof *own);

	if (!own)
		return taut_error_set(err, TAUT_ENOMEM, -1, "prepare: no memory");
	own->sample_bytes = taut_prepare_slot_bytes(options);
	*ret_state = own;
	return TAUT_OK;
}

static taut_status make(void *state, const struct tauti_item *item, void *sample,
	int64_t *ret_length, struct taut_error *err)
{
	const struct own *own = state;

	(void)item;
	(void)err;
	memset(sample, 0, own->sample_bytes);
	*ret_length = 0;
	return TAUT_OK;
}

const struct tauti_kind tauti_kind_own = {
	.check = check,
	.create = create,
	.destroy = free,
	.make = make,
};

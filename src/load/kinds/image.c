/* image.c - images as a kind: prepare.h, as the table has it. */
#include "load/kinds.h"
#include "load/image/crop.h"
#include "load/prepare.h"

static void shape(
	const struct taut_prepare_options *o, struct taut_prepare_shape *ret_shape)
{
	bool is_chw = o->layout == TAUT_LAYOUT_CHW;

	ret_shape->n_dims = 3;
	ret_shape->dims[is_chw ? 0 : 2] = 3;
	ret_shape->dims[is_chw ? 1 : 0] = taut_prepare_height(o);
	ret_shape->dims[is_chw ? 2 : 1] = taut_prepare_width(o);
	ret_shape->varies = false;
}

static taut_status create(const struct taut_prepare_options *options, void **ret_state,
	struct taut_error *err)
{
	struct tauti_prepare *prepare = NULL;
	taut_status status = tauti_prepare_create(options, &prepare, err);

	if (status == TAUT_OK)
		*ret_state = prepare;
	return status;
}

static void destroy(void *state)
{
	tauti_prepare_destroy(state);
}

static taut_status make(void *state, const struct tauti_item *item, void *sample,
	int64_t *ret_length, struct taut_error *err)
{
	(void)ret_length;
	return tauti_prepare_image(
		state, item->bytes, item->n, item->name, item->draw, sample, err);
}

const struct tauti_kind tauti_kind_image = {
	.check = tauti_image_check,
	.shape = shape,
	.create = create,
	.destroy = destroy,
	.make = make,
};

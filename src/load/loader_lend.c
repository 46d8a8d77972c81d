/* loader_lend.c - batches to frameworks, without a copy.
 *
 * The struct is DLPack's, as its specification lays it out (dmlc/dlpack, before versions:
 * what torch, numpy, TensorFlow and MXNet all take). Its deleter is C alone, so that
 * whoever drops the tensor last, in whatever thread, gives the batch back. */
#include "load/loader.h"

#include <stdlib.h>
#include <string.h>

struct dl_device {
	int32_t type, id;
};

struct dl_type {
	uint8_t code, bits;
	uint16_t lanes;
};

enum { DL_CPU = 1 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4 };

struct dl_tensor {
	void *data;
	struct dl_device device;
	int32_t n_dims;
	struct dl_type type;
	int64_t *dims;
	int64_t *strides;
	uint64_t byte_offset;
};

struct taut_dlpack {
	struct dl_tensor tensor;
	void *context;
	void (*deleter)(struct taut_dlpack *self);
	/* Ours. */
	int64_t dims[1 + TAUT_MOST_DIMS], strides[1 + TAUT_MOST_DIMS];
};

static void delete(struct taut_dlpack *self)
{
	taut_batch_release(self->context);
	free(self);
}

static struct dl_type type_of(enum taut_prepare_type type)
{
	static const struct dl_type types[] = {
		[TAUT_PIXEL_U8] = { DL_UINT, 8, 1 },
		[TAUT_PIXEL_F32] = { DL_FLOAT, 32, 1 },
		[TAUT_PIXEL_F16] = { DL_FLOAT, 16, 1 },
		[TAUT_PIXEL_BF16] = { DL_BFLOAT, 16, 1 },
		[TAUT_NUMBER_I8] = { DL_INT, 8, 1 },
		[TAUT_NUMBER_I16] = { DL_INT, 16, 1 },
		[TAUT_NUMBER_I32] = { DL_INT, 32, 1 },
		[TAUT_NUMBER_I64] = { DL_INT, 64, 1 },
		[TAUT_NUMBER_U16] = { DL_UINT, 16, 1 },
		[TAUT_NUMBER_U32] = { DL_UINT, 32, 1 },
		[TAUT_NUMBER_U64] = { DL_UINT, 64, 1 },
		[TAUT_NUMBER_F64] = { DL_FLOAT, 64, 1 },
	};

	return types[type];
}

static void *part_of(struct taut_batch *batch, enum taut_batch_part part)
{
	if (part == TAUT_BATCH_LENGTHS)
		return batch->lengths;
	return part == TAUT_BATCH_LABELS ? (void *)batch->labels : batch->data;
}

static void describe(struct taut_dlpack *t, struct taut_batch *batch, enum taut_batch_part part)
{
	const struct taut_load *load = ((struct tauti_load_slot *)batch)->load;
	int64_t stride = 1;

	t->tensor.data = part_of(batch, part);
	t->tensor.device = (struct dl_device){ DL_CPU, 0 };
	t->tensor.n_dims = part ? 1 : 1 + (int32_t)load->shape.n_dims;
	t->tensor.type = part ? (struct dl_type){ DL_INT, 64, 1 } :
		type_of(load->shape.type);
	t->dims[0] = batch->count;
	memcpy(t->dims + 1, load->shape.dims, sizeof load->shape.dims);
	for (int i = t->tensor.n_dims - 1; i >= 0; i--) {
		t->strides[i] = stride;
		stride *= t->dims[i] ? t->dims[i] : 1;
	}
	t->tensor.dims = t->dims;
	t->tensor.strides = t->strides;
}

taut_status taut_batch_dlpack(struct taut_batch *batch, enum taut_batch_part part,
	struct taut_dlpack **ret_tensor, struct taut_error *reterr)
{
	struct taut_dlpack *t;

	if (part == TAUT_BATCH_LENGTHS && !batch->lengths)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"loader: the batch has no lengths: its samples are whole");
	t = calloc(1, sizeof *t);
	if (!t)
		return taut_error_set(
			reterr, TAUT_ENOMEM, -1, "loader: no memory for a tensor");
	describe(t, batch, part);
	taut_batch_hold(batch);
	t->context = batch;
	t->deleter = delete;
	*ret_tensor = t;
	return TAUT_OK;
}

void taut_dlpack_delete(struct taut_dlpack *tensor)
{
	if (tensor)
		tensor->deleter(tensor);
}

void taut_load_shape(const struct taut_load *load, struct taut_prepare_shape *ret_shape)
{
	*ret_shape = load->shape;
}

void *taut_load_memory(const struct taut_load *load, size_t *ret_bytes)
{
	*ret_bytes = load->memory_bytes;
	return load->memory;
}

/* kineto_comm.c - what the args of an event say of a collective.
 *
 * Since 2024 they say it plainly ("Collective name", "In msg nelems", ...).
 * Before, the arguments of record_param_comms tell some of it by position,
 * and the tensors' shapes and types the rest. */
#include "trace/formats/kineto.h"

#include <string.h>

#include "trace/json/number.h"

static const struct taut_comm_args nothing = {
	.in_elements = -1,
	.out_elements = -1,
	.seq = -1,
	.comms_id = -1,
	.local_group = -1,
	.group_size = -1,
	.src_rank = -1,
	.dst_rank = -1,
	.rank_start = -1,
	.rank_stride = -1,
};

static bool has_prefix(struct tauti_text text, const char *prefix)
{
	size_t len = strlen(prefix);
	return text.len > len && memcmp(text.at, prefix, len) == 0;
}

static bool is_record(struct tauti_text name)
{
	return name.len == 18 &&
	       memcmp(name.at, "record_param_comms", 18) == 0;
}

static const char *const prefixes[] = { "c10d::", "nccl:", "gloo:", "ucc:",
	"mpi:", "xccl:", "rccl:", "hccl:" };

/* The length of the prefix, 0: none. */
static uint32_t comm_prefix(struct tauti_text name)
{
	if (!name.len || !strchr("cngumxrh", name.at[0]))
		return 0;
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
		if (has_prefix(name, prefixes[i]))
			return (uint32_t)strlen(prefixes[i]);
	return 0;
}

bool tauti_kineto_is_comm(struct tauti_text name)
{
	return comm_prefix(name) || is_record(name);
}

/* --- said plainly -------------------------------------------------------- */

/* The id of a string arg; the text of an array as it stands; 0: none. */
static bool take_text(struct kineto *k, const struct kineto_args *args,
	enum kineto_arg arg, uint32_t *ret_id)
{
	const struct tauti_window *w = &k->window;
	struct tauti_text text;
	if (!kineto_has(args, arg))
		return true;
	uint32_t i = args->token[arg], end = i;
	if (tauti_token_byte(w, i) == '[') {
		if (!tauti_token_skip(w, &end))
			return true;
		text.at = tauti_token_at(w, i);
		text.len = w->at[end - 1] + 1 - w->at[i];
	} else if (!tauti_token_string(w, i, &text)) {
		return true;
	}
	*ret_id = tauti_kineto_text(k, text);
	return *ret_id != TAUT_NONE;
}

static int32_t number32(
	struct kineto *k, const struct kineto_args *args, enum kineto_arg arg)
{
	int64_t value = tauti_kineto_number(&k->window, args, arg, -1);
	return value < 0 || value > INT32_MAX ? -1 : (int32_t)value;
}

static bool take_metadata(struct kineto *k, const struct kineto_args *args,
	struct taut_comm_args *comm)
{
	const struct tauti_window *w = &k->window;
	comm->in_elements =
		tauti_kineto_number(w, args, ARG_IN_ELEMENTS, -1);
	comm->out_elements =
		tauti_kineto_number(w, args, ARG_OUT_ELEMENTS, -1);
	comm->seq = tauti_kineto_number(w, args, ARG_SEQ, -1);
	comm->comms_id = tauti_kineto_number(w, args, ARG_COMMS_ID, -1);
	comm->group_size = number32(k, args, ARG_GROUP_SIZE);
	comm->src_rank = number32(k, args, ARG_SRC_RANK);
	comm->dst_rank = number32(k, args, ARG_DST_RANK);
	comm->rank_start = number32(k, args, ARG_RANK_START);
	comm->rank_stride = number32(k, args, ARG_RANK_STRIDE);
	return take_text(k, args, ARG_COLLECTIVE, &comm->collective) &&
	       take_text(k, args, ARG_DTYPE, &comm->dtype) &&
	       take_text(k, args, ARG_GROUP_NAME, &comm->group_name) &&
	       take_text(k, args, ARG_GROUP_DESC, &comm->group_desc) &&
	       take_text(k, args, ARG_GROUP_RANKS, &comm->group_ranks);
}

/* --- from the operator's arguments --------------------------------------- */

/* The element n of the array at token i; 0: there is none. */
static uint32_t element(const struct tauti_window *w, uint32_t i, unsigned n)
{
	if (tauti_token_byte(w, i) != '[' || tauti_token_byte(w, ++i) == ']')
		return 0;
	while (n--) {
		if (!tauti_token_skip(w, &i) ||
			tauti_token_byte(w, i++) != ',')
			return 0;
	}
	return i;
}

static uint32_t arg_element(const struct tauti_window *w,
	const struct kineto_args *args, enum kineto_arg arg, unsigned n)
{
	return kineto_has(args, arg) ? element(w, args->token[arg], n) : 0;
}

/* The elements of the tensor whose shape is at token i, or of the tensors of
 * the list there; -1: not said. *i moves behind. */
static int64_t shape_elements(
	const struct tauti_window *w, uint32_t *ret_i, int nesting)
{
	int64_t product = 1, sum = 0, size;
	uint32_t i = *ret_i + 1, n = 0, shapes = 0;
	for (; tauti_token_byte(w, i) != ']'; n++) {
		if (tauti_token_byte(w, i) == '[' && nesting) {
			int64_t one = shape_elements(w, &i, nesting - 1);
			if (one < 0 || __builtin_add_overflow(sum, one, &sum))
				return -1;
			shapes++;
		} else if (!tauti_number_int(tauti_token_at(w, i), &size) ||
			   size < 0 ||
			   __builtin_mul_overflow(product, size, &product)) {
			return -1;
		} else {
			i++;
		}
		i += tauti_token_byte(w, i) == ',';
	}
	*ret_i = i + 1;
	if (n == 0)
		return -1;
	return shapes == n ? sum : shapes ? -1 : product;
}

static struct tauti_text type_of(const struct tauti_window *w,
	const struct kineto_args *args, unsigned n)
{
	struct tauti_text text;
	uint32_t i = arg_element(w, args, ARG_INPUT_TYPE, n);
	if (!i || !tauti_token_string(w, i, &text))
		return (struct tauti_text){ "", 0 };
	return text;
}

static bool is_text(struct tauti_text text, const char *literal)
{
	return text.len == strlen(literal) &&
	       memcmp(text.at, literal, text.len) == 0;
}

const char *tauti_kineto_dtype(struct tauti_text type)
{
	static const char *const types[][2] = {
		{ "float", "Float" },
		{ "c10::Half", "Half" },
		{ "c10::BFloat16", "BFloat16" },
		{ "double", "Double" },
		{ "long", "Long" },
		{ "long int", "Long" },
		{ "int", "Int" },
		{ "signed char", "Char" },
		{ "unsigned char", "Byte" },
		{ "short", "Short" },
		{ "short int", "Short" },
		{ "bool", "Bool" },
		{ "c10::complex<float>", "ComplexFloat" },
		{ "c10::Float8_e4m3fn", "Float8_e4m3fn" },
		{ "c10::Float8_e5m2", "Float8_e5m2" },
		{ "c10::Float8_e4m3fnuz", "Float8_e4m3fnuz" },
		{ "c10::Float8_e5m2fnuz", "Float8_e5m2fnuz" },
	};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (is_text(type, types[i][0]))
			return types[i][1];
	return NULL;
}

static int64_t tensor_elements(const struct tauti_window *w,
	const struct kineto_args *args, unsigned n)
{
	uint32_t i = arg_element(w, args, ARG_INPUT_DIMS, n);
	struct tauti_text type = type_of(w, args, n);
	if (!i || tauti_token_byte(w, i) != '[')
		return -1;
	if (tauti_token_byte(w, i + 1) == ']') /* a number, or not said */
		return tauti_kineto_dtype(type) ? 1 : -1;
	return shape_elements(w, &i, 2);
}

/* c10d operators name their result before their input. */
static unsigned input_of(struct tauti_text name)
{
	static const char *const result_first[] = { "gather", "scatter",
		"alltoall" };
	if (!has_prefix(name, "c10d::"))
		return 0;
	for (size_t i = 0; i < 3; i++)
		if (memmem(name.at, name.len, result_first[i],
			    strlen(result_first[i])))
			return 1;
	return 0;
}

static bool take_tensors(struct kineto *k, const struct kineto_args *args,
	struct tauti_text name, struct taut_comm_args *comm)
{
	const struct tauti_window *w = &k->window;
	unsigned input = input_of(name);
	const char *dtype = tauti_kineto_dtype(type_of(w, args, input));
	if (comm->in_elements < 0)
		comm->in_elements = tensor_elements(w, args, input);
	if (comm->out_elements < 0 && input)
		comm->out_elements = tensor_elements(w, args, 0);
	if (!comm->dtype && dtype)
		comm->dtype = taut_names_add(
			k->builder->names, dtype, strlen(dtype));
	return comm->dtype != TAUT_NONE;
}

/* Element n of Concrete Inputs as a number that is not negative, or -1. */
static int64_t concrete(const struct tauti_window *w,
	const struct kineto_args *args, unsigned n)
{
	int64_t value;
	uint32_t i = arg_element(w, args, ARG_CONCRETE_INPUTS, n);
	if (!i || !tauti_number_int(tauti_token_at(w, i), &value))
		return -1;
	return value;
}

static int32_t concrete32(const struct tauti_window *w,
	const struct kineto_args *args, unsigned n)
{
	int64_t value = concrete(w, args, n);
	return value < 0 || value > INT32_MAX ? -1 : (int32_t)value;
}

static bool take_concrete_name(struct kineto *k,
	const struct kineto_args *args, struct taut_comm_args *comm)
{
	struct tauti_text text;
	uint32_t i = arg_element(&k->window, args, ARG_CONCRETE_INPUTS, 4);
	if (comm->collective || !i ||
		!tauti_token_string(&k->window, i, &text) || !text.len ||
		(unsigned char)(text.at[0] - '0') < 10)
		return true;
	comm->collective = tauti_kineto_text(k, text);
	return comm->collective != TAUT_NONE;
}

/* record_param_comms by position. Until early 2024: tensors, sequence, group
 * (an address), rank, collective, splits in and out, size. Since then:
 * tensors, (sequence), (group), rank, collective, splits, first rank,
 * stride, size. */
static bool take_positions(struct kineto *k, const struct kineto_args *args,
	struct taut_comm_args *comm)
{
	const struct tauti_window *w = &k->window;
	bool old = is_text(type_of(w, args, 1), "Scalar") &&
		   is_text(type_of(w, args, 2), "Scalar");
	unsigned size_at = old ? 7 : 9;
	if (old && comm->seq < 0) {
		comm->seq = concrete(w, args, 1);
		comm->local_group = concrete(w, args, 2);
	}
	if (!old && comm->rank_start < 0) {
		comm->rank_start = concrete32(w, args, 7);
		comm->rank_stride = concrete32(w, args, 8);
	}
	if (comm->group_size < 0)
		comm->group_size = concrete32(w, args, size_at);
	return take_concrete_name(k, args, comm);
}

/* "nccl:all_reduce" and "c10d::allreduce_" say it in their names. */
static bool take_name(struct kineto *k, struct tauti_text name,
	struct taut_comm_args *comm)
{
	uint32_t prefix = comm_prefix(name);
	if (comm->collective || !prefix)
		return true;
	name.at += prefix;
	name.len -= prefix;
	if (name.len > 1 && name.at[name.len - 1] == '_')
		name.len--;
	comm->collective = tauti_kineto_text(k, name);
	return comm->collective != TAUT_NONE;
}

bool tauti_kineto_add_comm(struct kineto *k, struct tauti_row *row,
	const struct kineto_args *args, struct tauti_text name)
{
	struct tauti_builder *b = k->builder;
	bool said = kineto_has(args, ARG_COLLECTIVE);
	bool record = is_record(name);
	if (!said && !record && !comm_prefix(name))
		return true;
	/* record_param_comms without tensors marks a wait, not a transfer. */
	if (!said && record && is_text(type_of(&k->window, args, 0), "Scalar"))
		return true;
	struct taut_comm_args comm = nothing;
	if (!take_metadata(k, args, &comm) ||
		!take_tensors(k, args, name, &comm) ||
		(record && !take_positions(k, args, &comm)) ||
		!take_name(k, name, &comm))
		return false;
	row->args = (uint32_t)b->comms.count;
	return taut_vec_push(&b->comms, comm);
}

/* --- tensors of operators -------------------------------------------------- */

/* Each has the gradient as its first input. */
static const char *const gradient_ops[] = {
	"torch::autograd::AccumulateGrad",
	"torch::distributed::reducer::mul_out",
	"torch.distributed.ddp.reducer::copy_bucket_to_grad",
};

bool tauti_kineto_is_frozen(const struct tauti_window *w,
	const struct kineto_args *args, struct tauti_text name)
{
	static const char *const norms[] = { "aten::batch_norm",
		"aten::_batch_norm_impl_index", "aten::native_batch_norm",
		"aten::_native_batch_norm_legit", "aten::cudnn_batch_norm",
		"aten::miopen_batch_norm" };
	enum { TRAINING = 5 }; /* argument of each */
	struct tauti_text text;
	bool is_norm = false;

	for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
		is_norm |= is_text(name, norms[i]);
	if (!is_norm)
		return false;
	uint32_t i = arg_element(w, args, ARG_CONCRETE_INPUTS, TRAINING);
	return i && tauti_token_string(w, i, &text) && is_text(text, "False");
}

static bool is_gradient_op(struct tauti_text name)
{
	if (!name.len || name.at[0] != 't')
		return false;
	for (size_t i = 0; i < sizeof gradient_ops / sizeof *gradient_ops; i++)
		if (is_text(name, gradient_ops[i]))
			return true;
	return false;
}

/* The bytes of an element of a type of gradients; 0: not known. */
static int64_t element_bytes(struct tauti_text type)
{
	if (is_text(type, "float"))
		return 4;
	if (is_text(type, "c10::Half") || is_text(type, "c10::BFloat16"))
		return 2;
	return is_text(type, "double") ? 8 : 0;
}

bool tauti_kineto_add_tensor(struct kineto *k, struct tauti_row *row,
	const struct kineto_args *args, struct tauti_text name)
{
	struct tauti_builder *b = k->builder;
	struct taut_tensor_args tensor = { 0 };
	if (row->args != TAUT_NONE || !is_gradient_op(name))
		return true;
	tensor.bytes = tensor_elements(&k->window, args, 0);
	if (tensor.bytes < 0 || __builtin_mul_overflow(tensor.bytes,
		element_bytes(type_of(&k->window, args, 0)), &tensor.bytes) ||
		!tensor.bytes)
		return true;
	row->flags |= TAUT_EVENT_TENSOR;
	row->args = (uint32_t)b->tensors.count;
	return taut_vec_push(&b->tensors, tensor);
}

/* opname.c - what the names of PyTorch's operators mean. In-place ones
 * ("add_") and those that write into a tensor that they are given ("add.out")
 * work as the others do. What only calls others is listed as none, for the
 * others are recorded too. */
#include <stdlib.h>
#include <string.h>

#include "opwork.h"

struct row {
	const char *name; /* without "aten::" and a last "_" */
	struct tauti_opname is;
};

#define KIND(kind, form, flops) \
	{ TAUT_OPWORK_##kind, TAUTI_FORM_##form, flops }
#define NONE KIND(NONE, NONE, 0)
#define EACH KIND(POINTWISE, EACH, 1)
#define NORM KIND(NORM, EACH, 5)
#define NORM_BACK KIND(NORM, EACH, 8)
#define SUM KIND(NORM, SUM, 1)
#define POOL KIND(POOL, EACH, 1)
#define CONV KIND(CONV, CONV, 0)
#define CONV_BACK KIND(CONV, CONV_BACKWARD, 0)
#define CONV_BACK_OLD KIND(CONV, CONV_BACKWARD_OLD, 0)
#define CONV_BACK_INPUT KIND(CONV, CONV_BACKWARD_INPUT, 0)

static const struct row rows[] = { /* by name */
	{ "_adaptive_avg_pool2d", POOL },
	{ "_adaptive_avg_pool2d_backward", POOL },
	{ "_batch_norm_impl_index", NORM },
	{ "_conj", NONE },
	{ "_convolution", CONV },
	{ "_cudnn_attention_forward", KIND(ATTENTION, ATTENTION, 0) },
	{ "_cudnn_rnn", KIND(RECURRENT, RECURRENT, 0) },
	{ "_cudnn_rnn_backward", KIND(RECURRENT, RECURRENT_BACKWARD, 0) },
	{ "_efficient_attention_backward",
		KIND(ATTENTION, ATTENTION_LATE_BACKWARD, 0) },
	{ "_efficient_attention_forward", KIND(ATTENTION, ATTENTION_LATE, 0) },
	{ "_flash_attention_backward",
		KIND(ATTENTION, ATTENTION_LATE_BACKWARD, 0) },
	{ "_flash_attention_forward", KIND(ATTENTION, ATTENTION_LATE, 0) },
	{ "_log_softmax", NORM },
	{ "_log_softmax_backward_data", NORM_BACK },
	{ "_reshape_alias", NONE },
	{ "_reshape_copy", NONE },
	{ "_scaled_dot_product_attention_math", NONE },
	{ "_scaled_dot_product_cudnn_attention",
		KIND(ATTENTION, ATTENTION, 0) },
	{ "_scaled_dot_product_cudnn_attention_backward",
		KIND(ATTENTION, ATTENTION_BACKWARD, 0) },
	{ "_scaled_dot_product_efficient_attention",
		KIND(ATTENTION, ATTENTION, 0) },
	{ "_scaled_dot_product_efficient_attention_backward",
		KIND(ATTENTION, ATTENTION_BACKWARD, 0) },
	{ "_scaled_dot_product_flash_attention",
		KIND(ATTENTION, ATTENTION, 0) },
	{ "_scaled_dot_product_flash_attention_backward",
		KIND(ATTENTION, ATTENTION_BACKWARD, 0) },
	{ "_scaled_dot_product_flash_attention_for_cpu",
		KIND(ATTENTION, ATTENTION, 0) },
	{ "_scaled_dot_product_flash_attention_for_cpu_backward",
		KIND(ATTENTION, ATTENTION_BACKWARD, 0) },
	{ "_softmax", NORM },
	{ "_softmax_backward_data", NORM_BACK },
	{ "_to_copy", NONE },
	{ "_trilinear", NONE },
	{ "_unsafe_view", NONE },
	{ "_weight_norm_interface", NORM },
	{ "abs", EACH },
	{ "adaptive_avg_pool2d", POOL },
	{ "add", EACH },
	{ "addcdiv", EACH },
	{ "addcmul", EACH },
	{ "addmm", KIND(PRODUCT, ADDMM, 0) },
	{ "alias", NONE },
	{ "arange", KIND(COPY, WRITE, 0) },
	{ "as_strided", NONE },
	{ "avg_pool2d", POOL },
	{ "avg_pool2d_backward", POOL },
	{ "baddbmm", KIND(PRODUCT, ADDMM, 0) },
	{ "batch_norm", NORM },
	{ "batch_norm_backward", NORM_BACK },
	{ "bernoulli", EACH },
	{ "bitwise_and", EACH },
	{ "bitwise_not", EACH },
	{ "bmm", KIND(PRODUCT, MM, 0) },
	{ "cat", KIND(COPY, JOIN, 0) },
	{ "chunk", NONE },
	{ "clamp", EACH },
	{ "clamp_min", EACH },
	{ "clone", NONE },
	{ "contiguous", NONE },
	{ "conv1d", CONV },
	{ "conv2d", CONV },
	{ "conv3d", CONV },
	{ "convolution", CONV },
	{ "convolution_backward", CONV_BACK },
	{ "convolution_overrideable", CONV },
	{ "copy", KIND(COPY, COPY, 0) },
	{ "cross_entropy_loss", NORM },
	{ "cudnn_batch_norm", NORM },
	{ "cudnn_batch_norm_backward", NORM_BACK },
	{ "cudnn_convolution", CONV },
	{ "cudnn_convolution_add_relu", CONV },
	{ "cudnn_convolution_backward", CONV_BACK_OLD },
	{ "cudnn_convolution_backward_input", CONV_BACK_INPUT },
	{ "cudnn_convolution_relu", CONV },
	{ "detach", NONE },
	{ "div", EACH },
	{ "dropout", NONE },
	{ "einsum", NONE },
	{ "elu", EACH },
	{ "embedding", KIND(LOOKUP, LOOKUP, 0) },
	{ "embedding_backward", KIND(LOOKUP, LOOKUP_BACKWARD, 0) },
	{ "embedding_dense_backward", KIND(LOOKUP, LOOKUP_BACKWARD, 0) },
	{ "empty", NONE },
	{ "empty_like", NONE },
	{ "empty_strided", NONE },
	{ "eq", EACH },
	{ "erf", EACH },
	{ "exp", EACH },
	{ "expand", NONE },
	{ "expand_as", NONE },
	{ "fill", KIND(COPY, WRITE, 0) },
	{ "flatten", NONE },
	{ "full", NONE },
	{ "full_like", NONE },
	{ "gather", KIND(LOOKUP, GATHER, 0) },
	{ "ge", EACH },
	{ "gelu", EACH },
	{ "gelu_backward", EACH },
	{ "gru", NONE },
	{ "gt", EACH },
	{ "hardtanh", EACH },
	{ "index", KIND(LOOKUP, LOOKUP, 0) },
	{ "index_select", KIND(LOOKUP, LOOKUP, 0) },
	{ "layer_norm", NORM },
	{ "le", EACH },
	{ "leaky_relu", EACH },
	{ "lerp", EACH },
	{ "linear", KIND(PRODUCT, LINEAR, 0) },
	{ "log", EACH },
	{ "log_softmax", NORM },
	{ "logical_not", EACH },
	{ "logsumexp", SUM },
	{ "lstm", NONE },
	{ "lt", EACH },
	{ "masked_fill", EACH },
	{ "matmul", KIND(PRODUCT, MM, 0) },
	{ "max_pool2d", POOL },
	{ "max_pool2d_with_indices", POOL },
	{ "max_pool2d_with_indices_backward", POOL },
	{ "maximum", EACH },
	{ "mean", SUM },
	{ "miopen_batch_norm", NORM },
	{ "miopen_batch_norm_backward", NORM_BACK },
	{ "miopen_convolution", CONV },
	{ "mkldnn_convolution", CONV },
	{ "mkldnn_rnn_layer", KIND(RECURRENT, RECURRENT, 0) },
	{ "mkldnn_rnn_layer_backward", KIND(RECURRENT, RECURRENT_BACKWARD, 0) },
	{ "mm", KIND(PRODUCT, MM, 0) },
	{ "mul", EACH },
	{ "narrow", NONE },
	{ "native_batch_norm", NORM },
	{ "native_batch_norm_backward", NORM_BACK },
	{ "native_dropout", EACH },
	{ "native_dropout_backward", EACH },
	{ "native_group_norm", NORM },
	{ "native_group_norm_backward", NORM_BACK },
	{ "native_layer_norm", NORM },
	{ "native_layer_norm_backward", NORM_BACK },
	{ "ne", EACH },
	{ "neg", EACH },
	{ "new_empty", NONE },
	{ "new_zeros", NONE },
	{ "nll_loss", NORM },
	{ "nll_loss_backward", NORM_BACK },
	{ "nll_loss_forward", NORM },
	{ "nll_loss_nd", NORM },
	{ "normal", KIND(COPY, WRITE, 0) },
	{ "ones", NONE },
	{ "ones_like", NONE },
	{ "permute", NONE },
	{ "pow", EACH },
	{ "reciprocal", EACH },
	{ "record_stream", NONE },
	{ "relu", EACH },
	{ "repeat", NONE },
	{ "reshape", NONE },
	{ "resize", NONE },
	{ "resolve_conj", NONE },
	{ "resolve_neg", NONE },
	{ "result_type", NONE },
	{ "rsqrt", EACH },
	{ "rsub", EACH },
	{ "scaled_dot_product_attention", NONE },
	{ "select", NONE },
	{ "set", NONE },
	{ "sigmoid", EACH },
	{ "sigmoid_backward", EACH },
	{ "silu", EACH },
	{ "silu_backward", EACH },
	{ "slice", NONE },
	{ "softmax", NORM },
	{ "split", NONE },
	{ "split_with_sizes", NONE },
	{ "sqrt", EACH },
	{ "square", EACH },
	{ "squeeze", NONE },
	{ "stack", NONE },
	{ "sub", EACH },
	{ "sum", SUM },
	{ "t", NONE },
	{ "tanh", EACH },
	{ "tanh_backward", EACH },
	{ "thnn_conv2d", CONV },
	{ "threshold", EACH },
	{ "threshold_backward", EACH },
	{ "to", NONE },
	{ "transpose", NONE },
	{ "tril", EACH },
	{ "triu", EACH },
	{ "unflatten", NONE },
	{ "unsqueeze", NONE },
	{ "var_mean", SUM },
	{ "view", NONE },
	{ "view_as", NONE },
	{ "where", EACH },
	{ "zero", KIND(COPY, WRITE, 0) },
	{ "zeros", NONE },
	{ "zeros_like", NONE },
};

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* "AddmmBackward0", a function of autograd: its work is in what it calls. A
 * function of somebody's own ("FlashAttnFuncBackward") may do its own. */
static bool is_function(const char *name)
{
	size_t n = strlen(name), digits = 0;

	while (digits < n && name[n - 1 - digits] >= '0' &&
		name[n - 1 - digits] <= '9')
		digits++;
	n -= digits;
	return digits && n > 8 && !strncmp(name + n - 8, "Backward", 8) &&
		!strstr(name, "::");
}

static bool is_none(const char *name)
{
	return starts(name, "c10d::") || starts(name, "autograd::engine::") ||
		starts(name, "torch::autograd::") ||
		starts(name, "record_param_comms") || is_function(name) ||
		!strcmp(name, "detach");
}

/* Its first input is the gradient of a parameter, and as large as it. */
static bool is_gradient(const char *name)
{
	return !strcmp(name, "torch::autograd::AccumulateGrad") ||
		!strcmp(name, "torch::distributed::reducer::mul_out") ||
		!strcmp(name, "torch.distributed.ddp.reducer::"
			"copy_bucket_to_grad");
}

struct key {
	const char *text;
	size_t len;
};

static int by_name(const void *a, const void *b)
{
	const struct key *key = a;
	const struct row *row = b;
	int order = strncmp(key->text, row->name, key->len);

	return order ? order : row->name[key->len] ? -1 : 0;
}

struct tauti_opname tauti_opname_of(const char *name)
{
	static const struct tauti_opname other = KIND(OTHER, EACH, 0);
	static const struct tauti_opname none = NONE;
	static const struct tauti_opname gradient = KIND(NONE, WRITE, 0);
	struct key key = { name, 0 };
	const struct row *row;

	if (!starts(name, "aten::"))
		return is_gradient(name) ? gradient :
			is_none(name) ? none : other;
	key.text += strlen("aten::");
	key.len = strcspn(key.text, ".");
	if (key.len > 1 && key.text[key.len - 1] == '_')
		key.len--;
	row = bsearch(&key, rows, sizeof rows / sizeof *rows, sizeof *rows,
		by_name);
	return row ? row->is : other;
}

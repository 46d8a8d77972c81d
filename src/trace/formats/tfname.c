/* tfname.c - names of operations, lines, devices and edges. */
#include "trace/formats/tfname.h"

static const struct {
	const char *name;
	enum tf_class class;
} runtime_names[] = {
	{ "ExecutorState::ProcessAsync::Start", TF_ASYNC_START },
	{ "ExecutorState::ProcessAsync::Done", TF_ASYNC_DONE },
	{ "ExecutorState::Process", TF_PROCESS },
	{ "CollectiveExecutor::CompleteParams", TF_PARAMS },
	{ "PrefetchProduce", TF_LOAD },
	{ "IteratorGetNextOp::DoCompute", TF_LOAD_WAIT },
	{ "IteratorGetNextAsOptionalOp::DoCompute", TF_LOAD_WAIT },
	{ "EagerExecute", TF_FUNCTION },
	{ "MemoryAllocation", TF_POINT },
	{ "MemoryDeallocation", TF_POINT },
	{ "ThreadpoolListener::Record", TF_POINT },
	{ "ThreadpoolListener::Region", TF_POINT }, /* the next two, joined */
	{ "ThreadpoolListener::StartRegion", TF_POINT },
	{ "ThreadpoolListener::StopRegion", TF_POINT },
	{ "taut_collective", TF_SHAPE },
	{ "taut_job", TF_JOB },
	{ "taut_gradient", TF_GRADIENT },
	{ "taut_piece", TF_PIECE },
	{ "taut_sync_ready", TF_READY },
	{ "taut_sync_wait", TF_WAIT },
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

bool tauti_tf_starts(struct tauti_text text, const char *with)
{
	size_t len = strlen(with);
	return text.len >= len && memcmp(text.at, with, len) == 0;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The type behind the last colon; empty: it is no operation's name. */
static struct tauti_text type_of(struct tauti_text name)
{
	struct tauti_text none = { "", 0 };
	uint32_t at = name.len;
	while (at > 0 && (is_letter(name.at[at - 1]) ||
			 is_digit(name.at[at - 1])))
		at--;
	if (at < 2 || at == name.len || name.at[at - 1] != ':' ||
		name.at[at - 2] == ':' || !is_letter(name.at[at]))
		return none;
	return (struct tauti_text){ name.at + at, name.len - at };
}

const char *tauti_tf_collective(struct tauti_text type)
{
	static const struct {
		const char *type, *collective;
	} types[] = { /* longer words first where one begins another */
		{ "CollectiveReduceScatter", "reducescatter" },
		{ "CollectiveReduce", "allreduce" },
		{ "CollectiveGather", "allgather" },
		{ "CollectiveBcastSend", "broadcast" },
		{ "CollectiveBcastRecv", "broadcast" },
		{ "CollectiveAllToAll", "alltoall" },
	};
	for (size_t i = 0; i < COUNT(types); i++)
		if (tauti_tf_starts(type, types[i].type))
			return types[i].collective;
	return NULL;
}

static enum tf_class op_class(struct tauti_text type)
{
	if (tauti_tf_collective(type))
		return TF_COLLECTIVE;
	if (tauti_tf_is(type, "_Send") || tauti_tf_is(type, "_HostSend"))
		return TF_SEND;
	if (tauti_tf_is(type, "IteratorGetNextSync"))
		return TF_LOAD_WAIT;
	return TF_OP;
}

enum tf_class tauti_tf_class(
	struct tauti_text name, struct tauti_text *ret_op)
{
	*ret_op = name;
	for (size_t i = 0; i < COUNT(runtime_names); i++)
		if (tauti_tf_is(name, runtime_names[i].name))
			return runtime_names[i].class;
	if (tauti_tf_is(name, "EagerService:Enqueue"))
		return TF_REQUEST; /* looks like an operation */
	struct tauti_text type = type_of(name);
	if (!type.len)
		return TF_RUNTIME;
	ret_op->len = name.len - type.len - 1;
	return op_class(type);
}

struct tauti_text tauti_tf_edge(struct tauti_text op)
{
	uint32_t at = op.len;
	while (at > 0 && is_digit(op.at[at - 1]))
		at--;
	if (at > 2 && at < op.len && op.at[at - 1] == '_' &&
		op.at[at - 2] == '/')
		op.len = at - 2;
	return op;
}

struct tauti_text tauti_tf_key_part(struct tauti_text key, unsigned part)
{
	const char *at = key.at, *end = key.at + key.len;
	for (; part > 0; part--) {
		at = memchr(at, ';', (size_t)(end - at));
		if (!at)
			return (struct tauti_text){ "", 0 };
		at++;
	}
	const char *stop = memchr(at, ';', (size_t)(end - at));
	return (struct tauti_text){ at, (uint32_t)((stop ? stop : end) - at) };
}

struct tauti_text tauti_tf_task(struct tauti_text device)
{
	static const char word[] = "/device:";
	for (uint32_t i = 0; i + sizeof word - 1 <= device.len; i++)
		if (!memcmp(device.at + i, word, sizeof word - 1))
			device.len = i;
	return device;
}

/* Digits at text.at[at..); -1: none, or too many. */
static int64_t number_at(struct tauti_text text, uint32_t at)
{
	int64_t value = 0;
	uint32_t begin = at;
	for (; at < text.len && is_digit(text.at[at]); at++) {
		if (at - begin >= 17)
			return -1;
		value = value * 10 + (text.at[at] - '0');
	}
	return at == begin ? -1 : value;
}

int64_t tauti_tf_copy_bytes(struct tauti_text details)
{
	static const char word[] = "size:";
	for (uint32_t i = 0; i + sizeof word - 1 < details.len; i++)
		if ((i == 0 || details.at[i - 1] == ' ') &&
			!memcmp(details.at + i, word, sizeof word - 1))
			return number_at(details, i + sizeof word - 1);
	return -1;
}

int64_t tauti_tf_stream(struct tauti_text line)
{
	static const char word[] = "Stream #";
	if (!tauti_tf_starts(line, word))
		return -1;
	return number_at(line, sizeof word - 1);
}

int64_t tauti_tf_device(struct tauti_text plane)
{
	uint32_t at = plane.len;
	while (at > 0 && is_digit(plane.at[at - 1]))
		at--;
	if (at == 0 || plane.at[at - 1] != ':')
		return -1;
	return number_at(plane, at);
}

enum taut_kind tauti_tf_device_kind(struct tauti_text name)
{
	if (tauti_tf_starts(name, "Memcpy"))
		return TAUT_KIND_MEMCPY;
	if (tauti_tf_starts(name, "Memset"))
		return TAUT_KIND_MEMSET;
	return TAUT_KIND_KERNEL;
}

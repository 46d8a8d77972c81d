/* names.c - what NCCL calls things, by number and by text. */
#include <string.h>

#include "record/nccl/recorder.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

const char *tauti_nccl_func(unsigned number)
{
	static const char *const names[] = { "Broadcast", "Reduce",
		"AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send",
		"Recv" };

	return number < COUNT(names) ? names[number] : "Unknown";
}

const char *tauti_nccl_dtype(unsigned number)
{
	static const char *const names[] = { "ncclInt8", "ncclUint8",
		"ncclInt32", "ncclUint32", "ncclInt64", "ncclUint64",
		"ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16",
		"ncclFloat8e4m3", "ncclFloat8e5m2" };

	return number < COUNT(names) ? names[number] : "Unknown";
}

const char *tauti_nccl_algo(unsigned number)
{
	static const char *const names[] = { "TREE", "RING", "COLLNET_DIRECT",
		"COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT" };

	return number < COUNT(names) ? names[number] : "Unknown";
}

const char *tauti_nccl_proto(unsigned number)
{
	static const char *const names[] = { "LL", "LL128", "SIMPLE" };

	return number < COUNT(names) ? names[number] : "Unknown";
}

struct pair {
	const char *nccl, *ours;
};

static const char *translate(
	const struct pair *pairs, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(pairs[i].nccl, text))
			return pairs[i].ours;
	return text;
}

const char *tauti_nccl_collective_name(const char *func)
{
	static const struct pair pairs[] = {
		{ "AllReduce", "allreduce" },
		{ "AllGather", "allgather" },
		{ "ReduceScatter", "reduce_scatter" },
		{ "Broadcast", "broadcast" },
		{ "Reduce", "reduce" },
		{ "AlltoAll", "all_to_all" },
		{ "Gather", "gather" },
		{ "Scatter", "scatter" },
		{ "SendRecv", "sendrecv" },
		{ "Send", "send" },
		{ "Recv", "recv" },
	};

	return translate(pairs, COUNT(pairs), func);
}

const char *tauti_nccl_dtype_name(const char *dtype)
{
	static const struct pair pairs[] = {
		{ "ncclInt8", "Char" },
		{ "ncclUint8", "Byte" },
		{ "ncclInt32", "Int" },
		{ "ncclUint32", "UInt32" },
		{ "ncclInt64", "Long" },
		{ "ncclUint64", "UInt64" },
		{ "ncclFloat16", "Half" },
		{ "ncclFloat32", "Float" },
		{ "ncclFloat64", "Double" },
		{ "ncclBfloat16", "BFloat16" },
		{ "ncclFloat8e4m3", "Float8_e4m3fn" },
		{ "ncclFloat8e5m2", "Float8_e5m2" },
	};

	return translate(pairs, COUNT(pairs), dtype);
}

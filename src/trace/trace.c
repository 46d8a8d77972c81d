/* trace.c - looking into a trace. */
#include <taut/trace.h>

#include <stdbool.h>
#include <string.h>

const struct taut_sync_args *taut_trace_sync(
	const struct taut_trace *trace, size_t i)
{
	if (trace->kind[i] != TAUT_KIND_SYNC || trace->args[i] == TAUT_NONE)
		return NULL;
	return &trace->syncs[trace->args[i]];
}

const struct taut_copy_args *taut_trace_copy(
	const struct taut_trace *trace, size_t i)
{
	bool copy = trace->kind[i] == TAUT_KIND_MEMCPY ||
		    trace->kind[i] == TAUT_KIND_MEMSET;
	if (!copy || trace->args[i] == TAUT_NONE)
		return NULL;
	return &trace->copies[trace->args[i]];
}

const struct taut_comm_args *taut_trace_comm(
	const struct taut_trace *trace, size_t i)
{
	switch (trace->kind[i]) {
	case TAUT_KIND_SYNC:
	case TAUT_KIND_MEMCPY:
	case TAUT_KIND_MEMSET:
	case TAUT_KIND_CHUNK:
		return NULL;
	default:
		return trace->args[i] == TAUT_NONE || trace->flags[i] &
			(TAUT_EVENT_TENSOR | TAUT_EVENT_LOAD) ?
			NULL : &trace->comms[trace->args[i]];
	}
}

const struct taut_tensor_args *taut_trace_tensor(
	const struct taut_trace *trace, size_t i)
{
	if (!(trace->flags[i] & TAUT_EVENT_TENSOR) ||
		trace->args[i] == TAUT_NONE)
		return NULL;
	return &trace->tensors[trace->args[i]];
}

const struct taut_chunk_args *taut_trace_chunk(
	const struct taut_trace *trace, size_t i)
{
	if (trace->kind[i] != TAUT_KIND_CHUNK || trace->args[i] == TAUT_NONE)
		return NULL;
	return &trace->chunks[trace->args[i]];
}

const struct taut_load_args *taut_trace_load(
	const struct taut_trace *trace, size_t i)
{
	if (!(trace->flags[i] & TAUT_EVENT_LOAD) ||
		trace->args[i] == TAUT_NONE)
		return NULL;
	return &trace->loads[trace->args[i]];
}

const char *taut_trace_fact(const struct taut_trace *trace, const char *key)
{
	for (size_t i = 0; i < trace->n_facts; i++)
		if (!strcmp(trace->facts[i].key, key))
			return trace->facts[i].value;
	return NULL;
}

const char *taut_trace_name(const struct taut_trace *trace, size_t i)
{
	return taut_names_text(trace->names, trace->name[i]);
}

int64_t taut_trace_faults_ns(const struct taut_trace *trace)
{
	return trace->faults_unrecorded * trace->fault_ns;
}

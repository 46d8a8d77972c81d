/* trace.c - looking into a trace. */
#include <taut/trace.h>

#include <stdbool.h>

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
		return NULL;
	default:
		return trace->args[i] == TAUT_NONE ?
			NULL : &trace->comms[trace->args[i]];
	}
}

const char *taut_trace_name(const struct taut_trace *trace, size_t i)
{
	return taut_names_text(trace->names, trace->name[i]);
}

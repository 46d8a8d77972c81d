/* xplane.c - any bytes as an XPlane file. Beside what holds of every trace, the
 * outcome must be the same whether 32 bytes are held at a time or many, also
 * where there are control bytes, and steps must stand one after the other. */
#include "tests/fuzz/any_trace.h"

static void check_comms(const struct taut_trace *t)
{
	for (size_t i = 0; i < t->n_comms; i++) {
		MUST(t->comms[i].group_name < taut_names_count(t->names));
		MUST(t->comms[i].seq >= -1);
	}
	for (size_t i = 0; i < t->n_events; i++)
		MUST(t->kind[i] != TAUT_KIND_COMM || taut_trace_comm(t, i));
}

/* The steps of a trace stand on one lane, one after the other. */
static void check_steps(const struct taut_trace *t)
{
	size_t last = t->n_events;
	for (size_t i = 0; i < t->n_events; i++) {
		if (t->kind[i] != TAUT_KIND_STEP)
			continue;
		if (last < t->n_events) {
			MUST(t->lane[i] == t->lane[last]);
			MUST(t->start_ns[i] >=
				t->start_ns[last] + t->dur_ns[last]);
		}
		last = i;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome small, usual;
	if (size && tauti_format_xplane.probe((const char *)data, size))
		MUST(data[0] == '\n');
	read_all(&tauti_format_xplane, data, size, 32, &small);
	read_all(&tauti_format_xplane, data, size, 0, &usual);
	check_outcome(&small);
	check_outcome(&usual);
	same_outcome(&small, &usual);
	if (usual.status == TAUT_OK) {
		check_comms(&usual.trace);
		check_steps(&usual.trace);
	}
	tauti_builder_fini(&small.builder);
	tauti_builder_fini(&usual.builder);
	return 0;
}

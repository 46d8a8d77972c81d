/* shapes.c - any bytes as the step with shapes beside a small Kineto trace.
 * The rows of the table stay; only what is said of tensors is added. */
#include "tests/fuzz/source.h"

#include "trace/format.h"
#include "trace/formats/shapes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EVENT(cat, name, tid, ts, dur) \
	"{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":9," \
	"\"tid\":" #tid ",\"ts\":" #ts ",\"dur\":" #dur "}"
#define OP(name, tid, ts) EVENT("cpu_op", name, tid, ts, 5)
#define RANGE(name, tid, ts, dur) EVENT("user_annotation", name, tid, ts, dur)

static const char kineto[] = "{\"traceEvents\":["
	RANGE("ProfilerStep#1", 1, 0, 100) "," OP("a", 1, 10) ","
	OP("torch::autograd::AccumulateGrad", 1, 20) ","
	OP("record_param_comms", 1, 30) "," OP("b", 2, 15) ","
	RANGE("gloo:all_reduce", 3, 40, 9) ","
	RANGE("ProfilerStep#2", 1, 100, 100) "," OP("a", 1, 110) ","
	OP("b", 1, 115) "," OP("torch::autograd::AccumulateGrad", 1, 120) ","
	OP("record_param_comms", 1, 130) ","
	RANGE("gloo:all_reduce", 2, 140, 9) "]}";
enum { ROWS = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tauti_stream *stream = NULL;
	struct source s;
	source_begin(&s, 0);
	source_read(&s, kineto, sizeof kineto - 1);
	MUST(s.status == TAUT_OK && s.builder.n_rows == ROWS);
	taut_status status = tauti_stream_open_memory(
		"shapes", data, size, &stream, &s.err);
	if (status == TAUT_OK)
		status = tauti_format_shapes.read(
			stream, &s.builder, &s.err);
	tauti_stream_close(stream);
	MUST(status == TAUT_OK || status == TAUT_EFORMAT);
	MUST(s.builder.n_rows == ROWS);
	tauti_builder_next_source(&s.builder);
	MUST(tauti_shapes_lend(&s.builder, 0, ROWS) == TAUT_OK);
	source_end(&s);
	MUST(s.status == TAUT_OK && s.trace.n_events == ROWS);
	tauti_builder_fini(&s.builder);
	return 0;
}

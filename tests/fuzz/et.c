/* et.c - any bytes as an execution trace beside a small Kineto trace. The
 * rows of the table stay; only what is said of collectives is added. */
#include "tests/fuzz/source.h"

#include "trace/formats/et.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OP(name, tid, ts, record, index) \
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name "\",\"pid\":9," \
	"\"tid\":" #tid ",\"ts\":" #ts ",\"dur\":5,\"args\":{" \
	"\"Record function id\":" #record ",\"Ev Idx\":" #index "}}"

static const char kineto[] = "{\"traceEvents\":["
	OP("a", 1, 10, 4, 14) "," OP("record_param_comms", 1, 20, 5, 15) ","
	OP("b", 1, 30, 6, 16) "," OP("record_param_comms", 1, 40, 7, 17) ","
	OP("a", 1, 50, 8, 18) "," OP("c", 1, 60, 9, 19) ","
	OP("c", 1, 70, 10, 20) "," OP("a", 1, 80, 11, 21) ","
	OP("b", 2, 15, 20, 1) "," OP("a", 2, 25, 21, 2) "]}";
enum { ROWS = 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tauti_stream *stream = NULL;
	struct source s;
	source_begin(&s, 0);
	s.builder.wants_op_ids = true;
	source_read(&s, kineto, sizeof kineto - 1);
	MUST(s.status == TAUT_OK && s.builder.op_ids.count == ROWS);
	taut_status status = tauti_stream_open_memory(
		"et", data, size, &stream, &s.err);
	if (status == TAUT_OK)
		status = tauti_et_add(stream, &s.builder, &s.err);
	tauti_stream_close(stream);
	MUST(status == TAUT_OK || status == TAUT_EFORMAT);
	if (status == TAUT_EFORMAT)
		MUST(s.err.message[0] && !strchr(s.err.message, '\n'));
	source_end(&s);
	MUST(s.status == TAUT_OK && s.trace.n_events == ROWS);
	tauti_builder_fini(&s.builder);
	return 0;
}

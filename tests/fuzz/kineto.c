/* kineto.c - any bytes as a trace, by what their first bytes tell. And two
 * events with a broken one between them, their keys in an order that the bytes
 * choose: that one alone must be lost. */
#include "tests/fuzz/any_trace.h"

#define KEYS 8

/* An event with its keys in the order of the bits of `order`. */
static int put_event(
	char *out, size_t room, const char *name, uint64_t order)
{
	static const char *const keys[KEYS] = { "\"ph\":\"X\"",
		"\"cat\":\"cpu_op\"", "\"pid\":1", "\"tid\":1", "\"ts\":1",
		"\"dur\":1", "\"args\":{\"a\":[1]}", "\"id\":3" };
	int len = snprintf(out, room, "{");
	unsigned left = (1u << KEYS) - 1;
	for (int n = KEYS; n; n--, order >>= 3) {
		unsigned at = order & (KEYS - 1);
		while (!(left >> at & 1))
			at = (at + 1) % KEYS;
		left &= ~(1u << at);
		len += snprintf(out + len, room - (size_t)len, "%s,", keys[at]);
	}
	return len + snprintf(out + len, room - (size_t)len,
		"\"name\":\"%s\"}", name);
}

static void check_recovery(uint64_t order, unsigned kind)
{
	static const char *const broken[] = { "null", "[1]", "{\"ph\":\"X\",}",
		"{\"ph\":\"X\" 1}" };
	char text[1024];
	struct outcome o;
	int len = snprintf(text, sizeof text, "[");
	len += put_event(text + len, sizeof text - (size_t)len, "one", order);
	len += snprintf(text + len, sizeof text - (size_t)len, ",");
	kind %= 5;
	len += kind == 4 ?
		put_event(text + len, sizeof text - (size_t)len, "a\"b",
			order) :
		snprintf(text + len, sizeof text - (size_t)len, "%s",
			broken[kind]);
	len += snprintf(text + len, sizeof text - (size_t)len, ",");
	len += put_event(
		text + len, sizeof text - (size_t)len, "two", order >> 5);
	len += snprintf(text + len, sizeof text - (size_t)len, "]");
	read_all(&tauti_format_kineto, (uint8_t *)text, (size_t)len, 0, &o);
	MUST(o.status == TAUT_OK);
	MUST(o.trace.n_events == 2 && o.trace.events_lost == 1);
	MUST(o.trace.events_seen == 3 && !o.trace.truncated);
	tauti_builder_fini(&o.builder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t order = 0;
	for (size_t i = 0; i < size; i++)
		order = order * 0x100000001b3 + data[i];
	check_recovery(order, (unsigned)size);
	return check_any_trace(NULL, data, size);
}

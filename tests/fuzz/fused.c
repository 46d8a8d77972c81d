/* fused.c - a network of fused operators: whatever is read answers, and within what it
 * may: no less than what is computed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <plan/fusion/learned.h>

enum { PARTS = 3, KINDS = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void broken(const char *what)
{
	fprintf(stderr, "broken: %s\n", what);
	abort();
}

static void ask(const struct tauti_learned *net)
{
	static const uint32_t types[KINDS] = { 0, 0, 0, TAUT_NONE };
	const struct tauti_learned_use use = { net, types, KINDS,
		{ .byte_ns = 0.1, .launch_ns = 10, .roomy = 9 } };
	const struct tauti_fused_part parts[PARTS] = {
		{ .kind = 0, .dur_ns = 1000, .compute_ns = 70, .in_bytes = 4096,
			.out_bytes = 4096 },
		{ .kind = 1, .dur_ns = 0 },
		{ .kind = 2, .dur_ns = INT64_MAX / 4, .in_bytes = INT64_MAX / 4,
			.saved_bytes = 4096 } };
	const struct tauti_fused_tie ties[] = { { 0, 1, 4096 }, { 0, 2, 4096 } };
	const struct tauti_fused fused = { parts, PARTS, ties, 2 };
	const struct tauti_fused two = { parts, 2, ties, 1 };

	if (tauti_learned_ns(&use, &fused) < 70 || tauti_learned_ns(&use, &two) < 70)
		broken("less than what is computed");
	if (tauti_learned_ns(&use, &fused) != tauti_learned_ns(&use, &fused))
		broken("two answers");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct taut_error err = { .message = "" };
	struct tauti_learned *net;
	taut_status status = tauti_learned_parse(
		(const char *)data, size, "input", &net, &err);

	if (status == TAUT_EFORMAT && strncmp(err.message, "input:", 6))
		broken("a refusal does not name the file");
	if (status)
		return 0;
	ask(net);
	tauti_learned_destroy(net);
	return 0;
}

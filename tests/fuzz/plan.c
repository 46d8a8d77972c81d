/* plan.c - a plan's file: what is read is written, and then reads and writes the
 * same; what a job is told of it fits its environment. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/plan.h>

enum { VARIABLE_BYTES = 128 << 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void broken(const char *what)
{
	fprintf(stderr, "broken: %s\n", what);
	abort();
}

/* Free the result; NULL: no memory. */
static char *print(const struct taut_plan *plan, size_t *ret_len)
{
	struct taut_error err;
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);

	if (!out)
		return NULL;
	if (taut_plan_write(plan, out, &err))
		broken("it cannot be written");
	fclose(out);
	return text;
}

static void check_settings(const struct taut_plan *plan)
{
	struct taut_arena *arena = taut_arena_create();
	const struct taut_plan_setting *settings;
	struct taut_error err = { .message = "" };
	uint32_t n;
	taut_status status = arena ? taut_plan_settings(
		plan, arena, &settings, &n, &err) : TAUT_ENOMEM;

	if (status == TAUT_EINVAL && (!*err.message ||
		strchr(err.message, '\n')))
		broken("a refusal is not one line");
	for (uint32_t i = 0; !status && i < n; i++)
		if (strncmp(settings[i].name, "TAUT_RUN_", 9) ||
			strlen(settings[i].name) + strlen(settings[i].value) +
			2 > VARIABLE_BYTES)
			broken("a variable cannot be set");
	taut_arena_destroy(arena);
}

/* Times beyond 100 days are not told to the nanosecond. */
static int is_exact(const struct taut_plan *plan)
{
	const int64_t most = INT64_C(1) << 52;
	const int64_t times[] = { plan->before_ns, plan->after_ns, plan->low_ns,
		plan->high_ns, plan->measured_before_ns,
		plan->measured_after_ns };
	int exact = 1;

	for (size_t i = 0; i < sizeof times / sizeof *times; i++)
		exact &= times[i] < most;
	for (uint32_t i = 0; i < plan->n_decisions; i++)
		exact &= plan->decisions[i].without_ns < most;
	return exact;
}

static void check_round_trip(const struct taut_plan *plan)
{
	struct taut_plan *again = NULL;
	struct taut_error err;
	size_t len, len_again = 0;
	char *text = print(plan, &len), *second = NULL;

	if (text && taut_plan_parse(text, len, "again", &again, &err))
		broken("what was written is refused");
	if (again)
		second = print(again, &len_again);
	if (second && is_exact(plan) &&
		(len != len_again || memcmp(text, second, len)))
		broken("not as it was written");
	free(second);
	free(text);
	taut_plan_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct taut_error err = { .message = "" };
	struct taut_plan *plan;
	taut_status status = taut_plan_parse(
		(const char *)data, size, "input", &plan, &err);

	if (status == TAUT_EFORMAT && strncmp(err.message, "input:", 6))
		broken("a refusal does not name the file");
	if (status)
		return 0;
	check_settings(plan);
	check_round_trip(plan);
	taut_plan_destroy(plan);
	return 0;
}

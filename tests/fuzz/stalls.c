/* stalls.c - what ranks of somebody else wrote: the file of each behind a line '--', perhaps
 * those of further runs, and last what they opened. What is made of it are numbers in their limits, whatever they wrote. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stalls/stalls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 14, RANKS = 4 };

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "broken: %s\n", #condition); \
			abort(); \
		} \
	} while (0)

static void check_value(const struct taut_stalls_value *value, double most)
{
	MUST(value->low >= 0 && value->low <= value->value);
	MUST(value->value <= value->high && value->high <= most);
}

static void check_result(const struct taut_stalls *stalls)
{
	struct taut_stalls_result result;

	taut_stalls_result(stalls, &result);
	for (int i = 0; i < TAUT_STALLS_PHASES; i++)
		check_value(&result.rate[i], 1e308);
	check_value(&result.prepare_stall, 1);
	check_value(&result.fetch_stall, 1);
	check_value(&result.cached_stall, 1);
	MUST(result.mean_bytes >= 0 && isfinite(result.mean_bytes));
	MUST(result.spread_bytes >= 0 && isfinite(result.spread_bytes));
	MUST(result.cold_share >= -1 && result.cold_share <= 1);
	MUST(result.cached_share >= -1 && result.cached_share <= 1);
	MUST(result.faults.fault_ns >= 0 && isfinite(result.faults.fault_ns));
	MUST(result.faults.step >= -1 && isfinite(result.faults.step));
	MUST(result.faults.item >= -1 && isfinite(result.faults.item));
	MUST(result.faults.step_share >= -1 && result.faults.step_share <= 1);
	MUST(result.faults.item_share >= -1 && result.faults.item_share <= 1);
	MUST(result.n_hosts >= 1 && result.n_hosts <= result.n_ranks);
}

static void check_model(struct taut_stalls_model *model)
{
	struct taut_stalls_change change = { .rate = 2, .jobs = 2 };
	struct taut_stalls_epoch epoch;

	MUST(model->job.step_cores >= 0 && isfinite(model->job.step_cores));
	MUST(model->job.prepare_ns >= 0 && isfinite(model->job.prepare_ns));
	MUST(model->job.read_cpu_ns >= 0 && isfinite(model->job.read_cpu_ns));
	MUST(model->job.take_ns >= 0 && model->job.step_ns >= 0);
	MUST(model->job.idle_ns >= 0);
	MUST(model->host.crowd >= 0 && model->host.crowd <= 1);
	for (int i = 0; i < 3; i++)
		MUST(isfinite(model->error[i]));
	model->set.bytes = NULL;
	if (model->set.n_items > 100)
		model->set.n_items = 100;
	if (taut_stalls_predict(model, &change, &epoch, NULL))
		return;
	MUST(epoch.first_ns >= 0 && epoch.later_ns >= 0);
	MUST(epoch.fetch_ns >= 0 && epoch.prepare_ns >= 0);
}

/* Small ones alone: playing takes as long as there are samples in a batch. */
static void model(const struct taut_stalls *stalls)
{
	const struct tauti_measured *first = &stalls->ranks[0];
	struct taut_stalls_storage storage = {
		.rate_bytes_s = 1e6, .latency_ns = 1000, .n_served = 4 };
	struct taut_stalls_model made;
	taut_status status;

	if (first->batch > 2 || first->workers > 4 || first->depth > 8)
		return;
	status = taut_stalls_model(
		stalls, first->batch > 1 ? &storage : NULL, 1 << 20, &made, NULL);
	MUST(status == TAUT_OK || status == TAUT_EINVAL);
	if (!status)
		check_model(&made);
}

/* Up to the line '--', which is passed over. */
static size_t part_of(const char *text, size_t size)
{
	for (size_t i = 0; i + 3 <= size; i++)
		if (!memcmp(text + i, "--\n", 3) && (!i || text[i - 1] == '\n'))
			return i;
	return size;
}

static bool is_rank(const char *text, size_t size)
{
	return size > 11 && !memcmp(text, "taut-stalls", 11);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tauti_measured *ranks = calloc(RANKS, sizeof *ranks);
	const char *text = (const char *)data;
	struct taut_error err = { .message = "" };
	struct tauti_listed listed;
	struct taut_stalls *stalls;
	taut_status status = TAUT_OK;
	uint32_t n = 0, n_ranks;

	if (!ranks)
		abort();
	if (size > MOST)
		size = 0;
	while (n < RANKS && !status && (!n || n % ranks[0].n_ranks || is_rank(text, size))) {
		size_t bytes = part_of(text, size);

		status = tauti_measured_parse(text, bytes, "input", &ranks[n++], &err);
		MUST(status == TAUT_OK || status == TAUT_EFORMAT);
		MUST((status == TAUT_OK) == !err.message[0]);
		bytes += size - bytes >= 3 ? 3 : 0;
		text += bytes;
		size -= bytes;
	}
	MUST(tauti_listed_parse(text, size, &listed, &err) == TAUT_OK);
	if (status) {
		tauti_stalls_end_ranks(ranks, n);
		tauti_listed_fini(&listed);
		return 0;
	}
	n_ranks = ranks[0].n_ranks;
	if (n < n_ranks || n % n_ranks)
		n_ranks = n; /* too few of them: it is to be found */
	status = tauti_stalls_make(ranks, n_ranks, n / n_ranks, &listed, &stalls, &err);
	MUST(status == TAUT_OK || status == TAUT_EMATCH || status == TAUT_EFORMAT);
	if (status)
		return 0;
	check_result(stalls);
	model(stalls);
	taut_stalls_close(stalls);
	return 0;
}

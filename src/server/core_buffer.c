/* core_buffer.c - the memory of a server: what it holds, and what lands; see core.h.
 *
 * Landings never make it stand still: one half of the room is for pushes that a
 * sum waits for, of which one may always come; each of those ends by itself. The
 * other half is for pushes that come before their turn. */
#include "server/core.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t default_landing_bytes = (uint64_t)256 << 20;

static void stand_in_line(struct tauti_core *core, struct tauti_core_part *part)
{
	size_t at = core->line_from + core->line_count;

	if (part->starved)
		return;
	part->starved = true;
	core->line[at % core->n_parts] = (uint32_t)(part - core->parts);
	core->line_count++;
}

static bool has_room(
	const struct tauti_core *core, uint64_t bytes, bool in_turn)
{
	uint64_t half = (core->options.landing_bytes ?
		core->options.landing_bytes : default_landing_bytes) / 2;

	if (in_turn)
		return !core->turn_bytes || core->turn_bytes + bytes <= half;
	return core->ahead_bytes + bytes <= half;
}

bool tauti_landing_take(struct tauti_core *core, struct tauti_core_part *part,
	struct tauti_seat *seat, bool in_turn)
{
	uint64_t total;

	if (!has_room(core, part->bytes, in_turn)) {
		stand_in_line(core, part);
		return false;
	}
	seat->landing = malloc(part->bytes);
	if (!seat->landing) {
		tauti_core_fail(core, TAUT_ENOMEM, "out of memory for %zu "
			"bytes that a worker pushes", part->bytes);
		return false;
	}
	seat->ahead = !in_turn;
	*(in_turn ? &core->turn_bytes : &core->ahead_bytes) += part->bytes;
	total = core->turn_bytes + core->ahead_bytes;
	if (total > core->counts.most_landing_bytes)
		core->counts.most_landing_bytes = total;
	return true;
}

void tauti_landing_give(struct tauti_core *core, struct tauti_core_part *part,
	struct tauti_seat *seat)
{
	if (!seat->landing)
		return;
	if (seat->borrowed) {
		seat->landing = NULL;
		seat->borrowed = false;
		return;
	}
	free(seat->landing);
	seat->landing = NULL;
	*(seat->ahead ? &core->ahead_bytes : &core->turn_bytes) -= part->bytes;
}

bool tauti_landing_own(struct tauti_core *core, struct tauti_core_part *part,
	struct tauti_seat *seat)
{
	void *own = malloc(part->bytes);

	if (!own) {
		tauti_core_fail(core, TAUT_ENOMEM, "out of memory for %zu "
			"bytes that a worker has left", part->bytes);
		return false;
	}
	memcpy(own, seat->landing, part->bytes);
	seat->landing = own;
	seat->borrowed = false;
	seat->ahead = true;
	core->ahead_bytes += part->bytes;
	return true;
}

/* Buffers of the part's size that a part keeps. */
static uint64_t buffers_of(const struct tauti_core *core)
{
	return 1 + !core->options.async +
		tauti_update_moments(&core->options.update);
}

static taut_status check_memory(
	struct tauti_core *core, struct taut_error *reterr)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < core->n_parts; i++) {
		const struct tauti_core_part *part = &core->parts[i];

		if (part->bytes > SIZE_MAX / 8 ||
			bytes > UINT64_MAX / 8 - part->bytes)
			return taut_error_set(reterr, TAUT_EINVAL, -1,
				"parts of more bytes than there can be");
		bytes += part->bytes;
	}
	if (bytes > UINT64_MAX / 8)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"parts of more bytes than there can be");
	bytes *= buffers_of(core);
	core->counts.state_bytes = bytes;
	/* 2^20 parts of 4096 workers: far below 2^64. */
	bytes += core->n_parts * (sizeof *core->parts + sizeof *core->line +
		(uint64_t)core->options.n_workers * sizeof *core->seats);
	if (core->options.memory_bytes && bytes > core->options.memory_bytes)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "the keys need "
			"%" PRIu64 " bytes on this server, which may use %"
			PRIu64, bytes, core->options.memory_bytes);
	return TAUT_OK;
}

static bool allocate_part(struct tauti_core *core, struct tauti_core_part *part)
{
	uint32_t n = tauti_update_moments(&core->options.update);

	part->value = calloc(1, part->bytes);
	if (!core->options.async)
		part->sum = malloc(part->bytes);
	for (uint32_t i = 0; i < n; i++) {
		part->state.moments[i] = calloc(1, part->bytes);
		if (!part->state.moments[i])
			return false;
	}
	return part->value && (core->options.async || part->sum);
}

taut_status tauti_core_allocate(
	struct tauti_core *core, struct taut_error *reterr)
{
	uint32_t n_workers = core->options.n_workers;
	taut_status status = check_memory(core, reterr);
	bool has_all;

	if (status || !core->n_parts)
		return status;
	core->seats = calloc(core->n_parts * (size_t)n_workers,
		sizeof *core->seats);
	core->line = calloc(core->n_parts, sizeof *core->line);
	has_all = core->seats && core->line;
	for (size_t i = 0; has_all && i < core->n_parts; i++) {
		core->parts[i].seats = core->seats + i * n_workers;
		has_all = allocate_part(core, &core->parts[i]);
	}
	return has_all ? TAUT_OK : taut_error_set(reterr, TAUT_ENOMEM, -1,
		"out of memory for the %" PRIu64 " bytes of the keys",
		core->counts.state_bytes);
}

void tauti_core_free_parts(struct tauti_core *core)
{
	for (size_t i = 0; i < core->n_parts && core->parts; i++) {
		struct tauti_core_part *part = &core->parts[i];

		for (uint32_t w = 0; part->seats && w <
			core->options.n_workers; w++)
			if (!part->seats[w].borrowed)
				free(part->seats[w].landing);
		free(part->value);
		free(part->sum);
		free(part->state.moments[0]);
		free(part->state.moments[1]);
	}
	free(core->parts);
	free(core->seats);
	free(core->line);
	core->parts = NULL;
	core->seats = NULL;
	core->line = NULL;
	core->n_parts = 0;
}

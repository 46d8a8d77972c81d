/* trace_digest.h - one number for all that a trace says: two readings of the
 * same bytes must agree in it, whatever they held at once. */
#ifndef TAUT_FUZZ_TRACE_DIGEST_H
#define TAUT_FUZZ_TRACE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include <taut/trace.h>

static inline void digest_bytes(uint64_t *d, const void *bytes, size_t len)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < len; i++)
		*d = (*d ^ at[i]) * 0x100000001b3;
}

static inline void digest_number(uint64_t *d, int64_t number)
{
	digest_bytes(d, &number, sizeof number);
}

static inline void digest_text(uint64_t *d, const char *text)
{
	digest_bytes(d, text, strlen(text) + 1);
}

#define DIGEST_COLUMN(d, t, column) \
	digest_bytes(d, (t)->column, (t)->n_events * sizeof *(t)->column)

static inline void digest_columns(uint64_t *d, const struct taut_trace *t)
{
	DIGEST_COLUMN(d, t, start_ns);
	DIGEST_COLUMN(d, t, dur_ns);
	DIGEST_COLUMN(d, t, lane);
	DIGEST_COLUMN(d, t, correlation);
	DIGEST_COLUMN(d, t, sequence);
	DIGEST_COLUMN(d, t, args);
	DIGEST_COLUMN(d, t, kind);
	DIGEST_COLUMN(d, t, flags);
	for (size_t i = 0; i < t->n_events; i++) {
		digest_text(d, taut_trace_name(t, i));
		if (t->sizes)
			digest_text(d, taut_names_text(t->names, t->sizes[i]));
	}
	for (uint32_t i = 0; i < t->n_lanes; i++) {
		digest_number(d, t->lanes[i].kind);
		digest_number(d, t->lanes[i].pid);
		digest_number(d, t->lanes[i].tid);
		digest_text(d, taut_names_text(t->names, t->lanes[i].name));
	}
}

static inline void digest_comm(uint64_t *d, const struct taut_trace *t,
	const struct taut_comm_args *c)
{
	const uint32_t texts[] = { c->collective, c->group_name,
		c->group_desc, c->group_ranks, c->dtype };
	const int64_t numbers[] = { c->event, c->in_elements,
		c->out_elements, c->seq, c->comms_id, c->local_group,
		c->group_size, c->src_rank, c->dst_rank, c->rank_start,
		c->rank_stride };

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		digest_text(d, taut_names_text(t->names, texts[i]));
	digest_bytes(d, numbers, sizeof numbers);
}

static inline void digest_args(uint64_t *d, const struct taut_trace *t)
{
	for (size_t i = 0; i < t->n_syncs; i++) {
		const struct taut_sync_args *s = &t->syncs[i];
		const int64_t numbers[] = { s->event, s->kind, s->stream,
			s->wait_stream, s->wait_correlation, s->event_id };

		digest_bytes(d, numbers, sizeof numbers);
	}
	for (size_t i = 0; i < t->n_comms; i++)
		digest_comm(d, t, &t->comms[i]);
	for (size_t i = 0; i < t->n_copies; i++) {
		digest_number(d, t->copies[i].event);
		digest_number(d, t->copies[i].bytes);
	}
	for (size_t i = 0; i < t->n_tensors; i++) {
		digest_number(d, t->tensors[i].event);
		digest_number(d, t->tensors[i].bytes);
	}
	for (size_t i = 0; i < t->n_chunks; i++) {
		const struct taut_chunk_args *c = &t->chunks[i];
		const int64_t numbers[] = { c->event, c->peer, c->channel,
			c->step, c->sends, c->bytes, c->gpu_late_ns,
			c->peer_late_ns, c->network_ns };

		digest_bytes(d, numbers, sizeof numbers);
	}
	for (size_t i = 0; i < t->n_loads; i++) {
		const struct taut_load_args *l = &t->loads[i];
		const int64_t numbers[] = { l->event, l->samples, l->cpu_ns,
			l->queued_ns, l->others_ns, l->read_bytes,
			l->storage_bytes };

		digest_bytes(d, numbers, sizeof numbers);
	}
}

static inline void digest_rest(uint64_t *d, const struct taut_trace *t)
{
	for (size_t i = 0; i < t->n_memory; i++) {
		const struct taut_memory_event *m = &t->memory[i];
		const int64_t numbers[] = { m->at_ns, m->bytes, m->total,
			(int64_t)m->address, m->lane, m->device };

		digest_bytes(d, numbers, sizeof numbers);
	}
	for (size_t i = 0; i < t->n_devices; i++) {
		digest_number(d, t->devices[i].id);
		digest_text(d, t->devices[i].name);
		digest_number(d, t->devices[i].major);
		digest_number(d, t->devices[i].minor);
		digest_number(d, t->devices[i].multiprocessors);
	}
	for (size_t i = 0; i < t->n_facts; i++) {
		digest_text(d, t->facts[i].key);
		digest_text(d, t->facts[i].value);
	}
}

/* d: of what came before, or 0. */
static inline uint64_t trace_digest(uint64_t d, const struct taut_trace *t)
{
	const int64_t numbers[] = { (int64_t)t->n_events, t->n_lanes,
		t->base_ns, t->truncated, t->world_size,
		(int64_t)t->events_seen, (int64_t)t->events_lost,
		(int64_t)t->n_syncs, (int64_t)t->n_comms,
		(int64_t)t->n_copies, (int64_t)t->n_memory };

	digest_bytes(&d, numbers, sizeof numbers);
	digest_columns(&d, t);
	digest_args(&d, t);
	digest_rest(&d, t);
	return d;
}

#endif /* TAUT_FUZZ_TRACE_DIGEST_H */

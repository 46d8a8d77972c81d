/* byteps.c - the communication trace of BytePS (BYTEPS_TRACE_ON), one file a
 * worker: <dir>/<local rank>/comm.json.
 *
 * An event is one phase of one partition of a tensor: pid and args.name are
 * "Comm.<tensor>", tid is the partition's key, or "total" for all of it, and
 * name adds the phase (".PUSH"). Pushes and pulls move the bytes. */
#include <string.h>

#include "trace/format.h"
#include "trace/formats/chrome.h"
#include "trace/formats/tensors.h"

struct byteps {
	struct tauti_tensors tensors;
	bool has_parts; /* pushes or pulls, not only totals */
};

enum { FLAG_TOTAL = 1 << 7 }; /* of a span, until the end */

static const char total[16] = "total"; /* room to read eight bytes behind */

/* The name of the phase: what follows the tensor in the event's. */
static struct tauti_text phase_of(
	struct tauti_text name, struct tauti_text tensor)
{
	if (name.len > tensor.len && name.at[tensor.len] == '.' &&
		memcmp(name.at, tensor.at, tensor.len) == 0)
		return (struct tauti_text){ name.at + tensor.len + 1,
			name.len - tensor.len - 1 };
	return (struct tauti_text){ total, sizeof "total" - 1 };
}

/* "gradient_3 2097152 PUSH": pushes of one partition are numbered together. */
static uint32_t group_of(struct tauti_chrome *c, uint32_t tensor, int64_t key,
	const char *phase)
{
	const char *text = taut_arena_printf(c->builder->arena, "%s %lld %s",
		taut_names_text(c->builder->names, tensor), (long long)key,
		phase);
	return text ? taut_names_add(c->builder->names, text, strlen(text)) :
		      TAUT_NONE;
}

static bool set_kind(struct tauti_chrome *c, struct byteps *b,
	struct tauti_tensor_span *s, struct tauti_text phase, int64_t key)
{
	static const char *const moves[] = { "PUSH", "PULL" };
	static const char *const verbs[] = { "push", "pull" };
	s->flags = tauti_text_is(phase, "total") ? FLAG_TOTAL : 0;
	for (int i = 0; i < 2; i++) {
		if (!tauti_text_is(phase, moves[i]))
			continue;
		b->has_parts = s->is_comm = true;
		s->collective =
			taut_names_add(c->builder->names, verbs[i], 4);
		s->group = group_of(c, s->tensor, key, moves[i]);
	}
	return s->collective != TAUT_NONE && s->group != TAUT_NONE;
}

static bool byteps_event(
	struct tauti_chrome *c, const struct tauti_chrome_event *e)
{
	struct byteps *b = c->format;
	struct tauti_tensor_span s = { .elements = -1 };
	struct tauti_text tensor = tauti_chrome_string(c, e->pid);
	int64_t key = 0, dur_ns;
	if (e->phase != 'X' || !tauti_text_starts(tensor, "Comm."))
		return true;
	if (!tauti_chrome_span(c, e, &s.start_ns, &dur_ns))
		return true;
	s.end_ns = s.start_ns + dur_ns;
	struct tauti_text phase =
		phase_of(tauti_chrome_string(c, e->name), tensor);
	tauti_chrome_int(c, e->tid, &key);
	s.tensor = tauti_chrome_name(c, e->pid);
	s.name = tauti_chrome_text(c, phase);
	return s.tensor != TAUT_NONE && s.name != TAUT_NONE &&
	       set_kind(c, b, &s, phase, key) &&
	       tauti_tensors_add(&b->tensors, &s);
}

/* Without phases, the whole of a tensor is the operation. */
static bool byteps_finish(struct tauti_chrome *c)
{
	struct byteps *b = c->format;
	uint32_t verb = taut_names_add(c->builder->names, "push_pull", 9);
	for (size_t i = 0; i < b->tensors.spans.count; i++) {
		struct tauti_tensor_span *s = &b->tensors.spans.data[i];
		if (s->flags & FLAG_TOTAL && !b->has_parts) {
			s->is_comm = true;
			s->collective = verb;
			s->group = s->tensor;
		}
		s->flags = 0;
	}
	return verb != TAUT_NONE &&
	       tauti_tensors_finish(&b->tensors, c->builder) &&
	       (!c->builder->n_rows ||
		       tauti_builder_note(c->builder,
			       "a BytePS trace holds the communication of one "
			       "worker and nothing of what computes; a step is "
			       "from one operation of a tensor to its next") ==
			       TAUT_OK);
}

static const struct tauti_chrome_face face = {
	.what = "a BytePS trace",
	.event = byteps_event,
	.finish = byteps_finish,
};

static taut_status read_byteps(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct byteps b = { .has_parts = false };
	taut_status status =
		tauti_chrome_read(stream, builder, &face, &b, err);
	tauti_tensors_fini(&b.tensors);
	return status;
}

static bool probe_byteps(const char *head, size_t len)
{
	return (tauti_head_begins(head, len, '{') ||
		       tauti_head_begins(head, len, '[')) &&
	       (tauti_head_holds(head, len, "\"pid\": \"Comm.") ||
		       tauti_head_holds(head, len, "\"pid\":\"Comm."));
}

const struct tauti_format tauti_format_byteps = {
	.name = "byteps",
	.probe = probe_byteps,
	.read = read_byteps,
};

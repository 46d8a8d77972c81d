/* bytescheduler.c - the timeline of a ByteScheduler worker.
 *
 * A pid is a tensor; the name of B and E is the operation with what it does
 * glued to it: PUSH_PULLQUEUE while it waits its turn, PUSH_PULLCOMMUNICATION
 * while it is under way. E has the name, and spans of one tensor may cross.
 * The array is never closed. */
#include <string.h>

#include "trace/format.h"
#include "trace/formats/chrome.h"
#include "trace/formats/tensors.h"

struct scheduler {
	struct tauti_tensors tensors;
	struct tauti_opens opens;
	TAUT_VEC(uint32_t) names; /* of tensors, by pid */
	int64_t last_ns;
};

enum { MAX_PID = 1 << 24 };

enum { TAG_PHASE, TAG_COMM };

#define UNDER_WAY "COMMUNICATION"

static bool name_tensor(struct tauti_chrome *c, struct scheduler *s,
	const struct tauti_chrome_event *e)
{
	int64_t pid;
	uint32_t said = tauti_chrome_arg(c, e->args, "name");
	if (!said || !tauti_chrome_int(c, e->pid, &pid) || pid < 0 ||
		pid > MAX_PID)
		return true;
	uint32_t name = tauti_chrome_name(c, said);
	while (s->names.count <= (uint64_t)pid)
		if (!taut_vec_push(&s->names, 0))
			return false;
	s->names.data[pid] = name;
	return name != TAUT_NONE;
}

/* "PUSH_PULLCOMMUNICATION" is "push_pull"; at most 32 bytes. */
static uint32_t verb_of(struct tauti_builder *b, uint32_t name)
{
	char verb[33];
	const char *text = taut_names_text(b->names, name);
	size_t len = taut_names_length(b->names, name) - strlen(UNDER_WAY);
	if (len > sizeof verb - 1)
		len = sizeof verb - 1;
	for (size_t i = 0; i < len; i++)
		verb[i] = text[i] >= 'A' && text[i] <= 'Z' ?
			(char)(text[i] + 32) : text[i];
	return taut_names_add(b->names, verb, len);
}

/* Operations of one kind on one tensor are numbered together. */
static uint32_t group_of(
	struct tauti_builder *b, uint32_t tensor, uint32_t verb)
{
	const char *text = taut_arena_printf(b->arena, "%s %s",
		taut_names_text(b->names, tensor),
		taut_names_text(b->names, verb));
	return text ? taut_names_add(b->names, text, strlen(text)) : TAUT_NONE;
}

static bool add_span(struct tauti_chrome *c, struct scheduler *s, int64_t pid,
	const struct tauti_open *open, int64_t end_ns, uint8_t flags)
{
	struct tauti_tensor_span span = {
		.start_ns = open->start_ns,
		.end_ns = end_ns,
		.tensor = (uint64_t)pid < s->names.count ?
			s->names.data[pid] : 0,
		.name = open->name,
		.elements = -1,
		.flags = flags,
		.is_comm = open->tag == TAG_COMM,
	};
	if (end_ns < span.start_ns) {
		span.end_ns = span.start_ns;
		c->negative++;
	}
	if (span.is_comm) {
		span.collective = span.name = verb_of(c->builder, open->name);
		if (span.name == TAUT_NONE)
			return false;
		span.group = group_of(c->builder, span.tensor, span.name);
	}
	return span.group != TAUT_NONE &&
	       tauti_tensors_add(&s->tensors, &span);
}

static bool begin_or_end(struct tauti_chrome *c, struct scheduler *s,
	const struct tauti_chrome_event *e)
{
	struct tauti_open open = { .tag = TAG_PHASE };
	int64_t pid, at_ns;
	if (!tauti_chrome_time(c, e->ts, &at_ns))
		return true;
	if (!tauti_chrome_int(c, e->pid, &pid)) {
		tauti_chrome_lose(c, TAUTI_LOST_PLACE);
		return true;
	}
	uint32_t name = tauti_chrome_name(c, e->name);
	if (name == TAUT_NONE)
		return false;
	if (at_ns > s->last_ns)
		s->last_ns = at_ns;
	if (e->phase == 'E') {
		if (tauti_opens_pop(&s->opens, pid, 0, name, &open))
			return add_span(c, s, pid, &open, at_ns, 0);
		tauti_chrome_lose(c, TAUTI_LOST_NO_BEGIN);
		return true;
	}
	open.name = name;
	open.start_ns = at_ns;
	if (tauti_text_ends(tauti_chrome_string(c, e->name), UNDER_WAY))
		open.tag = TAG_COMM;
	return tauti_opens_push(&s->opens, pid, 0, &open);
}

static bool scheduler_event(
	struct tauti_chrome *c, const struct tauti_chrome_event *e)
{
	struct scheduler *s = c->format;
	switch (e->phase) {
	case 'B':
	case 'E':
		return begin_or_end(c, s, e);
	case 'M':
		return name_tensor(c, s, e);
	default:
		return true;
	}
}

static bool scheduler_finish(struct tauti_chrome *c)
{
	struct scheduler *s = c->format;
	struct tauti_open open;
	int64_t pid, none;
	while (tauti_opens_drain(&s->opens, &pid, &none, &open))
		if (!add_span(c, s, pid, &open, s->last_ns, TAUT_EVENT_CUT))
			return false;
	return tauti_tensors_finish(&s->tensors, c->builder) &&
	       (!c->builder->n_rows ||
		       tauti_builder_note(c->builder,
			       "a ByteScheduler timeline holds the "
			       "communication of one worker and nothing of "
			       "what computes; a step is from one operation of "
			       "a tensor to its next") == TAUT_OK);
}

static const struct tauti_chrome_face face = {
	.what = "a ByteScheduler timeline",
	.event = scheduler_event,
	.finish = scheduler_finish,
	.left_open = true,
};

static taut_status read_scheduler(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct scheduler s = { .last_ns = INT64_MIN };
	taut_status status =
		tauti_chrome_read(stream, builder, &face, &s, err);
	tauti_tensors_fini(&s.tensors);
	tauti_opens_fini(&s.opens);
	taut_vec_free(&s.names);
	return status;
}

static bool probe_scheduler(const char *head, size_t len)
{
	return tauti_head_begins(head, len, '[') &&
	       (tauti_head_holds(head, len, UNDER_WAY "\"") ||
		       tauti_head_holds(head, len, "PUSH_PULLQUEUE\""));
}

const struct tauti_format tauti_format_bytescheduler = {
	.name = "bytescheduler",
	.probe = probe_scheduler,
	.read = read_scheduler,
};

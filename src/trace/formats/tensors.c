/* tensors.c - lanes, numbers and steps of communication timelines. */
#include "trace/formats/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STREAMS = 256 }; /* what overlaps more stands on the last one */

bool tauti_tensors_add(
	struct tauti_tensors *t, const struct tauti_tensor_span *span)
{
	return taut_vec_push(&t->spans, *span);
}

void tauti_tensors_fini(struct tauti_tensors *t)
{
	taut_vec_free(&t->spans);
}

/* Operations first; those of one group side by side, by time. */
static int by_group(const void *a, const void *b)
{
	const struct tauti_tensor_span *x = a, *y = b;
	if (x->is_comm != y->is_comm)
		return x->is_comm ? -1 : 1;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* By start, longer first, then by what does not depend on the sort. */
static int by_start(const void *a, const void *b)
{
	const struct tauti_tensor_span *x = a, *y = b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns > y->end_ns ? -1 : 1;
	if (x->tensor != y->tensor)
		return x->tensor < y->tensor ? -1 : 1;
	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return (x->seq > y->seq) - (x->seq < y->seq);
}

/* The group whose operations mark the steps; *ret_n 0: there is none. */
struct anchor {
	size_t first, n;
};

/* Numbers the operations within their groups. */
static struct anchor number(struct tauti_tensors *t)
{
	struct anchor best = { 0, 0 };
	struct tauti_tensor_span *s = t->spans.data;
	for (size_t i = 0; i < t->spans.count && s[i].is_comm;) {
		size_t n = 1;
		s[i].seq = 0;
		while (i + n < t->spans.count && s[i + n].is_comm &&
			s[i + n].group == s[i].group) {
			s[i + n].seq = (int64_t)n;
			n++;
		}
		if (n > best.n || (n == best.n &&
			s[i].start_ns < s[best.first].start_ns))
			best = (struct anchor){ i, n };
		i += n;
	}
	return best;
}

static uint32_t name_lane(
	struct tauti_builder *b, uint32_t lane, const char *text, size_t len)
{
	uint32_t name = taut_names_add(b->names, text, len);
	if (name == TAUT_NONE || lane == TAUT_NONE)
		return TAUT_NONE;
	b->lanes.all.data[lane].name = name;
	return lane;
}

static uint32_t stream_lane(struct tauti_builder *b, uint32_t stream)
{
	char text[48];
	int len = snprintf(
		text, sizeof text, "communication %u", (unsigned)stream + 1);
	return name_lane(b,
		tauti_lanes_add(&b->lanes, TAUTI_ROLE_STREAM, 0, stream), text,
		(size_t)len);
}

static bool add_mark(struct tauti_builder *b, uint32_t name, int64_t start_ns,
	int64_t end_ns, uint32_t sequence)
{
	uint32_t lane = name_lane(b,
		tauti_lanes_add(&b->lanes, TAUTI_ROLE_THREAD, 0, 0),
		"not recorded", 12);
	struct tauti_row *row = tauti_builder_row(b);
	if (!row || lane == TAUT_NONE || name == TAUT_NONE)
		return false;
	row->start_ns = start_ns;
	row->dur_ns = end_ns - start_ns;
	row->name = name;
	row->lane = lane;
	row->kind = sequence ? TAUT_KIND_STEP : TAUT_KIND_ANNOTATION;
	row->sequence = sequence;
	return true;
}

static bool add_steps(struct tauti_tensors *t, struct tauti_builder *b,
	struct anchor anchor)
{
	const struct tauti_tensor_span *s = t->spans.data + anchor.first;
	uint32_t name = taut_names_add(b->names, "step", 4);
	for (size_t i = 0; i + 1 < anchor.n; i++)
		if (!add_mark(b, name, s[i].start_ns, s[i + 1].start_ns,
			    (uint32_t)i + 1))
			return false;
	return true;
}

/* Where no tensor comes twice there are no steps, and one range over all. */
static bool add_whole(struct tauti_tensors *t, struct tauti_builder *b)
{
	const struct tauti_tensor_span *s = t->spans.data;
	int64_t start_ns = s->start_ns, end_ns = s->end_ns;
	for (size_t i = 1; i < t->spans.count; i++) {
		start_ns = s[i].start_ns < start_ns ? s[i].start_ns : start_ns;
		end_ns = s[i].end_ns > end_ns ? s[i].end_ns : end_ns;
	}
	return add_mark(b, taut_names_add(b->names, "timeline", 8), start_ns,
		end_ns, 0);
}

/* "ALLREDUCE grad_3" */
static uint32_t full_name(
	struct tauti_builder *b, const struct tauti_tensor_span *s)
{
	const char *name = taut_names_text(b->names, s->name);
	size_t len = taut_names_length(b->names, s->name);
	size_t more = taut_names_length(b->names, s->tensor);
	if (!more)
		return s->name;
	char *text = malloc(len + more + 2);
	if (!text)
		return TAUT_NONE;
	memcpy(text, name, len);
	text[len] = ' ';
	memcpy(text + len + 1, taut_names_text(b->names, s->tensor), more);
	uint32_t id = taut_names_add(b->names, text, len + more + 1);
	free(text);
	return id;
}

static bool add_args(struct tauti_builder *b, struct tauti_row *row,
	const struct tauti_tensor_span *s)
{
	struct taut_comm_args args = {
		.collective = s->collective,
		.group_name = s->group,
		.dtype = s->dtype,
		.in_elements = s->elements,
		.out_elements = s->elements,
		.seq = s->seq,
		.comms_id = -1,
		.local_group = -1,
		.group_size = -1,
		.src_rank = -1,
		.dst_rank = -1,
		.rank_start = -1,
		.rank_stride = -1,
	};
	row->args = (uint32_t)b->comms.count;
	return taut_vec_push(&b->comms, args);
}

static uint32_t tensor_lane(struct tauti_builder *b, uint32_t tensor)
{
	uint32_t lane = tauti_lanes_add(
		&b->lanes, TAUTI_ROLE_TEXT, -1 - (int64_t)tensor, 0);
	if (lane != TAUT_NONE)
		b->lanes.all.data[lane].name = tensor;
	return lane;
}

static bool add_row(struct tauti_builder *b, const struct tauti_tensor_span *s,
	uint32_t lane, uint32_t name)
{
	struct tauti_row *row = tauti_builder_row(b);
	if (!row || lane == TAUT_NONE || name == TAUT_NONE)
		return false;
	row->start_ns = s->start_ns;
	row->dur_ns = s->end_ns - s->start_ns;
	row->name = name;
	row->lane = lane;
	row->flags = s->flags;
	row->kind = s->is_comm ? TAUT_KIND_COMM : TAUT_KIND_OTHER;
	return !s->is_comm || add_args(b, row, s);
}

/* The first stream that is free at start; taken until end. */
static uint32_t take_stream(
	int64_t *free_at, uint32_t *n, const struct tauti_tensor_span *s)
{
	uint32_t i = 0;
	while (i < *n && i + 1 < MAX_STREAMS && free_at[i] > s->start_ns)
		i++;
	if (i == *n)
		free_at[(*n)++] = INT64_MIN;
	if (s->end_ns > free_at[i])
		free_at[i] = s->end_ns;
	return i;
}

bool tauti_tensors_finish(struct tauti_tensors *t, struct tauti_builder *b)
{
	int64_t free_at[MAX_STREAMS];
	uint32_t n_streams = 0;
	if (!t->spans.count)
		return true;
	qsort(t->spans.data, t->spans.count, sizeof *t->spans.data, by_group);
	struct anchor anchor = number(t);
	if (!(anchor.n > 1 ? add_steps(t, b, anchor) : add_whole(t, b)))
		return false;
	qsort(t->spans.data, t->spans.count, sizeof *t->spans.data, by_start);
	for (size_t i = 0; i < t->spans.count; i++) {
		const struct tauti_tensor_span *s = &t->spans.data[i];
		bool ok = s->is_comm ?
			add_row(b, s, stream_lane(b,
				take_stream(free_at, &n_streams, s)),
				full_name(b, s)) :
			add_row(b, s, tensor_lane(b, s->tensor), s->name);
		if (!ok)
			return false;
	}
	return true;
}

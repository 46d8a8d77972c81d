/* horovod.c - the timeline that Horovod writes (HOROVOD_TIMELINE).
 *
 * Rank 0 alone writes it. A pid is a tensor, and its B and E make a stack: E
 * has no name. First the ranks agree that all of them have the tensor
 * (NEGOTIATE_..., and inside of it an X named after each rank when it asks);
 * then the operation follows, with its phases inside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/format.h"
#include "trace/formats/chrome.h"
#include "trace/formats/tensors.h"
#include "trace/json/number.h"

enum { MAX_RANK = 1 << 20, MAX_PID = 1 << 24 };

struct arrival {
	int64_t at_ns;
	int32_t rank;
	uint32_t next; /* of the same tensor, or of the free ones; index + 1 */
};

struct tensor {
	uint32_t name;
	uint32_t arrivals; /* of its open negotiation; index + 1 */
};

struct rank_tally {
	uint64_t last;	  /* negotiations in which it came last */
	int64_t delay_ns; /* by which it then was behind the one before */
};

struct horovod {
	struct tauti_tensors tensors;
	struct tauti_opens opens;
	TAUT_VEC(struct tensor) by_pid;
	TAUT_VEC(struct arrival) arrivals; /* of open negotiations */
	uint32_t free_arrival;		   /* index + 1 */
	TAUT_VEC(struct rank_tally) ranks;
	uint64_t negotiations; /* by more than one rank */
	int64_t last_ns; /* of all events */
};

enum { DEPTH_TOP, DEPTH_INSIDE, DEPTH_NEGOTIATE }; /* tags of open spans */

static uint32_t tensor_of(const struct horovod *h, int64_t pid)
{
	return pid >= 0 && (uint64_t)pid < h->by_pid.count ?
		h->by_pid.data[pid].name : 0;
}

/* The tensor of a pid from 0 to MAX_PID. NULL: no memory. */
static struct tensor *add_tensor(struct horovod *h, int64_t pid)
{
	while (h->by_pid.count <= (uint64_t)pid)
		if (!taut_vec_push(&h->by_pid, ((struct tensor){ 0, 0 })))
			return NULL;
	return &h->by_pid.data[pid];
}

/* --- metadata --------------------------------------------------------------- */

static bool name_tensor(struct tauti_chrome *c, struct horovod *h,
	const struct tauti_chrome_event *e)
{
	int64_t pid, epoch_us;
	uint32_t said = tauti_chrome_arg(c, e->args, "name");
	uint32_t epoch = tauti_chrome_arg(
		c, e->args, "start_time_since_epoch_in_micros");
	if (tauti_chrome_int(c, epoch, &epoch_us) && epoch_us >= 0 &&
		epoch_us <= TAUTI_TIME_LIMIT_NS / 1000)
		c->builder->base_ns = epoch_us * 1000;
	if (!said || !tauti_chrome_int(c, e->pid, &pid) || pid < 0 ||
		pid > MAX_PID)
		return true;
	uint32_t name = tauti_chrome_name(c, said);
	struct tensor *tensor = add_tensor(h, pid);
	if (!tensor || name == TAUT_NONE)
		return false;
	tensor->name = name;
	return true;
}

/* --- negotiation ------------------------------------------------------------ */

static bool add_arrival(struct horovod *h, struct tensor *tensor,
	const struct arrival *arrival)
{
	uint32_t at = h->free_arrival ? h->free_arrival :
					(uint32_t)h->arrivals.count + 1;
	if (!h->free_arrival && !taut_vec_push(&h->arrivals, *arrival))
		return false;
	if (h->free_arrival)
		h->free_arrival = h->arrivals.data[at - 1].next;
	h->arrivals.data[at - 1] = *arrival;
	h->arrivals.data[at - 1].next = tensor->arrivals;
	tensor->arrivals = at;
	return true;
}

static bool arrive(struct tauti_chrome *c, struct horovod *h,
	const struct tauti_chrome_event *e)
{
	struct arrival a = { 0 };
	int64_t rank, pid;
	if (!tauti_chrome_int(c, e->name, &rank) || rank < 0 ||
		rank >= MAX_RANK || !tauti_chrome_int(c, e->pid, &pid) ||
		pid < 0 || pid > MAX_PID)
		return true;
	if (!tauti_chrome_time(c, e->ts, &a.at_ns))
		return true;
	a.rank = (int32_t)rank;
	while (h->ranks.count <= (uint64_t)rank)
		if (!taut_vec_push(&h->ranks, ((struct rank_tally){ 0 })))
			return false;
	struct tensor *tensor = add_tensor(h, pid);
	return tensor && add_arrival(h, tensor, &a);
}

static uint32_t rank_lane(struct tauti_builder *b, int32_t rank)
{
	char text[48];
	int len = snprintf(text, sizeof text, "rank %d waits for the others",
		(int)rank);
	uint32_t name = taut_names_add(b->names, text, (size_t)len);
	uint32_t lane = tauti_lanes_add(&b->lanes, TAUTI_ROLE_OTHER, rank, 0);
	if (name == TAUT_NONE || lane == TAUT_NONE)
		return TAUT_NONE;
	b->lanes.all.data[lane].name = name;
	return lane;
}

static bool add_wait(struct tauti_builder *b, const struct arrival *a,
	int64_t until_ns, uint32_t tensor)
{
	uint32_t lane = rank_lane(b, a->rank);
	struct tauti_row *row = tauti_builder_row(b);
	if (!row || lane == TAUT_NONE)
		return false;
	row->start_ns = a->at_ns;
	row->dur_ns = until_ns - a->at_ns;
	row->name = tensor;
	row->lane = lane;
	return true;
}

/* All ranks have asked: who came last, and how long did the others wait? */
static bool settle_negotiation(
	struct tauti_chrome *c, struct horovod *h, int64_t pid)
{
	if (pid < 0 || (uint64_t)pid >= h->by_pid.count)
		return true;
	struct tensor *tensor = &h->by_pid.data[pid];
	int64_t last_ns = INT64_MIN, before_ns = INT64_MIN;
	int32_t last = 0;
	size_t n = 0;
	for (uint32_t i = tensor->arrivals; i; n++) {
		const struct arrival *a = &h->arrivals.data[i - 1];
		before_ns = a->at_ns > last_ns ? last_ns :
			a->at_ns > before_ns ? a->at_ns : before_ns;
		last = a->at_ns > last_ns ? a->rank : last;
		last_ns = a->at_ns > last_ns ? a->at_ns : last_ns;
		i = a->next;
	}
	while (tensor->arrivals) {
		struct arrival *a = &h->arrivals.data[tensor->arrivals - 1];
		uint32_t next = a->next;
		if (!add_wait(c->builder, a, last_ns, tensor->name))
			return false;
		a->next = h->free_arrival;
		h->free_arrival = tensor->arrivals;
		tensor->arrivals = next;
	}
	if (n < 2)
		return true;
	h->negotiations++;
	h->ranks.data[last].last++;
	h->ranks.data[last].delay_ns += last_ns - before_ns;
	return true;
}

/* --- operations ------------------------------------------------------------- */

static bool begin(struct tauti_chrome *c, struct horovod *h,
	const struct tauti_chrome_event *e)
{
	struct tauti_open open = { .tag = DEPTH_TOP };
	int64_t pid;
	if (!tauti_chrome_time(c, e->ts, &open.start_ns))
		return true;
	if (!tauti_chrome_int(c, e->pid, &pid)) {
		tauti_chrome_lose(c, TAUTI_LOST_PLACE);
		return true;
	}
	uint32_t key = tauti_lanes_find(
		&h->opens.keys, TAUTI_ROLE_OTHER, pid, 0);
	if (key != TAUT_NONE && h->opens.keys.all.data[key].open != TAUT_NONE)
		open.tag = DEPTH_INSIDE;
	else if (tauti_text_starts(
			 tauti_chrome_string(c, e->name), "NEGOTIATE_"))
		open.tag = DEPTH_NEGOTIATE;
	open.name = tauti_chrome_name(c, e->name);
	if (open.start_ns > h->last_ns)
		h->last_ns = open.start_ns;
	return open.name != TAUT_NONE &&
	       tauti_opens_push(&h->opens, pid, 0, &open);
}

/* "[256, 10]" holds 2560 elements, "[]" one; -1: it cannot be told. */
static int64_t count_elements(struct tauti_text shape)
{
	int64_t n = 1;
	for (uint32_t i = 0; i < shape.len;) {
		int64_t extent = 0;
		uint32_t digits = 0;
		for (; i < shape.len && shape.at[i] >= '0' &&
			shape.at[i] <= '9' && digits < 15; i++, digits++)
			extent = extent * 10 + (shape.at[i] - '0');
		if (digits && extent && n > INT64_MAX / extent)
			return -1;
		if (digits)
			n *= extent;
		else
			i++;
	}
	return shape.len ? n : -1;
}

static bool add_span(struct tauti_chrome *c, struct horovod *h, int64_t pid,
	const struct tauti_open *open, int64_t end_ns, uint32_t args)
{
	struct tauti_tensor_span s = {
		.start_ns = open->start_ns,
		.end_ns = end_ns,
		.tensor = tensor_of(h, pid),
		.name = open->name,
		.elements = -1,
		.is_comm = open->tag == DEPTH_TOP,
	};
	if (end_ns < s.start_ns) {
		s.end_ns = s.start_ns;
		c->negative++;
	}
	if (s.is_comm) {
		s.group = s.tensor;
		s.collective = s.name;
		s.dtype = tauti_chrome_name(
			c, tauti_chrome_arg(c, args, "dtype"));
		s.elements = count_elements(tauti_chrome_string(
			c, tauti_chrome_arg(c, args, "shape")));
	}
	return s.dtype != TAUT_NONE && tauti_tensors_add(&h->tensors, &s);
}

static bool end(struct tauti_chrome *c, struct horovod *h,
	const struct tauti_chrome_event *e)
{
	struct tauti_open open;
	int64_t pid, at_ns;
	if (!tauti_chrome_time(c, e->ts, &at_ns))
		return true;
	if (!tauti_chrome_int(c, e->pid, &pid)) {
		tauti_chrome_lose(c, TAUTI_LOST_PLACE);
		return true;
	}
	if (at_ns > h->last_ns)
		h->last_ns = at_ns;
	if (!tauti_opens_pop(&h->opens, pid, 0, TAUT_NONE, &open)) {
		tauti_chrome_lose(c, TAUTI_LOST_NO_BEGIN);
		return true;
	}
	if (open.tag == DEPTH_NEGOTIATE && !settle_negotiation(c, h, pid))
		return false;
	return add_span(c, h, pid, &open, at_ns, e->args);
}

static bool horovod_event(
	struct tauti_chrome *c, const struct tauti_chrome_event *e)
{
	struct horovod *h = c->format;
	switch (e->phase) {
	case 'B':
		return begin(c, h, e);
	case 'E':
		return end(c, h, e);
	case 'X':
		return arrive(c, h, e);
	case 'M':
		return name_tensor(c, h, e);
	default: /* CYCLE_START */
		return true;
	}
}

/* --- the end ---------------------------------------------------------------- */

/* What the file's end cut, until its last event. */
static bool close_open(struct tauti_chrome *c, struct horovod *h)
{
	struct tauti_open open;
	int64_t pid, none;
	while (tauti_opens_drain(&h->opens, &pid, &none, &open)) {
		size_t at = h->tensors.spans.count;
		if (!add_span(c, h, pid, &open, h->last_ns, 0))
			return false;
		h->tensors.spans.data[at].flags = TAUT_EVENT_CUT;
	}
	return true;
}

static bool tell_ranks(struct tauti_chrome *c, const struct horovod *h)
{
	struct tauti_builder *b = c->builder;
	char key[64], value[128];
	size_t worst = 0;
	if (!h->negotiations)
		return true;
	for (size_t i = 0; i < h->ranks.count; i++) {
		const struct rank_tally *r = &h->ranks.data[i];
		snprintf(key, sizeof key, "horovod.rank%zu.last", i);
		int len = snprintf(value, sizeof value,
			"%llu of %llu, by %.3f ms in all",
			(unsigned long long)r->last,
			(unsigned long long)h->negotiations,
			(double)r->delay_ns / 1e6);
		if (tauti_builder_fact(b, key, value, (size_t)len) != TAUT_OK)
			return false;
		if (r->delay_ns > h->ranks.data[worst].delay_ns)
			worst = i;
	}
	return tauti_builder_note(b,
		"Horovod negotiated %llu times; rank %zu came last %llu "
		"times, %.3f ms behind the one before in all",
		(unsigned long long)h->negotiations, worst,
		(unsigned long long)h->ranks.data[worst].last,
		(double)h->ranks.data[worst].delay_ns / 1e6) == TAUT_OK;
}

static bool horovod_finish(struct tauti_chrome *c)
{
	struct horovod *h = c->format;
	struct tauti_builder *b = c->builder;
	if (!close_open(c, h) || !tauti_tensors_finish(&h->tensors, b) ||
		!tell_ranks(c, h))
		return false;
	b->rank = 0;
	if (h->ranks.count > 1)
		b->world_size = (int32_t)h->ranks.count;
	return !b->n_rows || tauti_builder_note(b,
		"a Horovod timeline holds the communication of rank 0 and "
		"nothing of what computes; a step is from one operation of a "
		"tensor to its next") == TAUT_OK;
}

static const struct tauti_chrome_face face = {
	.what = "a Horovod timeline",
	.event = horovod_event,
	.finish = horovod_finish,
	.left_open = true,
};

static taut_status read_horovod(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct horovod h = { .last_ns = INT64_MIN };
	taut_status status =
		tauti_chrome_read(stream, builder, &face, &h, err);
	tauti_tensors_fini(&h.tensors);
	tauti_opens_fini(&h.opens);
	taut_vec_free(&h.by_pid);
	taut_vec_free(&h.arrivals);
	taut_vec_free(&h.ranks);
	return status;
}

static bool probe_horovod(const char *head, size_t len)
{
	return tauti_head_begins(head, len, '[') &&
	       (tauti_head_holds(head, len,
			"\"start_time_since_epoch_in_micros\"") ||
		tauti_head_holds(head, len, "\"NEGOTIATE_"));
}

const struct tauti_format tauti_format_horovod = {
	.name = "horovod",
	.probe = probe_horovod,
	.read = read_horovod,
};

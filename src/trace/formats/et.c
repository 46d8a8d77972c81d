/* et.c - the nodes of an execution trace.
 *
 * Until schema 1.0.1 a node's keys lie flat; since 1.0.2 the arguments are
 * inputs.values and inputs.types, and the rest is in attrs, an array of
 * {name, type, value}. docs/formats.md has examples. */
#include "trace/formats/et.h"

#include <stdlib.h>
#include <string.h>

#include "trace/format.h"
#include "trace/formats/kineto.h"
#include "trace/json/items.h"
#include "trace/json/number.h"
#include "trace/json/string.h"
#include "trace/stream.h"

static const struct taut_comm_args nothing = {
	.in_elements = -1, .out_elements = -1, .seq = -1, .comms_id = -1,
	.local_group = -1, .group_size = -1, .src_rank = -1, .dst_rank = -1,
	.rank_start = -1, .rank_stride = -1,
};

/* --- values ------------------------------------------------------------------ */

/* The value of a key of the node, flat or among its attributes; 0: none. */
static uint32_t value_of(
	const struct tauti_window *w, uint32_t node, const char *key)
{
	uint32_t at = tauti_items_value(w, node, key), attr, name;
	struct tauti_text text;
	if (at)
		return at;
	at = tauti_items_value(w, node, "attrs");
	while (at && tauti_items_element(w, &at, &attr)) {
		name = tauti_items_value(w, attr, "name");
		if (name && tauti_token_string(w, name, &text) &&
			tauti_items_is(text, key))
			return tauti_items_value(w, attr, "value");
	}
	return 0;
}

static int64_t number(const struct tauti_window *w, uint32_t i)
{
	int64_t value;
	return i && tauti_number_int(tauti_token_at(w, i), &value) &&
			value >= 0 ? value : -1;
}

static int32_t number32(const struct tauti_window *w, uint32_t i)
{
	int64_t value = number(w, i);
	return value > INT32_MAX ? -1 : (int32_t)value;
}

/* The id of the string at token i, 0 where there is none; TAUT_NONE. */
static uint32_t text_at(
	struct et *et, const struct tauti_window *w, uint32_t i)
{
	struct tauti_text text;
	if (!i || !tauti_token_string(w, i, &text))
		return 0;
	taut_vec_clear(&et->scratch);
	if (!taut_vec_reserve(&et->scratch, TAUTI_STRING_ROOM(text.len)))
		return TAUT_NONE;
	size_t len = tauti_string_decode(text.at, text.len, et->scratch.data);
	return taut_names_add(et->builder->names, et->scratch.data, len);
}

/* Element n of the array at token i; 0. */
static uint32_t element(const struct tauti_window *w, uint32_t i, unsigned n)
{
	uint32_t value = 0;
	while (i && tauti_items_element(w, &i, &value))
		if (!n--)
			return value;
	return 0;
}

/* --- collectives ---------------------------------------------------------------- */

/* The elements of the tensors at token i: [id, storage, offset, elements,
 * bytes of one, device], or arrays of these; -1: it is none. */
static int64_t elements(const struct tauti_window *w, uint32_t i, int depth)
{
	int64_t sum = 0, one;
	uint32_t at = i, value;
	bool any = false;
	if (!i || tauti_token_byte(w, i) != '[')
		return -1;
	if (number(w, element(w, i, 0)) >= 0)
		return number(w, element(w, i, 3));
	while (depth && tauti_items_element(w, &at, &value)) {
		one = elements(w, value, depth - 1);
		if (one < 0 || __builtin_add_overflow(sum, one, &sum))
			return -1;
		any = true;
	}
	return any ? sum : -1;
}

/* "GenericList[Tensor(c10::Half)]" is "Half"; 0: not told. */
static uint32_t dtype(struct et *et, const struct tauti_window *w, uint32_t i)
{
	struct tauti_text text;
	const char *begin, *end, *name;
	if (!i || !tauti_token_string(w, i, &text))
		return 0;
	begin = memmem(text.at, text.len, "Tensor(", 7);
	if (!begin)
		return 0;
	begin += 7;
	end = memchr(begin, ')', (size_t)(text.at + text.len - begin));
	name = end ? tauti_kineto_dtype((struct tauti_text){ begin,
			     (uint32_t)(end - begin) }) : NULL;
	return name ? taut_names_add(et->builder->names, name, strlen(name)) :
		      0;
}

/* Arguments by position, as in Kineto's Concrete Inputs: tensors, sequence,
 * group, rank, collective, splits in and out, then the size; where the group
 * is [name, description], the first rank and the stride before it. */
static void take_positions(struct et *et, const struct tauti_window *w,
	uint32_t values, struct taut_comm_args *comm)
{
	uint32_t group = element(w, values, 2);
	bool named = group && tauti_token_byte(w, group) == '[';
	comm->in_elements = elements(w, element(w, values, 0), 2);
	comm->seq = number(w, element(w, values, 1));
	comm->collective = text_at(et, w, element(w, values, 4));
	comm->group_size = number32(w, element(w, values, named ? 9 : 7));
	if (named) {
		comm->group_name = text_at(et, w, element(w, group, 0));
		comm->group_desc = text_at(et, w, element(w, group, 1));
		comm->rank_start = number32(w, element(w, values, 7));
		comm->rank_stride = number32(w, element(w, values, 8));
	} else {
		comm->local_group = number(w, group);
	}
}

static void or_text(struct et *et, const struct tauti_window *w,
	uint32_t node, const char *key, uint32_t *ret_id)
{
	uint32_t value = value_of(w, node, key);
	if (value && *ret_id != TAUT_NONE)
		*ret_id = text_at(et, w, value);
}

static void or_number(const struct tauti_window *w, uint32_t node,
	const char *key, int64_t *ret_number)
{
	uint32_t value = value_of(w, node, key);
	if (value)
		*ret_number = number(w, value);
}

static void or_number32(const struct tauti_window *w, uint32_t node,
	const char *key, int32_t *ret_number)
{
	uint32_t value = value_of(w, node, key);
	if (value)
		*ret_number = number32(w, value);
}

/* What newer traces say plainly. */
static void take_attributes(struct et *et, const struct tauti_window *w,
	uint32_t node, struct taut_comm_args *comm)
{
	or_text(et, w, node, "collective_name", &comm->collective);
	or_text(et, w, node, "dtype", &comm->dtype);
	or_text(et, w, node, "pg_name", &comm->group_name);
	or_text(et, w, node, "pg_desc", &comm->group_desc);
	or_number(w, node, "in_msg_nelems", &comm->in_elements);
	or_number(w, node, "out_msg_nelems", &comm->out_elements);
	or_number32(w, node, "pg_size", &comm->group_size);
	or_number32(w, node, "global_rank_start", &comm->rank_start);
	or_number32(w, node, "global_rank_stride", &comm->rank_stride);
	or_number32(w, node, "src_rank", &comm->src_rank);
	or_number32(w, node, "dst_rank", &comm->dst_rank);
}

/* False: no memory. */
static bool add_comm(struct et *et, const struct tauti_window *w,
	uint32_t node, struct et_node *ret_node)
{
	struct taut_comm_args comm = nothing;
	uint32_t inputs = tauti_items_value(w, node, "inputs");
	uint32_t types = tauti_items_value(w, node, "input_types");
	if (inputs && tauti_token_byte(w, inputs) == '{') {
		types = tauti_items_value(w, inputs, "types");
		inputs = tauti_items_value(w, inputs, "values");
	}
	/* Without tensors it marks a wait, not a transfer. */
	uint32_t first = element(w, inputs, 0);
	if (!first || tauti_token_byte(w, first) != '[')
		return true;
	take_positions(et, w, inputs, &comm);
	comm.dtype = dtype(et, w, element(w, types, 0));
	take_attributes(et, w, node, &comm);
	if (comm.collective == TAUT_NONE || comm.dtype == TAUT_NONE ||
		comm.group_name == TAUT_NONE || comm.group_desc == TAUT_NONE)
		return false;
	ret_node->comm = (uint32_t)et->comms.count;
	return taut_vec_push(&et->comms, comm);
}

/* --- process groups ---------------------------------------------------------------- */

/* "[0, 2]" as it stands; 0: all ranks, or none told. */
static uint32_t ranks_at(
	struct et *et, const struct tauti_window *w, uint32_t i)
{
	uint32_t end = i;
	if (!i || tauti_token_byte(w, i) != '[' ||
		tauti_token_byte(w, i + 1) == ']' ||
		!tauti_token_skip(w, &end))
		return 0;
	return taut_names_add(et->builder->names, tauti_token_at(w, i),
		w->at[end - 1] + 1 - w->at[i]);
}

static bool add_group(
	struct et *et, const struct tauti_window *w, uint32_t i)
{
	struct et_group group = {
		.name = text_at(et, w, tauti_items_value(w, i, "pg_name")),
		.desc = text_at(et, w, tauti_items_value(w, i, "pg_desc")),
		.ranks = ranks_at(et, w, tauti_items_value(w, i, "ranks")),
		.address = number(w, tauti_items_value(w, i, "backend_id")),
		.size = number32(w, tauti_items_value(w, i, "group_size")),
	};
	return group.name != TAUT_NONE && group.desc != TAUT_NONE &&
	       group.ranks != TAUT_NONE && taut_vec_push(&et->groups, group);
}

/* The groups are an array of objects, written into a string. */
static bool take_group_text(struct et *et, const char *text, size_t len)
{
	struct tauti_stream *stream = NULL;
	struct tauti_window w;
	struct taut_error err = { .code = TAUT_OK };
	uint32_t at = 0, value, end = 0;
	bool ok = true;
	if (tauti_stream_open_memory("", text, len, &stream, &err) != TAUT_OK)
		return err.code != TAUT_ENOMEM;
	if (tauti_window_init(&w, stream, len + 64, &err) == TAUT_OK) {
		bool whole = tauti_token_skip(&w, &end) && end <= w.n;
		while (ok && whole && tauti_items_element(&w, &at, &value))
			ok = add_group(et, &w, value);
		tauti_window_fini(&w);
	}
	tauti_stream_close(stream);
	return ok && err.code != TAUT_ENOMEM;
}

static bool add_groups(
	struct et *et, const struct tauti_window *w, uint32_t node)
{
	uint32_t inputs = tauti_items_value(w, node, "inputs");
	struct tauti_text text;
	char *copy;
	if (inputs && tauti_token_byte(w, inputs) == '{')
		inputs = tauti_items_value(w, inputs, "values");
	inputs = element(w, inputs, 0);
	if (!inputs || !tauti_token_string(w, inputs, &text))
		return true;
	copy = malloc(TAUTI_STRING_ROOM(text.len));
	if (!copy)
		return false;
	size_t len = tauti_string_decode(text.at, text.len, copy);
	bool ok = take_group_text(et, copy, len);
	free(copy);
	return ok;
}

static const struct et_group *find_group(
	const struct et *et, const struct taut_comm_args *comm)
{
	for (size_t i = 0; i < et->groups.count; i++) {
		const struct et_group *g = &et->groups.data[i];
		if ((comm->group_name && comm->group_name == g->name) ||
			(comm->local_group >= 0 &&
				comm->local_group == g->address))
			return g;
	}
	return NULL;
}

static void describe_groups(struct et *et)
{
	for (size_t i = 0; i < et->comms.count; i++) {
		struct taut_comm_args *comm = &et->comms.data[i];
		const struct et_group *g = find_group(et, comm);
		if (!g)
			continue;
		comm->group_name = g->name;
		comm->group_ranks = g->ranks;
		if (!comm->group_desc)
			comm->group_desc = g->desc;
		if (comm->group_size < 0)
			comm->group_size = g->size;
	}
}

/* --- nodes ---------------------------------------------------------------------- */

static bool take_node(void *context, const struct tauti_window *w, uint32_t i,
	uint64_t offset)
{
	static const char own[] = "[pytorch|profiler|execution_";
	struct et *et = context;
	struct et_node node = { .comm = TAUT_NONE };
	node.name = text_at(et, w, tauti_items_value(w, i, "name"));
	int64_t rf_id = number(w, value_of(w, i, "rf_id"));
	int64_t tid = number(w, value_of(w, i, "tid"));
	(void)offset;
	if (node.name == TAUT_NONE || et->nodes.count >= TAUT_NONE)
		return false;
	const char *name = taut_names_text(et->builder->names, node.name);
	bool ok = true;
	node.rf_id = rf_id < 0 || rf_id >= TAUT_NONE ||
			!strncmp(name, own, sizeof own - 1) ?
		TAUT_NONE : (uint32_t)rf_id;
	node.tid = tid < 0 || tid >= TAUT_NONE ? 0 : (uint32_t)tid;
	if (!strcmp(name, "record_param_comms"))
		ok = add_comm(et, w, i, &node);
	else if (!strcmp(name, "## process_group:init ##"))
		ok = add_groups(et, w, i);
	return ok && taut_vec_push(&et->nodes, node);
}

/* --- giving ---------------------------------------------------------------------- */

static void give_text(uint32_t *to, uint32_t from, bool *gained)
{
	*gained |= !*to && from;
	if (!*to)
		*to = from;
}

static void give_number(int64_t *to, int64_t from, bool *gained)
{
	*gained |= *to < 0 && from >= 0;
	if (*to < 0)
		*to = from;
}

static void give_number32(int32_t *to, int32_t from, bool *gained)
{
	int64_t number = *to;
	give_number(&number, from, gained);
	*to = (int32_t)number;
}

/* What the Kineto trace says stays. */
static bool give(struct taut_comm_args *to, const struct taut_comm_args *from)
{
	bool gained = false;
	give_text(&to->collective, from->collective, &gained);
	give_text(&to->group_name, from->group_name, &gained);
	give_text(&to->group_desc, from->group_desc, &gained);
	give_text(&to->group_ranks, from->group_ranks, &gained);
	give_text(&to->dtype, from->dtype, &gained);
	give_number(&to->in_elements, from->in_elements, &gained);
	give_number(&to->out_elements, from->out_elements, &gained);
	give_number(&to->seq, from->seq, &gained);
	give_number(&to->local_group, from->local_group, &gained);
	give_number32(&to->group_size, from->group_size, &gained);
	give_number32(&to->src_rank, from->src_rank, &gained);
	give_number32(&to->dst_rank, from->dst_rank, &gained);
	give_number32(&to->rank_start, from->rank_start, &gained);
	give_number32(&to->rank_stride, from->rank_stride, &gained);
	return gained;
}

static bool give_all(struct et *et)
{
	struct tauti_builder *b = et->builder;
	for (size_t i = 0; i < et->pairs.count; i++) {
		const struct et_pair *pair = &et->pairs.data[i];
		uint32_t which = et->nodes.data[pair->node].comm;
		if (which == TAUT_NONE)
			continue;
		struct tauti_row *row = tauti_builder_row_at(b, pair->row);
		struct taut_comm_args comm = et->comms.data[which];
		if (et->way == ET_REPEATS)
			comm.seq = -1; /* of another step, perhaps */
		if (row->args == TAUT_NONE) {
			if (!taut_vec_push(&b->comms, nothing))
				return false;
			row->args = (uint32_t)b->comms.count - 1;
		}
		et->gained += give(&b->comms.data[row->args], &comm);
	}
	return true;
}

/* --- the whole ------------------------------------------------------------------- */

static taut_status note_joined(const struct et *et, size_t operators)
{
	static const char *const ways[] = {
		[ET_NOT] = "", [ET_RECORD_ID] = "by Record function id",
		[ET_EVENT_INDEX] = "by Ev Idx",
		[ET_EXTERNAL_ID] = "by External id",
		[ET_ORDER] = "by their order on each thread",
		[ET_REPEATS] = "in every step",
	};
	return tauti_builder_note(et->builder,
		"is the execution trace of this rank: %zu of its %zu operators "
		"are found in the profiler's trace (%s), and %zu collectives "
		"are described by it",
		et->joined, operators, ways[et->way], et->gained);
}

static size_t count_operators(const struct et *et)
{
	size_t n = 0;
	for (size_t i = 0; i < et->nodes.count; i++)
		n += et->nodes.data[i].rf_id != TAUT_NONE;
	return n;
}

static taut_status settle(
	struct et *et, const struct tauti_items *items, struct taut_error *err)
{
	const char *path = et->builder->path;
	size_t operators = count_operators(et);
	if (items->end != TAUTI_ITEMS_WHOLE && !operators)
		return taut_error_set(err, TAUT_EFORMAT,
			(int64_t)items->end_at,
			"%s: byte %llu: %s; expected an execution trace", path,
			(unsigned long long)items->end_at,
			items->end == TAUTI_ITEMS_CUT ? "it ends" : "no JSON");
	describe_groups(et);
	taut_status status = tauti_et_join(et);
	if (status == TAUT_OK && !et->joined)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: is a PyTorch execution trace of another run, or of "
			"other steps: none of its %zu operators is in the "
			"profiler's trace",
			path, operators);
	if (status == TAUT_OK && !give_all(et))
		status = TAUT_ENOMEM;
	if (status == TAUT_OK)
		status = note_joined(et, operators);
	if (status == TAUT_OK && items->end != TAUTI_ITEMS_WHOLE)
		status = tauti_builder_note(et->builder,
			"%s at byte %llu; what is whole before is used",
			items->end == TAUTI_ITEMS_CUT ? "ends early" :
							"is no JSON",
			(unsigned long long)items->end_at);
	return status;
}

taut_status tauti_et_add(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct et et = { .builder = builder };
	struct tauti_items items = {
		.key = "nodes",
		.item = take_node,
		.context = &et,
	};
	taut_status status = tauti_items_read(
		&items, stream, builder->window_bytes, err);
	if (status == TAUT_OK)
		status = settle(&et, &items, err);
	if (status == TAUT_ENOMEM)
		taut_error_set(err, status, -1,
			"%s: no memory for an execution trace of %zu nodes",
			builder->path, et.nodes.count);
	taut_vec_free(&et.nodes);
	taut_vec_free(&et.comms);
	taut_vec_free(&et.groups);
	taut_vec_free(&et.pairs);
	taut_vec_free(&et.scratch);
	return status;
}

bool tauti_et_probe(const char *head, size_t len)
{
	static const char key[] = "\"schema\"";
	size_t i = 0;
	while (i < len && head[i] && strchr(" \t\r\n{", head[i]))
		i++;
	return i && len - i >= sizeof key - 1 &&
	       memcmp(head + i, key, sizeof key - 1) == 0;
}

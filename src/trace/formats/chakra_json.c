/* chakra_json.c - the form of Chakra traces that its feeder reads as JSON:
 *
 *     {"workload_graph": [{"Id": 216, "Name": "aten::mm", "NodeType": 4,
 *       "data_deps": [3], "runtime": 318, "is_cpu_op": true}, ...]}
 */
#include <string.h>

#include "trace/format.h"
#include "trace/formats/chakra.h"
#include "trace/json/items.h"
#include "trace/json/number.h"
#include "trace/json/string.h"

struct reader {
	struct chakra *c;
	struct chakra_node *node; /* that is being read */
};

static bool number_at(
	const struct tauti_window *w, uint32_t i, int64_t *ret_value)
{
	*ret_value = tauti_token_byte(w, i) == 't'; /* true */
	if (tauti_token_byte(w, i) == 't' || tauti_token_byte(w, i) == 'f')
		return true;
	return tauti_number_int(tauti_token_at(w, i), ret_value);
}

static bool take_name(
	struct reader *r, const struct tauti_window *w, uint32_t i)
{
	struct chakra *c = r->c;
	struct tauti_text text;
	if (!tauti_token_string(w, i, &text))
		return true;
	taut_vec_clear(&c->scratch);
	if (!taut_vec_reserve(&c->scratch, TAUTI_STRING_ROOM(text.len)))
		return false;
	size_t len = tauti_string_decode(text.at, text.len, c->scratch.data);
	r->node->name =
		taut_names_add(c->builder->names, c->scratch.data, len);
	return r->node->name != TAUT_NONE;
}

static bool take_waits(struct reader *r, const struct tauti_window *w,
	uint32_t i, bool data)
{
	uint32_t value;
	int64_t id;
	while (tauti_items_element(w, &i, &value)) {
		if (!number_at(w, value, &id))
			continue;
		bool kept = data ?
			taut_vec_push(&r->c->data_deps, (uint64_t)id) :
			taut_vec_push(&r->c->ctrl_deps, (uint64_t)id);
		if (!kept || r->c->data_deps.count >= TAUT_NONE ||
			r->c->ctrl_deps.count >= TAUT_NONE)
			return false;
	}
	return true;
}

static int32_t small(int64_t number)
{
	return number < 0 || number > INT32_MAX ? -1 : (int32_t)number;
}

static bool take_comm(struct reader *r, struct tauti_text key, int64_t value)
{
	bool type = tauti_items_is(key, "comm_type");
	bool size = tauti_items_is(key, "comm_size");
	bool src = tauti_items_is(key, "comm_src");
	if (!type && !size && !src && !tauti_items_is(key, "comm_dst"))
		return true;
	struct taut_comm_args *comm = tauti_chakra_comm(r->c, r->node);
	if (!comm)
		return false;
	if (type)
		comm->collective = tauti_chakra_comm_name(r->c, value);
	else if (size)
		comm->in_elements = value < 0 ? -1 : value;
	else
		*(src ? &comm->src_rank : &comm->dst_rank) = small(value);
	if (size)
		comm->dtype = taut_names_add(r->c->builder->names, "Byte", 4);
	return comm->collective != TAUT_NONE && comm->dtype != TAUT_NONE;
}

/* False: no memory. *ret_good: the value is what it should be. */
static bool take_number(struct reader *r, struct tauti_text key,
	int64_t value, bool *ret_good)
{
	struct chakra_node *node = r->node;
	if (tauti_items_is(key, "Id"))
		node->id = (uint64_t)value;
	else if (tauti_items_is(key, "NodeType"))
		node->type = value < 0 || value > 255 ? 0 : (uint8_t)value;
	else if (tauti_items_is(key, "is_cpu_op"))
		node->cpu = value != 0;
	else if (tauti_items_is(key, "tensor_size"))
		node->bytes = value < 0 ? -1 : value;
	else if (tauti_items_is(key, "runtime"))
		*ret_good = value >= 0 &&
			    tauti_chakra_time((uint64_t)value, &node->dur_ns) &&
			    node->dur_ns <= TAUTI_TIME_LIMIT_NS / 2;
	else
		return take_comm(r, key, value);
	return true;
}

static bool take_pair(struct reader *r, const struct tauti_window *w,
	struct tauti_text key, uint32_t i, bool *ret_good)
{
	int64_t value;
	if (tauti_items_is(key, "Name"))
		return take_name(r, w, i);
	if (tauti_items_is(key, "data_deps"))
		return take_waits(r, w, i, true);
	if (tauti_items_is(key, "ctrl_deps") ||
		tauti_items_is(key, "ctrlDeps"))
		return take_waits(r, w, i, false);
	if (!number_at(w, i, &value))
		return true;
	return take_number(r, key, value, ret_good);
}

static bool take_node(void *context, const struct tauti_window *w, uint32_t i,
	uint64_t offset)
{
	struct reader *r = context;
	struct chakra *c = r->c;
	struct chakra_node node = tauti_chakra_blank(c);
	struct tauti_text key;
	uint32_t value;
	bool good = true;
	r->node = &node;
	c->builder->events_seen++;
	while (good && tauti_items_pair(w, &i, &key, &value))
		if (!take_pair(r, w, key, value, &good))
			return false;
	node.n_data = (uint32_t)c->data_deps.count - node.first_data;
	node.n_ctrl = (uint32_t)c->ctrl_deps.count - node.first_ctrl;
	if (good)
		return c->nodes.count < TAUT_NONE &&
		       taut_vec_push(&c->nodes, node);
	tauti_builder_lose(c->builder, TAUTI_LOST_BROKEN, offset);
	return true;
}

static taut_status settle(struct chakra *c, const struct tauti_items *items)
{
	struct tauti_builder *b = c->builder;
	taut_status status = TAUT_OK;
	b->bytes_read = items->bytes;
	b->truncated = items->end != TAUTI_ITEMS_WHOLE;
	if (b->truncated && c->nodes.count)
		status = tauti_builder_note(b,
			"%s at byte %llu; what is whole before is kept: %zu "
			"nodes",
			items->end == TAUTI_ITEMS_CUT ? "ends early" :
							"is no JSON",
			(unsigned long long)items->end_at, c->nodes.count);
	return status == TAUT_OK ? tauti_chakra_finish(c) : status;
}

static taut_status read_chakra_json(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct taut_error own;
	struct chakra c = { .builder = builder, .err = err ? err : &own };
	struct reader r = { .c = &c };
	struct tauti_items items = {
		.key = "workload_graph",
		.item = take_node,
		.context = &r,
	};
	taut_status status = tauti_items_read(
		&items, stream, builder->window_bytes, c.err);
	if (status == TAUT_OK)
		status = settle(&c, &items);
	if (status == TAUT_ENOMEM)
		taut_error_set(c.err, TAUT_ENOMEM, -1,
			"%s: no memory for %zu nodes", builder->path,
			c.nodes.count);
	tauti_chakra_fini(&c);
	return status;
}

static bool probe_chakra_json(const char *head, size_t len)
{
	static const char key[] = "\"workload_graph\"";
	size_t i = 0;
	while (i < len && head[i] && strchr(" \t\r\n", head[i]))
		i++;
	if (i == len || head[i++] != '{')
		return false;
	while (i < len && head[i] && strchr(" \t\r\n", head[i]))
		i++;
	return len - i >= sizeof key - 1 &&
	       memcmp(head + i, key, sizeof key - 1) == 0;
}

const struct tauti_format tauti_format_chakra_json = {
	.name = "chakra-json",
	.probe = probe_chakra_json,
	.read = read_chakra_json,
};

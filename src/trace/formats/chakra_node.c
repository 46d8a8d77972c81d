/* chakra_node.c - messages: nodes, metadata, attributes. */
#include <string.h>

#include "trace/formats/chakra.h"
#include "trace/json/string.h"

struct attribute {
	const char *name;
	size_t name_len;
	bool has_number;
	int64_t number;
	const uint8_t *bytes; /* text, or a list of numbers; NULL */
	size_t len;
};

/* --- texts, times ---------------------------------------------------------- */

/* Decoding takes escapes away, which these texts do not have: a backslash is
 * doubled first. */
static size_t double_backslashes(const char *text, size_t len, char *out)
{
	size_t n = 0;
	for (size_t i = 0; i < len; i++) {
		out[n++] = text[i];
		if (text[i] == '\\')
			out[n++] = '\\';
	}
	return n;
}

uint32_t tauti_chakra_text(struct chakra *c, const void *text, size_t len)
{
	taut_vec_clear(&c->scratch);
	if (!taut_vec_reserve(&c->scratch,
		    2 * len + 8 + TAUTI_STRING_ROOM(2 * len)))
		return TAUT_NONE;
	char *raw = c->scratch.data, *clean = raw + 2 * len + 8;
	size_t raw_len = double_backslashes(text, len, raw);
	size_t clean_len = tauti_string_decode(raw, raw_len, clean);
	return taut_names_add(c->builder->names, clean, clean_len);
}

bool tauti_chakra_time(uint64_t us, int64_t *ret_ns)
{
	if (us > (uint64_t)TAUTI_TIME_LIMIT_NS / 1000)
		return false;
	*ret_ns = (int64_t)us * 1000;
	return true;
}

/* --- attributes ------------------------------------------------------------ */

enum { /* fields of an attribute */
	ATTR_NAME = 1,
	ATTR_DOC = 2,
	ATTR_DOUBLE = 3,
	ATTR_FLOAT = 5,
	ATTR_INT64_LIST = 10,
	ATTR_SINT32 = 15,
	ATTR_SINT64 = 17,
	ATTR_STRING = 29,
	ATTR_BYTES = 31,
};

static void take_number(const struct tauti_field *f, struct attribute *a)
{
	float single;
	uint32_t low = (uint32_t)f->value;
	a->has_number = f->number != ATTR_DOUBLE && f->number != ATTR_FLOAT;
	switch (f->number) {
	case ATTR_SINT32:
	case ATTR_SINT64:
		a->number = tauti_wire_zigzag(f->value);
		break;
	case ATTR_DOUBLE: /* kept where it is a whole number */
		if (tauti_wire_double(f->value) >= 0 &&
			tauti_wire_double(f->value) < 9e15) {
			a->number = (int64_t)tauti_wire_double(f->value);
			a->has_number = true;
		}
		break;
	case ATTR_FLOAT:
		memcpy(&single, &low, sizeof single);
		if (single >= 0 && single < 9e15f) {
			a->number = (int64_t)single;
			a->has_number = true;
		}
		break;
	default:
		a->number = (int64_t)f->value;
	}
}

static bool read_attribute(const struct tauti_field *field, struct attribute *a)
{
	struct tauti_wire w = tauti_wire_in(field);
	struct tauti_field f;
	*a = (struct attribute){ .name = "" };
	while (tauti_wire_next(&w, &f)) {
		if (f.type != TAUTI_WIRE_BYTES) {
			take_number(&f, a);
		} else if (f.number == ATTR_NAME) {
			a->name = (const char *)f.bytes;
			a->name_len = (size_t)f.value;
		} else if (f.number != ATTR_DOC) {
			a->bytes = f.bytes;
			a->len = (size_t)f.value;
		}
	}
	return !w.broken;
}

static bool is_named(const struct attribute *a, const char *name)
{
	return a->name_len == strlen(name) &&
	       memcmp(a->name, name, a->name_len) == 0;
}

static int32_t small(int64_t number)
{
	return number < 0 || number > INT32_MAX ? -1 : (int32_t)number;
}

static const struct taut_comm_args nothing = {
	.in_elements = -1, .out_elements = -1, .seq = -1, .comms_id = -1,
	.local_group = -1, .group_size = -1, .src_rank = -1, .dst_rank = -1,
	.rank_start = -1, .rank_stride = -1,
};

struct taut_comm_args *tauti_chakra_comm(
	struct chakra *c, struct chakra_node *node)
{
	if (node->comm == TAUT_NONE) {
		if (!taut_vec_push(&c->comms, nothing))
			return NULL;
		node->comm = (uint32_t)c->comms.count - 1;
	}
	return &c->comms.data[node->comm];
}

uint32_t tauti_chakra_comm_name(struct chakra *c, int64_t comm_type)
{
	static const char *const names[] = { "all_reduce", "reduce",
		"all_gather", "gather", "scatter", "broadcast", "all_to_all",
		"reduce_scatter", "reduce_scatter", "barrier" };
	if (comm_type < 0 || (size_t)comm_type >=
			sizeof names / sizeof *names)
		return 0;
	return taut_names_add(c->builder->names, names[comm_type],
		strlen(names[comm_type]));
}

static bool take_comm_number(struct chakra *c, struct chakra_node *node,
	const struct attribute *a)
{
	static const char *const keys[] = { "comm_type", "comm_size",
		"comm_src", "comm_dst", "pg_size" };
	size_t key = 0;
	while (key < 5 && !is_named(a, keys[key]))
		key++;
	if (key == 5)
		return true;
	struct taut_comm_args *comm = tauti_chakra_comm(c, node);
	if (!comm)
		return false;
	switch (key) {
	case 0:
		comm->collective = tauti_chakra_comm_name(c, a->number);
		return comm->collective != TAUT_NONE;
	case 1: /* bytes: so many elements of one byte each */
		comm->in_elements = a->number < 0 ? -1 : a->number;
		comm->dtype = taut_names_add(c->builder->names, "Byte", 4);
		return comm->dtype != TAUT_NONE;
	case 2:
		comm->src_rank = small(a->number);
		return true;
	case 3:
		comm->dst_rank = small(a->number);
		return true;
	default:
		comm->group_size = small(a->number);
		return true;
	}
}

static int64_t time_or_none(int64_t us)
{
	int64_t ns;
	return us >= 0 && tauti_chakra_time((uint64_t)us, &ns) ? ns : -1;
}

static bool take_number_of_node(struct chakra *c, struct chakra_node *node,
	const struct attribute *a)
{
	if (is_named(a, "is_cpu_op"))
		node->cpu = a->number != 0;
	else if (is_named(a, "tid") || is_named(a, "stream"))
		node->tid = a->number < 0 ? -1 : a->number;
	else if (is_named(a, "tensor_size"))
		node->bytes = a->number < 0 ? -1 : a->number;
	else if (is_named(a, "pause"))
		node->pause = a->number != 0;
	else if (is_named(a, "ready_us"))
		node->ready_ns = time_or_none(a->number);
	else if (is_named(a, "took_us"))
		node->took_ns = time_or_none(a->number);
	else if (is_named(a, "continues"))
		node->continues = a->number != 0;
	else
		return take_comm_number(c, node, a);
	return true;
}

static void take_kind(struct chakra_node *node, const struct attribute *a)
{
	static const struct {
		const char *text;
		enum taut_kind kind;
	} kinds[] = {
		{ "annotation", TAUT_KIND_ANNOTATION },
		{ "python", TAUT_KIND_PYTHON },
		{ "runtime", TAUT_KIND_RUNTIME },
		{ "load", TAUT_KIND_LOAD },
		{ "load_wait", TAUT_KIND_LOAD_WAIT },
		{ "comm", TAUT_KIND_COMM },
	};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (a->len == strlen(kinds[i].text) &&
			memcmp(a->bytes, kinds[i].text, a->len) == 0)
			node->kind = (uint8_t)kinds[i].kind;
}

static bool take_text_of_node(struct chakra *c, struct chakra_node *node,
	const struct attribute *a)
{
	bool name = is_named(a, "pg_name"), ranks = is_named(a, "pg_ranks");
	if (is_named(a, "event_kind"))
		take_kind(node, a);
	if ((!name && !ranks) || !a->len)
		return true;
	uint32_t text = tauti_chakra_text(c, a->bytes, a->len);
	struct taut_comm_args *comm = tauti_chakra_comm(c, node);
	if (text == TAUT_NONE || !comm)
		return false;
	*(name ? &comm->group_name : &comm->group_ranks) = text;
	return true;
}

/* --- nodes ------------------------------------------------------------------ */

struct chakra_node tauti_chakra_blank(const struct chakra *c)
{
	return (struct chakra_node){
		.tid = -1, .bytes = -1, .comm = TAUT_NONE,
		.ready_ns = -1, .took_ns = -1, .kind = TAUT_KIND_OTHER,
		.cpu = true, /* what the schema's own feeder takes */
		.first_data = (uint32_t)c->data_deps.count,
		.first_ctrl = (uint32_t)c->ctrl_deps.count,
	};
}

/* Ids of waits, packed or one by one. */
static bool take_waits(struct chakra *c, const struct tauti_field *f,
	bool *ret_memory)
{
	struct tauti_wire w = { 0 };
	uint64_t id = f->value;
	bool packed = f->type == TAUTI_WIRE_BYTES;
	if (packed)
		w = tauti_wire_in(f);
	while (!packed || tauti_wire_varint(&w, &id)) {
		*ret_memory = f->number == 4 ?
			taut_vec_push(&c->ctrl_deps, id) :
			taut_vec_push(&c->data_deps, id);
		*ret_memory = *ret_memory && c->ctrl_deps.count < TAUT_NONE &&
			      c->data_deps.count < TAUT_NONE;
		if (!*ret_memory || !packed)
			break;
	}
	return !w.broken;
}

static bool take_attribute(struct chakra *c, struct chakra_node *node,
	const struct tauti_field *f, bool *ret_memory)
{
	struct attribute a;
	if (!read_attribute(f, &a))
		return false;
	if (a.has_number)
		*ret_memory = take_number_of_node(c, node, &a);
	else if (a.bytes)
		*ret_memory = take_text_of_node(c, node, &a);
	return true;
}

static bool take_field(struct chakra *c, struct chakra_node *node,
	const struct tauti_field *f, bool *ret_memory)
{
	bool bytes = f->type == TAUTI_WIRE_BYTES;
	bool number = f->type == TAUTI_WIRE_VARINT;
	switch (f->number) {
	case 1:
		node->id = f->value;
		return number;
	case 2:
		if (!bytes)
			return false;
		node->name = tauti_chakra_text(c, f->bytes, (size_t)f->value);
		*ret_memory = node->name != TAUT_NONE;
		return true;
	case 3:
		node->type = f->value > 255 ? 0 : (uint8_t)f->value;
		return number;
	case 4:
	case 5:
		return take_waits(c, f, ret_memory);
	case 6:
		return number && tauti_chakra_time(f->value, &node->start_ns);
	case 7:
		return number && tauti_chakra_time(f->value, &node->dur_ns) &&
		       node->dur_ns <= TAUTI_TIME_LIMIT_NS / 2;
	case 10:
		return bytes && take_attribute(c, node, f, ret_memory);
	default:
		return true;
	}
}

bool tauti_chakra_node(struct chakra *c, const void *bytes, size_t len,
	bool *ret_memory)
{
	struct chakra_node node = tauti_chakra_blank(c);
	size_t comms = c->comms.count;
	struct tauti_wire w = tauti_wire_of(bytes, len);
	struct tauti_field f;
	bool good = true;
	*ret_memory = true;
	while (good && *ret_memory && tauti_wire_next(&w, &f))
		good = take_field(c, &node, &f, ret_memory);
	good = good && !w.broken;
	if (good && *ret_memory) {
		node.n_data = (uint32_t)c->data_deps.count - node.first_data;
		node.n_ctrl = (uint32_t)c->ctrl_deps.count - node.first_ctrl;
		*ret_memory = taut_vec_push(&c->nodes, node);
		return true;
	}
	c->data_deps.count = node.first_data;
	c->ctrl_deps.count = node.first_ctrl;
	c->comms.count = comms;
	return false;
}

/* --- metadata --------------------------------------------------------------- */

static bool take_steps(struct chakra *c, const struct attribute *a,
	bool *ret_memory)
{
	struct tauti_wire list = tauti_wire_of(a->bytes, a->len), w;
	struct tauti_field f;
	uint64_t number;
	while (*ret_memory && tauti_wire_next(&list, &f)) {
		if (f.number != 1 || f.type != TAUTI_WIRE_BYTES)
			continue;
		w = tauti_wire_in(&f);
		while (*ret_memory && tauti_wire_varint(&w, &number))
			*ret_memory = taut_vec_push(
				&c->steps, (int64_t)number);
		if (w.broken)
			return false;
	}
	return !list.broken;
}

bool tauti_chakra_metadata(struct chakra *c, const void *bytes, size_t len,
	bool *ret_memory)
{
	struct tauti_wire w = tauti_wire_of(bytes, len);
	struct tauti_field f;
	struct attribute a;
	*ret_memory = true;
	while (*ret_memory && tauti_wire_next(&w, &f)) {
		if (f.number != 2 || f.type != TAUTI_WIRE_BYTES)
			continue;
		if (!read_attribute(&f, &a))
			return false;
		if (a.has_number && is_named(&a, "rank"))
			c->builder->rank = small(a.number);
		else if (a.has_number && is_named(&a, "world_size"))
			c->builder->world_size = small(a.number);
		else if (a.bytes && is_named(&a, "steps") &&
			!take_steps(c, &a, ret_memory))
			return false;
	}
	return !w.broken;
}

/* tree_pickle.c - plain data out of a pickle. Nothing is imported and nothing
 * is called: opcodes that would are refused. */
#include "trace/tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/vec.h"

struct unpickler {
	const char *name;
	const unsigned char *bytes, *at, *end;
	struct taut_arena *arena;
	struct taut_error *err;
	TAUT_VEC(struct tauti_value *) stack;
	TAUT_VEC(size_t) marks; /* heights of the stack */
	TAUT_VEC(struct tauti_value *) memo;
};

static taut_status broken(struct unpickler *u, const char *what)
{
	int64_t at = u->at - u->bytes;
	return taut_error_set(u->err, TAUT_EFORMAT, at,
		"%s: byte %" PRId64 ": pickle: %s", u->name, at, what);
}

static taut_status no_memory(struct unpickler *u)
{
	return taut_error_set(u->err, TAUT_ENOMEM, -1,
		"%s: no memory to read it", u->name);
}

/* n bytes of the input as a little-endian number. */
static bool take(struct unpickler *u, unsigned n, uint64_t *ret_value)
{
	uint64_t value = 0;
	if ((size_t)(u->end - u->at) < n)
		return false;
	for (unsigned i = n; i-- > 0;)
		value = value << 8 | u->at[i];
	u->at += n;
	*ret_value = value;
	return true;
}

static taut_status push(struct unpickler *u, struct tauti_value *value)
{
	return value && taut_vec_push(&u->stack, value) ? TAUT_OK :
							  no_memory(u);
}

static taut_status push_int(
	struct unpickler *u, enum tauti_value_kind kind, int64_t number)
{
	struct tauti_value *value = tauti_tree_add(u->arena, kind);
	if (value) {
		value->integer = number;
		value->number = (double)number;
	}
	return push(u, value);
}

static taut_status push_number(struct unpickler *u, unsigned n, bool is_signed)
{
	uint64_t value;
	if (!take(u, n, &value))
		return broken(u, "ends inside a number");
	if (is_signed && n < 8 && value >> (8 * n - 1) & 1)
		value |= ~(uint64_t)0 << 8 * n;
	return push_int(u, TAUTI_VALUE_INT, (int64_t)value);
}

/* Two's complement of 0 to 8 bytes; 9 where the last is only the sign. */
static taut_status push_long(struct unpickler *u)
{
	uint64_t len;
	if (!take(u, 1, &len) || len > (size_t)(u->end - u->at))
		return broken(u, "ends inside a number");
	if (len == 9 && (u->at[8] == 0 || u->at[8] == 0xff)) {
		taut_status status = push_number(u, 8, false);
		u->at++;
		return status;
	}
	if (len > 8)
		return broken(u, "a number above 64 bits");
	return len ? push_number(u, (unsigned)len, true) :
		     push_int(u, TAUTI_VALUE_INT, 0);
}

static taut_status push_double(struct unpickler *u)
{
	uint64_t bits = 0;
	if (u->end - u->at < 8)
		return broken(u, "ends inside a number");
	for (int i = 0; i < 8; i++)
		bits = bits << 8 | *u->at++;
	struct tauti_value *value =
		tauti_tree_add(u->arena, TAUTI_VALUE_DOUBLE);
	if (!value)
		return no_memory(u);
	memcpy(&value->number, &bits, sizeof bits);
	if (value->number > -9e18 && value->number < 9e18)
		value->integer = (int64_t)value->number;
	return push(u, value);
}

/* The decoder of JSON strings is given what it leaves alone: text without a
 * backslash. One with is kept up to there. */
static taut_status push_text(struct unpickler *u, unsigned len_bytes)
{
	uint64_t len;
	if (!take(u, len_bytes, &len) || len > (size_t)(u->end - u->at) ||
		len > UINT32_MAX / 4)
		return broken(u, "ends inside a text");
	const char *text = (const char *)u->at;
	u->at += len;
	const char *slash = len ? memchr(text, '\\', len) : NULL;
	struct tauti_value *value =
		tauti_tree_add(u->arena, TAUTI_VALUE_TEXT);
	if (!value || !tauti_tree_set_text(u->arena, value, text,
		slash ? (size_t)(slash - text) : (size_t)len))
		return no_memory(u);
	return push(u, value);
}

/* What was pushed since the last mark becomes items of `into`. */
static taut_status collect(struct unpickler *u, struct tauti_value *into,
	size_t from)
{
	for (size_t i = from; i < u->stack.count; i++)
		if (!tauti_tree_push(u->arena, into, u->stack.data[i]))
			return no_memory(u);
	u->stack.count = from;
	return TAUT_OK;
}

static taut_status push_tuple(struct unpickler *u, size_t from)
{
	struct tauti_value *tuple = tauti_tree_add(u->arena, TAUTI_VALUE_LIST);
	if (!tuple)
		return no_memory(u);
	taut_status status = collect(u, tuple, from);
	return status == TAUT_OK ? push(u, tuple) : status;
}

/* The last n values into the container below them. */
static taut_status put_into(
	struct unpickler *u, size_t from, enum tauti_value_kind kind)
{
	if (!from || u->stack.data[from - 1]->kind != kind)
		return broken(u, "puts something into what is no container");
	if (kind == TAUTI_VALUE_DICT && (u->stack.count - from) % 2)
		return broken(u, "a key without a value");
	return collect(u, u->stack.data[from - 1], from);
}

static taut_status remember(struct unpickler *u, uint64_t at)
{
	if (!u->stack.count)
		return broken(u, "remembers what is not there");
	if (at > (uint64_t)(u->end - u->bytes))
		return broken(u, "a place in the memo that is too far");
	while (u->memo.count <= at)
		if (!taut_vec_push(&u->memo, NULL))
			return no_memory(u);
	u->memo.data[at] = u->stack.data[u->stack.count - 1];
	return TAUT_OK;
}

static taut_status recall(struct unpickler *u, unsigned n)
{
	uint64_t at;
	if (!take(u, n, &at))
		return broken(u, "ends early");
	if (at >= u->memo.count || !u->memo.data[at])
		return broken(u, "recalls what it did not remember");
	return push(u, u->memo.data[at]);
}

static taut_status remember_at(struct unpickler *u, unsigned n)
{
	uint64_t at;
	return take(u, n, &at) ? remember(u, at) : broken(u, "ends early");
}

static taut_status skip_frame(struct unpickler *u)
{
	uint64_t len;
	return take(u, 8, &len) ? TAUT_OK : broken(u, "ends early");
}

/* --- opcodes ------------------------------------------------------------- */

static const struct refused {
	unsigned char opcode;
	const char *name;
} refused[] = {
	{ 'c', "GLOBAL" }, { 0x93, "STACK_GLOBAL" }, { 'R', "REDUCE" },
	{ 'b', "BUILD" }, { 'i', "INST" }, { 'o', "OBJ" },
	{ 0x81, "NEWOBJ" }, { 0x92, "NEWOBJ_EX" }, { 'P', "PERSID" },
	{ 'Q', "BINPERSID" }, { 0x82, "EXT1" }, { 0x83, "EXT2" },
	{ 0x84, "EXT4" }, { 0x97, "NEXT_BUFFER" },
	{ 0x98, "READONLY_BUFFER" }, { 0x8f, "EMPTY_SET" },
	{ 0x90, "ADDITEMS" }, { 0x91, "FROZENSET" }, { 0x8b, "LONG4" },
	{ 'B', "BINBYTES" }, { 'C', "SHORT_BINBYTES" },
	{ 0x8e, "BINBYTES8" }, { 0x96, "BYTEARRAY8" },
};

static taut_status refuse(struct unpickler *u, unsigned char opcode)
{
	char what[96];
	snprintf(what, sizeof what, "no plain data: opcode 0x%02x", opcode);
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		if (refused[i].opcode == opcode)
			snprintf(what, sizeof what,
				"no plain data: opcode %s", refused[i].name);
	u->at--;
	return broken(u, what);
}

static taut_status on_marked(struct unpickler *u, unsigned char opcode)
{
	if (!u->marks.count)
		return broken(u, "ends what it did not begin");
	size_t from = u->marks.data[--u->marks.count];
	if (from > u->stack.count)
		return broken(u, "took values from before its mark");
	switch (opcode) {
	case 't':
		return push_tuple(u, from);
	case 'e':
		return put_into(u, from, TAUTI_VALUE_LIST);
	case 'u':
		return put_into(u, from, TAUTI_VALUE_DICT);
	default: /* '1', POP_MARK */
		u->stack.count = from;
		return TAUT_OK;
	}
}

/* The last n values; they must be there. */
static taut_status on_last(
	struct unpickler *u, unsigned char opcode, size_t n)
{
	if (u->stack.count < n)
		return broken(u, "takes a value that is not there");
	size_t from = u->stack.count - n;
	switch (opcode) {
	case 'a':
		return put_into(u, from, TAUTI_VALUE_LIST);
	case 's':
		return put_into(u, from, TAUTI_VALUE_DICT);
	case '0':
		u->stack.count = from;
		return TAUT_OK;
	default:
		return push_tuple(u, from);
	}
}

static taut_status step(struct unpickler *u, unsigned char opcode)
{
	switch (opcode) {
	case 0x80: /* PROTO */
		u->at++;
		return u->at <= u->end ? TAUT_OK : broken(u, "ends early");
	case 0x95: /* FRAME */
		return skip_frame(u);
	case '(':
		return taut_vec_push(&u->marks, u->stack.count) ?
			TAUT_OK : no_memory(u);
	case 'N':
		return push(u, tauti_tree_add(u->arena, TAUTI_VALUE_NONE));
	case 0x88:
	case 0x89: /* NEWTRUE, NEWFALSE */
		return push_int(u, TAUTI_VALUE_BOOL, opcode == 0x88);
	case 'J':
		return push_number(u, 4, true);
	case 'K':
		return push_number(u, 1, false);
	case 'M':
		return push_number(u, 2, false);
	case 0x8a: /* LONG1 */
		return push_long(u);
	case 'G':
		return push_double(u);
	case 'X':
		return push_text(u, 4);
	case 0x8c: /* SHORT_BINUNICODE */
		return push_text(u, 1);
	case 0x8d: /* BINUNICODE8 */
		return push_text(u, 8);
	case ']':
	case ')':
		return push(u, tauti_tree_add(u->arena, TAUTI_VALUE_LIST));
	case '}':
		return push(u, tauti_tree_add(u->arena, TAUTI_VALUE_DICT));
	case 't':
	case 'e':
	case 'u':
	case '1':
		return on_marked(u, opcode);
	case 'a':
	case '0':
	case 0x85: /* TUPLE1 */
		return on_last(u, opcode, 1);
	case 's':
	case 0x86:
		return on_last(u, opcode, 2);
	case 0x87:
		return on_last(u, opcode, 3);
	case 'q':
		return remember_at(u, 1);
	case 'r':
		return remember_at(u, 4);
	case 0x94: /* MEMOIZE */
		return remember(u, u->memo.count);
	case 'h':
		return recall(u, 1);
	case 'j':
		return recall(u, 4);
	default:
		return refuse(u, opcode);
	}
}

static taut_status run(struct unpickler *u, struct tauti_value **ret_value)
{
	while (u->at < u->end) {
		unsigned char opcode = *u->at++;
		if (opcode == '.') {
			if (!u->stack.count)
				return broken(u, "holds nothing");
			*ret_value = u->stack.data[u->stack.count - 1];
			return TAUT_OK;
		}
		taut_status status = step(u, opcode);
		if (status != TAUT_OK)
			return status;
	}
	return broken(u, "ends early");
}

taut_status tauti_tree_unpickle(const char *name, const unsigned char *bytes,
	size_t len, struct taut_arena *arena, struct tauti_value **ret_value,
	struct taut_error *err)
{
	struct unpickler u = { .name = name, .bytes = bytes, .at = bytes,
		.end = bytes + len, .arena = arena, .err = err };
	taut_status status = run(&u, ret_value);
	taut_vec_free(&u.stack);
	taut_vec_free(&u.marks);
	taut_vec_free(&u.memo);
	return status;
}

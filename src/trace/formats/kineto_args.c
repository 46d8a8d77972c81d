/* kineto_args.c - the args of an event. */
#include "trace/formats/kineto.h"

#include <stdlib.h>
#include <string.h>

#include "trace/json/number.h"

#define CASE(text, arg) \
	if (memcmp(at, text, sizeof(text) - 1) == 0) \
		return arg

/* Switched by length, so that most keys cost one comparison. */
static enum kineto_arg arg_of(const char *at, uint32_t len)
{
	switch (len) {
	case 3:
		CASE("Seq", ARG_SEQ);
		break;
	case 4:
		CASE("name", ARG_NAME);
		CASE("size", ARG_SIZE);
		CASE("Addr", ARG_ADDRESS);
		break;
	case 5:
		CASE("bytes", ARG_BYTES);
		CASE("Bytes", ARG_BYTES);
		CASE("dtype", ARG_DTYPE);
		break;
	case 6:
		CASE("device", ARG_DEVICE);
		CASE("stream", ARG_STREAM);
		break;
	case 8:
		CASE("Src Rank", ARG_SRC_RANK);
		CASE("Dst Rank", ARG_DST_RANK);
		CASE("Comms Id", ARG_COMMS_ID);
		break;
	case 9:
		CASE("Device Id", ARG_DEVICE_ID);
		break;
	case 10:
		CASE("Input Dims", ARG_INPUT_DIMS);
		CASE("Input type", ARG_INPUT_TYPE);
		CASE("Group size", ARG_GROUP_SIZE);
		break;
	case 11:
		CASE("correlation", ARG_CORRELATION);
		CASE("Device Type", ARG_DEVICE_TYPE);
		break;
	case 13:
		CASE("Fwd thread id", ARG_FWD_THREAD);
		CASE("In msg nelems", ARG_IN_ELEMENTS);
		break;
	case 14:
		CASE("wait_on_stream", ARG_WAIT_STREAM);
		CASE("cuda_sync_kind", ARG_SYNC_KIND);
		CASE("Out msg nelems", ARG_OUT_ELEMENTS);
		break;
	case 15:
		CASE("Concrete Inputs", ARG_CONCRETE_INPUTS);
		CASE("Sequence number", ARG_SEQUENCE);
		CASE("Collective name", ARG_COLLECTIVE);
		CASE("Total Allocated", ARG_TOTAL_ALLOCATED);
		break;
	case 17:
		CASE("Global rank start", ARG_RANK_START);
		break;
	case 18:
		CASE("Process Group Name", ARG_GROUP_NAME);
		CASE("Global rank stride", ARG_RANK_STRIDE);
		break;
	case 19:
		CASE("Process Group Ranks", ARG_GROUP_RANKS);
		break;
	case 21:
		CASE("wait_on_cuda_event_id", ARG_WAIT_EVENT);
		break;
	case 25:
		CASE("Process Group Description", ARG_GROUP_DESC);
		break;
	case 33:
		CASE("wait_on_cuda_event_record_corr_id",
			ARG_WAIT_CORRELATION);
		break;
	}
	return ARG_OTHER;
}
#undef CASE

bool tauti_kineto_args(const struct tauti_window *w, uint32_t i,
	struct kineto_args *ret_args)
{
	struct tauti_text key;
	ret_args->seen = 0;
	if (tauti_token_byte(w, i) != '{')
		return true; /* args: null */
	if (tauti_token_byte(w, ++i) == '}')
		return true;
	for (;;) {
		if (tauti_token_byte(w, i + 1) != ':' ||
			!tauti_token_string(w, i, &key))
			return false;
		enum kineto_arg arg = arg_of(key.at, key.len);
		i += 2;
		ret_args->token[arg] = i;
		ret_args->seen |= (uint64_t)1 << arg;
		if (!tauti_token_skip(w, &i))
			return false;
		if (tauti_token_byte(w, i++) != ',')
			return true;
	}
}

int64_t tauti_kineto_number(const struct tauti_window *w,
	const struct kineto_args *args, enum kineto_arg arg, int64_t otherwise)
{
	int64_t value;
	if (!kineto_has(args, arg) ||
		!tauti_number_int(tauti_token_at(w, args->token[arg]), &value))
		return otherwise;
	return value;
}

/* --- synchronisation ----------------------------------------------------- */

/* Stream Sync rows of newer builds stand beside their stream. */
#define SYNC_TID_SHIFT 1000000

int64_t tauti_kineto_sync_stream(int64_t stream)
{
	if (stream < 0 || stream >= UINT32_MAX)
		return -1; /* -1 is also written as 4294967295 */
	return stream >= SYNC_TID_SHIFT ? stream - SYNC_TID_SHIFT : stream;
}

static enum taut_sync_kind sync_kind(struct tauti_text text)
{
	if (text.len >= 10 && memcmp(text.at, "Event Sync", 10) == 0)
		return TAUT_SYNC_EVENT;
	if (text.len >= 11 && memcmp(text.at, "Stream Sync", 11) == 0)
		return TAUT_SYNC_STREAM;
	if (text.len >= 11 && memcmp(text.at, "Stream Wait", 11) == 0)
		return TAUT_SYNC_STREAM_WAIT;
	return TAUT_SYNC_CONTEXT;
}

bool tauti_kineto_add_sync(struct kineto *k, struct tauti_row *row,
	const struct kineto_args *args, int64_t tid, struct tauti_text name)
{
	const struct tauti_window *w = &k->window;
	struct tauti_builder *b = k->builder;
	struct tauti_text kind = name;
	if (kineto_has(args, ARG_SYNC_KIND) &&
		!tauti_token_string(w, args->token[ARG_SYNC_KIND], &kind))
		kind = name;
	struct taut_sync_args sync = {
		.kind = sync_kind(kind),
		.stream = tauti_kineto_sync_stream(
			tauti_kineto_number(w, args, ARG_STREAM, tid)),
		.wait_stream = tauti_kineto_sync_stream(
			tauti_kineto_number(w, args, ARG_WAIT_STREAM, -1)),
		.wait_correlation = tauti_kineto_number(
			w, args, ARG_WAIT_CORRELATION, -1),
		.event_id = tauti_kineto_number(w, args, ARG_WAIT_EVENT, -1),
	};
	row->args = (uint32_t)b->syncs.count;
	return taut_vec_push(&b->syncs, sync);
}

bool tauti_kineto_add_copy(struct kineto *k, struct tauti_row *row,
	const struct kineto_args *args)
{
	struct tauti_builder *b = k->builder;
	int64_t bytes = tauti_kineto_number(&k->window, args, ARG_BYTES, -1);
	if (bytes < 0)
		return true;
	row->args = (uint32_t)b->copies.count;
	return taut_vec_push(
		&b->copies, ((struct taut_copy_args){ .bytes = bytes }));
}

/* --- ROCm: the size of a copy stands at its call ------------------------- */

bool tauti_kineto_keep_bytes(struct kineto *k, const struct tauti_row *row,
	const struct kineto_args *args)
{
	const struct tauti_window *w = &k->window;
	int64_t bytes = tauti_kineto_number(w, args, ARG_BYTES,
		tauti_kineto_number(w, args, ARG_SIZE, -1));
	if (bytes < 0 || !row->correlation)
		return true;
	struct kineto_call_bytes call = { row->correlation, bytes };
	return taut_vec_push(&k->call_bytes, call);
}

static int by_correlation(const void *a, const void *b)
{
	const struct kineto_call_bytes *x = a, *y = b;
	return (x->correlation > y->correlation) -
	       (x->correlation < y->correlation);
}

bool tauti_kineto_fill_copies(struct kineto *k)
{
	struct tauti_builder *b = k->builder;
	size_t n = k->call_bytes.count;
	if (!n)
		return true;
	qsort(k->call_bytes.data, n, sizeof *k->call_bytes.data,
		by_correlation);
	for (uint32_t i = 0; i < b->n_rows; i++) {
		struct tauti_row *row = tauti_builder_row_at(b, i);
		struct kineto_call_bytes key = { row->correlation, 0 };
		bool copy = row->kind == TAUT_KIND_MEMCPY ||
			    row->kind == TAUT_KIND_MEMSET;
		if (!copy || row->args != TAUT_NONE)
			continue;
		const struct kineto_call_bytes *call =
			bsearch(&key, k->call_bytes.data, n, sizeof key,
				by_correlation);
		if (!call)
			continue;
		row->args = (uint32_t)b->copies.count;
		if (!taut_vec_push(&b->copies,
			    ((struct taut_copy_args){ .bytes = call->bytes })))
			return false;
	}
	return true;
}

/* log.c - the event logs that Taut's own recorders write
 * (base/log_format.h). A log is believed in nothing: a record whose numbers
 * cannot be is left out and counted. */
#include "trace/format.h"

#include <stdlib.h>
#include <string.h>

#include "base/log_format.h"
#include "base/vec.h"
#include "trace/builder.h"
#include "trace/stream.h"
#include "trace/sums.h"

enum {
	BATCH = 512,         /* records read at a time */
	MAX_TEXT = 64 << 10, /* bytes; no name is longer */
	MAX_TEXTS = 1 << 20,
	SUMS_LANE = 1 << 23, /* the first one of messages; no thread has that number */
};

/* Sums of batches stay within 64 bits. */
static const int64_t most_bytes = INT64_C(1) << 48;

struct log {
	struct tauti_stream *stream;
	struct tauti_builder *b;
	struct tauti_log_header header;
	TAUT_VEC(uint32_t) names; /* text id -> name; TAUT_NONE not seen */
	struct tauti_log_record batch[BATCH];
	size_t n, at;             /* of batch */
	uint64_t record;          /* number of the next one */
	struct tauti_sums sums;
	uint32_t numbers; /* the highest correlation of its own */
	uint64_t unreadable;
	bool cut; /* the file ends inside of a record */
};

static bool probe(const char *head, size_t len)
{
	return len >= 8 && !memcmp(head, TAUTI_LOG_MAGIC, 8);
}

/* --- bytes --------------------------------------------------------------- */

static taut_status read_header(struct log *log, struct taut_error *err)
{
	char page[TAUTI_LOG_HEADER_BYTES];
	const char *name = tauti_stream_name(log->stream);
	size_t len;
	taut_status status = tauti_stream_read(
		log->stream, page, sizeof page, &len, err);

	if (status != TAUT_OK)
		return status;
	log->b->bytes_read += len;
	if (len < sizeof page)
		return taut_error_set(err, TAUT_EFORMAT, (int64_t)len,
			"%s: byte %zu: the log ends inside its header", name,
			len);
	memcpy(&log->header, page, sizeof log->header);
	if (log->header.header_bytes != TAUTI_LOG_HEADER_BYTES ||
		log->header.record_bytes != TAUTI_LOG_RECORD_BYTES)
		return taut_error_set(err, TAUT_EFORMAT, 8,
			"%s: byte 8: a log with a header of %u and records of "
			"%u bytes; expected %d and %d (another version?)",
			name, log->header.header_bytes,
			log->header.record_bytes, TAUTI_LOG_HEADER_BYTES,
			TAUTI_LOG_RECORD_BYTES);
	return TAUT_OK;
}

static uint64_t records_written(const struct log *log)
{
	return log->header.reserved < log->header.capacity ?
		log->header.reserved : log->header.capacity;
}

/* *ret_record is NULL behind the last one; it is good until the next call. */
static taut_status next_record(struct log *log,
	const struct tauti_log_record **ret_record, struct taut_error *err)
{
	size_t len;

	*ret_record = NULL;
	if (log->record >= records_written(log))
		return TAUT_OK;
	if (log->at == log->n) {
		taut_status status = tauti_stream_read(log->stream,
			(char *)log->batch, sizeof log->batch, &len, err);

		if (status != TAUT_OK)
			return status;
		log->b->bytes_read += len;
		log->n = len / sizeof *log->batch;
		log->at = 0;
		if (!log->n) {
			log->cut = true;
			return TAUT_OK;
		}
	}
	log->record++;
	*ret_record = &log->batch[log->at++];
	return TAUT_OK;
}

/* --- texts --------------------------------------------------------------- */

/* The name of a text id; the empty one where it was never written. */
static uint32_t name_of(const struct log *log, uint32_t id)
{
	if (id >= log->names.count || log->names.data[id] == TAUT_NONE)
		return 0;
	return log->names.data[id];
}

/* A name is one line that a terminal can show. */
static void clean(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			text[i] = ' ';
}

static bool keep_text(
	struct log *log, uint32_t id, char *text, size_t len)
{
	uint32_t name;

	clean(text, len);
	while (log->names.count <= id)
		if (!taut_vec_push(&log->names, TAUT_NONE))
			return false;
	name = taut_names_add(log->b->names, text, len);
	log->names.data[id] = name;
	return name != TAUT_NONE;
}

static taut_status read_text(struct log *log,
	const struct tauti_log_record *first, struct taut_error *err)
{
	uint32_t id = first->name, bytes = first->u.text.bytes, got = 0;
	bool usable = id > 0 && id < MAX_TEXTS && bytes <= MAX_TEXT;
	char *text = malloc(usable ? bytes + 1 : 1);
	taut_status status = text ? TAUT_OK : TAUT_ENOMEM;

	if (!usable) {
		log->unreadable++; /* and what follows is what it is */
		free(text);
		return status;
	}
	while (status == TAUT_OK && got < bytes) {
		const struct tauti_log_record *more;
		uint32_t part = bytes - got < sizeof *more ?
			bytes - got : (uint32_t)sizeof *more;

		status = next_record(log, &more, err);
		if (status != TAUT_OK || !more)
			break;
		memcpy(text + got, more, part);
		got += part;
	}
	if (status == TAUT_OK && !keep_text(log, id, text, got))
		status = TAUT_ENOMEM;
	free(text);
	return status;
}

/* --- events -------------------------------------------------------------- */

static bool sane_times(const struct tauti_log_record *r)
{
	return r->start_ns > 0 && r->start_ns < TAUTI_TIME_LIMIT_NS &&
		r->end_ns >= r->start_ns && r->end_ns < TAUTI_TIME_LIMIT_NS;
}

/* Kinds that a host's own recorder can have seen. */
static bool sane_kind(const struct tauti_log_record *r)
{
	switch (r->kind) {
	case TAUT_KIND_OP:
	case TAUT_KIND_ANNOTATION:
	case TAUT_KIND_PYTHON:
	case TAUT_KIND_RUNTIME:
	case TAUT_KIND_OVERHEAD:
	case TAUT_KIND_STEP:
	case TAUT_KIND_LOAD:
	case TAUT_KIND_LOAD_WAIT:
	case TAUT_KIND_COMM:
		return true;
	default:
		return false;
	}
}

/* Each recorder counts for itself: a log's numbers stand below those of the
 * logs before, from the top down, while those of a profiler go up from 1.
 * Batches are the same ones in all logs. */
static uint32_t correlate(struct log *log, uint32_t kind, uint32_t number)
{
	if (!number || kind == TAUT_KIND_LOAD || kind == TAUT_KIND_LOAD_WAIT)
		return number;
	if (number > log->numbers)
		log->numbers = number;
	return UINT32_MAX - log->b->log_numbers - number;
}

static struct tauti_row *add_row(struct log *log,
	const struct tauti_log_record *r, uint8_t kind, enum tauti_role role)
{
	struct tauti_row *row = tauti_builder_row(log->b);
	uint32_t lane = tauti_lanes_add(
		&log->b->lanes, role, log->header.pid, r->lane);

	if (!row || lane == TAUT_NONE)
		return NULL;
	row->start_ns = r->start_ns;
	row->dur_ns = r->end_ns - r->start_ns;
	row->name = name_of(log, r->name);
	row->lane = lane;
	row->kind = kind;
	if (kind == TAUT_KIND_STEP)
		row->sequence = r->correlation;
	else
		row->correlation = correlate(log, kind, r->correlation);
	return row;
}

static enum tauti_role role_of(uint32_t kind)
{
	return kind == TAUT_KIND_OVERHEAD ? TAUTI_ROLE_OVERHEAD :
		TAUTI_ROLE_THREAD;
}

static taut_status add_span(struct log *log, const struct tauti_log_record *r)
{
	if (!sane_times(r) || !sane_kind(r)) {
		log->unreadable++;
		return TAUT_OK;
	}
	return add_row(log, r, (uint8_t)r->kind, role_of(r->kind)) ?
		TAUT_OK : TAUT_ENOMEM;
}

static int64_t known(int64_t value)
{
	return value < 0 ? -1 : value;
}

static int32_t rank_or_none(int32_t rank)
{
	return rank < 0 ? -1 : rank;
}

static taut_status add_comm(struct log *log, const struct tauti_log_record *r)
{
	struct tauti_row *row;
	struct taut_comm_args args = {
		.collective = name_of(log, r->u.comm.collective),
		.group_name = name_of(log, r->u.comm.group),
		.group_ranks = name_of(log, r->u.comm.group_ranks),
		.dtype = name_of(log, r->u.comm.dtype),
		.in_elements = known(r->u.comm.in_elements),
		.out_elements = known(r->u.comm.out_elements),
		.seq = known(r->u.comm.seq),
		.comms_id = -1,
		.local_group = -1,
		.group_size = rank_or_none(r->u.comm.group_size),
		.src_rank = rank_or_none(r->u.comm.src),
		.dst_rank = rank_or_none(r->u.comm.dst),
		.rank_start = -1,
		.rank_stride = -1,
	};

	if (!sane_times(r) || !sane_kind(r)) {
		log->unreadable++;
		return TAUT_OK;
	}
	row = add_row(log, r, (uint8_t)r->kind, role_of(r->kind));
	if (!row || !taut_vec_push(&log->b->comms, args))
		return TAUT_ENOMEM;
	row->args = (uint32_t)log->b->comms.count - 1;
	return TAUT_OK;
}

static taut_status add_chunk(struct log *log, const struct tauti_log_record *r)
{
	struct tauti_row *row;
	struct taut_chunk_args args = {
		.peer = rank_or_none(r->u.chunk.peer),
		.channel = r->u.chunk.channel,
		.step = r->u.chunk.step,
		.sends = r->u.chunk.sends != 0,
		.bytes = known(r->u.chunk.bytes),
		.gpu_late_ns = known(r->u.chunk.gpu_late_ns),
		.peer_late_ns = known(r->u.chunk.peer_late_ns),
		.network_ns = known(r->u.chunk.network_ns),
	};

	if (!sane_times(r)) {
		log->unreadable++;
		return TAUT_OK;
	}
	row = add_row(log, r, TAUT_KIND_CHUNK, TAUTI_ROLE_OTHER);
	if (!row || !taut_vec_push(&log->b->chunks, args))
		return TAUT_ENOMEM;
	row->args = (uint32_t)log->b->chunks.count - 1;
	return TAUT_OK;
}

/* Nothing of a batch takes longer than the batch did. */
static int64_t at_most(int64_t value, int64_t most)
{
	return value < 0 ? -1 : value < most ? value : most;
}

static bool is_batch(const struct tauti_log_record *r)
{
	return sane_times(r) && r->u.load.cpu_ns >= 0 &&
		(r->kind == TAUT_KIND_LOAD || r->kind == TAUT_KIND_LOAD_WAIT);
}

static taut_status add_load(struct log *log, const struct tauti_log_record *r)
{
	struct taut_load_args args = { .samples = r->u.load.samples };
	struct tauti_row *row;

	if (!is_batch(r)) {
		log->unreadable++;
		return TAUT_OK;
	}
	if (args.samples < 0)
		args.samples = -1;
	args.cpu_ns = at_most(r->u.load.cpu_ns, r->end_ns - r->start_ns);
	args.queued_ns = at_most(r->u.load.queued_ns, r->end_ns - r->start_ns);
	args.others_ns = at_most(r->u.load.others_ns, TAUTI_TIME_LIMIT_NS);
	args.read_bytes = at_most(r->u.load.read_bytes, most_bytes);
	args.storage_bytes = at_most(r->u.load.storage_bytes, most_bytes);
	row = add_row(log, r, (uint8_t)r->kind, TAUTI_ROLE_THREAD);
	if (!row || !taut_vec_push(&log->b->loads, args))
		return TAUT_ENOMEM;
	row->args = (uint32_t)log->b->loads.count - 1;
	row->flags |= TAUT_EVENT_LOAD;
	return TAUT_OK;
}

/* --- gradients that an exchange sums --------------------------------------- */

static taut_status add_gradient(
	struct log *log, const struct tauti_log_record *r)
{
	struct tauti_sums_gradient gradient = {
		.exchange = r->u.gradient.exchange,
		.task = r->u.gradient.task,
		.elements = r->u.gradient.elements,
		.dtype = name_of(log, r->u.gradient.dtype),
	};
	bool kept;

	if (!tauti_sums_gradient(&log->sums, gradient, &kept))
		return TAUT_ENOMEM;
	log->unreadable += !kept;
	return TAUT_OK;
}

static taut_status add_sum_call(
	struct log *log, const struct tauti_log_record *r)
{
	static const char *const names[] = { "taut_sync_ready", "taut_sync_wait" };
	struct tauti_sums_call call = {
		.exchange = r->u.sum_call.exchange,
		.task = r->u.sum_call.task,
		.start_ns = r->start_ns,
		.end_ns = r->end_ns,
		.row = (uint32_t)log->b->n_rows,
		.waits = r->u.sum_call.waits != 0,
	};
	struct tauti_row *row;

	if (!sane_times(r) || !tauti_sums_has_task(call.task)) {
		log->unreadable++;
		return TAUT_OK;
	}
	row = add_row(log, r, TAUT_KIND_RUNTIME, TAUTI_ROLE_THREAD);
	if (!row || !tauti_sums_call(&log->sums, call))
		return TAUT_ENOMEM;
	row->name = taut_names_add(
		log->b->names, names[call.waits], strlen(names[call.waits]));
	row->correlation = 0;
	return row->name == TAUT_NONE ? TAUT_ENOMEM : TAUT_OK;
}

static taut_status add_piece(struct log *log, const struct tauti_log_record *r)
{
	struct tauti_sums_piece piece = {
		.exchange = r->u.piece.exchange,
		.message = r->u.piece.message,
		.task = r->u.piece.task,
		.bytes = r->u.piece.bytes,
		.start_ns = r->start_ns,
		.end_ns = r->end_ns,
		.group = name_of(log, r->u.piece.group),
		.group_ranks = name_of(log, r->u.piece.group_ranks),
		.group_size = rank_or_none(r->u.piece.group_size),
	};
	bool kept;

	if (!tauti_sums_piece(&log->sums, piece, &kept))
		return TAUT_ENOMEM;
	log->unreadable += !kept;
	return TAUT_OK;
}

/* --- what stands beside the events --------------------------------------- */

static taut_status name_lane(struct log *log, const struct tauti_log_record *r)
{
	uint32_t lane = tauti_lanes_add(&log->b->lanes,
		r->kind == TAUT_KIND_CHUNK ? TAUTI_ROLE_OTHER :
		TAUTI_ROLE_THREAD, log->header.pid, r->lane);

	if (lane == TAUT_NONE)
		return TAUT_ENOMEM;
	log->b->lanes.all.data[lane].name = name_of(log, r->name);
	return TAUT_OK;
}

static taut_status add_clock(struct log *log, const struct tauti_log_record *r)
{
	static const int64_t limit = TAUTI_TIME_LIMIT_NS;
	struct taut_clock_sample sample = { r->start_ns,
		r->u.clock.offset_ns, r->u.clock.half_width_ns };

	if (sample.at_ns <= 0 || sample.at_ns > limit ||
		sample.offset_ns > limit || sample.offset_ns < -limit ||
		sample.half_width_ns < 0 || sample.half_width_ns > limit) {
		log->unreadable++;
		return TAUT_OK;
	}
	return taut_vec_push(&log->b->clock_samples, sample) ?
		TAUT_OK : TAUT_ENOMEM;
}

static taut_status add_fact(struct log *log, const struct tauti_log_record *r)
{
	const struct taut_names *names = log->b->names;
	uint32_t value = name_of(log, r->u.fact.value);

	return tauti_builder_fact(log->b,
		taut_names_text(names, name_of(log, r->name)),
		taut_names_text(names, value),
		taut_names_length(names, value));
}

static taut_status add_record(struct log *log,
	const struct tauti_log_record *r, struct taut_error *err)
{
	switch (r->type) {
	case TAUTI_LOG_UNUSED: /* its writer was killed before it was whole */
		return TAUT_OK;
	case TAUTI_LOG_TEXT:
		return read_text(log, r, err);
	case TAUTI_LOG_LANE:
		return name_lane(log, r);
	case TAUTI_LOG_SPAN:
		return add_span(log, r);
	case TAUTI_LOG_COMM:
		return add_comm(log, r);
	case TAUTI_LOG_CHUNK:
		return add_chunk(log, r);
	case TAUTI_LOG_LOAD:
		return add_load(log, r);
	case TAUTI_LOG_GRADIENT:
		return add_gradient(log, r);
	case TAUTI_LOG_SUM_CALL:
		return add_sum_call(log, r);
	case TAUTI_LOG_PIECE:
		return add_piece(log, r);
	case TAUTI_LOG_CLOCK:
		return add_clock(log, r);
	case TAUTI_LOG_FACT:
		return add_fact(log, r);
	default:
		log->unreadable++;
		return TAUT_OK;
	}
}

/* --- the whole ----------------------------------------------------------- */

/* A text of the header, where there is one and nobody said it before. */
static bool take_text(
	struct log *log, char *text, size_t size, const char **ret_text)
{
	size_t len = strnlen(text, size);
	const char *copy;

	if (**ret_text || !len)
		return true;
	clean(text, len);
	copy = taut_arena_strndup(log->b->arena, text, len);
	if (copy)
		*ret_text = copy;
	return copy != NULL;
}

/* What the header tells of the rank; what another source said stays. */
static taut_status take_header(struct log *log)
{
	struct tauti_log_header *h = &log->header;
	struct tauti_builder *b = log->b;

	if (b->rank < 0)
		b->rank = rank_or_none(h->rank);
	if (b->world_size < 0)
		b->world_size = rank_or_none(h->world_size);
	if (!take_text(log, h->host, sizeof h->host, &b->host) ||
		!take_text(log, h->clock, sizeof h->clock, &b->clock))
		return TAUT_ENOMEM;
	return TAUT_OK;
}

static taut_status note_state(struct log *log)
{
	struct tauti_log_header *h = &log->header;
	size_t len = strnlen(h->state, sizeof h->state);

	clean(h->state, len);
	if (h->closed_ns == 0)
		return tauti_builder_note(log->b,
			"its process ended without closing the log%s%.*s",
			len ? ": " : "", (int)len, h->state);
	return TAUT_OK;
}

static taut_status note_losses(struct log *log)
{
	const struct tauti_log_header *h = &log->header;
	taut_status status = TAUT_OK;

	if (h->reserved > h->capacity)
		status = tauti_builder_note(log->b,
			"the log was full: %llu of %llu records have no place",
			(unsigned long long)(h->reserved - h->capacity),
			(unsigned long long)h->reserved);
	if (status == TAUT_OK && log->unreadable)
		status = tauti_builder_note(log->b,
			"%llu records make no sense and were left out",
			(unsigned long long)log->unreadable);
	if (status == TAUT_OK && log->cut) {
		log->b->truncated = true;
		status = tauti_builder_note(log->b, "the log ends early, at "
			"record %llu of %llu",
			(unsigned long long)log->record,
			(unsigned long long)records_written(log));
	}
	return status;
}

static taut_status read_records(struct log *log, struct taut_error *err)
{
	for (;;) {
		const struct tauti_log_record *next;
		struct tauti_log_record record;
		taut_status status = next_record(log, &next, err);

		if (status != TAUT_OK || !next)
			return status;
		record = *next; /* a text reads on behind it */
		log->b->events_seen += record.type == TAUTI_LOG_SPAN ||
			record.type == TAUTI_LOG_COMM ||
			record.type == TAUTI_LOG_CHUNK ||
			record.type == TAUTI_LOG_SUM_CALL ||
			record.type == TAUTI_LOG_PIECE ||
			record.type == TAUTI_LOG_LOAD;
		status = add_record(log, &record, err);
		if (status != TAUT_OK)
			return status;
	}
}

static taut_status read_log(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct log *log = calloc(1, sizeof *log);
	taut_status status = TAUT_ENOMEM;

	if (log) {
		log->stream = stream;
		log->b = builder;
		status = read_header(log, err);
		if (status == TAUT_OK)
			status = take_header(log);
		if (status == TAUT_OK)
			status = read_records(log, err);
		builder->log_numbers += log->numbers;
		if (status == TAUT_OK && !tauti_sums_settle(&log->sums, builder,
			log->header.pid, SUMS_LANE))
			status = TAUT_ENOMEM;
		if (status == TAUT_OK)
			status = note_state(log);
		if (status == TAUT_OK)
			status = note_losses(log);
		taut_vec_free(&log->names);
		tauti_sums_fini(&log->sums);
		free(log);
	}
	if (status == TAUT_ENOMEM)
		return taut_error_set(err, status, -1, "%s: no memory",
			tauti_stream_name(stream));
	return status;
}

const struct tauti_format tauti_format_log = {
	.name = "event log",
	.adds = true,
	.probe = probe,
	.read = read_log,
};

/* schedule.c - the table of ways, and the writer that finds what waits for what. */
#include "coll/schedule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ELEMENTS (UINT64_C(1) << 48) /* scratch of all ranks' fits 64 bits */

/* --- names ------------------------------------------------------------------------*/

static const struct tauti_way_row way_auto = { "auto", { NULL } };

static const struct tauti_way_row *const ways[TAUT_WAYS] = {
	[TAUT_WAY_AUTO] = &way_auto,
	[TAUT_WAY_DIRECT] = &tauti_way_direct,
	[TAUT_WAY_DOUBLING] = &tauti_way_doubling,
	[TAUT_WAY_HALVING] = &tauti_way_halving,
	[TAUT_WAY_RING] = &tauti_way_ring,
	[TAUT_WAY_TREE] = &tauti_way_tree,
	[TAUT_WAY_HOSTS] = &tauti_way_hosts,
	[TAUT_WAY_FLAT] = &tauti_way_flat,
};

const char *taut_coll_verb_name(enum taut_coll_verb verb)
{
	static const char *const names[TAUT_VERBS] = { "allreduce",
		"reduce_scatter", "allgather", "broadcast" };

	return (unsigned)verb < TAUT_VERBS ? names[verb] : "?";
}

const char *taut_coll_way_name(enum taut_coll_way way)
{
	return (unsigned)way < TAUT_WAYS ? ways[way]->name : "?";
}

bool taut_coll_has(enum taut_coll_verb verb, enum taut_coll_way way)
{
	return (unsigned)verb < TAUT_VERBS && (unsigned)way < TAUT_WAYS &&
		ways[way]->write[verb];
}

/* --- places -----------------------------------------------------------------------*/

uint64_t taut_coll_block(
	uint64_t count, uint32_t n_ranks, uint32_t i, uint64_t *ret_length)
{
	uint64_t length = count / n_ranks, longer = count % n_ranks;

	*ret_length = length + (i < longer);
	return i * length + (i < longer ? i : longer);
}

struct tauti_group tauti_all_ranks(const struct tauti_writer *writer)
{
	return (struct tauti_group){
		NULL, writer->shape->n_ranks, writer->shape->rank };
}

struct tauti_elements tauti_all(const struct tauti_writer *writer)
{
	return (struct tauti_elements){ 0, writer->shape->count };
}

struct tauti_elements tauti_block_of(
	struct tauti_elements range, uint32_t n, uint32_t i)
{
	struct tauti_elements block;

	block.first = range.first +
		taut_coll_block(range.count, n, i, &block.count);
	return block;
}

static uint64_t reserve(struct tauti_writer *writer, uint64_t count)
{
	uint64_t place = writer->scratch_count;

	writer->scratch_count += count;
	return place;
}

struct tauti_extent tauti_take_scratch(
	struct tauti_writer *writer, struct tauti_elements range)
{
	return (struct tauti_extent){
		TAUT_SCRATCH, range, reserve(writer, range.count) };
}

uint32_t tauti_power(uint32_t n)
{
	uint32_t power = 1;

	while (power <= n / 2)
		power *= 2;
	return power;
}

/* --- what waits for what -----------------------------------------------------------*/

static uint32_t newest(const struct tauti_writer *writer)
{
	return (uint32_t)writer->steps.count - 1;
}

/* The segment that begins there. */
static size_t cut(
	struct tauti_writer *writer, struct tauti_memory *memory, uint64_t at)
{
	size_t low = 0, high = memory->segments.count;
	struct tauti_segment *segments;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (memory->segments.data[middle].first <= at)
			low = middle;
		else
			high = middle;
	}
	if (memory->segments.data[low].first == at)
		return low;
	if (!taut_vec_reserve(&memory->segments, 1)) {
		writer->failed = true;
		return low;
	}
	segments = memory->segments.data;
	memmove(&segments[low + 1], &segments[low],
		(memory->segments.count++ - low) * sizeof *segments);
	segments[low + 1].first = at;
	return low + 1;
}

static void wait_for(struct tauti_writer *writer, uint32_t step)
{
	uint32_t waiter = newest(writer);

	if (step == waiter || writer->waited_by.data[step] == waiter)
		return;
	writer->waited_by.data[step] = waiter;
	if (taut_vec_push(&writer->waits, step))
		writer->steps.data[waiter].n_waits++;
	else
		writer->failed = true;
}

static void read_segment(
	struct tauti_writer *writer, struct tauti_segment *segment)
{
	struct tauti_read read = { newest(writer), segment->readers };

	if (segment->writer != TAUT_NONE)
		wait_for(writer, segment->writer);
	if (taut_vec_push(&writer->reads, read))
		segment->readers = (uint32_t)writer->reads.count - 1;
	else
		writer->failed = true;
}

static void write_segment(
	struct tauti_writer *writer, struct tauti_segment *segment)
{
	const struct tauti_read *reads = writer->reads.data;

	if (segment->readers == TAUT_NONE && segment->writer != TAUT_NONE)
		wait_for(writer, segment->writer);
	for (uint32_t i = segment->readers; i != TAUT_NONE; i = reads[i].next)
		wait_for(writer, reads[i].step);
	segment->writer = newest(writer);
	segment->readers = TAUT_NONE;
}

static void use(struct tauti_writer *writer, struct tauti_extent span,
	void (*each)(struct tauti_writer *, struct tauti_segment *))
{
	bool inside = span.buffer == TAUT_SCRATCH;
	struct tauti_memory *memory =
		inside ? &writer->scratch : &writer->buffers;
	uint64_t first = inside ? span.place : span.range.first;
	size_t begin, end;

	if (writer->failed)
		return;
	begin = cut(writer, memory, first);
	end = cut(writer, memory, first + span.range.count);
	for (size_t i = begin; i < end && !writer->failed; i++)
		each(writer, &memory->segments.data[i]);
}

/* --- steps -------------------------------------------------------------------------*/

/* False: it is not written. Its peers come next, then its reads, then its writes. */
static bool append(struct tauti_writer *writer, enum taut_coll_step_kind kind,
	struct tauti_elements range, uint32_t message)
{
	struct taut_coll_step step = { .kind = (uint8_t)kind,
		.first_peer = (uint32_t)writer->peers.count,
		.message = message,
		.first_wait = (uint32_t)writer->waits.count,
		.first = range.first, .count = range.count };

	if (!range.count || writer->failed)
		return false;
	if (taut_vec_push(&writer->waited_by, TAUT_NONE) &&
		taut_vec_push(&writer->steps, step))
		return true;
	writer->failed = true;
	return false;
}

static void add_peer(struct tauti_writer *writer, uint32_t peer)
{
	if (taut_vec_push(&writer->peers, peer))
		writer->steps.data[newest(writer)].n_peers++;
	else
		writer->failed = true;
}

static void set_from(struct tauti_writer *writer, struct tauti_extent from)
{
	struct taut_coll_step *step = &writer->steps.data[newest(writer)];

	step->from = (uint8_t)from.buffer;
	if (from.buffer == TAUT_SCRATCH)
		step->place = from.place;
	use(writer, from, read_segment);
}

static void set_into(struct tauti_writer *writer, struct tauti_extent into)
{
	struct taut_coll_step *step = &writer->steps.data[newest(writer)];

	step->into = (uint8_t)into.buffer;
	if (into.buffer == TAUT_SCRATCH)
		step->place = into.place;
	use(writer, into, write_segment);
}

void tauti_send_each(struct tauti_writer *writer, struct tauti_extent from,
	const uint32_t *peers, uint32_t n_peers, uint32_t message)
{
	if (!n_peers || !append(writer, TAUT_STEP_SEND, from.range, message))
		return;
	for (uint32_t i = 0; i < n_peers; i++)
		add_peer(writer, peers[i]);
	set_from(writer, from);
}

void tauti_send(struct tauti_writer *writer, struct tauti_extent from,
	uint32_t peer, uint32_t message)
{
	tauti_send_each(writer, from, &peer, 1, message);
}

void tauti_send_all(struct tauti_writer *writer, struct tauti_extent from,
	const struct tauti_group *group, uint32_t but, uint32_t message)
{
	uint32_t peers = group->n - 1;

	for (uint32_t i = 0; i < group->n && but != TAUT_NONE; i++)
		peers -= i != group->me && tauti_rank_of(group, i) == but;
	if (!peers || !append(writer, TAUT_STEP_SEND, from.range, message))
		return;
	for (uint32_t k = 1; k < group->n; k++) {
		uint32_t peer = tauti_rank_of(
			group, (group->me + k) % group->n);

		if (peer != but)
			add_peer(writer, peer);
	}
	set_from(writer, from);
}

void tauti_recv(struct tauti_writer *writer, struct tauti_extent into,
	uint32_t peer, uint32_t message)
{
	if (!append(writer, TAUT_STEP_RECV, into.range, message))
		return;
	add_peer(writer, peer);
	set_into(writer, into);
}

void tauti_recv_reduce(struct tauti_writer *writer, struct tauti_extent into,
	struct tauti_extent from, uint32_t peer, uint32_t message)
{
	if (!append(writer, TAUT_STEP_RECV_REDUCE, into.range, message))
		return;
	writer->steps.data[newest(writer)].landing =
		reserve(writer, into.range.count);
	add_peer(writer, peer);
	set_from(writer, from);
	set_into(writer, into);
}

void tauti_reduce(struct tauti_writer *writer, struct tauti_extent into,
	struct tauti_extent from, struct tauti_extent what)
{
	if (!append(writer, TAUT_STEP_REDUCE, into.range, 0))
		return;
	writer->steps.data[newest(writer)].place = what.place;
	use(writer, what, read_segment);
	set_from(writer, from);
	set_into(writer, into);
}

/* In place it does nothing, and elsewhere nobody else uses its memory: it waits for
 * nothing, and nothing for it. */
void tauti_copy(struct tauti_writer *writer, struct tauti_elements range)
{
	struct taut_coll_step *step;

	if (!append(writer, TAUT_STEP_COPY, range, 0))
		return;
	step = &writer->steps.data[newest(writer)];
	step->from = TAUT_INPUT;
	step->into = TAUT_OUTPUT;
}

/* --- whole schedules -----------------------------------------------------------------*/

static void *carve(char **at, const void *data, size_t bytes)
{
	void *place = *at;

	if (bytes)
		memcpy(place, data, bytes);
	*at += bytes;
	return place;
}

/* All in one piece of memory; NULL: there is none. */
static struct taut_coll_schedule *finish(const struct tauti_writer *writer)
{
	size_t steps = writer->steps.count * sizeof *writer->steps.data;
	size_t peers = writer->peers.count * sizeof *writer->peers.data;
	size_t waits = writer->waits.count * sizeof *writer->waits.data;
	struct taut_coll_schedule *schedule = NULL;
	char *at;

	if (!writer->failed)
		schedule = malloc(sizeof *schedule + steps + peers + waits);
	if (!schedule)
		return NULL;
	at = (char *)(schedule + 1);
	schedule->n_steps = (uint32_t)writer->steps.count;
	schedule->n_peers = (uint32_t)writer->peers.count;
	schedule->n_waits = (uint32_t)writer->waits.count;
	schedule->steps = carve(&at, writer->steps.data, steps);
	schedule->peers = carve(&at, writer->peers.data, peers);
	schedule->waits = carve(&at, writer->waits.data, waits);
	schedule->scratch = writer->scratch_count;
	return schedule;
}

void tauti_writer_init(
	struct tauti_writer *writer, const struct taut_coll_shape *shape)
{
	struct tauti_segment untouched = { 0, TAUT_NONE, TAUT_NONE };

	memset(writer, 0, sizeof *writer);
	writer->shape = shape;
	writer->failed =
		!taut_vec_push(&writer->buffers.segments, untouched) ||
		!taut_vec_push(&writer->scratch.segments, untouched);
}

void tauti_writer_fini(struct tauti_writer *writer)
{
	taut_vec_free(&writer->steps);
	taut_vec_free(&writer->peers);
	taut_vec_free(&writer->waits);
	taut_vec_free(&writer->waited_by);
	taut_vec_free(&writer->reads);
	taut_vec_free(&writer->buffers.segments);
	taut_vec_free(&writer->scratch.segments);
}

static taut_status check_shape(
	const struct taut_coll_shape *shape, struct taut_error *reterr)
{
	if (!taut_coll_has(shape->verb, shape->way))
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"collective: there is no %s by %s",
			taut_coll_verb_name(shape->verb),
			taut_coll_way_name(shape->way));
	if (!shape->n_ranks || shape->n_ranks > TAUT_COLL_RANKS ||
		shape->rank >= shape->n_ranks)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"collective: rank %" PRIu32 " of %" PRIu32
			", expected 1 to %d ranks and one of them",
			shape->rank, shape->n_ranks, TAUT_COLL_RANKS);
	if (shape->verb == TAUT_BROADCAST && shape->root >= shape->n_ranks)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"collective: root %" PRIu32 " of %" PRIu32 " ranks",
			shape->root, shape->n_ranks);
	if (shape->count >= MOST_ELEMENTS)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"collective: %" PRIu64 " elements, expected less than "
			"2^48", shape->count);
	return TAUT_OK;
}

taut_status taut_coll_schedule_create(const struct taut_coll_shape *shape,
	struct taut_coll_schedule **ret_schedule, struct taut_error *reterr)
{
	struct tauti_writer writer;
	struct taut_coll_schedule *schedule;
	taut_status status = check_shape(shape, reterr);

	if (status)
		return status;
	tauti_writer_init(&writer, shape);
	if (shape->n_ranks == 1)
		tauti_copy(&writer, tauti_all(&writer));
	else
		ways[shape->way]->write[shape->verb](&writer);
	schedule = finish(&writer);
	tauti_writer_fini(&writer);
	if (!schedule)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"collective: out of memory");
	*ret_schedule = schedule;
	return TAUT_OK;
}

void taut_coll_schedule_destroy(struct taut_coll_schedule *schedule)
{
	free(schedule);
}

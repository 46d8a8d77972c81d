/* tree.c - two binary trees, half of the elements each: up to the root and down
 * again. A rank inside one is a leaf of the other, so that all send about as much
 * (Sanders, Speck, Träff 2009).
 *
 * Position 0 is the root. The others, 1 to n - 1, are the nodes of a binary search
 * tree, in order: the more often 2 divides a position, the higher it stands.
 *
 *     8 ranks   0 -> 4 -> 2, 6 -> 1, 3, 5, 7
 *
 * Odd ones are leaves. In the second tree all but the root stand one further, so
 * that odd becomes even. */
#include "coll/schedule.h"

enum { TREES = 2 };

struct place {
	uint32_t above, below[2]; /* members; TAUT_NONE */
	uint32_t n_below;
};

static uint32_t up(uint32_t position, uint32_t n)
{
	uint32_t bit = position & (~position + 1);
	uint32_t above = (position - bit) | 2 * bit;

	return above < n ? above : position - bit;
}

static uint32_t member_at(
	const struct tauti_group *group, uint32_t root, int tree, uint32_t at)
{
	uint32_t n = group->n;

	if (at && tree)
		at = at == 1 ? n - 1 : at - 1;
	return tauti_rank_of(group, (at + root) % n);
}

static uint32_t position_of(
	const struct tauti_group *group, uint32_t root, int tree)
{
	uint32_t n = group->n, at = (group->me + n - root) % n;

	if (at && tree)
		at = at % (n - 1) + 1;
	return at;
}

static void add_below(struct place *place, const struct tauti_group *group,
	uint32_t root, int tree, uint32_t position)
{
	place->below[place->n_below++] =
		member_at(group, root, tree, position);
}

static struct place place_in(
	const struct tauti_group *group, uint32_t root, int tree)
{
	uint32_t n = group->n, at = position_of(group, root, tree);
	uint32_t half = (at & (~at + 1)) / 2;
	struct place place = { .above = TAUT_NONE };

	if (!at) {
		add_below(&place, group, root, tree, tauti_power(n - 1));
		return place;
	}
	place.above = member_at(group, root, tree, up(at, n));
	if (half)
		add_below(&place, group, root, tree, at - half);
	while (half && at + half >= n)
		half /= 2;
	if (half)
		add_below(&place, group, root, tree, at + half);
	return place;
}

/* Message 2 t goes up in tree t, and 2 t + 1 down. */
static void go_up(struct tauti_writer *writer, const struct place *place,
	struct tauti_elements range, uint32_t message)
{
	struct tauti_extent sum = tauti_extent(TAUT_INPUT, range);
	struct tauti_extent output = tauti_extent(TAUT_OUTPUT, range);

	for (uint32_t i = 0; i < place->n_below; i++) {
		tauti_recv_reduce(writer, output, sum, place->below[i],
			message);
		sum = output;
	}
	if (place->above != TAUT_NONE)
		tauti_send(writer, sum, place->above, message);
}

static void go_down(struct tauti_writer *writer, const struct place *place,
	struct tauti_elements range, enum taut_coll_buffer of_root,
	uint32_t message)
{
	bool root = place->above == TAUT_NONE;

	if (!root)
		tauti_recv(writer, tauti_extent(TAUT_OUTPUT, range),
			place->above, message);
	tauti_send_each(writer,
		tauti_extent(root ? of_root : TAUT_OUTPUT, range), place->below,
		place->n_below, message);
}

static void allreduce(struct tauti_writer *writer)
{
	struct tauti_group group = tauti_all_ranks(writer);
	struct tauti_elements all = tauti_all(writer);
	struct place places[TREES];

	for (int t = 0; t < TREES; t++) {
		places[t] = place_in(&group, 0, t);
		go_up(writer, &places[t], tauti_block_of(all, TREES, (uint32_t)t),
			2 * (uint32_t)t);
	}
	for (int t = 0; t < TREES; t++)
		go_down(writer, &places[t],
			tauti_block_of(all, TREES, (uint32_t)t), TAUT_OUTPUT,
			2 * (uint32_t)t + 1);
}

void tauti_tree_broadcast(struct tauti_writer *writer,
	const struct tauti_group *group, uint32_t root,
	struct tauti_elements range)
{
	for (int t = 0; t < TREES; t++) {
		struct place place = place_in(group, root, t);

		go_down(writer, &place, tauti_block_of(range, TREES, (uint32_t)t),
			TAUT_INPUT, 2 * (uint32_t)t + 1);
	}
}

static void broadcast(struct tauti_writer *writer)
{
	const struct taut_coll_shape *shape = writer->shape;
	struct tauti_group group = tauti_all_ranks(writer);

	tauti_tree_broadcast(writer, &group, shape->root, tauti_all(writer));
	if (shape->rank == shape->root)
		tauti_copy(writer, tauti_all(writer));
}

const struct tauti_way_row tauti_way_tree = { "tree", {
	[TAUT_ALLREDUCE] = allreduce,
	[TAUT_BROADCAST] = broadcast,
} };

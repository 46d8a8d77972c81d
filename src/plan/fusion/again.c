/* again.c - a state played by what differs from the one before. */
#include <taut/again.h>

#include "plan/fusion/fusion.h"

static taut_status again_create(
	struct taut_edit *edit, void **ret_self, struct taut_error *err)
{
	struct taut_again *again;
	taut_status status = taut_again_create(edit, &again, err);

	if (!status)
		*ret_self = again;
	return status;
}

static void again_destroy(void *self)
{
	taut_again_destroy(self);
}

static taut_status again_play(
	void *self, int64_t *ret_end_ns, struct taut_error *err)
{
	taut_status status = taut_again_follow(self, err);

	if (!status)
		*ret_end_ns = taut_again_makespan(self);
	return status;
}

static int64_t again_start(const void *self, uint32_t op)
{
	int64_t ns = 0;

	(void)taut_again_times(self, op, &ns, NULL);
	return ns;
}

static int64_t again_end(const void *self, uint32_t op)
{
	int64_t ns = 0;

	(void)taut_again_times(self, op, NULL, &ns);
	return ns;
}

static uint32_t again_decided(const void *self, uint32_t op)
{
	return taut_again_decided_by(self, op);
}

static uint32_t again_last(void *self)
{
	return taut_again_last(self);
}

const struct tauti_fusion_engine tauti_fusion_again = {
	.name = "again",
	.create = again_create, .destroy = again_destroy, .play = again_play,
	.start_ns = again_start, .end_ns = again_end,
	.decided_by = again_decided, .last = again_last,
};

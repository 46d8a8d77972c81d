/* The contract of the engines, kept by shared memory: when looking for messages is
 * worth a core, and when every wait sleeps. */
#include "coll/engines/contract.h"

#include "coll/engines/shm.h"
#include "tests/support/gather.h"

static taut_status make(void *engines, uint32_t rank,
	struct tauti_engine *ret_engine, struct taut_error *err)
{
	static const uint32_t one_host[CONTRACT_RANKS];
	struct gather_rank me = { engines, rank };
	struct tauti_shm_world world = { rank, me.gather->n_ranks, one_host,
		gather_all, &me,
		tauti_cores_enough_here(me.gather->n_ranks) };

	return tauti_shm_create_by(&world, ret_engine, err);
}

static taut_status make_sleeping(void *engines, uint32_t rank,
	struct tauti_engine *ret_engine, struct taut_error *err)
{
	taut_status status = make(engines, rank, ret_engine, err);
	struct tauti_shm *it;

	if (status != TAUT_OK)
		return status;
	it = ret_engine->context;
	it->spin_ns = 0;
	it->n_yields = 0;
	return TAUT_OK;
}

static void *begin(uint32_t n_ranks)
{
	return gather_create(n_ranks);
}

static void end(void *engines)
{
	gather_destroy(engines);
}

int main(void)
{
	return contract_run(&(struct contract){ begin, make, end }) +
		contract_run(&(struct contract){ begin, make_sleeping, end });
}

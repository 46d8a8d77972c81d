/* The contract of the engines, kept over TCP. */
#include "coll/engines/contract.h"

#include "coll/engines/ranks_meet.h"

static taut_status make(void *engines, uint32_t rank,
	struct tauti_engine *ret_engine, struct taut_error *err)
{
	struct ranks_meet *it = engines;
	taut_status status = ranks_meet_rank(it, rank, err);

	return status != TAUT_OK ? status :
		tauti_tcp_create(it->meets[rank], rank, it->n_ranks, NULL, ret_engine,
			err);
}

int main(void)
{
	const struct contract contract = { ranks_meet_begin, make, ranks_meet_end };
	/* More ranks than those that are looked at one by one. */
	const struct contract_how many = { &contract, NULL, CONTRACT_MOST };

	return contract_run(&contract) + contract_run_how(&many);
}

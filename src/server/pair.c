/* pair.c - the engine of a worker and a server: connections of our own, and UCX where
 * both have RDMA, or one was told so; see server.h. */
#include "server/server.h"

#include <stdlib.h>

enum says { ASKS_UCX = 1, ASKS_TCP = 2, HAS_UCX = 4 };

/* Where UCX may be used it is looked for, unless others would have to wait for that. */
taut_status tauti_pair_open(
	enum tauti_want want, struct tauti_pair *ret_pair, struct taut_error *reterr)
{
	taut_status status = TAUT_OK;

	*ret_pair = (struct tauti_pair){ .want = want };
	if (want == TAUTI_WANT_UCX)
		status = tauti_ucx_open(2, &ret_pair->ucx, reterr);
	else if (want != TAUTI_WANT_TCP && tauti_has_rdma() &&
		tauti_ucx_open(2, &ret_pair->ucx, NULL))
		ret_pair->ucx = NULL;
	return status;
}

void tauti_pair_close(struct tauti_pair *pair)
{
	if (pair->ucx)
		tauti_ucx_destroy(pair->ucx);
	pair->ucx = NULL;
}

uint16_t tauti_pair_says(const struct tauti_pair *pair, const struct tauti_meet *meet)
{
	uint16_t says = pair->ucx ? HAS_UCX : 0;

	if (pair->want == TAUTI_WANT_TCP)
		says |= ASKS_TCP;
	else if (pair->want == TAUTI_WANT_UCX || !tauti_meet_may_connect(meet))
		says |= ASKS_UCX;
	return says;
}

taut_status tauti_pair_meet(struct tauti_pair *pair, uint16_t mine, uint16_t others,
	struct tauti_meet *meet, uint32_t rank, const char *who,
	struct tauti_engine *ret_engine, struct taut_error *reterr)
{
	bool asked = (mine | others) & ASKS_UCX, both = mine & others & HAS_UCX;
	struct taut_error why;
	struct tauti_ucx *ucx;
	taut_status status = TAUT_OK;

	if (asked && (mine | others) & ASKS_TCP)
		return taut_error_set(reterr, TAUT_EMATCH, -1, "%.200s asks for another "
			"engine than this one (TAUT_ENGINE, UCX_NET_DEVICES)", who);
	if (!asked && (!both || (mine | others) & ASKS_TCP))
		return tauti_tcp_create(meet, rank, 2, NULL, ret_engine, reterr);
	if (!pair->ucx)
		status = tauti_ucx_open(2, &pair->ucx, &why);
	if (status)
		return taut_error_set(reterr, status, -1, "%.200s asks for UCX: %.280s",
			who, why.message);
	ucx = pair->ucx;
	pair->ucx = NULL; /* it is taken over */
	return tauti_ucx_meet(ucx, meet, rank, ret_engine, reterr);
}

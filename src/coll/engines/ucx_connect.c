/* ucx_connect.c - connections between all ranks, before there is an engine; see
 * ucx.h.
 *
 * UCX 1.13 ends the process, by an assertion of its own, when a connection breaks
 * while it is being made. So all of them stand before any rank can leave. The
 * lower rank of a pair connects and says a byte; the higher one hears it, has an
 * endpoint over that same connection, and answers. Two ranks that connect to each
 * other at once would make two and drop one, and that is where most breaks.
 *
 *     addresses   each to all, by the meeting
 *     endpoints   to the higher ranks; all hear who found no way, and may begin
 *                 anew with what devices there are by then
 *     greetings   a byte each way; all hear who had no answer, and why. One for
 *                 which it went wrong before the time is over summons the others */
#include "coll/engines/outcome.h"
#include "coll/engines/ucx.h"

#include <stdlib.h>
#include <string.h>

/* No call's: the last message of the last pass of the last channel. */
static const uint64_t greeting_tag = ((uint64_t)1 << TAUT_COLL_TAG_BITS) - 1;
static const int64_t look_ns = 20000000; /* at the meeting, again */
enum { ADDRESS_BYTES = 1 << 20 };        /* no address is longer */

struct hail { /* one way */
	struct taut_coll_request request; /* first */
	taut_status status;
	bool begun, over;
};

struct tauti_ucx_greeting { /* with one peer */
	struct hail said, heard;
	uint8_t out, in; /* nobody looks at them */
};

/* --- addresses ------------------------------------------------------------------------*/

struct addresses { /* by rank */
	uint8_t *all;
	size_t bytes; /* of each */
};

static taut_status no_memory(struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
}

/* How long the longest is. */
static taut_status agree_on_size(struct tauti_ucx *ucx, struct tauti_meet *meet,
	uint32_t mine, uint32_t *ret_most, struct taut_error *reterr)
{
	uint32_t *sizes = calloc(ucx->n_ranks, sizeof *sizes), most = 0, told;
	taut_status status;

	if (!sizes)
		return no_memory(reterr);
	status = tauti_meet_gather(meet, &mine, sizeof mine, sizes, reterr);
	for (uint32_t i = 0; i < ucx->n_ranks; i++)
		most = sizes[i] > most ? sizes[i] : most;
	told = sizes[ucx->rank];
	free(sizes);
	if (status == TAUT_OK && (most > ADDRESS_BYTES || told != mine))
		return taut_error_set(reterr, TAUT_EFORMAT, -1, "UCX: rank 0 "
			"told of addresses that nobody has: this rank's of %u "
			"bytes in place of %u, the longest of %u", told, mine,
			most);
	*ret_most = most;
	return status;
}

static taut_status exchange(struct tauti_ucx *ucx, struct tauti_meet *meet,
	const void *mine, uint32_t bytes, struct addresses *ret,
	struct taut_error *reterr)
{
	uint8_t *all = NULL, *padded = NULL;
	uint32_t most = 0;
	taut_status status = agree_on_size(ucx, meet, bytes, &most, reterr);

	if (status != TAUT_OK)
		return status;
	all = calloc(ucx->n_ranks, most);
	padded = calloc(1, most);
	if (all && padded) {
		memcpy(padded, mine, bytes);
		status = tauti_meet_gather(meet, padded, most, all, reterr);
	} else {
		status = no_memory(reterr);
	}
	free(padded);
	if (status != TAUT_OK) {
		free(all);
		return status;
	}
	*ret = (struct addresses){ all, most };
	return TAUT_OK;
}

static taut_status gather_addresses(struct tauti_ucx *ucx,
	struct tauti_meet *meet, struct addresses *ret,
	struct taut_error *reterr)
{
	ucp_address_t *mine = NULL;
	size_t bytes = 0;
	ucs_status_t got = ucx->call.ucp_worker_get_address(ucx->worker, &mine,
		&bytes);
	taut_status status;

	if (got != UCS_OK)
		return tauti_ucx_fault(ucx, got, "no address", reterr);
	status = exchange(ucx, meet, mine, (uint32_t)bytes, ret, reterr);
	ucx->call.ucp_worker_release_address(ucx->worker, mine);
	return status;
}

/* --- endpoints ------------------------------------------------------------------------*/

static taut_status connect_to(struct tauti_ucx *ucx, uint32_t rank,
	const struct addresses *addresses, struct taut_error *err)
{
	struct tauti_ucx_peer *peer = &ucx->peers[rank];
	const ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
			UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
			UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.address = (const void *)(addresses->all +
			rank * addresses->bytes),
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = { tauti_ucx_on_broken, peer } };
	ucs_status_t status;

	peer->ucx = ucx;
	status = ucx->call.ucp_ep_create(ucx->worker, &params, &peer->endpoint);
	if (status == UCS_OK)
		return TAUT_OK;
	peer->endpoint = NULL;
	return taut_error_set(err, status == UCS_ERR_NO_MEMORY ? TAUT_ENOMEM :
		TAUT_EIO, -1, "UCX: no way to rank %u: %s%s", rank,
		ucx->call.ucs_status_string(status),
		getenv("UCX_TLS") ? " (UCX_TLS must leave it one that tells of "
		"lost peers, as tcp)" : "");
}

static void connect_up(struct tauti_ucx *ucx, const struct addresses *addresses,
	struct tauti_fault *fault)
{
	for (uint32_t i = ucx->rank + 1; i < ucx->n_ranks; i++) {
		if (connect_to(ucx, i, addresses, &fault->why) == TAUT_OK)
			continue;
		fault->peer = i;
		fault->reason = TAUTI_NO_WAY;
		return;
	}
}

static taut_status conclude(struct tauti_ucx *ucx, struct tauti_meet *meet,
	const struct tauti_fault *mine, struct taut_error *reterr)
{
	return tauti_conclude(meet, "UCX", ucx->rank, ucx->n_ranks, mine, NULL, reterr);
}

/* --- greetings --------------------------------------------------------------------------*/

static void on_hailed(struct taut_coll_request *request, taut_status status)
{
	struct hail *hail = (struct hail *)request;

	hail->status = status;
	hail->over = true;
}

static taut_status say(struct tauti_ucx *ucx, uint32_t rank,
	struct taut_error *err)
{
	struct tauti_ucx_greeting *with = &ucx->greetings[rank];

	with->said.request.done = on_hailed;
	with->said.begun = true;
	return tauti_ucx_engine.send(ucx, &rank, 1, greeting_tag, &with->out, 1,
		&with->said.request, err);
}

static taut_status listen_for(struct tauti_ucx *ucx, uint32_t rank,
	struct taut_error *err)
{
	struct tauti_ucx_greeting *with = &ucx->greetings[rank];

	with->heard.request.done = on_hailed;
	with->heard.begun = true;
	return tauti_ucx_engine.recv(ucx, rank, greeting_tag, &with->in, 1,
		&with->heard.request, err);
}

/* Listens to all, and speaks to those above. */
static void begin_greeting(struct tauti_ucx *ucx, struct tauti_fault *fault)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < ucx->n_ranks && status == TAUT_OK; i++) {
		if (i == ucx->rank)
			continue;
		status = listen_for(ucx, i, &fault->why);
		if (status == TAUT_OK && i > ucx->rank)
			status = say(ucx, i, &fault->why);
		if (status != TAUT_OK) {
			fault->peer = i;
			fault->reason = TAUTI_BROKEN;
		}
	}
	fault->why.code = status;
}

static taut_status answer(struct tauti_ucx *ucx, uint32_t rank,
	const struct addresses *addresses, struct taut_error *err)
{
	taut_status status = connect_to(ucx, rank, addresses, err);

	return status == TAUT_OK ? say(ucx, rank, err) : status;
}

/* Answers those who spoke. TAUT_NONE: all is said and heard; else a rank of which
 * something is missing. */
static uint32_t greet_more(struct tauti_ucx *ucx,
	const struct addresses *addresses, struct tauti_fault *fault)
{
	uint32_t missing = TAUT_NONE;

	for (uint32_t i = 0; i < ucx->n_ranks; i++) {
		const struct tauti_ucx_greeting *with = &ucx->greetings[i];
		enum tauti_reason reason = TAUTI_NO_WAY;
		taut_status status = TAUT_OK;

		if (i == ucx->rank)
			continue;
		if (with->heard.over && !with->said.begun)
			status = answer(ucx, i, addresses, &fault->why);
		if (with->heard.status != TAUT_OK) {
			reason = TAUTI_NO_GREETING;
			status = taut_error_set(&fault->why, TAUT_EIO, -1,
				"UCX: what rank %u says is no greeting", i);
		} else if (with->said.over && with->said.status != TAUT_OK) {
			reason = TAUTI_BROKEN;
			status = taut_error_set(&fault->why, with->said.status,
				-1, "UCX: rank %u cannot be greeted: %s", i,
				taut_status_name(with->said.status));
		}
		if (status != TAUT_OK) {
			fault->why.code = status;
			fault->reason = reason;
			fault->peer = i;
			return i;
		}
		if (!with->heard.over || !with->said.over)
			missing = i;
	}
	return missing;
}

/* Moves on until there may be something new; until then at most. */
static taut_status await_more(struct tauti_ucx *ucx, int64_t left_ns,
	struct taut_error *err)
{
	const struct taut_coll_engine *table = &tauti_ucx_engine;
	taut_status status = table->progress(ucx, err);

	return status ? status : table->wait(
		ucx, left_ns < look_ns ? left_ns : look_ns, err);
}

static uint32_t gone_or(const struct tauti_ucx *ucx, uint32_t missing)
{
	for (uint32_t i = 0; i < ucx->n_ranks; i++)
		if (ucx->peers[i].gone)
			return i;
	return missing;
}

static void say_late(struct tauti_fault *fault, uint32_t missing, int64_t within_ns)
{
	fault->peer = missing;
	fault->reason = TAUTI_LATE;
	taut_error_set(&fault->why, TAUT_EIO, -1,
		"rank %u does not answer by UCX within %.3g s", missing,
		(double)within_ns / 1e9);
}

static void move_on(struct tauti_ucx *ucx, int64_t left_ns, uint32_t missing,
	struct tauti_fault *fault)
{
	fault->why.code = await_more(ucx, left_ns, &fault->why);
	if (fault->why.code) {
		fault->reason = TAUTI_BROKEN;
		fault->peer = gone_or(ucx, missing);
	}
}

/* Without a line: another rank has it, or the meeting. */
static void give_up(struct tauti_fault *fault, enum tauti_reason reason, uint32_t missing)
{
	fault->why.code = TAUT_EIO;
	fault->reason = reason;
	fault->peer = missing;
}

/* Until all was said and heard, or all hear by the meeting why not. */
static void greet(struct tauti_ucx *ucx, struct tauti_meet *meet,
	const struct addresses *addresses, struct tauti_fault *fault)
{
	/* The others wait as long for what comes of it. */
	int64_t within_ns = tauti_meet_within_ns(meet) / 4 * 3;
	int64_t until_ns = tauti_now_ns() + within_ns;
	uint32_t missing;

	begin_greeting(ucx, fault);
	while (!fault->why.code && (missing =
		greet_more(ucx, addresses, fault)) != TAUT_NONE) {
		int64_t left_ns = until_ns - tauti_now_ns();
		enum tauti_meet_word word = tauti_meet_hear(meet);

		if (fault->why.code)
			return;
		if (word == TAUTI_MEET_ENDS)
			give_up(fault, TAUTI_UNSAID, missing);
		else if (word == TAUTI_MEET_SUMMONS)
			give_up(fault, TAUTI_SUMMONED, missing);
		else if (left_ns <= 0)
			say_late(fault, missing, within_ns);
		else
			move_on(ucx, left_ns, missing, fault);
	}
}

/* --- all of it --------------------------------------------------------------------------*/

static taut_status greet_all(struct tauti_ucx *ucx, struct tauti_meet *meet,
	const struct addresses *addresses, struct taut_error *reterr)
{
	struct tauti_fault fault = { .peer = TAUT_NONE };
	taut_status status;

	ucx->greetings = calloc(ucx->n_ranks, sizeof *ucx->greetings);
	if (!ucx->greetings)
		return no_memory(reterr);
	greet(ucx, meet, addresses, &fault);
	/* Who waits for this rank would do so until the time is over. */
	if (fault.why.code && fault.reason > TAUTI_LATE)
		tauti_meet_summon(meet);
	status = conclude(ucx, meet, &fault, reterr);
	if (status == TAUT_OK) { /* else UCX may have some of them */
		free(ucx->greetings);
		ucx->greetings = NULL;
	}
	return status;
}

taut_status tauti_ucx_connect(struct tauti_ucx *ucx, struct tauti_meet *meet,
	bool *ret_again, struct taut_error *reterr)
{
	struct tauti_fault fault = { .peer = TAUT_NONE };
	struct addresses addresses = { NULL, 0 };
	taut_status status = gather_addresses(ucx, meet, &addresses, reterr);

	*ret_again = false;
	if (status != TAUT_OK)
		return status;
	connect_up(ucx, &addresses, &fault);
	status = conclude(ucx, meet, &fault, reterr);
	*ret_again = status == TAUT_EIO &&
		tauti_meet_hear(meet) != TAUTI_MEET_ENDS;
	if (status == TAUT_OK)
		status = greet_all(ucx, meet, &addresses, reterr);
	free(addresses.all);
	return status;
}

/* meet_guest.c - the ranks but 0 until all are there; see meet.h. */
#include "coll/meet.h"

#include <stdio.h>
#include <string.h>

static const int64_t hello_ns = 10000000000; /* one hand-shake */
static const int64_t pause_least_ns = 20000000, pause_most_ns = 500000000;

/* Welcome; now until all are there. */
static taut_status await_start(struct tauti_meet *meet, int64_t until_ns,
	struct taut_error *reterr)
{
	struct tauti_link *link = &meet->links[0];
	/* Rank 0 knows who is missing: its word comes a little later. */
	int64_t word_ns = until_ns + meet->within_ns / 8 + 1000000000;
	struct tauti_frame frame;
	taut_status status;

	link->allowed = tauti_kind_bit(TAUTI_START) | tauti_kind_bit(TAUTI_LOST);
	status = tauti_link_await(link, word_ns, &frame);
	if (status == TAUT_OK && frame.kind == TAUTI_START)
		return TAUT_OK;
	if (status == TAUT_OK) {
		status = tauti_meet_told(meet, &frame);
		if (reterr)
			*reterr = meet->fault;
		return status;
	}
	return taut_error_set(reterr, TAUT_EAGAIN, -1,
		"it took this rank's hello, but %s", status == TAUT_EAGAIN ?
		"not all ranks came" : tauti_link_why(link, status));
}

/* TAUT_EAGAIN: not yet, and why. */
static taut_status connect_to(const struct tauti_meet_options *options,
	int64_t until_ns, int *ret_fd, struct taut_error *reterr)
{
	struct taut_error why;
	taut_status status = tauti_address_connect(
		options->address, until_ns, ret_fd, &why);

	if (status == TAUT_EIO && options->listens)
		return taut_error_set(reterr, TAUT_EIO, -1,
			"rank 0 at %.200s listens no more (%.200s)",
			options->address, why.message);
	if (status != TAUT_OK && reterr)
		*reterr = why;
	return status == TAUT_EIO ? TAUT_EAGAIN : status;
}

/* The same of the whole hand-shake. */
static taut_status try_once(struct tauti_meet *meet,
	const struct tauti_meet_options *options, int64_t until_ns,
	struct taut_error *reterr)
{
	struct tauti_link *link = &meet->links[0];
	taut_status status;
	int fd = -1;

	status = connect_to(options, until_ns, &fd, reterr);
	if (status != TAUT_OK)
		return status;
	tauti_link_open(link, fd);
	snprintf(link->from, sizeof link->from, "%s", meet->where);
	status = tauti_hello(link, options,
		tauti_earlier_ns(until_ns, tauti_meet_now_ns() + hello_ns), reterr);
	if (status == TAUT_OK)
		status = await_start(meet, until_ns, reterr);
	if (status != TAUT_OK)
		tauti_link_close(link);
	return status;
}

taut_status tauti_meet_guest(struct tauti_meet *meet,
	const struct tauti_meet_options *options, struct taut_error *reterr)
{
	int64_t until_ns = tauti_meet_now_ns() + meet->within_ns;
	int64_t pause_ns = pause_least_ns;
	struct taut_error why;
	taut_status status;

	do {
		status = try_once(meet, options, until_ns, &why);
		if (status != TAUT_EAGAIN)
			break;
		tauti_poll(NULL, 0, tauti_earlier_ns(pause_ns,
			until_ns - tauti_meet_now_ns()));
		pause_ns = tauti_earlier_ns(2 * pause_ns, pause_most_ns);
	} while (tauti_meet_now_ns() < until_ns);
	if (status == TAUT_EAGAIN)
		return taut_error_set(reterr, TAUT_EIO, -1,
			"rank 0 at %.200s: no answer within %g s (%.200s)",
			options->address, (double)meet->within_ns / 1e9,
			why.message);
	if (status != TAUT_OK && reterr)
		*reterr = why;
	return status;
}

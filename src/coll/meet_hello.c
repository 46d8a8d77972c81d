/* meet_hello.c - both sides of the hand-shake; see meet.h. */
#include "coll/meet.h"

#include <string.h>

void tauti_guest_open(struct tauti_guest *guest, int fd, int64_t now_ns)
{
	*guest = (struct tauti_guest){ .came_ns = now_ns };
	tauti_link_open(&guest->link, fd);
	guest->link.allowed = tauti_kind_bit(TAUTI_HELLO);
}

static taut_status challenge(struct tauti_guest *guest, const uint8_t *body)
{
	guest->rank = tauti_get32(body);
	guest->n_ranks = tauti_get32(body + 4);
	memcpy(guest->nonce, body + 8, TAUTI_NONCE_BYTES);
	if (!tauti_nonce(guest->nonce_0) ||
		!tauti_link_put(&guest->link, TAUTI_CHALLENGE, guest->nonce_0,
			TAUTI_NONCE_BYTES))
		return TAUT_ENOMEM;
	guest->link.allowed = tauti_kind_bit(TAUTI_ANSWER);
	return TAUT_EAGAIN;
}

taut_status tauti_guest_take(struct tauti_guest *guest,
	const struct tauti_frame *frame, const char *secret)
{
	struct tauti_proof_of of = { 'r', guest->rank, guest->n_ranks, 0, 0,
		guest->nonce, guest->nonce_0 };

	if (frame->kind == TAUTI_HELLO)
		return challenge(guest, frame->body);
	guest->link.allowed = 0;
	if (tauti_proven(secret, &of, frame->body))
		return TAUT_OK;
	(void)tauti_link_put(&guest->link, TAUTI_REFUSAL, NULL, 0);
	return TAUT_EIO;
}

bool tauti_guest_welcome(struct tauti_guest *guest, const char *secret,
	enum tauti_verdict verdict, uint32_t n_ranks)
{
	struct tauti_proof_of of = { '0', guest->rank, guest->n_ranks, verdict,
		n_ranks, guest->nonce, guest->nonce_0 };
	uint8_t body[8 + TAUTI_PROOF_BYTES];

	tauti_put32(body, verdict);
	tauti_put32(body + 4, n_ranks);
	return tauti_prove(secret, &of, body + 8) &&
		tauti_link_put(&guest->link, TAUTI_WELCOME, body, sizeof body);
}

/* --- the side of rank r -------------------------------------------------------------*/

static taut_status no_secret(const struct tauti_meet_options *options,
	const char *who, struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_EIO, -1, "rank 0 at %s: %s",
		options->address, who);
}

static taut_status read_verdict(const struct tauti_meet_options *options,
	uint32_t verdict, uint32_t n_ranks, struct taut_error *reterr)
{
	if (verdict == TAUTI_WELCOME_IN)
		return TAUT_OK;
	if (verdict == TAUTI_ALREADY_THERE)
		return taut_error_set(reterr, TAUT_EMATCH, -1,
			"rank 0 at %s: another process is rank %u already",
			options->address, options->rank);
	return taut_error_set(reterr, TAUT_EMATCH, -1,
		"rank 0 at %s counts %u ranks; this one is rank %u of %u",
		options->address, n_ranks, options->rank, options->n_ranks);
}

/* A frame of this kind, or of the other one, which says no. */
static taut_status expect(struct tauti_link *link, enum tauti_frame_kind kind,
	const struct tauti_meet_options *options, int64_t until_ns,
	struct tauti_frame *ret_frame, struct taut_error *reterr)
{
	taut_status status;

	link->allowed = tauti_kind_bit(kind) | tauti_kind_bit(TAUTI_REFUSAL);
	status = tauti_link_await(link, until_ns, ret_frame);
	if (status == TAUT_OK && ret_frame->kind == TAUTI_REFUSAL)
		return no_secret(options, "this rank's secret is not its own",
			reterr);
	if (status == TAUT_OK)
		return TAUT_OK;
	if (status == TAUT_EMATCH)
		return taut_error_set(reterr, TAUT_EMATCH, -1,
			"rank 0 at %s meets by version %u, this one by %d",
			options->address, link->version, TAUTI_MEET_VERSION);
	return taut_error_set(reterr, TAUT_EAGAIN, -1, "%s",
		status == TAUT_EAGAIN ? "it takes no hello" :
		tauti_link_why(link, status));
}

taut_status tauti_hello(struct tauti_link *link,
	const struct tauti_meet_options *options, int64_t until_ns,
	struct taut_error *reterr)
{
	uint8_t hello[8 + TAUTI_NONCE_BYTES], nonce_0[TAUTI_NONCE_BYTES];
	uint8_t proof[TAUTI_PROOF_BYTES];
	struct tauti_proof_of of = { 'r', options->rank, options->n_ranks, 0, 0,
		hello + 8, nonce_0 };
	struct tauti_frame frame;
	taut_status status;

	tauti_put32(hello, options->rank);
	tauti_put32(hello + 4, options->n_ranks);
	if (!tauti_nonce(hello + 8))
		return taut_error_set(reterr, TAUT_EIO, -1,
			"the system gives no random numbers");
	(void)tauti_link_put(link, TAUTI_HELLO, hello, sizeof hello);
	status = expect(link, TAUTI_CHALLENGE, options, until_ns, &frame,
		reterr);
	if (status != TAUT_OK)
		return status;
	memcpy(nonce_0, frame.body, TAUTI_NONCE_BYTES);
	if (!tauti_prove(options->secret, &of, proof))
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	(void)tauti_link_put(link, TAUTI_ANSWER, proof, sizeof proof);
	status = expect(link, TAUTI_WELCOME, options, until_ns, &frame, reterr);
	if (status != TAUT_OK)
		return status;
	of.role = '0';
	of.verdict = tauti_get32(frame.body);
	of.n_ranks_0 = tauti_get32(frame.body + 4);
	if (!tauti_proven(options->secret, &of, frame.body + 8))
		return no_secret(options, "who answers there does not know "
			"the secret", reterr);
	return read_verdict(options, of.verdict, of.n_ranks_0, reterr);
}

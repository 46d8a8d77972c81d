/* meet_proof.c - nonces and proofs; see meet.h. */
#include "coll/meet.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

bool tauti_nonce(uint8_t ret_nonce[TAUTI_NONCE_BYTES])
{
	size_t have = 0;

	while (have < TAUTI_NONCE_BYTES) {
		ssize_t n = getrandom(
			ret_nonce + have, TAUTI_NONCE_BYTES - have, 0);

		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0)
			have += (size_t)n;
	}
	return true;
}

enum { LABEL_BYTES = 12, SAID_BYTES = LABEL_BYTES + 16 + 2 * TAUTI_NONCE_BYTES };

/* All of fixed size: two that differ never read the same. */
static void write_down(const struct tauti_proof_of *of, uint8_t *said)
{
	static const char label[LABEL_BYTES] = "taut meet";
	const uint32_t numbers[] = { of->rank, of->n_ranks, of->verdict,
		of->n_ranks_0 };

	memcpy(said, label, LABEL_BYTES);
	said[LABEL_BYTES - 2] = TAUTI_MEET_VERSION;
	said[LABEL_BYTES - 1] = (uint8_t)of->role;
	said += LABEL_BYTES;
	for (int i = 0; i < 4; i++)
		tauti_put32(said + 4 * i, numbers[i]);
	memcpy(said + 16, of->nonce, TAUTI_NONCE_BYTES);
	memcpy(said + 16 + TAUTI_NONCE_BYTES, of->nonce_0, TAUTI_NONCE_BYTES);
}

bool tauti_prove(const char *secret, const struct tauti_proof_of *of,
	uint8_t ret_proof[TAUTI_PROOF_BYTES])
{
	uint8_t said[SAID_BYTES];
	unsigned bytes = TAUTI_PROOF_BYTES;

	write_down(of, said);
	return HMAC(EVP_sha256(), secret, (int)strlen(secret), said,
		sizeof said, ret_proof, &bytes) && bytes == TAUTI_PROOF_BYTES;
}

bool tauti_proven(const char *secret, const struct tauti_proof_of *of,
	const uint8_t *proof)
{
	uint8_t right[TAUTI_PROOF_BYTES];

	return tauti_prove(secret, of, right) &&
		CRYPTO_memcmp(right, proof, TAUTI_PROOF_BYTES) == 0;
}

/* nsight_name.c - what the text of a range or call says. */
#include "trace/formats/nsight.h"

#include <ctype.h>
#include <string.h>

#include "base/hash.h"

/* Where `word` begins in text; len: nowhere. */
static size_t find(const char *text, size_t len, const char *word)
{
	const char *at = len ? memmem(text, len, word, strlen(word)) : NULL;
	return at ? (size_t)(at - text) : len;
}

static size_t lesser(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The digits at text; -1: none, or too many. */
static int64_t digits(const char *text, size_t len)
{
	int64_t value = 0;
	size_t i = 0;
	for (; i < len && i < 18 && isdigit((unsigned char)text[i]); i++)
		value = value * 10 + (text[i] - '0');
	return i && i < 18 ? value : -1;
}

/* --- operators ----------------------------------------------------------- */

bool tauti_nsight_is_op(const char *text, size_t len, struct nsight_op *ret_op)
{
	size_t seq = find(text, len, ", seq = ");
	size_t id = find(text, len, ", op_id = ");
	size_t sizes = find(text, len, ", sizes = ");
	ret_op->name_len = lesser(lesser(seq, id), sizes);
	ret_op->sequence = seq < len ?
		digits(text + seq + 8, len - seq - 8) : -1;
	return seq < len || id < len;
}

/* --- steps --------------------------------------------------------------- */

/* In lower case, what stands between letters left out. */
static const char *const step_words[] = { "step", "trainstep", "trainingstep",
	"globalstep", "profilerstep", "iteration", "iter", "trainiteration",
	"trainingiteration", "trainiter", "trainbatch", "batch", "minibatch" };

static bool is_step_word(const char *word)
{
	for (size_t i = 0; i < sizeof step_words / sizeof *step_words; i++)
		if (strcmp(word, step_words[i]) == 0)
			return true;
	return false;
}

/* Digits become one '#', so that "step_7" and "step_12" have one key. */
void tauti_nsight_step_text(
	const char *text, size_t len, struct nsight_range *ret_range)
{
	char word[32], key[128];
	size_t n_word = 0, n_key = 0;
	ret_range->number = -1;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		if (isdigit(c)) {
			if (ret_range->number < 0)
				ret_range->number = digits(text + i, len - i);
			while (i + 1 < len && isdigit((unsigned char)text[i + 1]))
				i++;
			c = '#';
		} else if (isalpha(c) && ret_range->number < 0 &&
			n_word < sizeof word - 1) {
			word[n_word++] = (char)tolower(c);
		}
		if (n_key < sizeof key)
			key[n_key++] = (char)c;
	}
	word[n_word] = '\0';
	ret_range->key = tauti_hash(key, n_key);
	ret_range->named = is_step_word(word);
}

/* --- collectives --------------------------------------------------------- */

/* NCCL's own ranges that move no bytes begin alike: "ncclCommInitRank". */
static const char *const nccl_calls[] = { "ncclAllReduce", "ncclAllGather",
	"ncclReduceScatter", "ncclBroadcast", "ncclReduce", "ncclSend",
	"ncclRecv", "ncclAllToAll", "ncclAlltoAll", "ncclGather",
	"ncclScatter" };
static const char *const prefixes[] = { "nccl:", "c10d::", "gloo:", "ucc:",
	"mpi:", "rccl:" };

size_t tauti_nsight_collective(const char *text, size_t len, size_t *ret_at)
{
	for (size_t i = 0; i < sizeof nccl_calls / sizeof *nccl_calls; i++) {
		*ret_at = 4;
		if (len == strlen(nccl_calls[i]) &&
			memcmp(text, nccl_calls[i], len) == 0)
			return len - 4;
	}
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
		*ret_at = strlen(prefixes[i]);
		if (len > *ret_at && memcmp(text, prefixes[i], *ret_at) == 0)
			return len - *ret_at;
	}
	return 0;
}

/* --- calls --------------------------------------------------------------- */

static size_t drop(const char *text, size_t len, const char *end)
{
	size_t n = strlen(end);
	return len > n && memcmp(text + len - n, end, n) == 0 ? len - n : len;
}

/* "_v7000" names the version of the runtime's interface; the "_v2" of the
 * driver's calls is a part of their name. */
size_t tauti_nsight_call_len(const char *text, size_t len)
{
	size_t at = len;
	if (len < 8 || memcmp(text, "cuda", 4) != 0)
		return len;
	while (at && isdigit((unsigned char)text[at - 1]))
		at--;
	if (len - at < 4 || at < 2 || text[at - 1] != 'v' || text[at - 2] != '_')
		return len;
	at = drop(text, at - 2, "_ptsz");
	return drop(text, at, "_ptds");
}

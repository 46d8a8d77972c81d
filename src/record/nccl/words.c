/* words.c - texts of a log, found without a lock. */
#include "record/nccl/words.h"

#include <string.h>

#include "base/hash.h"
#include "record/log.h"

/* A few microseconds at most, which is what it takes to write a text. */
enum { TRIES = 256 };

bool tauti_words_try_lock(struct tauti_words *words)
{
	for (int i = 0; i < TRIES; i++)
		if (!atomic_flag_test_and_set_explicit(
			&words->writing, memory_order_acquire))
			return true;
	return false;
}

void tauti_words_unlock(struct tauti_words *words)
{
	atomic_flag_clear_explicit(&words->writing, memory_order_release);
}

void tauti_words_init(struct tauti_words *words, struct taut_log *log)
{
	words->log = log;
	atomic_flag_clear(&words->writing);
}

/* The word, or the free place where it belongs; NULL: neither. */
static struct tauti_word *look(
	struct tauti_words *words, const char *text, uint32_t hash)
{
	for (uint32_t i = 0; i < TAUTI_WORDS; i++) {
		struct tauti_word *word =
			&words->words[(hash + i) & (TAUTI_WORDS - 1)];
		uint32_t found = atomic_load_explicit(
			&word->hash, memory_order_acquire);

		if (!found || (found == hash && !strcmp(word->text, text)))
			return word;
	}
	return NULL;
}

static uint32_t add(struct tauti_words *words, const char *text, uint32_t hash)
{
	struct tauti_word *word = look(words, text, hash);
	uint32_t id;

	if (!word)
		return 0;
	if (atomic_load_explicit(&word->hash, memory_order_acquire))
		return word->id;
	/* Some places stay free, so that a text that is new is found out. */
	if (words->n >= TAUTI_WORDS * 3 / 4)
		return 0;
	id = taut_log_text(words->log, text);
	if (!id)
		return 0;
	words->n++;
	word->id = id;
	memcpy(word->text, text, strlen(text) + 1);
	atomic_store_explicit(&word->hash, hash, memory_order_release);
	return id;
}

uint32_t tauti_words_id(struct tauti_words *words, const char *text)
{
	char cut[TAUTI_WORD_BYTES];
	size_t len = strnlen(text, sizeof cut - 1);
	struct tauti_word *word;
	uint32_t hash, id;

	memcpy(cut, text, len);
	cut[len] = '\0';
	hash = (uint32_t)tauti_hash(cut, len) | 1;
	word = look(words, cut, hash);
	if (word && atomic_load_explicit(&word->hash, memory_order_acquire))
		return word->id;
	if (!tauti_words_try_lock(words))
		return tauti_log_text_anew(words->log, cut);
	id = add(words, cut, hash);
	tauti_words_unlock(words);
	return id;
}

/* words.h - texts of a log that were written before, found without a lock.
 *
 * Threads: any, all at once. The log's own lock is taken only by the thread
 *          that has `writing`, so nobody ever waits for it: who has a new text
 *          while another thread writes, and goes on writing (it may have lost
 *          its processor), writes the text once more, with an id of its own. */
#ifndef TAUT_RECORD_NCCL_WORDS_H
#define TAUT_RECORD_NCCL_WORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <taut/record.h>

enum {
	TAUTI_WORDS = 1024,
	TAUTI_WORD_BYTES = 72, /* of a text, with its zero; longer are cut */
};

struct tauti_word {
	_Atomic uint32_t hash; /* 0: free; stored last */
	uint32_t id;
	char text[TAUTI_WORD_BYTES];
};

struct tauti_words {
	struct taut_log *log;
	atomic_flag writing;
	uint32_t n;
	struct tauti_word words[TAUTI_WORDS];
};

/* words is zero. Writes nothing. */
void tauti_words_init(struct tauti_words *words, struct taut_log *log);
/* 0: no room. */
uint32_t tauti_words_id(struct tauti_words *words, const char *text);

/* The right to write lanes and facts into the log, which locks. */
bool tauti_words_try_lock(struct tauti_words *words);
void tauti_words_unlock(struct tauti_words *words);

#endif /* TAUT_RECORD_NCCL_WORDS_H */

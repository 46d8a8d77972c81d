/* plan_words.h - the words that taut plan and taut tune both take: how long to search,
 * and what a plan may do. */
#ifndef TAUT_CLI_PLAN_WORDS_H
#define TAUT_CLI_PLAN_WORDS_H

#include <stdbool.h>

#include <taut/plan.h>

#include "cli/opt.h"

struct plan_words { /* as on the command line; NULL: not given */
	const char *budget, *allow, *memory, *cache;
	struct opt_texts without;
};

/* 500ms, 30s, 5m, 1h; a bare number is seconds. Above 0 and below a million. */
bool plan_words_time(const char *text, double *ret_s);
/* Fills in what the words say of a search. False, after a complaint: one is wrong. */
bool plan_words_take(const char *verb, const struct plan_words *words,
	struct taut_plan_options *ret_options);

#endif /* TAUT_CLI_PLAN_WORDS_H */

/* advise.h - what advise.c and needs.c share. */
#ifndef TAUT_STALLS_ADVISE_H
#define TAUT_STALLS_ADVISE_H

#include <taut/stalls.h>

enum tauti_need {
	TAUTI_NEED_SHARE, TAUTI_NEED_RATE, TAUTI_NEED_CORES, TAUTI_NEED_WORKERS,
	TAUTI_NEEDS,
};
/* Fills in that one, which is 0 until then; the others may be looked for at the same time. */
TAUT_NODISCARD taut_status tauti_need(const struct taut_stalls_model *model,
	enum tauti_need which, struct taut_stalls_needs *needs, struct taut_error *reterr);

#endif /* TAUT_STALLS_ADVISE_H */

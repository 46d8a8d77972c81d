/* opt.h - command lines read by a table.
 *
 * A verb describes itself and its options in constant tables; parsing, help
 * and the complaints about what is wrong all come from them. Values go to a
 * struct of the verb's own, which starts as all zero.
 * Owner:   lists live in the arena that is handed in; texts point into argv.
 * Threads: none are touched. */
#ifndef TAUT_CLI_OPT_H
#define TAUT_CLI_OPT_H

#include <stdbool.h>
#include <stdio.h>

#include <taut/base.h>

enum opt_kind {
	OPT_FLAG,   /* bool */
	OPT_NUMBER, /* unsigned, within least..most */
	OPT_PERCENT, /* struct opt_percent: 2.5 or 2.5%, within least..most */
	OPT_TEXT,   /* const char *; the last one given counts */
	OPT_TEXTS,  /* struct opt_texts: every one given */
	OPT_RANKS,  /* struct opt_ranks: 0,2,5 or 0-7 or both mixed */
};

struct opt_percent {
	double percent;
	bool given;
};

struct opt_texts {
	const char **data;
	size_t n;
};

struct opt_ranks {
	int32_t *data;
	size_t n;
};

struct opt {
	const char *name; /* without the dashes */
	char letter;      /* 0: has none */
	enum opt_kind kind;
	size_t offset;    /* of the value in the verb's struct */
	const char *value; /* what to call it in the help: "FILE"; or NULL */
	const char *help;
	unsigned least, most; /* of a number or percent */
};

struct verb_call {
	const void *values; /* the verb's struct */
	const char *const *operands;
	size_t n_operands;  /* at least 1, but of a verb that has no_operands */
	struct taut_arena *arena; /* until the verb is done */
};

struct verb {
	const char *name, *summary;
	const char *operands; /* "RUN..." */
	const char *about;    /* paragraphs for the help */
	const struct opt *options;
	size_t n_options;
	size_t values_bytes;
	int (*run)(const struct verb_call *call); /* returns the exit status */
	/* The operands are a command to run: the first one ends the options,
	 * and main() leaves the signals as they are. */
	bool is_command;
	bool no_operands; /* may be called without any */
};

enum opt_result { OPT_RUN, OPT_HELP, OPT_WRONG };

/* argv is what follows the verb, up to NULL. values has values_bytes, cleared. On
 * OPT_RUN *ret_call is complete. On OPT_WRONG the error says what was
 * expected. --help anywhere before "--" is OPT_HELP, whatever else is wrong
 * behind it. */
enum opt_result opt_parse(const struct verb *verb, char **argv,
	void *values, struct taut_arena *arena, struct verb_call *ret_call,
	struct taut_error *reterr);

void opt_help(const struct verb *verb, FILE *out);

/* The name nearest to text, or NULL when none is near. */
const char *opt_nearest(
	const char *text, const char *const *names, size_t n_names);

/* Digits and perhaps a unit, K, M or G of 1024, in either case: 4096, 512K, 1g. *at
 * then stands behind them. False: there are no digits, or it is more than `most`,
 * which is below 2^59. */
bool opt_bytes(const char **at, uint64_t most, uint64_t *ret_bytes);
/* One such number, or several with a plus between them: in bytes, "1048576+4096", in the
 * arena. NULL: there is no memory; "": the text is something else, or one is 0 where
 * there are several. */
const char *opt_sizes(
	const char *text, uint64_t most, struct taut_arena *arena);

#endif /* TAUT_CLI_OPT_H */

/* run_decide.c - see run_decide.h. */
#include "cli/run_decide.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/opt.h"
#include "cli/term.h"

enum kind { WORD, NUMBER, BYTES, SIZES, TEXT };

static const struct row {
	const char *option, *variable;
	size_t offset;
	enum kind kind;
	const char *words[4]; /* of a WORD */
} rows[] = {
	{ "workers", "TAUT_RUN_WORKERS",
		offsetof(struct run_decide, workers), NUMBER, { 0 } },
	{ "heap", "TAUT_RUN_HEAP", offsetof(struct run_decide, heap), WORD,
		{ "keep" } },
	{ "recompute", "TAUT_RUN_RECOMPUTE",
		offsetof(struct run_decide, recompute), TEXT, { 0 } },
	{ "microbatches", "TAUT_RUN_MICROBATCHES",
		offsetof(struct run_decide, microbatches), NUMBER, { 0 } },
	{ "compile", "TAUT_RUN_COMPILE",
		offsetof(struct run_decide, compile), TEXT, { 0 } },
	{ "amp", "TAUT_RUN_AMP", offsetof(struct run_decide, amp), WORD,
		{ "bf16", "fp16" } },
	{ "optimizer", "TAUT_RUN_OPTIMIZER",
		offsetof(struct run_decide, optimizer), WORD, { "fused" } },
	{ "compress", "TAUT_RUN_COMPRESS",
		offsetof(struct run_decide, compress), WORD,
		{ "fp16", "bf16", "mxint8" } },
	{ "bucket", "TAUT_RUN_BUCKET", offsetof(struct run_decide, bucket),
		SIZES, { 0 } },
	{ "bucket-first", "TAUT_RUN_BUCKET_FIRST",
		offsetof(struct run_decide, bucket_first), BYTES, { 0 } },
	{ "job", "TAUT_RUN_JOB", offsetof(struct run_decide, job), TEXT,
		{ 0 } },
};

static taut_status no_memory(const struct env_setting *s)
{
	return taut_error_set(s->err, TAUT_ENOMEM, -1, "no memory");
}

/* --- values: *ret_value is what the variable gets, NULL a wrong one ------------------*/

static bool read_word(const struct row *row, const char *text)
{
	const char *last = NULL;

	for (size_t i = 0; row->words[i]; i++) {
		if (!strcmp(text, row->words[i]))
			return true;
		last = i ? row->words[i] : NULL;
	}
	term_complain("run: --%s: expected %s%s%s%s%s, found '%s'", row->option,
		row->words[0],
		row->words[1] && row->words[2] ? ", " : "",
		row->words[1] && row->words[2] ? row->words[1] : "",
		last ? " or " : "", last ? last : "", text);
	return false;
}

static bool read_number(const struct row *row, const char *text)
{
	size_t n = strspn(text, "0123456789");

	if (n && n < 5 && !text[n])
		return true;
	term_complain("run: --%s: expected a number from 0 to 9999, found '%s'",
		row->option, text);
	return false;
}

static taut_status read_bytes(const struct row *row, const char *text,
	const struct env_setting *s, const char **ret_value)
{
	const char *bytes = opt_sizes(text, UINT64_C(1) << 40, s->arena);

	if (!bytes)
		return no_memory(s);
	if (!*bytes || !strcmp(bytes, "0") ||
		(row->kind == BYTES && strchr(bytes, '+')))
		term_complain("run: --%s: expected bytes, like 4096 or 25M%s, "
			"found '%s'", row->option, row->kind == SIZES ?
			", or of each bucket, like 1M+4M" : "", text);
	else
		*ret_value = bytes;
	return TAUT_OK;
}

static taut_status read_value(const struct row *row, const char *text,
	const struct env_setting *s, const char **ret_value)
{
	*ret_value = NULL;
	if (row->kind == BYTES || row->kind == SIZES)
		return read_bytes(row, text, s, ret_value);
	if (row->kind == TEXT ||
		(row->kind == WORD && read_word(row, text)) ||
		(row->kind == NUMBER && read_number(row, text)))
		*ret_value = text;
	return TAUT_OK;
}

taut_status run_decide_set(const struct run_decide *values,
	const struct env_setting *s, bool *ret_wrong)
{
	taut_status status = values->graphs ?
		env_set(s, "TAUT_RUN_GRAPHS", "on") : TAUT_OK;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !status; i++) {
		const char *text = *(const char *const *)(
			(const char *)values + rows[i].offset);
		const char *value;

		if (!text)
			continue;
		status = read_value(&rows[i], text, s, &value);
		if (!status && !value) {
			*ret_wrong = true;
			return TAUT_OK;
		}
		if (!status)
			status = env_set(s, rows[i].variable, value);
	}
	return status;
}

const char *run_decide_asked(void)
{
	const char *value = getenv("TAUT_RUN_GRAPHS");

	if (value && *value)
		return "graphs";
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		value = getenv(rows[i].variable);
		if (value && *value)
			return rows[i].option;
	}
	return NULL;
}

/* opt.c - see opt.h. */
#include "cli/opt.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"

enum { MOST_NAMES = 64, LONGEST_NAME = 40, MOST_RANKS = 1 << 20 };

const char *opt_nearest(
	const char *text, const char *const *names, size_t n_names)
{
	return tauti_nearest(text, names, n_names);
}

/* --- values --------------------------------------------------------------------*/

struct parser {
	const struct verb *verb;
	char **argv; /* the next one */
	char *values;
	struct taut_arena *arena;
	struct taut_error *err;
};

static bool wrong(struct parser *p, const char *what)
{
	taut_error_set(p->err, TAUT_EINVAL, -1, "%s", what);
	return false;
}

static bool no_memory(struct parser *p)
{
	taut_error_set(p->err, TAUT_ENOMEM, -1, "out of memory");
	return false;
}

/* Digits only: no sign, no space; false when it is more than `most`. */
static bool read_number(
	const char **at, unsigned long most, unsigned long *ret_number)
{
	unsigned long number = 0;

	if (!isdigit((unsigned char)**at))
		return false;
	for (; isdigit((unsigned char)**at); ++*at) {
		number = number * 10 + (unsigned long)(**at - '0');
		if (number > most)
			return false;
	}
	*ret_number = number;
	return true;
}

static bool take_number(struct parser *p, const struct opt *opt,
	const char *text, unsigned *ret_number)
{
	const char *at = text;
	unsigned long number;

	if (!read_number(&at, opt->most, &number) || *at ||
		number < opt->least) {
		taut_error_set(p->err, TAUT_EINVAL, -1, "--%s: expected a "
			"number from %u to %u, found '%s'", opt->name,
			opt->least, opt->most, text);
		return false;
	}
	*ret_number = (unsigned)number;
	return true;
}

/* Grows by doubling where n is a power of two. */
static void *more(
	struct taut_arena *arena, const void *data, size_t n, size_t size)
{
	void *grown;

	if (n & (n - 1))
		return (void *)data;
	grown = taut_arena_alloc(arena, (n ? 2 * n : 1) * size);
	if (grown && n)
		memcpy(grown, data, n * size);
	return grown;
}

static bool push_text(
	struct parser *p, struct opt_texts *texts, const char *text)
{
	const char **data = more(
		p->arena, texts->data, texts->n, sizeof *data);

	if (!data)
		return no_memory(p);
	texts->data = data;
	texts->data[texts->n++] = text;
	return true;
}

static bool take_percent(struct parser *p, const struct opt *opt,
	const char *text, struct opt_percent *percent)
{
	char *end;
	double value = strtod(text, &end);

	if (*end == '%')
		end++;
	if (end == text || *end || !isdigit((unsigned char)*text) ||
		value < opt->least || value > opt->most) {
		taut_error_set(p->err, TAUT_EINVAL, -1, "--%s: expected a "
			"percentage from %u to %u, found '%s'", opt->name,
			opt->least, opt->most, text);
		return false;
	}
	*percent = (struct opt_percent){ value, true };
	return true;
}

static bool push_ranks(struct parser *p, struct opt_ranks *ranks,
	unsigned long first, unsigned long last)
{
	for (; first <= last; first++) {
		int32_t *data = more(
			p->arena, ranks->data, ranks->n, sizeof *data);

		if (!data)
			return no_memory(p);
		ranks->data = data;
		ranks->data[ranks->n++] = (int32_t)first;
	}
	return true;
}

static bool take_ranks(struct parser *p, const struct opt *opt,
	const char *text, struct opt_ranks *ranks)
{
	const char *at = text;

	for (;;) {
		unsigned long first, last;

		if (!read_number(&at, MOST_RANKS, &first))
			break;
		last = first;
		if (*at == '-' && (at++, !read_number(&at, MOST_RANKS, &last)))
			break;
		if (last < first)
			break;
		if (!push_ranks(p, ranks, first, last))
			return false;
		if (!*at)
			return true;
		if (*at++ != ',')
			break;
	}
	taut_error_set(p->err, TAUT_EINVAL, -1, "--%s: expected ranks like "
		"0,1,2 or 0-7, found '%s'", opt->name, text);
	return false;
}

static bool take_value(
	struct parser *p, const struct opt *opt, const char *text)
{
	void *value = p->values + opt->offset;

	switch (opt->kind) {
	case OPT_FLAG:
		*(bool *)value = true;
		return true;
	case OPT_NUMBER:
		return take_number(p, opt, text, value);
	case OPT_PERCENT:
		return take_percent(p, opt, text, value);
	case OPT_TEXT:
		*(const char **)value = text;
		return true;
	case OPT_TEXTS:
		return push_text(p, value, text);
	case OPT_RANKS:
		return take_ranks(p, opt, text, value);
	}
	return wrong(p, "an option of a kind that nobody reads");
}

/* --- options ---------------------------------------------------------------------*/

static const struct opt *find_long(
	const struct verb *verb, const char *name, size_t len)
{
	for (size_t i = 0; i < verb->n_options; i++)
		if (strlen(verb->options[i].name) == len &&
			!memcmp(verb->options[i].name, name, len))
			return &verb->options[i];
	return NULL;
}

static bool unknown_long(struct parser *p, const char *name, size_t len)
{
	const char *names[MOST_NAMES], *near;
	char text[LONGEST_NAME + 2];
	size_t n = 0;

	for (; n < p->verb->n_options && n < MOST_NAMES - 1; n++)
		names[n] = p->verb->options[n].name;
	names[n++] = "help";
	snprintf(text, sizeof text, "%.*s", (int)len, name);
	near = opt_nearest(text, names, n);
	taut_error_set(p->err, TAUT_EINVAL, -1,
		near ? "unknown option --%.*s; did you mean --%s?" :
		"unknown option --%.*s", (int)len, name, near);
	return false;
}

/* The value of opt: behind its '=', or the next word. */
static bool value_of(struct parser *p, const struct opt *opt,
	const char *attached)
{
	if (opt->kind == OPT_FLAG) {
		if (!attached)
			return take_value(p, opt, NULL);
		taut_error_set(p->err, TAUT_EINVAL, -1,
			"--%s takes no value", opt->name);
		return false;
	}
	if (!attached)
		attached = *p->argv ? *p->argv++ : "";
	if (*attached)
		return take_value(p, opt, attached);
	taut_error_set(p->err, TAUT_EINVAL, -1, "--%s wants %s", opt->name,
		opt->value);
	return false;
}

static bool take_long(struct parser *p, const char *name)
{
	const char *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct opt *opt = find_long(p->verb, name, len);

	if (!opt)
		return unknown_long(p, name, len);
	return value_of(p, opt, equals ? equals + 1 : NULL);
}

/* "-oFILE" and "-o FILE" */
static bool take_short(struct parser *p, const char *text)
{
	for (size_t i = 0; i < p->verb->n_options; i++) {
		const struct opt *opt = &p->verb->options[i];

		if (opt->letter != text[0])
			continue;
		return value_of(p, opt, text[1] ? text + 1 : NULL);
	}
	taut_error_set(p->err, TAUT_EINVAL, -1, "unknown option -%s", text);
	return false;
}

static bool is_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

enum opt_result opt_parse(const struct verb *verb, char **argv,
	void *values, struct taut_arena *arena, struct verb_call *ret_call,
	struct taut_error *reterr)
{
	struct parser p = { verb, argv, values, arena, reterr };
	struct opt_texts operands = { NULL, 0 };
	bool only_operands = false;
	while (*p.argv) {
		const char *word = *p.argv++;
		bool ok;

		if (only_operands || word[0] != '-' || !word[1]) {
			ok = push_text(&p, &operands, word);
		} else if (is_help(word)) {
			return OPT_HELP;
		} else if (!strcmp(word, "--")) {
			ok = only_operands = true;
		} else if (word[1] == '-') {
			ok = take_long(&p, word + 2);
		} else {
			ok = take_short(&p, word + 1);
		}
		if (!ok)
			return OPT_WRONG;
		only_operands |= verb->is_command && operands.n > 0;
	}
	if (!operands.n && !verb->no_operands) {
		taut_error_set(reterr, TAUT_EINVAL, -1, "expected %s: %s",
			verb->operands, verb->is_command ? "what to run" :
			"a folder or files of traces");
		return OPT_WRONG;
	}
	*ret_call = (struct verb_call){ values, operands.data, operands.n,
		arena };
	return OPT_RUN;
}

/* --- help ----------------------------------------------------------------------------*/

enum { HELP_COLUMN = 26, HELP_WIDTH = 80 };

/* Words of text from `column` on; a newline in text stays one. */
static void put_wrapped(FILE *out, const char *text, size_t column)
{
	size_t at = column;

	while (*text) {
		size_t space = strspn(text, " ");
		size_t word = strcspn(text + space, " \n");

		if (at + space + word > HELP_WIDTH && at > column) {
			fprintf(out, "\n%*s", (int)column, "");
			at = column;
			text += space;
			space = 0;
		}
		fwrite(text, 1, space + word, out);
		at += space + word;
		text += space + word;
		if (*text == '\n') {
			text++;
			fprintf(out, "\n%*s", *text == '\n' ? 0 : (int)column,
				"");
			at = column;
		}
	}
	fputc('\n', out);
}

static void put_option(FILE *out, char letter, const char *name,
	const char *value, const char *help)
{
	char text[HELP_WIDTH] = "    ";

	if (letter)
		snprintf(text, sizeof text, "-%c, ", letter);
	size_t n = strlen(text);

	snprintf(text + n, sizeof text - n, "--%s%s%s", name,
		value ? " " : "", value ? value : "");
	fprintf(out, "  %-*s", HELP_COLUMN - 2, text);
	if (strlen(text) > HELP_COLUMN - 3)
		fprintf(out, "\n%*s", HELP_COLUMN, "");
	put_wrapped(out, help, HELP_COLUMN);
}

void opt_help(const struct verb *verb, FILE *out)
{
	fprintf(out, verb->is_command ? "Usage: taut %s [options] -- %s\n\n" :
		"Usage: taut %s %s [options]\n\n", verb->name, verb->operands);
	put_wrapped(out, verb->about, 0);
	fprintf(out, "\nOptions:\n");
	for (size_t i = 0; i < verb->n_options; i++)
		put_option(out, verb->options[i].letter,
			verb->options[i].name, verb->options[i].value,
			verb->options[i].help);
	put_option(out, 'h', "help", NULL, "this text");
}

bool opt_bytes(const char **at, uint64_t most, uint64_t *ret_bytes)
{
	static const char units[] = "KkMmGg";
	uint64_t bytes = 0;
	const char *unit;

	if (**at < '0' || **at > '9')
		return false;
	for (; **at >= '0' && **at <= '9'; ++*at) {
		bytes = bytes * 10 + (uint64_t)(**at - '0');
		if (bytes > most)
			return false;
	}
	unit = **at ? strchr(units, **at) : NULL;
	if (unit) {
		unsigned shift = 10 * (unsigned)((unit - units) / 2 + 1);

		if (bytes > most >> shift)
			return false;
		bytes <<= shift;
		++*at;
	}
	*ret_bytes = bytes;
	return true;
}

const char *opt_sizes(const char *text, uint64_t most, struct taut_arena *arena)
{
	const char *found = "";
	bool is_row = strchr(text, '+') != NULL;

	for (const char *at = text; found; at++) {
		uint64_t bytes;

		if (!opt_bytes(&at, most, &bytes) || (is_row && !bytes) ||
			(*at && *at != '+'))
			return "";
		found = taut_arena_printf(arena, "%s%s%" PRIu64, found,
			*found ? "+" : "", bytes);
		if (!*at)
			break;
	}
	return found;
}

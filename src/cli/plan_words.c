/* plan_words.c - see plan_words.h. */
#include "cli/plan_words.h"

#include <string.h>

#include "cli/term.h"

/* Digits, perhaps with a point: the same in every locale. *at is behind them. */
static bool read_number(const char **at, double *ret)
{
	double value = 0, place = 1;
	int digits = 0;
	bool fraction = false;

	for (;; ++*at) {
		if (**at == '.' && !fraction) {
			fraction = true;
			continue;
		}
		if (**at < '0' || **at > '9')
			break;
		value = value * 10 + (**at - '0');
		place *= fraction ? 10 : 1;
		digits++;
	}
	*ret = value / place;
	return digits > 0 && digits <= 15;
}

bool plan_words_time(const char *text, double *ret_s)
{
	static const struct {
		const char *unit;
		double s;
	} units[] = { { "ms", 1e-3 }, { "s", 1 }, { "", 1 }, { "m", 60 },
		{ "h", 3600 } };
	double value;

	if (!read_number(&text, &value))
		return false;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		double s = value * units[i].s;

		if (strcmp(units[i].unit, text) || !(s > 0) || s >= 1e6)
			continue;
		*ret_s = s;
		return true;
	}
	return false;
}

static bool is_kind(const char *name)
{
	const struct taut_plan_kind *kind;

	for (size_t i = 0; (kind = taut_plan_kind(i)) != NULL; i++)
		if (!strcmp(kind->change, name))
			return true;
	return false;
}

static bool take_without(const char *verb, const struct opt_texts *names,
	struct taut_plan_options *ret)
{
	for (size_t i = 0; i < names->n; i++)
		if (!is_kind(names->data[i])) {
			term_complain("%s: --without: '%s' is not decided on; "
				"'taut plan --list' shows what is", verb,
				names->data[i]);
			return false;
		}
	ret->not_these = names->data;
	ret->n_not_these = names->n;
	return true;
}

/* text NULL: it was not given. */
static bool take_bytes(const char *verb, const char *option, const char *text,
	int64_t *ret_bytes)
{
	const char *at = text;
	uint64_t bytes;

	if (!text)
		return true;
	if (!opt_bytes(&at, UINT64_C(1) << 50, &bytes) || *at || !bytes) {
		term_complain("%s: --%s: expected bytes, like 16G, found '%s'",
			verb, option, text);
		return false;
	}
	*ret_bytes = (int64_t)bytes;
	return true;
}

bool plan_words_take(const char *verb, const struct plan_words *words,
	struct taut_plan_options *ret_options)
{
	struct taut_plan_options *ret = ret_options;

	ret->allow = TAUT_NUMERICS_REORDERED;
	if (words->budget && !plan_words_time(words->budget, &ret->budget_s)) {
		term_complain("%s: --budget: expected a time, like 30s, found "
			"'%s'", verb, words->budget);
		return false;
	}
	if (words->allow && !taut_numerics_find(words->allow, &ret->allow)) {
		term_complain("%s: --allow: expected exact, reordered or "
			"lossy, found '%s'", verb, words->allow);
		return false;
	}
	return take_bytes(verb, "memory", words->memory, &ret->memory_most) &&
		take_bytes(verb, "cache", words->cache, &ret->cache_bytes) &&
		take_without(verb, &words->without, ret);
}

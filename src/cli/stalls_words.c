/* stalls_words.c - changes in words. */
#include <stdlib.h>
#include <string.h>

#include "cli/stalls.h"

enum { WORD_BYTES = 64 };

struct reading {
	const char *words; /* all of them, for what is said */
	double set_bytes;
	struct taut_stalls_change *change;
	struct taut_error *err;
};

static taut_status expected(const struct reading *r, const char *word, const char *what)
{
	return taut_error_set(r->err, TAUT_EINVAL, -1, "stalls: --change %.120s: %s: expected "
		"%s", r->words, word, what);
}

/* Digits and perhaps a fraction, above 0 and at most `most`. */
static bool take_number(const char *text, double most, double *ret_number)
{
	char *end;
	double number = strtod(text, &end);

	if (end == text || *end || !(number > 0) || number > most)
		return false;
	*ret_number = number;
	return true;
}

static bool take_count(const char *text, uint32_t *ret_count)
{
	double number;

	if (!take_number(text, 1 << 20, &number) || number != (double)(uint32_t)number)
		return false;
	*ret_count = (uint32_t)number;
	return true;
}

/* 64G, or 50% of the set. */
static bool take_size(const struct reading *r, const char *text, uint64_t *ret_bytes)
{
	size_t len = strlen(text);
	char number[WORD_BYTES];
	double percent;

	if (len < 2 || text[len - 1] != '%')
		return opt_bytes(&text, UINT64_C(1) << 50, ret_bytes) && !*text;
	memcpy(number, text, len - 1);
	number[len - 1] = '\0';
	if (!take_number(number, 1000, &percent))
		return false;
	*ret_bytes = (uint64_t)(r->set_bytes * percent / 100);
	return true;
}

static taut_status take_cache(const struct reading *r, const char *value)
{
	static const enum taut_feed_cache caches[] = {
		TAUT_FEED_KEEP, TAUT_FEED_LRU, TAUT_FEED_LINUX };

	r->change->has_cache = true;
	r->change->cache = TAUT_FEED_NONE;
	if (!strcmp(value, "none"))
		return TAUT_OK;
	for (size_t i = 0; i < sizeof caches / sizeof caches[0]; i++) {
		const char *name = tauti_stalls_cache_name(caches[i]);
		size_t len = strlen(name);

		if (strncmp(value, name, len) != 0 || value[len] != ':' ||
			!take_size(r, value + len + 1, &r->change->cache_bytes))
			continue;
		r->change->cache = caches[i];
		return TAUT_OK;
	}
	return expected(r, value, "none, or keep:, lru: or linux: and bytes like 64G or a "
		"share like 50%");
}

static taut_status take_value(const struct reading *r, const char *key, const char *value)
{
	struct taut_stalls_change *c = r->change;

	if (!strcmp(key, "cache"))
		return take_cache(r, value);
	if (!strcmp(key, "rate") && take_number(value, 1e6, &c->rate))
		return TAUT_OK;
	if (!strcmp(key, "cores") && take_number(value, 65536, &c->cores))
		return TAUT_OK;
	if (!strcmp(key, "device") && take_number(value, 1e6, &c->device))
		return TAUT_OK;
	if (!strcmp(key, "workers") && take_count(value, &c->workers))
		return TAUT_OK;
	if (!strcmp(key, "batch") && take_count(value, &c->batch))
		return TAUT_OK;
	if (!strcmp(key, "jobs") && take_count(value, &c->jobs))
		return TAUT_OK;
	return expected(r, key, "rate, cores, device, workers, batch, jobs or cache, = and a "
		"number; share; or taut");
}

static taut_status take_word(const struct reading *r, char *word)
{
	char *equals = strchr(word, '=');

	if (equals) {
		*equals = '\0';
		return take_value(r, word, equals + 1);
	}
	if (strcmp(word, "share") != 0 && strcmp(word, "taut") != 0)
		return take_value(r, word, "");
	if (*word == 's')
		r->change->share = true;
	r->change->taut = true; /* only its loader shares */
	return TAUT_OK;
}

taut_status stalls_change_read(const char *words, double set_bytes,
	struct taut_stalls_change *ret_change, struct taut_error *err)
{
	struct taut_stalls_change change = { .size = sizeof change };
	const struct reading r = { words, set_bytes, &change, err };
	const char *at = words;
	taut_status status = TAUT_OK;

	while (!status && at) {
		const char *comma = strchr(at, ',');
		size_t len = comma ? (size_t)(comma - at) : strlen(at);
		char word[WORD_BYTES];

		if (!len || len >= sizeof word)
			return expected(&r, at, "NAME=VALUE, and commas between several");
		memcpy(word, at, len);
		word[len] = '\0';
		status = take_word(&r, word);
		at = comma ? comma + 1 : NULL;
	}
	if (!status)
		*ret_change = change;
	return status;
}

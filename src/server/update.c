/* update.c - what a server does with a gradient; see taut/server.h and server.h. */
#include "server/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- words ---------------------------------------------------------------------------- */

static const struct {
	const char *name;
	size_t offset;
	double most; /* exclusive; 0: none */
} numbers[] = {
	{ "lr", offsetof(struct taut_server_update, lr), 0 },
	{ "momentum", offsetof(struct taut_server_update, momentum), 1 },
	{ "weight-decay", offsetof(struct taut_server_update, weight_decay), 0 },
	{ "beta1", offsetof(struct taut_server_update, beta1), 1 },
	{ "beta2", offsetof(struct taut_server_update, beta2), 1 },
	{ "eps", offsetof(struct taut_server_update, eps), 0 },
};
enum { N_NUMBERS = sizeof numbers / sizeof numbers[0], WORD_BYTES = 64 };

static taut_status expected(const char *text, struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_EINVAL, -1, "update '%.100s': "
		"expected sum, or sgd, adam or adamw like sgd:lr=0.1,"
		"momentum=0.9,nesterov; of lr, momentum, weight-decay, beta1, "
		"beta2, eps", text);
}

/* lr=0.1 */
static bool take_number(const char *word, struct taut_server_update *update)
{
	for (size_t i = 0; i < N_NUMBERS; i++) {
		size_t n = strlen(numbers[i].name);
		double value;
		char *end;

		if (strncmp(word, numbers[i].name, n) != 0 || word[n] != '=')
			continue;
		value = strtod(word + n + 1, &end);
		if (end == word + n + 1 || *end || !isfinite(value) ||
			value < 0 || (numbers[i].most != 0 &&
			value >= numbers[i].most))
			return false;
		memcpy((char *)update + numbers[i].offset, &value,
			sizeof value);
		return true;
	}
	return false;
}

/* Up to the next one of , : or the end; false: too long. */
static bool next_word(const char **at, char word[WORD_BYTES])
{
	size_t n = strcspn(*at, ",:");

	if (n >= WORD_BYTES)
		return false;
	memcpy(word, *at, n);
	word[n] = '\0';
	*at += n;
	return true;
}

static bool take_rule(const char *word, struct taut_server_update *update)
{
	static const char *const rules[] = { "sum", "sgd", "adam", "adamw" };

	for (int i = 0; i < TAUT_SERVER_RULES; i++)
		if (!strcmp(word, rules[i])) {
			update->rule = (enum taut_server_rule)i;
			return true;
		}
	return false;
}

static bool fits(const struct taut_server_update *update, bool nesterov)
{
	if (update->rule == TAUT_SERVER_SUM)
		return false;
	if (update->rule != TAUT_SERVER_SGD)
		return !nesterov && update->momentum == 0;
	return !nesterov || update->momentum > 0;
}

taut_status taut_server_update_read(const char *text,
	struct taut_server_update *ret_update, struct taut_error *reterr)
{
	struct taut_server_update update = { .beta1 = 0.9, .beta2 = 0.999,
		.eps = 1e-8 };
	const char *at = text;
	char word[WORD_BYTES];

	if (!next_word(&at, word) || !take_rule(word, &update))
		return expected(text, reterr);
	update.lr = update.rule == TAUT_SERVER_SGD ? 0.01 : 1e-3;
	update.weight_decay = update.rule == TAUT_SERVER_ADAMW ? 0.01 : 0;
	if (*at == ',')
		return expected(text, reterr);
	while (*at) {
		at++;
		if (!next_word(&at, word) || *at == ':')
			return expected(text, reterr);
		if (!strcmp(word, "nesterov"))
			update.nesterov = true;
		else if (!take_number(word, &update))
			return expected(text, reterr);
		if (!fits(&update, update.nesterov) && !*at)
			return expected(text, reterr);
	}
	*ret_update = update;
	return TAUT_OK;
}

/* --- arithmetic -----------------------------------------------------------------------
 * In the type of the key, from left to right; nothing is fused. */

/* v = momentum v + g, from the second step on; p -= lr v. Nesterov: p -= lr (g +
 * momentum v). */
#define SGD(T, name) \
static void name(const struct taut_server_update *u, uint64_t step, T *p, \
	const T *g, T *v, uint64_t n) \
{ \
	const T lr = (T)u->lr, decay = (T)u->weight_decay; \
	const T momentum = (T)u->momentum; \
	const bool has_v = u->momentum > 0, has_decay = u->weight_decay > 0; \
\
	for (uint64_t i = 0; i < n; i++) { \
		T d = has_decay ? g[i] + decay * p[i] : g[i]; \
\
		if (has_v) { \
			v[i] = step == 1 ? d : momentum * v[i] + d; \
			d = u->nesterov ? d + momentum * v[i] : v[i]; \
		} \
		p[i] = p[i] - lr * d; \
	} \
}
SGD(float, sgd32)
SGD(double, sgd64)

/* Kingma and Ba, ICLR'15, with both corrections taken out of the loop. */
#define ADAM(T, name, root) \
static void name(const struct taut_server_update *u, double power1, \
	double power2, T *p, const T *g, T *m, T *v, uint64_t n) \
{ \
	const bool apart = u->rule == TAUT_SERVER_ADAMW; \
	const T decay = (T)u->weight_decay; \
	const T keep = (T)(1 - u->lr * u->weight_decay); \
	const T beta1 = (T)u->beta1, rest1 = (T)(1 - u->beta1); \
	const T beta2 = (T)u->beta2, rest2 = (T)(1 - u->beta2); \
	const T rate = (T)(u->lr / (1 - power1)); \
	const T right = (T)sqrt(1 - power2), eps = (T)u->eps; \
\
	for (uint64_t i = 0; i < n; i++) { \
		T q = apart ? p[i] * keep : p[i]; \
		T d = !apart && decay > 0 ? g[i] + decay * q : g[i]; \
\
		m[i] = beta1 * m[i] + rest1 * d; \
		v[i] = beta2 * v[i] + rest2 * d * d; \
		p[i] = q - rate * (m[i] / (root(v[i]) / right + eps)); \
	} \
}
ADAM(float, adam32, sqrtf)
ADAM(double, adam64, sqrt)

uint32_t tauti_update_moments(const struct taut_server_update *update)
{
	if (update->rule == TAUT_SERVER_SGD)
		return update->momentum > 0;
	return update->rule == TAUT_SERVER_SUM ? 0 : 2;
}

void tauti_update_apply(const struct taut_server_update *update,
	enum taut_type type, struct tauti_update_state *state, void *value,
	const void *gradient, uint64_t count)
{
	bool is32 = type == TAUT_FLOAT32;

	state->step++;
	if (update->rule == TAUT_SERVER_SGD) {
		if (is32)
			sgd32(update, state->step, value, gradient,
				state->moments[0], count);
		else
			sgd64(update, state->step, value, gradient,
				state->moments[0], count);
		return;
	}
	state->power1 = (state->step == 1 ? 1 : state->power1) * update->beta1;
	state->power2 = (state->step == 1 ? 1 : state->power2) * update->beta2;
	if (is32)
		adam32(update, state->power1, state->power2, value, gradient,
			state->moments[0], state->moments[1], count);
	else
		adam64(update, state->power1, state->power2, value, gradient,
			state->moments[0], state->moments[1], count);
}

bool tauti_scales(enum taut_type type)
{
	return type == TAUT_FLOAT32 || type == TAUT_FLOAT64;
}

void tauti_scale(enum taut_type type, void *data, double factor, uint64_t count)
{
	float *as32 = data;
	double *as64 = data;

	for (uint64_t i = 0; type == TAUT_FLOAT32 && i < count; i++)
		as32[i] *= (float)factor;
	for (uint64_t i = 0; type == TAUT_FLOAT64 && i < count; i++)
		as64[i] *= factor;
}

/* sizes.c - the sizes of an operator's inputs, as PyTorch's profiler writes
 * them: a list of arguments, each a list of numbers, or a list of such lists. */
#include <string.h>

#include "opwork.h"

struct reader {
	const char *at;
	struct tauti_sizes *to;
};

static void skip_blanks(struct reader *r)
{
	while (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' ||
		*r->at == '\r')
		r->at++;
}

static bool take(struct reader *r, char c)
{
	skip_blanks(r);
	if (*r->at != c)
		return false;
	r->at++;
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool read_number(struct reader *r, int64_t *ret)
{
	int64_t value = 0;

	skip_blanks(r);
	if (!is_digit(*r->at))
		return false;
	for (; is_digit(*r->at); r->at++)
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, *r->at - '0', &value))
			return false;
	*ret = value;
	return true;
}

/* Behind its bracket; it holds a number. */
static bool read_tensor(struct reader *r, uint32_t argument)
{
	struct tauti_size size = { .argument = argument, .elements = 1 };

	do {
		int64_t dim;

		if (!read_number(r, &dim))
			return false;
		if (size.n_dims < TAUT_MOST_DIMS)
			size.dim[size.n_dims] = dim;
		size.n_dims++;
		size.elements *= (double)dim;
	} while (take(r, ','));
	if (!take(r, ']') || r->to->n == TAUTI_MOST_SIZES)
		return false;
	r->to->all[r->to->n++] = size;
	return true;
}

/* Behind its bracket. */
static bool read_argument(struct reader *r, uint32_t argument)
{
	if (take(r, ']'))
		return true;
	skip_blanks(r);
	if (is_digit(*r->at))
		return read_tensor(r, argument);
	do {
		if (!take(r, '['))
			return false;
		if (!take(r, ']') && !read_tensor(r, argument))
			return false;
	} while (take(r, ','));
	return take(r, ']');
}

bool tauti_sizes_read(const char *text, struct tauti_sizes *ret_sizes)
{
	struct reader r = { text, ret_sizes };
	uint32_t argument = 0;

	ret_sizes->n = 0;
	if (!take(&r, '['))
		return false;
	if (take(&r, ']'))
		return true;
	do {
		if (!take(&r, '[') || !read_argument(&r, argument++))
			return false;
	} while (take(&r, ','));
	return take(&r, ']');
}

const struct tauti_size *tauti_size_of(
	const struct tauti_sizes *sizes, uint32_t argument)
{
	for (uint32_t i = 0; i < sizes->n; i++)
		if (sizes->all[i].argument == argument)
			return &sizes->all[i];
	return NULL;
}

/* products.c - matrix products of which each rank has another share, by the
 * sizes that were recorded.
 *
 * A product of m x k by k x n is 2 mkn operations on mk + kn + mn elements. Its
 * time is taken to follow the larger of operations and elements moved, the
 * latter as so many operations as the device does meanwhile (its balance).
 * Which dimension is shared is told by the others: words (or samples) and the
 * model's width are in every product, whole; what is neither is shared. */
#include <stdlib.h>

#include "whatif/ddp.h"
#include "whatif/products.h"

enum { DIMS = 3, MOST_DIGITS = 15 }; /* of what a double holds */

struct product {
	uint32_t op;
	struct tauti_product is;
};

struct counted {
	double value;
	uint32_t n;
};

struct sharer {
	struct tauti_whatif *w;
	uint32_t *launcher;
	TAUT_VEC(struct product) found;
	TAUT_VEC(struct counted) counts;
};

/* --- sizes ------------------------------------------------------------------------- */

/* One list of numbers without lists in it; how many they are, 0: none. */
static size_t read_list(const char **at, double *ret, size_t room)
{
	size_t n = 0, digits = 0;
	double value = 0;

	while (**at && **at != ']' && **at != '[') {
		char c = *(*at)++;

		if (c >= '0' && c <= '9' && digits < MOST_DIGITS) {
			value = value * 10 + (c - '0');
			digits++;
		} else if (digits) {
			if (n < room)
				ret[n] = value;
			n++;
			value = 0;
			digits = 0;
		}
	}
	if (digits && n < room)
		ret[n] = value;
	return n + (digits > 0);
}

bool tauti_product_read(const char *text, struct tauti_product *ret)
{
	double a[DIMS] = { 0 }, b[DIMS];
	size_t before = 0;

	while (*text) {
		size_t n;

		if (*text++ != '[')
			continue;
		n = read_list(&text, b, DIMS);
		if (n >= 2 && n <= DIMS && n == before &&
			a[n - 1] == b[n - 2] && (n == 2 || a[0] == b[0])) {
			ret->batch = n == 2 ? 1 : a[0];
			ret->of[0] = a[n - 2];
			ret->of[1] = a[n - 1];
			ret->of[2] = b[n - 1];
			return ret->batch * ret->of[0] * ret->of[1] *
				ret->of[2] > 0;
		}
		before = n;
		if (n <= DIMS)
			memcpy(a, b, sizeof a);
	}
	return false;
}

static const char *sizes_of(const struct sharer *s, uint32_t op)
{
	static const char *const names[] = { "aten::mm", "aten::addmm",
		"aten::bmm", "aten::baddbmm" };
	const struct taut_trace *t;
	uint32_t row;

	if (s->launcher[op] != TAUT_NONE)
		op = s->launcher[op];
	t = tauti_op_trace(s->w, op, &row);
	for (size_t i = 0; t && t->sizes && i < sizeof names / sizeof *names;
		i++) {
		uint32_t around = tauti_row_around(t, row, names[i]);

		if (!strncmp(taut_trace_name(t, around), names[i],
			strlen(names[i])) && t->sizes[around])
			return taut_names_text(t->names, t->sizes[around]);
	}
	return NULL;
}

/* --- which dimension is shared ------------------------------------------------------- */

static bool count(struct sharer *s, double value)
{
	struct counted c = { value, 1 };

	for (size_t i = 0; i < s->counts.count; i++)
		if (s->counts.data[i].value == value) {
			s->counts.data[i].n++;
			return true;
		}
	return taut_vec_push(&s->counts, c);
}

/* The value that is there most often, of these the first. */
static bool find_usual(struct sharer *s, size_t from, size_t to, double not,
	double *ret)
{
	uint32_t most = 0;

	taut_vec_clear(&s->counts);
	for (size_t i = 0; i < s->found.count; i++)
		for (size_t d = from; d <= to; d++)
			if (s->found.data[i].is.batch == 1 &&
				s->found.data[i].is.of[d] != not &&
				!count(s, s->found.data[i].is.of[d]))
				return false;
	*ret = 0;
	for (size_t i = 0; i < s->counts.count; i++)
		if (s->counts.data[i].n > most) {
			most = s->counts.data[i].n;
			*ret = s->counts.data[i].value;
		}
	return true;
}

static double cost_of(const struct tauti_product *p, double balance)
{
	double m = p->of[0], k = p->of[1], n = p->of[2];
	double bytes = 2 * (m * k + k * n + m * n); /* of half precision */

	return p->batch * fmax(2 * m * k * n, balance * bytes);
}

static double ratio_of(const struct tauti_product *p, double words, double width,
	double factor, double balance)
{
	struct tauti_product now = *p;
	bool shared = p->batch > 1;

	if (shared)
		return factor; /* heads of attention are shared whole */
	for (int d = 0; d < DIMS; d++) {
		if (p->of[d] == words || p->of[d] == width)
			continue;
		now.of[d] = fmax(1, p->of[d] * factor);
		shared = true;
	}
	return shared ? cost_of(&now, balance) / cost_of(p, balance) : 0;
}

/* --- the whole ------------------------------------------------------------------------- */

static taut_status find(struct sharer *s, const uint8_t *products,
	struct taut_error *err)
{
	const struct taut_graph *g = s->w->graph;

	for (uint32_t op = 0; op < g->n_ops; op++) {
		struct product p = { .op = op };
		bool is = products[op] && s->w->job->has_device ==
			tauti_is_device_op((enum taut_op_kind)g->kind[op]);
		const char *sizes = is ? sizes_of(s, op) : NULL;

		if (sizes && tauti_product_read(sizes, &p.is) &&
			!taut_vec_push(&s->found, p))
			return tauti_no_memory(err, "products");
	}
	return TAUT_OK;
}

taut_status tauti_products_share(struct tauti_whatif *w,
	const uint8_t *products, double factor, double balance,
	double **ret_ratio, uint32_t *ret_n, struct taut_error *err)
{
	struct sharer s = { .w = w };
	double *ratio = TAUT_ARENA_ARRAY(
		w->arena, double, (size_t)w->graph->n_ops + 1);
	double words = 0, width = 0;
	taut_status status = ratio ? tauti_launchers(w, &s.launcher, err) :
		tauti_no_memory(err, "products");

	if (!status)
		status = find(&s, products, err);
	if (!status && (!find_usual(&s, 0, 0, 0, &words) ||
		!find_usual(&s, 1, 2, words, &width)))
		status = tauti_no_memory(err, "products");
	*ret_n = 0;
	for (size_t i = 0; !status && i < s.found.count; i++) {
		const struct product *p = &s.found.data[i];

		ratio[p->op] = ratio_of(
			&p->is, words, width, factor, balance);
		*ret_n += ratio[p->op] > 0;
	}
	taut_vec_free(&s.found);
	taut_vec_free(&s.counts);
	*ret_ratio = ratio;
	return status;
}

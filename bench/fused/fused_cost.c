/* fused_cost.c - how far what is said of fused operators that were never measured is from
 * what they take: by the network, by the bound, by the nearest sample.
 *
 *     fused_cost SAMPLES.jsonl MODEL.json [AGAIN.jsonl]
 *
 * Samples are those of bench/fused/sample.py. Of ten fusions the last is judged; the others
 * are what the network learned from (train.py), the nearest sample is one of, and the
 * bound's numbers (memory's rate, a launch, crowding) are the best for. A fusion that is
 * judged shares its operators with none of them, in any shape. AGAIN.jsonl are some of the
 * samples taken once more (sample.py with the same --seed): nothing can be nearer to what
 * was measured than that is. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <base/vec.h>
#include <plan/fusion/learned.h>
#include <trace/stream.h>
#include <trace/tree.h>

enum { WINDOW_BYTES = 1 << 20, PARTS = TAUTI_LEARNED_PARTS, JUDGED = 9, STOP = 8,
	TYPES = TAUTI_LEARNED_TYPES };

struct sample {
	int64_t fusion, ns;
	struct tauti_fused_part parts[PARTS];
	struct tauti_fused_tie ties[PARTS * 4];
	uint32_t n_parts, n_ties;
	uint8_t counts[TYPES];
	double sum_ns, moved_bytes;
};

struct samples {
	TAUT_VEC(struct sample *) rows;
};

struct bench {
	struct tauti_learned *net;
	struct samples all, again;
	uint32_t types[TYPES];    /* kinds are types */
	struct tauti_learned_use learned;
	struct tauti_fused_bound bound;
	double nearest_scale;     /* of times and bytes beside kinds */
};

static void die(const char *what)
{
	fprintf(stderr, "fused_cost: %s\n", what);
	exit(1);
}

/* --- samples ---------------------------------------------------------------------- */

static int64_t number(const struct tauti_value *dict, const char *key)
{
	return tauti_tree_int(tauti_tree_get(dict, key), -1);
}

static void take_part(struct bench *b, struct sample *s,
	const struct tauti_value *node)
{
	const char *type = tauti_tree_text(tauti_tree_get(node, "type"));
	struct tauti_fused_part part = { .op = s->n_parts,
		.kind = tauti_learned_type(b->net, type),
		.dur_ns = number(node, "ns"), .in_bytes = number(node, "in"),
		.out_bytes = number(node, "out"),
		.saved_bytes = number(node, "saved") };

	if (part.dur_ns < 0 || part.in_bytes < 0 || part.out_bytes < 0 ||
		part.saved_bytes < 0)
		die("a sample has a node without ns, in, out or saved");
	if (part.kind < TYPES)
		s->counts[part.kind]++;
	s->parts[s->n_parts++] = part;
	s->sum_ns += (double)part.dur_ns;
	s->moved_bytes += (double)(part.in_bytes + part.out_bytes -
		part.saved_bytes);
}

static void take_ties(struct sample *s, const struct tauti_value *ties)
{
	for (uint32_t i = 0; ties && i < ties->count && i < PARTS * 4; i++) {
		const struct tauti_value *tie = ties->items[i];
		struct tauti_fused_tie *t = &s->ties[s->n_ties++];

		t->from = (uint32_t)tauti_tree_int(tauti_tree_item(tie, 0), 0);
		t->to = (uint32_t)tauti_tree_int(tauti_tree_item(tie, 1), 0);
		t->bytes = tauti_tree_int(tauti_tree_item(tie, 2), 0);
		if (t->from >= s->n_parts || t->to >= s->n_parts)
			die("a sample ties what it has not");
	}
}

static void take_sample(struct bench *b, struct samples *to,
	const struct tauti_value *line)
{
	const struct tauti_value *nodes = tauti_tree_get(line, "nodes");
	struct sample *s = calloc(1, sizeof *s);

	if (!s || !nodes || nodes->count < 2 || nodes->count > PARTS)
		die("a sample of two parts or more was expected");
	s->fusion = number(line, "fusion");
	s->ns = number(line, "ns");
	for (uint32_t i = 0; i < nodes->count; i++)
		take_part(b, s, nodes->items[i]);
	take_ties(s, tauti_tree_get(line, "ties"));
	if (s->fusion < 0 || s->ns <= 0 || s->sum_ns <= 0)
		die("a sample without fusion or ns");
	if (!taut_vec_push(&to->rows, s))
		die("no memory");
}

static void read_samples(struct bench *b, struct samples *to, const char *path)
{
	struct taut_error err = { .message = "" };
	struct tauti_stream *stream;
	struct tauti_values values;
	struct tauti_value *line;

	if (tauti_stream_open_file(path, NULL, &stream, &err) ||
		tauti_values_init(&values, stream, WINDOW_BYTES, &err))
		die(err.message);
	for (;;) {
		struct taut_arena *arena = taut_arena_create();

		if (!arena || tauti_values_next(&values, arena, &line, &err))
			die(err.message);
		if (line)
			take_sample(b, to, line);
		taut_arena_destroy(arena);
		if (!line)
			break;
	}
	if (values.broken || values.cut)
		die("the samples are no lines of JSON");
	tauti_values_fini(&values);
	tauti_stream_close(stream);
}

static bool is_judged(const struct sample *s)
{
	return s->fusion % 10 == JUDGED;
}

/* --- what is said ------------------------------------------------------------------- */

static struct tauti_fused fused_of(const struct sample *s)
{
	return (struct tauti_fused) { s->parts, s->n_parts, s->ties, s->n_ties };
}

static double by_learned(const struct bench *b, const struct sample *s)
{
	struct tauti_fused fused = fused_of(s);

	return (double)tauti_learned_ns(&b->learned, &fused);
}

/* What a part computes: what of its time is neither memory's nor a launch. */
static double by_bound(const struct bench *b, const struct sample *s)
{
	struct sample own = *s;
	struct tauti_fused fused = fused_of(&own);

	for (uint32_t i = 0; i < own.n_parts; i++) {
		struct tauti_fused_part *part = &own.parts[i];
		double ns = (double)part->dur_ns - (double)b->bound.launch_ns -
			b->bound.byte_ns *
			(double)(part->in_bytes + part->out_bytes);

		part->compute_ns = ns > 0 ? (int64_t)ns : 0;
	}
	return fmax(1, (double)tauti_fused_bound_ns(&b->bound, &fused));
}

static double by_eight_tenths(const struct bench *b, const struct sample *s)
{
	(void)b;
	return 0.8 * s->sum_ns;
}

static double apart(const struct bench *b, const struct sample *x,
	const struct sample *y)
{
	double t = log2(x->sum_ns / y->sum_ns);
	double m = log2((1 + x->moved_bytes) / (1 + y->moved_bytes));
	double sum = b->nearest_scale * (t * t + m * m);

	for (uint32_t i = 0; i < TYPES; i++) {
		int d = x->counts[i] - y->counts[i];

		sum += d * d;
	}
	return sum;
}

/* The part of its operators' time that the nearest one takes. */
static double by_nearest(const struct bench *b, const struct sample *s)
{
	const struct sample *nearest = NULL;
	double least = INFINITY;

	for (size_t i = 0; i < b->all.rows.count; i++) {
		const struct sample *other = b->all.rows.data[i];
		double far = other->fusion == s->fusion || is_judged(other) ?
			INFINITY : apart(b, s, other);

		if (far < least) {
			least = far;
			nearest = other;
		}
	}
	return nearest ? s->sum_ns * (double)nearest->ns / nearest->sum_ns : s->sum_ns;
}

static bool is_same(const struct sample *x, const struct sample *y)
{
	return x->fusion == y->fusion && x->n_parts == y->n_parts &&
		x->parts[0].in_bytes == y->parts[0].in_bytes &&
		x->moved_bytes == y->moved_bytes;
}

/* By the same fusion in the same shape, timed another time. */
static double by_again(const struct bench *b, const struct sample *s)
{
	for (size_t i = 0; i < b->all.rows.count; i++) {
		const struct sample *other = b->all.rows.data[i];

		if (is_same(s, other))
			return s->sum_ns * (double)other->ns / other->sum_ns;
	}
	die("AGAIN.jsonl has what SAMPLES.jsonl has not");
	return 0;
}

typedef double (*estimate)(const struct bench *b, const struct sample *s);

/* --- how far off --------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct found {
	double median, mean, p90, within_14, bias, us;
	size_t n;
};

/* Of samples for which is() holds, all with every: of one in so many. */
static struct found judge(const struct bench *b, const struct samples *by,
	estimate say, bool (*is)(const struct sample *s), size_t every)
{
	struct found f = { 0 };
	double *off = calloc(by->rows.count + 1, sizeof *off);
	struct timespec begin, end;

	if (!off)
		die("no memory");
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (size_t i = 0; i < by->rows.count; i += every) {
		const struct sample *s = by->rows.data[i];
		double rate;

		if (!is(s))
			continue;
		rate = say(b, s) / (double)s->ns;
		off[f.n++] = fabs(rate - 1);
		f.mean += fabs(rate - 1);
		f.bias += log(rate);
		f.within_14 += fabs(rate - 1) <= 0.14;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (!f.n)
		die("too few samples to judge by");
	qsort(off, f.n, sizeof *off, by_size);
	f.median = off[f.n / 2];
	f.p90 = off[f.n * 9 / 10];
	f.mean /= (double)f.n;
	f.bias = exp(f.bias / (double)f.n) - 1;
	f.within_14 /= (double)f.n;
	f.us = ((double)(end.tv_sec - begin.tv_sec) * 1e6 +
		(double)(end.tv_nsec - begin.tv_nsec) / 1e3) / (double)f.n;
	free(off);
	return f;
}

static bool is_learned(const struct sample *s)
{
	return !is_judged(s);
}

static bool is_stop(const struct sample *s)
{
	return s->fusion % 10 == STOP;
}

/* The numbers with which the bound is nearest to what was learned from. */
static void fit_bound(struct bench *b)
{
	struct tauti_fused_bound best = { 0 };
	double least = INFINITY;

	for (double byte_ns = 0; byte_ns < 1.2; byte_ns = byte_ns * 1.4 + 0.005)
		for (int64_t launch = 0; launch <= 16000; launch = launch * 3 / 2 + 250)
			for (int c = 0; c < 4; c++) {
				struct found f;

				b->bound = (struct tauti_fused_bound) {
					byte_ns, launch, 0.05 * c, 4 };
				f = judge(b, &b->all, by_bound, is_learned, 5);
				if (f.median < least) {
					least = f.median;
					best = b->bound;
				}
			}
	b->bound = best;
}

static void fit_nearest(struct bench *b)
{
	double best = 1, least = INFINITY;

	for (double scale = 1.0 / 16; scale <= 16; scale *= 4) {
		struct found f;

		b->nearest_scale = scale;
		f = judge(b, &b->all, by_nearest, is_stop, 1);
		if (f.median < least) {
			least = f.median;
			best = scale;
		}
	}
	b->nearest_scale = best;
}

static bool is_any(const struct sample *s)
{
	(void)s;
	return true;
}

static void print_row(const char *name, struct found f)
{

	printf("| %s | %.1f %% | %.1f %% | %.1f %% | %.0f %% | %+.1f %% | %.1f |\n",
		name, 100 * f.median, 100 * f.mean, 100 * f.p90,
		100 * f.within_14, 100 * f.bias, f.us);
}

static void count_judged(const struct bench *b)
{
	size_t n = 0, n_fusions = 0, n_longer = 0;
	int64_t last = -1;

	for (size_t i = 0; i < b->all.rows.count; i++) {
		const struct sample *s = b->all.rows.data[i];

		n += is_judged(s);
		n_fusions += is_judged(s) && s->fusion != last;
		n_longer += (double)s->ns > s->sum_ns;
		last = s->fusion;
	}
	printf("%zu samples, of which %.0f %% take longer than their parts; "
		"judged by %zu of %zu fusions\n\n", b->all.rows.count,
		100.0 * (double)n_longer / (double)b->all.rows.count, n, n_fusions);
}

static void forget(struct samples *samples)
{
	for (size_t i = 0; i < samples->rows.count; i++)
		free(samples->rows.data[i]);
	taut_vec_free(&samples->rows);
}

int main(int argc, char **argv)
{
	static struct bench b;
	struct taut_error err = { .message = "" };

	if (argc != 3 && argc != 4)
		die("usage: fused_cost SAMPLES.jsonl MODEL.json [AGAIN.jsonl]");
	if (tauti_learned_read(argv[2], &b.net, &err))
		die(err.message);
	for (uint32_t i = 0; i < TYPES; i++)
		b.types[i] = i;
	b.learned = (struct tauti_learned_use) { .net = b.net, .types = b.types,
		.n_kinds = TYPES };
	read_samples(&b, &b.all, argv[1]);
	if (argc == 4)
		read_samples(&b, &b.again, argv[3]);
	fit_bound(&b);
	fit_nearest(&b);
	b.learned.otherwise = b.bound;
	count_judged(&b);
	printf("| said by | median error | mean | 9 of 10 within | within 14 %% | "
		"bias | us |\n|---|---|---|---|---|---|---|\n");
	print_row("the network", judge(&b, &b.all, by_learned, is_judged, 1));
	print_row("the nearest sample", judge(&b, &b.all, by_nearest, is_judged, 1));
	print_row("the bound", judge(&b, &b.all, by_bound, is_judged, 1));
	print_row("0.8 of the sum",
		judge(&b, &b.all, by_eight_tenths, is_judged, 1));
	if (argc == 4)
		print_row("timed again", judge(&b, &b.again, by_again, is_any, 1));
	printf("\nbound: %.3f ns a byte, %lld ns a launch, crowding %.2f from 5 parts on\n",
		b.bound.byte_ns, (long long)b.bound.launch_ns, b.bound.crowding);
	forget(&b.all);
	forget(&b.again);
	tauti_learned_destroy(b.net);
	return 0;
}

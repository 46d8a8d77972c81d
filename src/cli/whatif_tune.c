/* whatif_tune.c - see whatif_tune.h. */
#include "cli/whatif_tune.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/out.h"
#include "cli/tuned.h"

struct found {
	struct taut_settings *settings;
	int64_t before_ns;
	double *after_ns;
	uint32_t n, n_replayed, *order;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a search");
}

struct timed {
	double ns;
	uint32_t point;
};

static int by_time(const void *a, const void *b)
{
	const struct timed *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->point < y->point ? -1 : x->point > y->point;
}

static taut_status sort(struct found *f, struct taut_error *err)
{
	struct timed *timed = calloc((size_t)f->n + 1, sizeof *timed);

	if (!timed)
		return no_memory(err);
	for (uint32_t i = 0; i < f->n; i++)
		timed[i] = (struct timed){ f->after_ns[i], i };
	qsort(timed, f->n, sizeof *timed, by_time);
	for (uint32_t i = 0; i < f->n; i++)
		f->order[i] = timed[i].point;
	free(timed);
	return TAUT_OK;
}

static taut_status find(const struct taut_graph *graph, unsigned threads,
	const char *const *changes, size_t n, struct found *f,
	struct taut_error *err)
{
	const struct taut_whatif_options options = { .threads = threads };
	taut_status status = taut_settings_of(graph, &f->settings, err);

	if (status)
		return status;
	f->n = taut_settings_points(f->settings);
	f->after_ns = calloc(f->n, sizeof *f->after_ns);
	f->order = calloc(f->n, sizeof *f->order);
	if (!f->after_ns || !f->order)
		return no_memory(err);
	status = taut_settings_predict(f->settings, graph, changes, n, &options,
		&f->before_ns, f->after_ns, &f->n_replayed, err);
	return status ? status : sort(f, err);
}

static void forget(struct found *f)
{
	taut_settings_destroy(f->settings);
	free(f->after_ns);
	free(f->order);
}

/* --- the verb -----------------------------------------------------------------------*/

struct output {
	const struct whatif_tune *how;
	const struct tauti_tune_view *view;
};

static taut_status write_found(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *o = context;

	return o->how->json ? tauti_tune_json(o->view, out, err) :
		tauti_tune_text(o->view, &o->how->text, out, err);
}

int whatif_tune(const struct job *job, const struct whatif_tune *how,
	const char *const *changes, size_t n)
{
	struct taut_error err = { .message = "" };
	struct found f = { 0 };
	taut_status status = find(
		job->graph, how->threads, changes, n, &f, &err);

	if (!status) {
		const struct tauti_tune_view view = { job->run->path, changes, n,
			f.settings, f.before_ns, f.after_ns, f.n_replayed,
			f.order };
		const struct output output = { how, &view };
		struct taut_setting best = taut_settings_at(
			f.settings, f.order[0]);

		if (how->save)
			status = out_write(how->save, job->run, tuned_write,
				&best, &err);
		if (!status)
			status = out_write(
				NULL, job->run, write_found, &output, &err);
	}
	forget(&f);
	return job_status(status, &err);
}

/* --- for a job ----------------------------------------------------------------------*/

enum { WORD_BYTES = 96 };

taut_status whatif_tune_words(const struct taut_graph *graph,
	struct taut_arena *arena, const char **ret_words,
	struct taut_error *err)
{
	struct found f = { 0 };
	taut_status status = find(graph, 0, NULL, 0, &f, err);
	char *words = NULL;
	size_t at = 0;

	if (!status)
		words = taut_arena_calloc(arena, f.n + 1, WORD_BYTES);
	if (!status && !words)
		status = no_memory(err);
	for (uint32_t i = 0; !status && i < f.n; i++) {
		struct taut_setting s = taut_settings_at(f.settings, i);

		at += (size_t)snprintf(words + at, WORD_BYTES, "%s%" PRIu64
			"/%" PRIu64 "/%" PRIu64 "/%s=%.0f", i ? " " : "",
			s.piece_bytes, s.credit_bytes, s.fuse_bytes,
			taut_coll_way_name(s.way), f.after_ns[i]);
	}
	if (!status)
		*ret_words = words;
	forget(&f);
	return status;
}

/* stalls_predict.c - epochs after changes, one at a time from what is there: by cache, by
 * workers, by cores, by storage, by batch, by jobs, and those that were asked for. */
#include <math.h>
#include <string.h>

#include "cli/stalls.h"
#include "cli/term.h"

static const double shares[] = { 0, 0.25, 0.5, 0.75, 1 };
static const double rates[] = { 0.5, 2, 4, 8 };

struct making {
	const struct stalls_asked *asked;
	struct taut_arena *arena;
	struct tauti_stalls_view *view;
	TAUT_VEC(struct tauti_stalls_row) rows;
	struct taut_error *errors; /* of each row */
	taut_status *status;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
}

static bool add(struct making *m, enum tauti_stalls_table table,
	const struct taut_stalls_change *change, double cache_share, const char *what)
{
	struct tauti_stalls_row row = { .table = table, .what = what, .change = *change,
		.cache_share = cache_share };

	row.change.size = sizeof row.change;
	return taut_vec_push(&m->rows, row);
}

/* --- which --------------------------------------------------------------------------------*/

/* Rooms of what is kept are a little larger than items. */
static bool add_caches(struct making *m)
{
	static const enum taut_feed_cache caches[] = { TAUT_FEED_LINUX, TAUT_FEED_KEEP };
	double all = (double)m->view->set_bytes + 64 * (double)m->view->model.set.n_items;
	bool done = true;

	for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
		for (size_t k = 0; k < sizeof caches / sizeof caches[0]; k++) {
			struct taut_stalls_change change = { .has_cache = true,
				.cache = caches[k],
				.cache_bytes = (uint64_t)ceil(all * shares[i]) };

			if (!change.cache_bytes) /* one row says both */
				change.cache = TAUT_FEED_NONE;
			if (change.cache_bytes || !k)
				done &= add(m, TAUTI_STALLS_CACHE, &change, shares[i], NULL);
		}
	return done;
}

typedef bool (*add_number)(struct making *m, uint32_t number);

/* As asked for, or halves and doubles of what there is. */
static bool add_numbers(struct making *m, const struct opt_ranks *asked, uint32_t now,
	uint32_t most, add_number add_one)
{
	bool done = true;

	for (size_t i = 0; i < asked->n; i++)
		done &= add_one(m, (uint32_t)asked->data[i]);
	if (asked->n)
		return done;
	if (now > 1)
		done &= add_one(m, now / 2);
	for (uint32_t k = 1; k <= most; k *= 2)
		done &= add_one(m, (now ? now : 1) * k);
	return done;
}

static bool add_workers(struct making *m, uint32_t n)
{
	const struct taut_stalls_change change = { .workers = n };

	return add(m, TAUTI_STALLS_WORKERS, &change, 0, NULL);
}

/* More of them are of no use without workers that use them. */
static bool add_cores(struct making *m, uint32_t n)
{
	const struct taut_stalls_model *model = &m->view->model;
	uint32_t of_rank = (n + model->n_ranks_host - 1) / model->n_ranks_host;
	struct taut_stalls_change change = { .cores = n };

	if (n > (uint32_t)llround(model->host.cores) && model->job.n_workers &&
		of_rank > model->job.n_workers)
		change.workers = of_rank;
	return add(m, TAUTI_STALLS_CORES, &change, 0, NULL);
}

static bool add_rates(struct making *m)
{
	bool done = true;

	for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
		struct taut_stalls_change change = { .rate = rates[i] };

		done &= add(m, TAUTI_STALLS_RATE, &change, 0, NULL);
	}
	return done;
}

static bool add_batches(struct making *m, uint32_t n)
{
	const struct taut_stalls_change change = { .batch = n };

	return add(m, TAUTI_STALLS_BATCH, &change, 0, NULL);
}

static bool add_jobs(struct making *m)
{
	const struct taut_stalls_change two = { .jobs = 2 }, four = { .jobs = 4 };
	const struct taut_stalls_change shared = { .jobs = 4, .share = true, .taut = true };

	return add(m, TAUTI_STALLS_JOBS, &two, 0, NULL) &&
		add(m, TAUTI_STALLS_JOBS, &four, 0, NULL) &&
		add(m, TAUTI_STALLS_JOBS, &shared, 0, NULL);
}

static bool add_all(struct making *m)
{
	const struct stalls_asked *asked = m->asked;
	const struct taut_stalls_model *model = &m->view->model;
	uint32_t cores = (uint32_t)llround(model->host.cores);
	bool done = add_caches(m) &&
		add_numbers(m, &asked->workers, model->job.n_workers, 4, add_workers);

	if (cores || asked->cores.n)
		done &= add_numbers(m, &asked->cores, cores, 4, add_cores);
	done &= add_rates(m);
	if (model->half_step_ns || asked->batches.n)
		done &= add_numbers(
			m, &asked->batches, model->job.batch, 2, add_batches);
	return done && add_jobs(m);
}

static taut_status add_asked(struct making *m, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < m->asked->changes.n; i++) {
		const char *words = m->asked->changes.data[i];
		struct taut_stalls_change change;

		status = stalls_change_read(
			words, (double)m->view->set_bytes, &change, err);
		if (!status && !add(m, TAUTI_STALLS_ASKED, &change, 0, words))
			status = no_memory(err);
	}
	return status;
}

/* --- what they give -----------------------------------------------------------------------*/

static taut_status predict_one(void *context, size_t i, struct taut_error *err)
{
	struct making *m = context;
	struct tauti_stalls_row *row = &m->rows.data[i];

	m->status[i] = taut_stalls_predict(
		&m->view->model, &row->change, &row->epoch, &m->errors[i]);
	if (m->status[i] == TAUT_OK || m->status[i] == TAUT_EINVAL)
		return TAUT_OK;
	*err = m->errors[i];
	return m->status[i];
}

static taut_status predict_rows(struct making *m, struct taut_error *err)
{
	size_t n = m->rows.count;
	taut_status status;

	m->errors = TAUT_ARENA_ARRAY(m->arena, struct taut_error, n);
	m->status = TAUT_ARENA_ARRAY(m->arena, taut_status, n);
	if (!m->errors || !m->status)
		return no_memory(err);
	status = taut_parallel_for(n, 0, predict_one, m, err);
	for (size_t i = 0; !status && i < n; i++)
		if (m->status[i])
			m->rows.data[i].why_not = m->errors[i].message;
	return status;
}

/* The rows go to the arena; the errors that they name lie there already. */
static taut_status keep_rows(struct making *m, struct taut_error *err)
{
	struct tauti_stalls_row *rows = taut_arena_alloc(
		m->arena, (m->rows.count + 1) * sizeof *rows);

	if (!rows)
		return no_memory(err);
	memcpy(rows, m->rows.data, m->rows.count * sizeof *rows);
	m->view->rows = rows;
	m->view->n_rows = m->rows.count;
	return TAUT_OK;
}

static taut_status advise(struct making *m, struct taut_error *err)
{
	struct taut_stalls_advice *advice = TAUT_ARENA_ARRAY(
		m->arena, struct taut_stalls_advice, TAUT_STALLS_ADVICE);

	if (!advice)
		return no_memory(err);
	m->view->advice = advice;
	return taut_stalls_advise(&m->view->model, advice, &m->view->n_advice,
		&m->view->needs, err);
}

static uint64_t set_bytes(const struct taut_feed_set *set)
{
	double sum = set->bytes ? 0 : set->mean_bytes * (double)set->n_items;

	for (uint64_t i = 0; set->bytes && i < set->n_items; i++)
		sum += (double)set->bytes[i];
	return (uint64_t)sum;
}

taut_status stalls_predict_all(const struct stalls_asked *asked,
	struct taut_arena *arena, struct tauti_stalls_view *view, struct taut_error *err)
{
	struct making m = { .asked = asked, .arena = arena, .view = view };
	const struct taut_stalls_change none = { .size = sizeof none };
	struct taut_progress progress = term_progress();
	taut_status status;

	view->set_bytes = set_bytes(&view->model.set);
	if (progress.update)
		progress.update(progress.state, "predicting", 0, 0);
	status = add_asked(&m, err);
	if (!status && !add_all(&m))
		status = no_memory(err);
	if (!status)
		status = taut_stalls_predict(&view->model, &none, &view->now, err);
	if (!status)
		status = predict_rows(&m, err);
	if (!status)
		status = keep_rows(&m, err);
	if (!status)
		status = advise(&m, err);
	taut_vec_free(&m.rows);
	term_progress_end();
	return status;
}

/* stalls_json.c - taut stalls for machines. docs/stalls.md explains every key. */
#include <math.h>

#include "report/fields.h"
#include "report/number.h"
#include "report/stalls_out.h"

const char *tauti_stalls_phase_name(enum taut_stalls_phase phase)
{
	static const char *const names[TAUT_STALLS_PHASES] = {
		[TAUT_STALLS_PLACE] = "place", [TAUT_STALLS_HALF] = "half",
		[TAUT_STALLS_CACHED] = "cached", [TAUT_STALLS_PART] = "part",
		[TAUT_STALLS_COLD] = "cold" };

	return names[phase];
}

const char *tauti_stalls_cache_name(enum taut_feed_cache cache)
{
	switch (cache) {
	case TAUT_FEED_NONE:
		return "none";
	case TAUT_FEED_KEEP:
		return "keep";
	case TAUT_FEED_LRU:
		return "lru";
	case TAUT_FEED_LINUX:
		return "linux";
	}
	return "none";
}

static void put_value(struct tauti_put *put, const char *key,
	const struct taut_stalls_value *value)
{
	tauti_field_key(put, key);
	tauti_put_text(put, "{\"value\":");
	tauti_put_real(put, value->value);
	tauti_field_real(put, "low", value->low);
	tauti_field_real(put, "high", value->high);
	tauti_field_integer(put, "rounds", value->n_rounds);
	tauti_put_char(put, '}');
}

static void put_flag(struct tauti_put *put, const char *key, bool flag)
{
	tauti_field_key(put, key);
	tauti_put_text(put, flag ? "true" : "false");
}

/* A share that is below 0 where it is not known. */
static void put_share(struct tauti_put *put, const char *key, double share)
{
	tauti_field_key(put, key);
	if (share < 0)
		tauti_put_text(put, "null");
	else
		tauti_put_real(put, share);
}

static void put_job(struct tauti_put *put, const struct tauti_stalls_view *v)
{
	const struct taut_stalls_result *r = &v->result;

	tauti_field_section(put, "job", "{\"loader\":");
	tauti_put_string(put, r->loader);
	tauti_field_integer(put, "ranks", r->n_ranks);
	tauti_field_integer(put, "hosts", r->n_hosts);
	tauti_field_integer(put, "runs", r->n_runs);
	tauti_field_integer(put, "workers", r->n_workers);
	tauti_field_integer(put, "depth", r->depth);
	tauti_field_integer(put, "batch", r->batch);
	tauti_field_known(put, "items", r->n_items);
	put_flag(put, "on_device", r->on_device);
	tauti_field_real(put, "mean_bytes", r->mean_bytes);
	tauti_field_real(put, "spread_bytes", r->spread_bytes);
	tauti_put_char(put, '}');
}

static void put_faults(struct tauti_put *put, const struct taut_stalls_faults *faults)
{
	tauti_field_section(put, "page_faults", faults->fault_ns > 0 ? "{" : "null");
	if (faults->fault_ns <= 0)
		return;
	tauti_put_key(put, "fault_ns");
	tauti_put_real(put, faults->fault_ns);
	put_share(put, "a_step", faults->step);
	put_share(put, "step_share", faults->step_share);
	put_share(put, "an_item", faults->item);
	put_share(put, "item_share", faults->item_share);
	tauti_put_char(put, '}');
}

static void put_measured(struct tauti_put *put, const struct tauti_stalls_view *v)
{
	const struct taut_stalls_result *r = &v->result;

	tauti_field_section(put, "samples_a_second", "{\"unit\":\"all ranks\"");
	for (int phase = 0; phase < TAUT_STALLS_PHASES; phase++)
		if (r->rate[phase].n_rounds)
			put_value(put, tauti_stalls_phase_name(phase), &r->rate[phase]);
	tauti_put_char(put, '}');
	tauti_field_section(put, "stalls", "{\"unit\":\"share of a step\"");
	put_value(put, "prepare", &r->prepare_stall);
	put_value(put, "fetch", &r->fetch_stall);
	put_value(put, "cached", &r->cached_stall);
	tauti_put_char(put, '}');
	tauti_field_section(put, "cold", "{\"files\":");
	tauti_put_int(put, (int64_t)v->forgotten);
	tauti_field_integer(put, "bytes", (int64_t)v->forgotten_bytes);
	put_share(put, "cold_share", r->cold_share);
	put_share(put, "cached_share", r->cached_share);
	tauti_put_char(put, '}');
	put_faults(put, &r->faults);
}

static void put_storage(struct tauti_put *put, const struct tauti_stalls_view *v)
{
	const struct taut_stalls_storage *s = &v->storage;

	tauti_field_section(put, "storage", v->has_storage ? "{" : "null");
	if (!v->has_storage)
		return;
	tauti_put_key(put, "rate_bytes_s");
	tauti_put_int(put, llround(s->rate_bytes_s));
	tauti_field_integer(put, "latency_ns", s->latency_ns);
	tauti_field_integer(put, "served", s->n_served);
	tauti_field_integer(put, "burst_bytes", (int64_t)s->burst_bytes);
	tauti_field_real(put, "error", s->error);
	tauti_field_key(put, "points");
	tauti_put_char(put, '[');
	for (uint32_t i = 0; i < s->n_points; i++) {
		tauti_field_row(put, i);
		tauti_put_key(put, "threads");
		tauti_put_int(put, s->points[i].n_threads);
		tauti_field_integer(put, "bytes_s", llround(s->points[i].bytes_s));
		tauti_field_real(put, "reads_s", s->points[i].reads_s);
		tauti_put_char(put, '}');
	}
	tauti_put_text(put, "]}");
}

static void put_epoch(struct tauti_put *put, const struct taut_stalls_epoch *epoch)
{
	char text[TAUTI_NUMBER_BYTES];

	tauti_put_text(put, "{\"first_ms\":");
	tauti_put_text(put, tauti_number_ms(epoch->first_ns, 6, text));
	tauti_field_ms(put, "later_ms", epoch->later_ns);
	tauti_field_ms(put, "fetch_ms", epoch->fetch_ns);
	tauti_field_ms(put, "prepare_ms", epoch->prepare_ns);
	tauti_field_integer(put, "read_bytes", (int64_t)epoch->read_bytes);
	tauti_put_char(put, '}');
}

static void put_change(struct tauti_put *put, const struct taut_stalls_change *c)
{
	tauti_put_key(put, "change");
	tauti_put_text(put, "{\"rate\":");
	tauti_put_real(put, c->rate > 0 ? c->rate : 1);
	if (c->cores > 0)
		tauti_field_real(put, "cores", c->cores);
	if (c->workers)
		tauti_field_integer(put, "workers", c->workers);
	if (c->has_cache) {
		tauti_field_text(put, "cache", tauti_stalls_cache_name(c->cache));
		tauti_field_integer(put, "cache_bytes", (int64_t)c->cache_bytes);
	}
	if (c->batch)
		tauti_field_integer(put, "batch", c->batch);
	if (c->device > 0)
		tauti_field_real(put, "device", c->device);
	if (c->jobs)
		tauti_field_integer(put, "jobs", c->jobs);
	put_flag(put, "share", c->share);
	put_flag(put, "taut", c->taut);
	tauti_put_char(put, '}');
}

static const char *const table_keys[TAUTI_STALLS_TABLES] = {
	[TAUTI_STALLS_ASKED] = "asked", [TAUTI_STALLS_CACHE] = "by_cache",
	[TAUTI_STALLS_WORKERS] = "by_workers", [TAUTI_STALLS_CORES] = "by_cores",
	[TAUTI_STALLS_RATE] = "by_rate", [TAUTI_STALLS_BATCH] = "by_batch",
	[TAUTI_STALLS_JOBS] = "by_jobs" };

static void put_rows(struct tauti_put *put, const struct tauti_stalls_view *v, int table)
{
	uint32_t n = 0;

	tauti_field_section(put, table_keys[table], "[");
	for (size_t i = 0; i < v->n_rows; i++) {
		const struct tauti_stalls_row *row = &v->rows[i];

		if ((int)row->table != table)
			continue;
		tauti_field_row(put, n++);
		put_change(put, &row->change);
		if (row->what)
			tauti_field_text(put, "what", row->what);
		if (row->why_not) {
			tauti_field_text(put, "why_not", row->why_not);
		} else {
			tauti_field_key(put, "epoch");
			put_epoch(put, &row->epoch);
		}
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_advice(struct tauti_put *put, const struct tauti_stalls_view *v)
{
	tauti_field_section(put, "advice", "[");
	for (size_t i = 0; i < v->n_advice; i++) {
		tauti_field_row_text(put, (uint32_t)i, "what", v->advice[i].what);
		tauti_field_real(put, "gain", v->advice[i].gain);
		tauti_put_char(put, ',');
		put_change(put, &v->advice[i].change);
		tauti_field_key(put, "epoch");
		put_epoch(put, &v->advice[i].epoch);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
	tauti_field_section(put, "needs", "{\"cache_share\":");
	tauti_put_real(put, v->needs.cache_share);
	tauti_field_real(put, "rate", v->needs.rate);
	tauti_field_integer(put, "cores", v->needs.cores);
	tauti_field_integer(put, "workers", v->needs.workers);
	tauti_put_char(put, '}');
}

static void put_model(struct tauti_put *put, const struct tauti_stalls_view *v)
{
	const struct taut_stalls_model *m = &v->model;

	tauti_field_section(put, "model", v->has_model ? "{" : "null");
	if (!v->has_model)
		return;
	tauti_put_key(put, "cores");
	tauti_put_real(put, m->host.cores);
	tauti_field_integer(put, "page_cache_bytes", (int64_t)v->page_cache_bytes);
	tauti_field_integer(put, "set_bytes", (int64_t)v->set_bytes);
	tauti_field_integer(put, "items", (int64_t)m->set.n_items);
	tauti_field_ms(put, "step_ms", m->job.step_ns);
	tauti_field_real(put, "step_cores", m->job.step_cores);
	tauti_field_ms(put, "half_step_ms", m->half_step_ns);
	tauti_field_real(put, "prepare_ns", m->job.prepare_ns);
	tauti_field_real(put, "prepare_ns_byte", m->job.prepare_ns_byte);
	tauti_field_real(put, "error_cached", m->error[0]);
	tauti_field_real(put, "error_cold", m->error[1]);
	tauti_field_real(put, "error_part", m->error[2]);
	tauti_put_char(put, '}');
	tauti_field_section(put, "now", "");
	put_epoch(put, &v->now);
	for (int table = 0; table < TAUTI_STALLS_TABLES; table++)
		put_rows(put, v, table);
	put_advice(put, v);
}

taut_status tauti_stalls_json(const struct tauti_stalls_view *view, FILE *out,
	struct taut_error *reterr)
{
	struct tauti_put put;

	tauti_put_begin(&put, out);
	tauti_put_text(&put, "{\"version\":");
	tauti_put_string(&put, taut_version());
	tauti_field_text(&put, "command", view->command);
	put_job(&put, view);
	put_measured(&put, view);
	put_storage(&put, view);
	tauti_field_texts(&put, "notes", view->notes, view->n_notes);
	put_model(&put, view);
	tauti_put_text(&put, "}\n");
	return tauti_put_end(&put, reterr);
}

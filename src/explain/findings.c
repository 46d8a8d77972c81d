/* findings.c - at most ten plain sentences, most expensive first. */
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"
#include "explain/steps.h"

enum { MAX_FINDINGS = 10 };
static const double worth_saying = 0.005; /* of a step */
static const double worth_faults = 0.02; /* counted and timed, not replayed */

static double ms(int64_t ns)
{
	return (double)ns / 1e6;
}

static double share(int64_t part, int64_t whole)
{
	return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* Mean over the steps of all ranks, as in the table of the steps. */
static int64_t mean_of(const struct taut_report *r, enum taut_category c)
{
	int64_t sum = 0, n = 0;

	for (uint32_t i = 0; i < r->n_steps; i++)
		if (tauti_step_counts(r, i)) {
			sum += r->steps[i].ns[c];
			n++;
		}
	return n ? sum / n : 0;
}

static int64_t mean_step(const struct taut_report *r)
{
	int64_t sum = 0;

	for (int c = 0; c < TAUT_CATEGORIES; c++)
		sum += mean_of(r, (enum taut_category)c);
	return sum;
}

/* Where most of a category is in the first steps, which do not count in means: savings are
 * of the whole recording. */
static const char *mostly_first(const struct taut_report *r, enum taut_category c)
{
	int64_t all = 0, first = 0;

	for (uint32_t i = 0; i < r->n_steps; i++) {
		all += r->steps[i].ns[c];
		first += tauti_step_counts(r, i) ? 0 : r->steps[i].ns[c];
	}
	return 2 * first > all ? " Most of it is in the first step, which these "
		"figures leave out." : "";
}

/* The step in which a category costs most: where to look. */
static void place(const struct taut_report *r, enum taut_category c,
	struct taut_report_finding *f)
{
	const struct taut_report_step *best = NULL;

	for (uint32_t i = 0; i < r->n_steps; i++)
		if (!best || r->steps[i].ns[c] > best->ns[c])
			best = &r->steps[i];
	if (!best)
		return;
	f->at_rank = best->rank;
	f->at_start_ns = best->start_ns;
	f->at_end_ns = best->start_ns + best->measured_ns;
}

/* The longest piece of a category on the critical path, if there is one. */
static void place_on_path(const struct taut_report *r, enum taut_category c,
	struct taut_report_finding *f)
{
	const struct taut_report_segment *best = NULL;

	for (uint32_t i = 0; i < r->n_path; i++)
		if (r->path[i].category == c && r->path[i].rank >= 0 &&
			(!best || r->path[i].dur_ns > best->dur_ns))
			best = &r->path[i];
	if (!best) {
		place(r, c, f);
		return;
	}
	f->at_rank = best->rank;
	f->at_start_ns = best->start_ns;
	f->at_end_ns = best->start_ns + best->dur_ns;
}

static const char *on_path(const struct taut_report *r, enum taut_category c)
{
	for (uint32_t i = 0; i < r->n_path_ops; i++)
		if (r->path_ops[i].category == c)
			return r->path_ops[i].name;
	return "";
}

/* --- late ranks -----------------------------------------------------------------*/

static const char *list_ranks(struct tauti_explain *x, const int32_t *ranks,
	uint32_t n)
{
	const char *text = taut_arena_printf(x->arena, "%s %d",
		n > 1 ? "Ranks" : "Rank", n ? ranks[0] : -1);

	for (uint32_t i = 1; text && i < n; i++)
		text = taut_arena_printf(x->arena, "%s%s %d", text,
			i + 1 == n ? " and" : ",", ranks[i]);
	return text;
}

/* The collective for which the others waited longest because of this rank. */
static void place_late(const struct tauti_explain *x, int32_t rank,
	struct taut_report_finding *f)
{
	const struct taut_graph *g = x->g;
	int64_t worst = -1;

	for (uint32_t i = 0; i < g->n_collectives; i++) {
		const struct taut_collective *c = &g->collectives[i];
		uint32_t join = c->join_op;
		int64_t first = INT64_MAX;
		bool late = false;

		for (uint32_t k = 0; k < c->n_members; k++) {
			uint32_t op = g->member_arrive[c->first_member + k];

			if (g->start_ns[op] < first)
				first = g->start_ns[op];
			late |= g->start_ns[op] == g->start_ns[join] &&
				g->run->traces[tauti_rank_of(g, op)].rank == rank;
		}
		if (!late || g->start_ns[join] - first <= worst)
			continue;
		worst = g->start_ns[join] - first;
		f->at_rank = rank;
		f->at_start_ns = first;
		f->at_end_ns = g->start_ns[join];
	}
}

static const char *cause_text(const struct taut_report_late *late, uint32_t n)
{
	int64_t host = late->excess_ns[TAUT_CAT_HOST_BOUND];
	bool pauses = 2 * late->stall_ns > host;

	switch (late->cause) {
	case TAUT_CAT_HOST_BOUND:
		if (n > 1)
			return pauses ? "the cause is on their hosts, whose "
				"threads pause" : "the cause is on their "
				"hosts, which take longer to get there";
		return pauses ? "the cause is on its host, whose thread "
			"pauses" : "the cause is on its host, which takes "
			"longer to get there";
	case TAUT_CAT_COMPUTE:
		return "the computation itself takes longer there";
	case TAUT_CAT_DATA:
		return "the next batch comes late there";
	case TAUT_CAT_COMM_EXPOSED:
		return "an earlier transfer takes longer there";
	case TAUT_CAT_COPY:
		return "copies take longer there";
	default:
		return "nothing recorded there explains it";
	}
}

/* A kernel's name without its types and arguments; borrowed or arena's. */
static const char *bare_name(struct tauti_explain *x, const char *name)
{
	size_t n;

	if (!strncmp(name, "void ", 5))
		name += 5;
	n = strcspn(name, "<(");
	return n && name[n] ? taut_arena_strndup(x->arena, name, n) : name;
}

static bool say_late(struct tauti_explain *x, struct taut_report_finding *f)
{
	const struct taut_report *r = x->report;
	uint32_t n = tauti_late_count(r), last = 0;
	int32_t *ranks = TAUT_ARENA_ARRAY(x->arena, int32_t, n + 1);
	int64_t caused = 0, steps = tauti_steps_of_a_rank(r);
	const char *evidence = "";

	for (uint32_t i = 0; ranks && i < n; i++) {
		const struct taut_report_late *late = &r->late[i];

		ranks[i] = late->rank;
		caused += late->caused_ns;
		last += late->last_arrivals;
		evidence = taut_arena_printf(x->arena, "%s%srank %d: last at "
			"%u collectives, the others waited %.1f ms for it; its "
			"way there has %.1f ms more %s than theirs (%.1f ms of "
			"it pauses, most in %s)", evidence, i ? "; " : "",
			late->rank, late->last_arrivals, ms(late->caused_ns),
			ms(late->excess_ns[late->cause]),
			taut_category_title(late->cause),
			ms(late->stall_ns > 0 ? late->stall_ns : 0),
			*late->cause_op ? bare_name(x, late->cause_op) :
			"nothing named");
		if (!evidence)
			return false;
	}
	if (!ranks)
		return false;
	f->ranks = ranks;
	f->n_ranks = n;
	f->evidence = evidence;
	place_late(x, ranks[0], f);
	f->text = taut_arena_printf(x->arena, "%s %s the others back: last at "
		"%u of %llu collectives, for which the others waited %.1f ms "
		"a step; %s.",
		list_ranks(x, ranks, n), n > 1 ? "hold" : "holds", last,
		(unsigned long long)r->coll_count, ms(caused / steps),
		cause_text(&r->late[0], n));
	return f->text != NULL;
}

/* --- one category -----------------------------------------------------------------*/

/* Where the late ranks are late on their hosts too, the others' waiting has
 * the same cause. */
static const char *others_wait(struct tauti_explain *x)
{
	const struct taut_report *r = x->report;
	double waiting = share(mean_of(r, TAUT_CAT_COMM_WAIT), mean_step(r));
	const char *text;

	if (!r->n_late || r->late[0].cause != TAUT_CAT_HOST_BOUND ||
		waiting < 1)
		return "";
	text = taut_arena_printf(x->arena, ", and wait another %.0f %% for "
		"ranks whose launches come later still", waiting);
	return text ? text : "";
}

static bool say_host(struct tauti_explain *x, struct taut_report_finding *f)
{
	const struct taut_report *r = x->report;
	int64_t idle = mean_of(r, TAUT_CAT_HOST_BOUND);
	const char *top = on_path(r, TAUT_CAT_HOST_BOUND);
	const char *first = mostly_first(r, TAUT_CAT_HOST_BOUND);

	place_on_path(r, TAUT_CAT_HOST_BOUND, f);
	f->evidence = taut_arena_printf(x->arena, "%.1f ms a step idle before "
		"a launch (mean over ranks); %.1f ms of host time on the "
		"critical path, most in %s", ms(idle),
		ms(r->path_ns[TAUT_CAT_HOST_BOUND]), *top ? top :
		"no single call");
	f->text = x->facts[0].has_device ? taut_arena_printf(x->arena,
		"The host is the bottleneck: devices idle %.0f %% of the step "
		"because their next kernel was launched too late%s. Launch "
		"less and earlier (CUDA graphs, fused operators, fewer "
		"synchronisations).%s", share(idle, mean_step(r)),
		others_wait(x), first) :
		taut_arena_printf(x->arena, "%.0f %% of the step is host time "
		"outside operators (Python and waits that nothing recorded "
		"explains).%s", share(idle, mean_step(r)), first);
	return f->text && f->evidence;
}

static bool say_stalls(struct tauti_explain *x, struct taut_report_finding *f)
{
	const struct taut_report *r = x->report;
	uint32_t steps = r->n_steps ? r->n_steps : 1;
	double mean = r->stall_count ? ms(r->stall_ns) /
		(double)r->stall_count : 0;

	place_on_path(r, TAUT_CAT_HOST_BOUND, f);
	f->evidence = taut_arena_printf(x->arena, "%llu slices of 1 ms and "
		"more in host events that usually take less than a twentieth, "
		"over %u recorded steps; %.1f ms a step (mean over ranks)",
		(unsigned long long)r->stall_count, steps,
		ms(r->stall_ns / steps));
	f->text = taut_arena_printf(x->arena, "The host thread pauses %.*f "
		"times a step for %.1f ms: it does not run (too few cores, "
		"other processes, the interpreter lock, page faults) or runs "
		"what is not recorded. Give each rank cores of its own, and "
		"look at what is there.", r->stall_count < steps ? 2 : 0,
		(double)r->stall_count / steps, mean);
	return f->text && f->evidence;
}

static bool say_transfer(struct tauti_explain *x, struct taut_report_finding *f)
{
	const struct taut_report *r = x->report;
	int64_t exposed = mean_of(r, TAUT_CAT_COMM_EXPOSED);
	const struct taut_report_coll *c = r->n_colls ? &r->colls[0] : NULL;

	place_on_path(r, TAUT_CAT_COMM_EXPOSED, f);
	f->evidence = taut_arena_printf(x->arena, "%llu collectives, %.1f ms "
		"of transfer a step; most in %s%s", (unsigned long long)
		r->coll_count, ms(r->coll_transfer_ns / tauti_steps_of_a_rank(r)),
		c ? c->name : "none", c && c->busbw_gbs > 0 ?
		taut_arena_printf(x->arena, " at %.2f GB/s bus bandwidth",
		c->busbw_gbs) : "");
	f->text = taut_arena_printf(x->arena, "Transfers that no computation "
		"hides take %.1f ms (%.0f %%) of a step. Overlap them with "
		"the backward pass, send less, or use a faster link.%s",
		ms(exposed), share(exposed, mean_step(r)),
		mostly_first(r, TAUT_CAT_COMM_EXPOSED));
	return f->text && f->evidence;
}

static bool say_data(struct tauti_explain *x, struct taut_report_finding *f)
{
	const struct taut_report *r = x->report;
	int64_t stall = mean_of(r, TAUT_CAT_DATA);

	place(r, TAUT_CAT_DATA, f);
	f->evidence = taut_arena_printf(x->arena, "%.1f ms a step inside the "
		"data loader's __next__ with an idle device", ms(stall));
	f->text = taut_arena_printf(x->arena, "The step waits %.1f ms (%.0f %%) "
		"for its batch. Give the loader more workers, prefetch, or "
		"prepare less per sample.%s", ms(stall), share(stall,
		mean_step(r)), mostly_first(r, TAUT_CAT_DATA));
	return f->text && f->evidence;
}

static bool say_copy(struct tauti_explain *x, struct taut_report_finding *f)
{
	const struct taut_report *r = x->report;
	int64_t copy = mean_of(r, TAUT_CAT_COPY);

	place(r, TAUT_CAT_COPY, f);
	f->evidence = taut_arena_printf(x->arena, "%.2f ms a step in which "
		"only copies or fills run", ms(copy));
	f->text = taut_arena_printf(x->arena, "Copies run alone for %.1f ms "
		"(%.1f %%) of a step. Pin the host memory and copy the next "
		"batch while this one computes.%s", ms(copy), share(copy,
		mean_step(r)), mostly_first(r, TAUT_CAT_COPY));
	return f->text && f->evidence;
}

static bool say_unexplained(struct tauti_explain *x,
	struct taut_report_finding *f)
{
	const struct taut_report *r = x->report;

	place(r, TAUT_CAT_OTHER, f);
	f->evidence = taut_arena_printf(x->arena, "%.2f %% of the step time",
		r->unexplained_pct);
	f->text = taut_arena_printf(x->arena, "Devices stand idle %.1f ms a "
		"step for no reason that the recording shows (%.1f %% counted "
		"over all streams). Record CUDA synchronisation events to see "
		"more.%s", ms(mean_of(r, TAUT_CAT_OTHER)), r->unexplained_pct,
		mostly_first(r, TAUT_CAT_OTHER));
	return f->text && f->evidence;
}

static const struct {
	const char *id;
	bool (*say)(struct tauti_explain *, struct taut_report_finding *);
} speakers[] = {
	{ "late-ranks", say_late }, { "host-bound", say_host },
	{ "host-stalls", say_stalls }, { "transfer", say_transfer }, { "data", say_data },
	{ "copy", say_copy }, { "unexplained", say_unexplained },
};

/* --- page faults --------------------------------------------------------------------*/

/* The rank whose own steps have most of them; NULL: none has any. They need not be in the recorded ones: a
 * profiler's blocks change what malloc gives back. */
static const struct taut_trace *most_faults(const struct tauti_explain *x)
{
	const struct taut_run *run = x->g->run;
	const struct taut_trace *most = NULL;
	int64_t most_ns = 0;

	for (uint32_t i = 0; i < run->n_traces; i++) {
		int64_t ns = taut_trace_faults_ns(&run->traces[i]);

		if (ns > most_ns) {
			most = &run->traces[i];
			most_ns = ns;
		}
	}
	return most;
}

static bool say_faults(struct tauti_explain *x, const struct taut_trace *t,
	struct taut_report_finding *f)
{
	f->id = "page-faults";
	f->cost_ns = taut_trace_faults_ns(t);
	f->at_rank = -1;
	f->evidence = taut_arena_printf(x->arena, "rank %d: %lld faults in a "
		"step that is not recorded, %lld in one that is; %.2f us each",
		t->rank, (long long)t->faults_unrecorded,
		(long long)t->faults_recorded, (double)t->fault_ns / 1e3);
	f->text = taut_arena_printf(x->arena, "Page faults take up to %.1f ms "
		"(%.0f %%) of each step of the job: memory that malloc gives "
		"back to the system and asks for again. 'taut run --heap keep', "
		"or MALLOC_MMAP_MAX_=0 with a large MALLOC_TRIM_THRESHOLD_, "
		"keeps it.", ms(f->cost_ns), share(f->cost_ns, x->step_ns));
	return f->text && f->evidence;
}

/* Among those that are there, the most expensive first. */
static bool add_faults(
	struct tauti_explain *x, struct taut_report_finding *out, uint32_t *n)
{
	const struct taut_trace *t = most_faults(x);
	struct taut_report_finding found = { .ranks = NULL };
	uint32_t at = *n;

	if (!t || (double)taut_trace_faults_ns(t) <
		worth_faults * (double)x->step_ns)
		return true;
	if (!say_faults(x, t, &found))
		return false;
	while (at && out[at - 1].cost_ns < found.cost_ns)
		at--;
	if (at == MAX_FINDINGS)
		return true;
	if (*n < MAX_FINDINGS)
		++*n;
	memmove(out + at + 1, out + at, (*n - at - 1) * sizeof *out);
	out[at] = found;
	return true;
}

taut_status tauti_findings_say(struct tauti_explain *x, struct taut_error *err)
{
	struct taut_report *r = x->report;
	struct taut_report_finding *out = TAUT_ARENA_ARRAY(x->arena,
		struct taut_report_finding, MAX_FINDINGS);
	uint32_t n = 0;

	if (!out)
		return tauti_explain_no_memory(err);
	for (uint32_t i = 0; i < r->n_removals && n < MAX_FINDINGS; i++) {
		const struct taut_report_removal *gone = &r->removals[i];

		if ((double)gone->saved_ns < worth_saying *
			(double)x->step_ns)
			continue;
		for (size_t k = 0; k < sizeof speakers / sizeof speakers[0]; k++)
			if (!strcmp(speakers[k].id, gone->id)) {
				out[n].id = gone->id;
				out[n].cost_ns = gone->saved_ns;
				out[n].at_rank = -1;
				if (!speakers[k].say(x, &out[n]))
					return tauti_explain_no_memory(err);
				n++;
			}
	}
	if (!add_faults(x, out, &n))
		return tauti_explain_no_memory(err);
	r->findings = out;
	r->n_findings = n;
	return TAUT_OK;
}

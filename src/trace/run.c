/* run.c - opening a run: every file by itself and in parallel, then the
 * ranks. */
#include <taut/trace.h>

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/meter.h"
#include "trace/builder.h"
#include "trace/format.h"
#include "trace/formats/et.h"
#include "trace/formats/flight.h"
#include "trace/formats/shapes.h"
#include "trace/inputs.h"
#include "trace/lines.h"
#include "trace/pairs.h"
#include "trace/processes.h"
#include "trace/recording.h"
#include "trace/stream.h"

/* The inputs of one trace, mostly one, and what came of them. */
struct file {
	const struct tauti_input *input; /* the first: it names the trace */
	size_t n_inputs;
	const struct tauti_input *et; /* an execution trace of the rank: one of
	                                 the inputs, or beside; or NULL */
	int32_t rank_given; /* by the caller; -1: not */
	bool is_trace;
	const char **left_out; /* inputs that are no trace, and why */
	size_t n_left_out;
	struct taut_trace trace;
	struct taut_arena *arena; /* of the trace and its notes */
	struct taut_names *names;
	const char **notes; /* malloced */
	size_t n_notes;
	struct file *more; /* further ranks of the same input; malloced */
};

/* What a taut_run is inside; public is its first member. */
struct run {
	struct taut_run public;
	struct taut_arena *arena;
	struct file *files;
	size_t n_files, n_inputs;
	tauti_lines lines; /* what concerns the run as a whole */
};

struct reading {
	struct run *run;
	struct tauti_meter meter;
};

/* --- one file ------------------------------------------------------------ */

/* The sources of one trace, while they are read. */
struct reader {
	struct tauti_builder builder;
	const struct tauti_format *format; /* of main; NULL: no trace yet */
	const struct tauti_input *main;
	size_t main_begin, main_end; /* rows that are of main */
	TAUT_VEC(const char *) left_out; /* lines in the builder's arena */
};

static bool is_named_json(const struct tauti_input *input)
{
	return strstr(input->path, ".json") != NULL;
}

/* In a folder, what is no trace is passed by. A broken one is not, unless
 * its name makes it likely that it never was one. */
static bool may_leave_out(const struct tauti_input *input, bool other_kind)
{
	return input->in_folder && (other_kind || !is_named_json(input) ||
		tauti_shapes_named(input->path));
}

static taut_status no_memory(const char *path, struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "%s: no memory to open it", path);
}

/* JSON of another kind, and what is broken, is worth a line. */
static taut_status leave_out(struct reader *r, const struct tauti_input *input,
	struct taut_error *err)
{
	const char *line;
	if (r->builder.other_kind && !is_named_json(input))
		return TAUT_OK;
	line = taut_arena_strndup(
		r->builder.arena, err->message, strlen(err->message));
	if (!line || !taut_vec_push(&r->left_out, line))
		return no_memory(input->path, err);
	return TAUT_OK;
}

static taut_status second_trace(const struct reader *r,
	const struct tauti_input *input, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EMATCH, -1,
		"%s: is a second trace of one rank, beside %s; give one file "
		"for each rank",
		input->path, r->main->path);
}

/* What was read may only add to the trace, or must be the only one. */
static taut_status take_source(struct reader *r,
	const struct tauti_input *input, const struct tauti_format *format,
	struct taut_error *err)
{
	if (!format->adds && r->format && !r->format->adds)
		return second_trace(r, input, err);
	if (!r->format || (r->format->adds && !format->adds)) {
		r->format = format;
		r->main = input;
		r->main_begin = r->builder.first_row;
		r->main_end = r->builder.n_rows;
	}
	tauti_builder_next_source(&r->builder);
	return TAUT_OK;
}

static taut_status read_source(struct reader *r,
	const struct tauti_input *input, struct tauti_stream *stream,
	struct taut_error *err)
{
	const struct tauti_format *format = NULL;
	taut_status status;
	r->builder.path = tauti_stream_name(stream);
	r->builder.other_kind = false;
	status = tauti_format_read(stream, &r->builder, &format, err);
	if (status == TAUT_OK)
		return take_source(r, input, format, err);
	if (status != TAUT_EFORMAT ||
		!may_leave_out(input, r->builder.other_kind))
		return status;
	tauti_builder_drop_source(&r->builder);
	return leave_out(r, input, err);
}

static void take_builder(struct file *file, struct tauti_builder *builder)
{
	file->is_trace = true;
	file->arena = builder->arena;
	file->names = builder->names;
	file->notes = builder->notes.data;
	file->n_notes = builder->notes.count;
	builder->arena = NULL;
	builder->names = NULL;
	builder->notes.data = NULL;
	builder->notes.count = builder->notes.capacity = 0;
}

static taut_status take_rank(struct file *file, struct tauti_builder *builder,
	const char *format, struct taut_error *err)
{
	taut_status status = tauti_builder_finish(builder, &file->trace, err);
	if (status != TAUT_OK)
		return status;
	file->trace.format = format;
	take_builder(file, builder);
	return TAUT_OK;
}

/* Further ranks of the same input. A rank that the caller gave is that of the
 * first; the others follow. */
static taut_status take_others(struct file *file,
	struct tauti_builder *builder, const char *format,
	struct taut_error *err)
{
	taut_status status = TAUT_OK;
	int32_t rank = file->rank_given;
	for (; builder && status == TAUT_OK; builder = builder->next) {
		struct file *more = calloc(1, sizeof *more);
		if (!more)
			return no_memory(file->input->path, err);
		more->input = file->input;
		more->n_inputs = 1;
		more->rank_given = rank < 0 ? -1 : ++rank;
		more->more = file->more;
		file->more = more;
		status = take_rank(more, builder, format, err);
	}
	return status;
}

static taut_status reader_init(struct reader *r,
	const struct tauti_input *input, struct taut_error *err)
{
	memset(r, 0, sizeof *r);
	taut_status status = tauti_builder_init(&r->builder, input->path);
	return status == TAUT_OK ? status : no_memory(input->path, err);
}

/* Logs alone are a trace where they tell what a rank did: not only when it
 * took batches, nor that a clock was compared. */
static bool tells_of_work(struct tauti_builder *b)
{
	for (size_t i = 0; i < b->n_rows; i++)
		switch (tauti_builder_row_at(b, (uint32_t)i)->kind) {
		case TAUT_KIND_LOAD:
		case TAUT_KIND_LOAD_WAIT:
		case TAUT_KIND_CHUNK:
		case TAUT_KIND_OVERHEAD:
			break;
		default:
			return true;
		}
	return false;
}

static taut_status only_shapes(const struct reader *r, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EFORMAT, -1,
		"%s: holds the shapes of a recording and no trace; give the "
		"folder it lies in",
		r->main->path);
}

/* A rank that died before its profile was written leaves such logs. */
static taut_status leave_out_logs(struct reader *r, struct taut_error *err)
{
	const char *line = taut_arena_printf(r->builder.arena,
		"%s: tells nothing of what the rank did", r->main->path);
	if (!line || !taut_vec_push(&r->left_out, line))
		return no_memory(r->main->path, err);
	r->format = NULL;
	return TAUT_OK;
}

static taut_status lend_shapes(struct reader *r, struct taut_error *err)
{
	r->builder.path = r->main->path;
	r->builder.sizes_lent = r->builder.shapes != NULL;
	taut_status status = tauti_shapes_lend(
		&r->builder, r->main_begin, r->main_end);
	tauti_builder_drop_shapes(&r->builder);
	return status == TAUT_OK ? status : no_memory(r->main->path, err);
}

/* Turns what was read into the file's trace, if there is one. */
static taut_status reader_finish(
	struct reader *r, struct file *file, struct taut_error *err)
{
	taut_status status = TAUT_OK;
	if (r->format && r->format->adds && r->main->in_folder &&
		!tells_of_work(&r->builder))
		status = leave_out_logs(r, err);
	else if (r->format == &tauti_format_shapes && !r->builder.n_rows)
		status = only_shapes(r, err);
	if (status == TAUT_OK && r->format)
		status = lend_shapes(r, err);
	if (status != TAUT_OK)
		return status;
	file->left_out = r->left_out.data;
	file->n_left_out = r->left_out.count;
	r->left_out.data = NULL;
	if (!r->format) { /* the lines that say why lie there */
		file->arena = r->builder.arena;
		r->builder.arena = NULL;
		return TAUT_OK;
	}
	if (!r->format->adds) /* it has the steps that were to be recorded */
		tauti_builder_keep_around(
			&r->builder, r->main_begin, r->main_end);
	r->builder.path = r->main->path;
	file->input = r->main;
	status = take_rank(file, &r->builder, r->format->name, err);
	if (status == TAUT_OK)
		status = take_others(
			file, r->builder.next, r->format->name, err);
	return status;
}

static void reader_fini(struct reader *r)
{
	taut_vec_free(&r->left_out);
	tauti_builder_fini(&r->builder);
}

static taut_status read_input(struct reader *r,
	const struct tauti_input *input, struct tauti_meter *meter,
	struct taut_error *err)
{
	struct tauti_stream *stream = NULL;
	taut_status status =
		tauti_stream_open_file(input->path, meter, &stream, err);
	if (status == TAUT_OK)
		status = read_source(r, input, stream, err);
	tauti_stream_close(stream);
	return status;
}

/* Adds the execution trace to what was read. */
static taut_status read_et(struct reader *r, const struct tauti_input *input,
	struct tauti_meter *meter, struct taut_error *err)
{
	struct tauti_stream *stream = NULL;
	taut_status status =
		tauti_stream_open_file(input->path, meter, &stream, err);
	r->builder.path = input->path;
	r->builder.other_kind = true;
	if (status == TAUT_OK)
		status = tauti_et_add(stream, &r->builder, err);
	tauti_stream_close(stream);
	return status == TAUT_EFORMAT ? leave_out(r, input, err) : status;
}

static taut_status read_file(
	void *context, size_t index, struct taut_error *err)
{
	struct reading *reading = context;
	struct file *file = &reading->run->files[index];
	struct reader r;
	taut_status status = reader_init(&r, file->input, err);
	r.builder.wants_op_ids = file->et != NULL;
	for (size_t i = 0; i < file->n_inputs && status == TAUT_OK; i++)
		if (&file->input[i] != file->et)
			status = read_input(
				&r, &file->input[i], &reading->meter, err);
	if (status == TAUT_OK && file->et && r.format)
		status = read_et(&r, file->et, &reading->meter, err);
	if (status == TAUT_OK)
		status = reader_finish(&r, file, err);
	reader_fini(&r);
	return status;
}

/* Ranks that came with another's input stand behind all others. */
static taut_status spread_ranks(struct run *run, struct taut_error *err)
{
	size_t n = run->n_files;
	for (size_t i = 0; i < run->n_files; i++)
		for (struct file *f = run->files[i].more; f; f = f->more)
			n++;
	if (n == run->n_files)
		return TAUT_OK;
	struct file *all = realloc(run->files, n * sizeof *all);
	if (!all)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"%s: no memory for its ranks",
			run->files->input->path);
	run->files = all;
	for (size_t i = 0; i < run->n_files; i++) {
		struct file *more = all[i].more;
		all[i].more = NULL;
		if (!more)
			continue;
		all[run->n_files++] = *more;
		free(more);
	}
	return TAUT_OK;
}

/* --- ranks --------------------------------------------------------------- */

static taut_status unknown_rank(const struct file *a, const struct file *b,
	struct taut_error *err)
{
	return taut_error_set(err, TAUT_EMATCH, -1,
		"%s: its rank cannot be told, neither from the trace nor from "
		"its name (nor that of %s); name them like rank0.json, or "
		"give the ranks",
		a->input->path, b->input->path);
}

static taut_status same_rank(const struct file *a, const struct file *b,
	struct taut_error *err)
{
	return taut_error_set(err, TAUT_EMATCH, -1,
		"%s: says that it is rank %d, as %s does; give one file for "
		"each rank",
		b->input->path, (int)b->trace.rank, a->input->path);
}

static void tell_rank(struct file *file)
{
	if (file->rank_given >= 0)
		file->trace.rank = file->rank_given;
	if (file->trace.rank < 0)
		file->trace.rank = tauti_rank_of_path(file->input->path);
}

/* Traces come first afterwards, in the order of their ranks. */
static int by_rank(const void *a, const void *b)
{
	const struct file *x = a, *y = b;
	if (x->is_trace != y->is_trace)
		return x->is_trace ? -1 : 1;
	if (x->is_trace && x->trace.rank != y->trace.rank)
		return x->trace.rank < y->trace.rank ? -1 : 1;
	return strcmp(x->input->path, y->input->path);
}

static size_t count_traces(const struct run *run)
{
	size_t n = 0;
	for (size_t i = 0; i < run->n_files; i++)
		n += run->files[i].is_trace;
	return n;
}

/* After sorting, what has no rank stands first. Alone, it is rank 0. */
static taut_status settle_ranks(struct run *run, struct taut_error *err)
{
	size_t n = count_traces(run);
	for (size_t i = 0; i < run->n_files; i++)
		if (run->files[i].is_trace)
			tell_rank(&run->files[i]);
	qsort(run->files, run->n_files, sizeof *run->files, by_rank);
	struct file *files = run->files;
	if (n > 1 && files[1].trace.rank < 0)
		return unknown_rank(&files[0], &files[1], err);
	if (n && files[0].trace.rank < 0)
		files[0].trace.rank = 0;
	for (size_t i = 1; i < n; i++)
		if (files[i].trace.rank == files[i - 1].trace.rank)
			return same_rank(&files[i - 1], &files[i], err);
	return TAUT_OK;
}

static taut_status tell_host(struct run *run, struct file *file)
{
	const char *host;
	size_t len = tauti_host_of_path(file->input->path, &host);
	if (!len || *file->trace.host)
		return TAUT_OK;
	file->trace.host = taut_arena_strndup(run->arena, host, len);
	return file->trace.host ? TAUT_OK : TAUT_ENOMEM;
}

/* --- the run ------------------------------------------------------------- */

/* Fewer ranks than the job had: worth a line. */
static const char *missing_note(struct run *run)
{
	const struct taut_run *public = &run->public;
	int32_t world = -1;
	for (uint32_t i = 0; i < public->n_traces; i++)
		if (public->traces[i].world_size > world)
			world = public->traces[i].world_size;
	if (world < 0 || (uint32_t)world <= public->n_traces)
		return "";
	return taut_arena_printf(run->arena,
		"%s: %u of the job's %d ranks %s here", public->path,
		public->n_traces, (int)world,
		public->n_traces == 1 ? "is" : "are");
}

static taut_status gather_notes(struct run *run)
{
	size_t n = 1 + run->lines.count, room = 0;
	for (size_t i = 0; i < run->n_files; i++)
		n += run->files[i].n_notes + run->files[i].n_left_out;
	const char **notes = TAUT_ARENA_ARRAY(run->arena, const char *, n);
	const char *missing = missing_note(run);
	if (!notes || !missing)
		return TAUT_ENOMEM;
	for (size_t i = 0; i < run->lines.count; i++)
		notes[room++] = run->lines.data[i];
	if (*missing)
		notes[room++] = missing;
	for (size_t i = 0; i < run->n_files; i++) {
		const struct file *file = &run->files[i];
		for (size_t j = 0; j < file->n_notes; j++)
			notes[room++] = file->notes[j];
		for (size_t j = 0; j < file->n_left_out; j++) {
			notes[room] = taut_arena_printf(run->arena,
				"%s (left out)", file->left_out[j]);
			if (!notes[room++])
				return TAUT_ENOMEM;
		}
	}
	run->public.notes = notes;
	run->public.n_notes = (uint32_t)room;
	return TAUT_OK;
}

static taut_status gather(struct run *run)
{
	size_t n = count_traces(run);
	struct taut_trace *traces =
		TAUT_ARENA_ARRAY(run->arena, struct taut_trace, n);
	if (!traces)
		return TAUT_ENOMEM;
	for (size_t i = 0; i < n; i++) {
		taut_status status = tell_host(run, &run->files[i]);
		if (status != TAUT_OK)
			return status;
		traces[i] = run->files[i].trace;
	}
	run->public.traces = traces;
	run->public.n_traces = (uint32_t)n;
	taut_status status =
		tauti_flight_compare(traces, n, run->arena, &run->lines);
	return status == TAUT_OK ? gather_notes(run) : status;
}

static struct run *create_run(void)
{
	struct run *run = calloc(1, sizeof *run);
	if (!run)
		return NULL;
	run->arena = taut_arena_create();
	if (run->arena)
		return run;
	free(run);
	return NULL;
}

static void free_file(struct file *file)
{
	taut_arena_destroy(file->arena);
	taut_names_destroy(file->names);
	free(file->notes);
	free(file->left_out);
}

static void free_more(struct file *file)
{
	while (file->more) {
		struct file *more = file->more;
		file->more = more->more;
		free_file(more);
		free(more);
	}
}

void taut_run_close(struct taut_run *public)
{
	struct run *run = (struct run *)public;
	if (!run)
		return;
	for (size_t i = 0; i < run->n_files; i++) {
		free_more(&run->files[i]);
		free_file(&run->files[i]);
	}
	taut_vec_free(&run->lines);
	free(run->files);
	taut_arena_destroy(run->arena);
	free(run);
}

/* "host.trace.json.gz" in a folder beside "host.xplane.pb": the same profile
 * once more, for viewers. */
static bool is_once_more(const struct tauti_input *input)
{
	const char *end = strstr(input->path, ".trace.json");
	char path[PATH_MAX];
	if (!input->in_folder || !end || (end[11] && strcmp(end + 11, ".gz")))
		return false;
	return snprintf(path, sizeof path, "%.*s.xplane.pb",
		       (int)(end - input->path), input->path) <
		       (int)sizeof path && access(path, R_OK) == 0;
}

/* What is to be read, and a line for what is not. False: no memory. */
static bool keep_inputs(struct run *run, const tauti_inputs *inputs,
	struct tauti_input *kept, size_t *ret_n)
{
	size_t n = 0;
	for (size_t i = 0; i < inputs->count; i++) {
		const char *line;
		if (!is_once_more(&inputs->data[i])) {
			kept[n++] = inputs->data[i];
			continue;
		}
		line = taut_arena_printf(run->arena, "%s: the profile of the "
			".xplane.pb beside it once more (left out)",
			inputs->data[i].path);
		if (!line || !taut_vec_push(&run->lines, line))
			return false;
	}
	*ret_n = n;
	return true;
}

/* run->files from the paths; their inputs lie in the arena. */
static taut_status list_files(struct run *run, const char *const *paths,
	size_t n_paths, const int32_t *ranks, struct taut_error *err)
{
	tauti_inputs inputs = { 0 };
	taut_status status = TAUT_OK;
	size_t n = 0;
	for (size_t i = 0; i < n_paths && status == TAUT_OK; i++)
		status = tauti_inputs_add(
			&inputs, run->arena, paths[i], i, err);
	if (status != TAUT_OK)
		goto out;
	struct tauti_input *kept = TAUT_ARENA_ARRAY(
		run->arena, struct tauti_input, inputs.count);
	run->files = calloc(inputs.count + 1, sizeof *run->files);
	if (!kept || !run->files || !keep_inputs(run, &inputs, kept, &n)) {
		status = no_memory(paths[0], err);
		goto out;
	}
	run->n_inputs = inputs.count;
	for (size_t i = 0; i < n; i += run->files[run->n_files++].n_inputs)
		run->files[run->n_files] = (struct file){
			.input = &kept[i],
			.n_inputs = tauti_inputs_of_rank(&kept[i], n - i),
			.rank_given = ranks && !kept[i].in_folder ?
				ranks[kept[i].given] : -1,
		};
out:
	taut_vec_free(&inputs);
	return status;
}

/* --- execution traces ---------------------------------------------------- */

/* An execution trace by itself, which nobody has taken yet. */
static bool is_lone_et(const struct file *file)
{
	return file->n_inputs == 1 && file->et == file->input;
}

static taut_status find_ets(struct run *run, struct taut_error *err)
{
	taut_status status = TAUT_OK;
	for (size_t i = 0; i < run->n_files; i++) {
		struct file *file = &run->files[i];
		for (size_t k = 0; k < file->n_inputs && !file->et; k++) {
			bool et = false;
			status = tauti_pairs_is_et(&file->input[k], &et, err);
			if (status != TAUT_OK)
				return status;
			if (et)
				file->et = &file->input[k];
		}
	}
	return status;
}

static taut_status find_pairs(struct run *run, struct taut_error *err)
{
	size_t n = run->n_files;
	struct tauti_pair *pairs = calloc(n, sizeof *pairs);
	if (!pairs)
		return no_memory(run->files->input->path, err);
	for (size_t i = 0; i < n; i++)
		pairs[i] = (struct tauti_pair){
			.input = run->files[i].input,
			.rank_given = run->files[i].rank_given,
			.is_et = is_lone_et(&run->files[i]),
			.has_et = run->files[i].et != NULL,
		};
	taut_status status = tauti_pairs_find(pairs, n, err);
	for (size_t i = 0; status == TAUT_OK && i < n; i++)
		if (pairs[i].et != SIZE_MAX) {
			run->files[i].et = run->files[pairs[i].et].input;
			run->files[pairs[i].et].n_inputs = 0;
		}
	free(pairs);
	return status;
}

/* Execution traces add to the trace of their rank and are none themselves. */
static taut_status pair_ets(struct run *run, struct taut_error *err)
{
	size_t kept = 0;
	if (run->n_inputs < 2)
		return TAUT_OK;
	taut_status status = find_ets(run, err);
	if (status == TAUT_OK)
		status = find_pairs(run, err);
	for (size_t i = 0; status == TAUT_OK && i < run->n_files; i++) {
		if (is_lone_et(&run->files[i]))
			run->files[i].et = NULL; /* refused, as any other */
		if (run->files[i].n_inputs)
			run->files[kept++] = run->files[i];
	}
	if (status == TAUT_OK)
		run->n_files = kept;
	return status;
}

static uint64_t total_bytes(const struct run *run)
{
	uint64_t total = 0;
	for (size_t i = 0; i < run->n_files; i++) {
		const struct file *file = &run->files[i];
		for (size_t k = 0; k < file->n_inputs; k++)
			total += file->input[k].bytes;
		if (file->n_inputs == 1 && file->et)
			total += file->et->bytes;
	}
	return total;
}

static taut_status read_all(struct run *run,
	const struct taut_run_options *options, struct taut_error *err)
{
	struct reading reading = { .run = run };
	tauti_meter_init(&reading.meter, options->progress,
		taut_clock_monotonic(), "reading traces", total_bytes(run));
	taut_status status = taut_parallel_for(
		run->n_files, options->threads, read_file, &reading, err);
	tauti_meter_fini(&reading.meter);
	return status;
}

/* What taut record says of the folders among the paths. */
static taut_status ask_recordings(struct run *run, const char *const *paths,
	size_t n_paths, struct taut_error *err)
{
	taut_status status = TAUT_OK;
	for (size_t i = 0; i < n_paths && status == TAUT_OK; i++)
		status = tauti_recording_problems(
			paths[i], run->arena, &run->lines, err);
	return status;
}

static taut_status ask_processes(struct run *run, const char *const *paths,
	size_t n_paths, struct taut_error *err)
{
	taut_status status = TAUT_OK;
	for (size_t i = 0; i < n_paths && status == TAUT_OK; i++)
		status = tauti_processes_read(paths[i], run->arena,
			(struct taut_trace *)run->public.traces,
			run->public.n_traces, err);
	return status;
}

static taut_status nothing_found(
	const struct run *run, const char *path, struct taut_error *err)
{
	if (run->lines.count)
		return taut_error_set(err, TAUT_EFORMAT, -1, "%s%s",
			run->lines.data[0],
			strstr(run->lines.data[0], "nothing was recorded") ?
				"" : "; nothing was recorded");
	return taut_error_set(err, TAUT_EFORMAT, -1,
		"%s: no trace of a known format in this folder (%zu files "
		"looked at)",
		path, run->n_inputs);
}

static taut_status open_run(struct run *run, const char *const *paths,
	size_t n_paths, const struct taut_run_options *options,
	struct taut_error *err)
{
	taut_status status =
		list_files(run, paths, n_paths, options->ranks, err);
	if (status == TAUT_OK)
		status = pair_ets(run, err);
	if (status == TAUT_OK)
		status = ask_recordings(run, paths, n_paths, err);
	if (status == TAUT_OK)
		status = read_all(run, options, err);
	if (status == TAUT_OK)
		status = spread_ranks(run, err);
	if (status != TAUT_OK)
		return status;
	run->public.path =
		taut_arena_strndup(run->arena, paths[0], strlen(paths[0]));
	if (!run->public.path)
		return no_memory(paths[0], err);
	if (count_traces(run) == 0)
		return nothing_found(run, paths[0], err);
	status = settle_ranks(run, err);
	if (status == TAUT_OK && gather(run) != TAUT_OK)
		status = no_memory(paths[0], err);
	if (status == TAUT_OK)
		status = ask_processes(run, paths, n_paths, err);
	return status;
}

taut_status taut_run_open(const char *const *paths, size_t n_paths,
	const struct taut_run_options *options, struct taut_run **ret_run,
	struct taut_error *reterr)
{
	static const struct taut_run_options defaults;
	if (!n_paths)
		return taut_error_set(
			reterr, TAUT_EINVAL, -1, "no trace was given");
	struct run *run = create_run();
	if (!run)
		return no_memory(paths[0], reterr);
	taut_status status = open_run(
		run, paths, n_paths, options ? options : &defaults, reterr);
	if (status != TAUT_OK) {
		taut_run_close(&run->public);
		return status;
	}
	*ret_run = &run->public;
	return TAUT_OK;
}

static taut_status open_memory(struct run *run, const char *name,
	const void *bytes, size_t len, int32_t rank, struct taut_error *err)
{
	struct tauti_input *input =
		TAUT_ARENA_ARRAY(run->arena, struct tauti_input, 1);
	struct tauti_stream *stream = NULL;
	run->files = calloc(1, sizeof *run->files);
	if (!input || !run->files)
		return no_memory(name, err);
	input->path = taut_arena_strndup(run->arena, name, strlen(name));
	if (!input->path)
		return no_memory(name, err);
	run->n_files = 1;
	run->files->input = input;
	run->files->n_inputs = 1;
	run->files->rank_given = rank;
	run->public.path = input->path;
	struct reader r;
	taut_status status = reader_init(&r, input, err);
	if (status == TAUT_OK)
		status = tauti_stream_open_memory(
			input->path, bytes, len, &stream, err);
	if (status == TAUT_OK)
		status = read_source(&r, input, stream, err);
	if (status == TAUT_OK)
		status = reader_finish(&r, run->files, err);
	reader_fini(&r);
	tauti_stream_close(stream);
	if (status == TAUT_OK)
		status = spread_ranks(run, err);
	if (status == TAUT_OK)
		status = settle_ranks(run, err);
	if (status == TAUT_OK && gather(run) != TAUT_OK)
		status = no_memory(name, err);
	return status;
}

taut_status taut_run_open_memory(const char *name, const void *bytes,
	size_t len, int32_t rank, struct taut_run **ret_run,
	struct taut_error *reterr)
{
	struct run *run = create_run();
	if (!run)
		return no_memory(name, reterr);
	taut_status status =
		open_memory(run, name, bytes, len, rank, reterr);
	if (status != TAUT_OK) {
		taut_run_close(&run->public);
		return status;
	}
	*ret_run = &run->public;
	return TAUT_OK;
}

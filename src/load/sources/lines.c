/* lines.c - a text with a path a line, and perhaps a tab and a label.
 *
 * Lines are split by one thread; the sizes of the files are asked for by several, for
 * that is what takes time. */
#include "load/set.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "load/sources/file.h"

enum { TOGETHER = 1024 }; /* rows of one piece of work */

struct line {
	const char *text, *next;
	size_t len, number; /* number from 1 */
};

struct lines {
	const struct tauti_scan *scan;
	const char *path; /* of the list */
	const char *root;
	const char *text, *end;
	struct taut_names *folders;
	struct tauti_draft draft;   /* one part */
	TAUT_VEC(size_t) begin;     /* in texts, of each piece of work */
};

/* Anything that is text: control characters are not. */
static bool probe(const struct tauti_look *look)
{
	for (size_t i = 0; i < look->head_bytes; i++)
		if ((look->head[i] < 0x20 && !memchr("\t\n\r", look->head[i], 3)) ||
			look->head[i] == 0x7f)
			return false;
	return !look->is_folder && look->head_bytes > 0;
}

/* From line->next on, the next that is not empty; false: there is none. */
static bool next_line(const struct lines *lines, struct line *line)
{
	while (line->next < lines->end) {
		const char *at = line->next, *newline =
			memchr(at, '\n', (size_t)(lines->end - at));
		const char *behind = newline ? newline : lines->end;

		line->text = at;
		line->len = (size_t)(behind - at);
		line->len -= line->len && behind[-1] == '\r';
		line->number++;
		line->next = behind + (newline != NULL);
		if (line->len)
			return true;
	}
	return false;
}

static taut_status line_fault(const struct lines *lines, const struct line *line,
	const char *what, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EFORMAT, (int64_t)(line->text - lines->text),
		"%s:%zu: '%s': %s", lines->path, line->number,
		tauti_shown(line->text, line->len).text, what);
}

static taut_status take_line(
	struct lines *lines, const struct line *line, struct taut_error *err)
{
	struct tauti_part *part = lines->draft.parts;
	const char *tab = memchr(line->text, '\t', line->len);
	size_t len = tab ? (size_t)(tab - line->text) : line->len;
	struct tauti_split split = tauti_split(line->text, len);
	struct tauti_row row = { .label = -1 };

	if (memchr(line->text, 0, line->len))
		return line_fault(lines, line, "holds a zero byte; expected a "
			"path, and a tab and an integer", err);
	if (split.name_at == len)
		return line_fault(lines, line, "names no file", err);
	if (tab && !tauti_label_of(tab + 1, line->len - len - 1, &row.label))
		return line_fault(lines, line, "behind the tab is no label; expected "
			"an integer of 32 bits", err);
	row.where = taut_names_add(lines->folders, line->text, split.folder_len);
	if (row.where == TAUT_NONE ||
		(part->rows.count % TOGETHER == 0 &&
			!taut_vec_push(&lines->begin, part->texts.count)) ||
		!tauti_part_text(part, line->text + split.name_at,
			len - split.name_at) ||
		!taut_vec_push(&part->rows, row))
		return tauti_set_no_memory(lines->path, err);
	return TAUT_OK;
}

static taut_status take_lines(struct lines *lines, struct taut_error *err)
{
	struct tauti_part *part = lines->draft.parts;
	struct line line = { .next = lines->text };

	while (next_line(lines, &line)) {
		taut_status status = take_line(lines, &line, err);

		if (status)
			return status;
	}
	if (!part->rows.count)
		return taut_error_set(err, TAUT_EFORMAT, 0, "%s: has only empty "
			"lines; expected a path a line", lines->path);
	for (uint32_t i = 0; i < taut_names_count(lines->folders); i++)
		if (!tauti_part_folder(part, taut_names_text(lines->folders, i),
			    taut_names_length(lines->folders, i)))
			return tauti_set_no_memory(lines->path, err);
	return TAUT_OK;
}

/* --- sizes --------------------------------------------------------------------------------*/

/* Only where something is wrong with it: lines are counted once more. */
static size_t line_of(const struct lines *lines, size_t row)
{
	struct line line = { .next = lines->text };

	while (next_line(lines, &line) && row > 0)
		row--;
	return line.number;
}

static taut_status ask_size(const struct lines *lines, size_t number,
	struct tauti_row *row, const char *name, struct taut_error *err)
{
	const char *folder = taut_names_text(lines->folders, (uint32_t)row->where);
	char below[PATH_MAX], path[PATH_MAX];
	size_t n = tauti_below(below, sizeof below, lines->root, folder);
	size_t len = tauti_join(path, sizeof path, below, name);
	struct stat about;
	const char *why = NULL;

	if (n >= sizeof below || len >= sizeof path)
		why = strerror(ENAMETOOLONG);
	else if (stat(path, &about) != 0)
		why = strerror(errno);
	if (why)
		return taut_error_set(err, TAUT_EIO, -1, "%s:%zu: %s: %s", lines->path,
			line_of(lines, number), path, why);
	if (!S_ISREG(about.st_mode) || about.st_size > (off_t)UINT32_MAX)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s:%zu: %s: expected a file of less than 4 GiB", lines->path,
			line_of(lines, number), path);
	row->bytes = (uint32_t)about.st_size;
	return TAUT_OK;
}

static taut_status ask_sizes(void *context, size_t index, struct taut_error *err)
{
	struct lines *lines = context;
	struct tauti_part *part = lines->draft.parts;
	const char *name = part->texts.data + lines->begin.data[index];
	size_t first = index * TOGETHER, i;

	for (i = first; i < first + TOGETHER && i < part->rows.count; i++) {
		taut_status status =
			ask_size(lines, i, &part->rows.data[i], name, err);

		if (status)
			return status;
		name += strlen(name) + 1;
	}
	tauti_meter_add(lines->scan->meter, i - first);
	return TAUT_OK;
}

/* --- scan ---------------------------------------------------------------------------------*/

static taut_status scan_lines(
	struct lines *lines, struct taut_set *set, struct taut_error *err)
{
	taut_status status = tauti_draft_init(&lines->draft, true, 1, err);

	if (!status)
		status = take_lines(lines, err);
	if (!status)
		status = taut_parallel_for(lines->begin.count, lines->scan->threads,
			ask_sizes, lines, err);
	if (!status)
		status = tauti_draft_build(
			&lines->draft, lines->scan->arena, set, err);
	return status;
}

static taut_status read_list(struct lines *lines, struct taut_arena *scratch,
	struct taut_set *set, struct taut_error *err)
{
	char root[PATH_MAX], *text;
	taut_status status = tauti_folder_of(lines->path, root, err);
	size_t size;

	if (!status)
		status = tauti_file_read(lines->path, scratch, &text, &size, err);
	if (status)
		return status;
	set->root = taut_arena_strndup(lines->scan->arena, root, strlen(root));
	if (!set->root)
		return tauti_set_no_memory(lines->path, err);
	lines->root = set->root;
	lines->text = text;
	lines->end = text + size;
	return scan_lines(lines, set, err);
}

static taut_status scan(
	const struct tauti_scan *scan, struct taut_set *set, struct taut_error *err)
{
	struct lines lines = { .scan = scan, .path = scan->paths[0],
		.folders = taut_names_create() };
	struct taut_arena *scratch = taut_arena_create();
	taut_status status = lines.folders && scratch ?
		read_list(&lines, scratch, set, err) :
		tauti_set_no_memory(lines.path, err);

	tauti_draft_fini(&lines.draft);
	taut_vec_free(&lines.begin);
	taut_names_destroy(lines.folders);
	taut_arena_destroy(scratch);
	return status;
}

const struct tauti_source tauti_source_lines = {
	.name = "lines",
	.probe = probe,
	.scan = scan,
};

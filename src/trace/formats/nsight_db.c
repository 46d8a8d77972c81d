/* nsight_db.c - the SQLite file of an export: opened so that nothing is ever
 * written beside it, and asked only for what is there. */
#include "trace/formats/nsight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/json/string.h"

static taut_status fault(struct nsight *n, int code, const char *place)
{
	const char *path = n->builder->path;
	taut_status status = TAUT_EFORMAT;
	if ((code & 0xff) == SQLITE_NOMEM)
		status = TAUT_ENOMEM;
	else if ((code & 0xff) == SQLITE_IOERR ||
		(code & 0xff) == SQLITE_CANTOPEN)
		status = TAUT_EIO;
	return taut_error_set(n->err, status, -1, "%s: %s: %s", path, place,
		sqlite3_errstr(code));
}

/* --- opening ------------------------------------------------------------- */

/* A file name in the syntax of sqlite3_open_v2; malloced. */
static char *uri_of(const char *path)
{
	static const char tail[] = "?mode=ro&immutable=1";
	char *uri = malloc(strlen(path) * 3 + sizeof tail + 8);
	if (!uri)
		return NULL;
	char *to = uri + sprintf(uri, *path == '/' ? "file://" : "file:");
	for (; *path; path++) {
		unsigned char c = (unsigned char)*path;
		if (c <= ' ' || strchr("%?#", c))
			to += sprintf(to, "%%%02X", c);
		else
			*to++ = (char)c;
	}
	memcpy(to, tail, sizeof tail);
	return uri;
}

static taut_status open_path(struct nsight *n, const char *path)
{
	char *uri = uri_of(path);
	if (!uri)
		return nsight_no_memory(n);
	int code = sqlite3_open_v2(uri, &n->db, SQLITE_OPEN_READONLY |
		SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
	free(uri);
	return code == SQLITE_OK ? TAUT_OK : fault(n, code, "cannot open");
}

/* All of the stream, in memory of SQLite's. */
static taut_status read_all(struct nsight *n, struct tauti_stream *stream,
	unsigned char **ret_bytes, size_t *ret_len)
{
	size_t room = (size_t)1 << 20, len = 0, got = 0;
	unsigned char *bytes = sqlite3_malloc64(room);
	taut_status status = bytes ? TAUT_OK : nsight_no_memory(n);
	while (status == TAUT_OK) {
		status = tauti_stream_read(stream, (char *)bytes + len,
			room - len, &got, n->err);
		len += status == TAUT_OK ? got : 0;
		if (status != TAUT_OK || len < room)
			break;
		unsigned char *more = sqlite3_realloc64(bytes, room * 2);
		if (!more)
			status = nsight_no_memory(n);
		bytes = more ? more : bytes;
		room *= 2;
	}
	if (status != TAUT_OK) {
		sqlite3_free(bytes);
		return status;
	}
	*ret_bytes = bytes;
	*ret_len = len;
	return TAUT_OK;
}

/* Compressed, or from memory: then it takes as much memory as it is large. */
static taut_status open_bytes(struct nsight *n, struct tauti_stream *stream)
{
	unsigned char *bytes = NULL;
	size_t len = 0;
	taut_status status = read_all(n, stream, &bytes, &len);
	if (status != TAUT_OK)
		return status;
	if (tauti_stream_is_cut(stream))
		n->builder->truncated = true;
	if (len > 19 && bytes[18] == 2 && bytes[19] == 2)
		bytes[18] = bytes[19] = 1; /* there is no log beside it */
	int code = sqlite3_open_v2(":memory:", &n->db,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (code != SQLITE_OK) {
		sqlite3_free(bytes);
		return fault(n, code, "cannot open");
	}
	code = sqlite3_deserialize(n->db, "main", bytes, (sqlite3_int64)len,
		(sqlite3_int64)len, SQLITE_DESERIALIZE_FREEONCLOSE |
		SQLITE_DESERIALIZE_READONLY);
	return code == SQLITE_OK ? TAUT_OK : fault(n, code, "cannot open");
}

taut_status tauti_nsight_open(struct nsight *n, struct tauti_stream *stream)
{
	const char *path = tauti_stream_hand_over(stream);
	taut_status status = path ? open_path(n, path) :
				    open_bytes(n, stream);
	if (status != TAUT_OK)
		return status;
	n->builder->bytes_read = tauti_stream_taken(stream);
	/* What the file brings along of code is not run. */
	sqlite3_db_config(n->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(n->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(n->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_db_config(n->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	sqlite3_exec(n->db, "PRAGMA cell_size_check=ON", NULL, NULL, NULL);
	int code = sqlite3_exec(n->db, "SELECT 1 FROM sqlite_master", NULL,
		NULL, NULL);
	/* A damaged schema can ask for any amount of memory; a sound one
	 * asks for next to none. */
	if ((code & 0xff) == SQLITE_NOMEM)
		return taut_error_set(n->err, TAUT_EFORMAT, -1,
			"%s: an SQLite database whose schema is damaged",
			n->builder->path);
	return code == SQLITE_OK ? TAUT_OK :
		fault(n, code, "cannot be read as an SQLite database");
}

/* --- tables -------------------------------------------------------------- */

static bool asks(struct nsight *n, const char *sql, const char *table,
	const char *column)
{
	sqlite3_stmt *stmt = NULL;
	bool found = false;
	if (sqlite3_prepare_v2(n->db, sql, -1, &stmt, NULL) == SQLITE_OK) {
		sqlite3_bind_text(stmt, 1, table, -1, SQLITE_STATIC);
		if (column)
			sqlite3_bind_text(stmt, 2, column, -1, SQLITE_STATIC);
		found = sqlite3_step(stmt) == SQLITE_ROW;
	}
	sqlite3_finalize(stmt);
	return found;
}

bool tauti_nsight_has(struct nsight *n, const char *table)
{
	return asks(n, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND "
		"name = ?1 AND sql LIKE 'CREATE TABLE%'", table, NULL);
}

bool tauti_nsight_has_column(
	struct nsight *n, const char *table, const char *column)
{
	return asks(n, "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2",
		table, column);
}

static taut_status left_out(
	struct nsight *n, const char *table, const char *why)
{
	return tauti_builder_note(n->builder, "table %s %s; left out", table,
		why) == TAUT_OK ? TAUT_OK : nsight_no_memory(n);
}

taut_status tauti_nsight_select(struct nsight *n, const char *table,
	const char *const *columns, unsigned n_columns, unsigned needed,
	struct nsight_rows *ret_rows)
{
	char sql[1024];
	int len = snprintf(sql, sizeof sql, "SELECT ");
	*ret_rows = (struct nsight_rows){ NULL, table };
	if (!tauti_nsight_has(n, table))
		return TAUT_OK;
	for (unsigned i = 0; i < n_columns; i++) {
		bool there = tauti_nsight_has_column(n, table, columns[i]);
		if (!there && i < needed)
			return left_out(n, table, "lacks a column");
		len += snprintf(sql + len, sizeof sql - (size_t)len,
			there ? "%s\"%s\"" : "%sNULL", i ? ", " : "",
			columns[i]);
	}
	snprintf(sql + len, sizeof sql - (size_t)len, " FROM \"%s\"", table);
	int code = sqlite3_prepare_v2(n->db, sql, -1, &ret_rows->stmt, NULL);
	if (code == SQLITE_OK)
		return TAUT_OK;
	return code == SQLITE_NOMEM ? nsight_no_memory(n) :
		left_out(n, table, sqlite3_errstr(code));
}

taut_status tauti_nsight_next(
	struct nsight *n, struct nsight_rows *rows, bool *ret_more)
{
	*ret_more = false;
	if (!rows->stmt)
		return TAUT_OK;
	int code = sqlite3_step(rows->stmt);
	*ret_more = code == SQLITE_ROW;
	if (*ret_more)
		return TAUT_OK;
	tauti_nsight_close(rows);
	if (code == SQLITE_DONE)
		return TAUT_OK;
	if ((code & 0xff) == SQLITE_NOMEM)
		return nsight_no_memory(n);
	n->builder->truncated = true;
	return tauti_builder_note(n->builder,
		"table %s: %s; what stands behind it there is lost",
		rows->table, sqlite3_errstr(code)) == TAUT_OK ?
		TAUT_OK : nsight_no_memory(n);
}

void tauti_nsight_close(struct nsight_rows *rows)
{
	sqlite3_finalize(rows->stmt);
	rows->stmt = NULL;
}

const char *tauti_nsight_cell(
	const struct nsight_rows *rows, int column, size_t *ret_len)
{
	const char *text =
		(const char *)sqlite3_column_text(rows->stmt, column);
	*ret_len = text ? (size_t)sqlite3_column_bytes(rows->stmt, column) : 0;
	return text;
}

/* --- texts --------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
	const struct nsight_text *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

taut_status tauti_nsight_read_texts(struct nsight *n)
{
	static const char *const columns[] = { "id", "value" };
	struct nsight_rows rows;
	bool more, sorted = true;
	taut_status status =
		tauti_nsight_select(n, "StringIds", columns, 2, 2, &rows);
	while (status == TAUT_OK) {
		struct nsight_text text = { 0 };
		status = tauti_nsight_next(n, &rows, &more);
		if (status != TAUT_OK || !more)
			break;
		const char *cell = tauti_nsight_cell(&rows, 1, &text.len);
		text.id = nsight_number(&rows, 0, -1);
		text.text = taut_arena_strndup(
			n->arena, cell ? cell : "", text.len);
		sorted = sorted && (!n->texts.count ||
			n->texts.data[n->texts.count - 1].id < text.id);
		if (!text.text || !taut_vec_push(&n->texts, text))
			status = nsight_no_memory(n);
	}
	tauti_nsight_close(&rows);
	if (status == TAUT_OK && !sorted)
		qsort(n->texts.data, n->texts.count, sizeof *n->texts.data,
			by_id);
	return status;
}

const struct nsight_text *tauti_nsight_text(const struct nsight *n, int64_t id)
{
	const struct nsight_text key = { .id = id };
	return n->texts.count ? bsearch(&key, n->texts.data, n->texts.count,
		sizeof key, by_id) : NULL;
}

/* The decoder resolves escapes, which these texts do not have. */
static bool double_backslashes(
	struct nsight *n, const char *text, size_t len, size_t *ret_len)
{
	taut_vec_clear(&n->scratch);
	if (!taut_vec_reserve(&n->scratch, 2 * len + 8))
		return false;
	char *to = n->scratch.data;
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\\')
			*to++ = '\\';
		*to++ = text[i];
	}
	*ret_len = (size_t)(to - n->scratch.data);
	memset(to, 0, 8);
	return true;
}

uint32_t tauti_nsight_name(struct nsight *n, struct nsight_process *process,
	const char *text, size_t len)
{
	struct taut_names *names = process->builder->names;
	size_t escaped;
	if (!double_backslashes(n, text, len, &escaped))
		return TAUT_NONE;
	if (escaped == len && tauti_string_is_plain(n->scratch.data, len))
		return taut_names_add(names, n->scratch.data, len);
	char *clean = malloc(TAUTI_STRING_ROOM(escaped));
	if (!clean)
		return TAUT_NONE;
	size_t clean_len =
		tauti_string_decode(n->scratch.data, escaped, clean);
	uint32_t id = taut_names_add(names, clean, clean_len);
	free(clean);
	return id;
}

uint32_t tauti_nsight_name_of(
	struct nsight *n, struct nsight_process *process, int64_t id)
{
	const struct nsight_text *text = tauti_nsight_text(n, id);
	if (!text)
		return 0;
	if (!process->name_of)
		process->name_of =
			calloc(n->texts.count, sizeof *process->name_of);
	if (!process->name_of)
		return TAUT_NONE;
	uint32_t *known = &process->name_of[text - n->texts.data];
	if (!*known) {
		size_t len = tauti_nsight_call_len(text->text, text->len);
		uint32_t name =
			tauti_nsight_name(n, process, text->text, len);
		if (name == TAUT_NONE)
			return TAUT_NONE;
		*known = name + 1;
	}
	return *known - 1;
}

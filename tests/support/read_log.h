/* read_log.h - an event log as its bytes say, for tests of those that write.
 *
 *     struct read_log log = read_log_open(path);
 *     for (uint64_t i = 0; i < log.n; i++)
 *             if (log.records[i].type == TAUTI_LOG_CHUNK) ...
 *     read_log_close(&log);
 *
 * Records of a text's bytes are not among those listed. */
#ifndef TAUT_TESTS_READ_LOG_H
#define TAUT_TESTS_READ_LOG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log_format.h"
#include "tests/support/unit.h"

struct read_log {
	struct tauti_log_header header;
	uint64_t n;
	struct tauti_log_record *records;
	uint64_t n_texts;
	char **texts; /* by id */
};

static inline void read_log_text(struct read_log *log, uint32_t id,
	const void *bytes, uint32_t len)
{
	assert_true(id < 100000);
	while (log->n_texts <= id) {
		log->texts = realloc(log->texts,
			(log->n_texts + 1) * sizeof *log->texts);
		assert_non_null(log->texts);
		log->texts[log->n_texts++] = strdup("");
	}
	free(log->texts[id]);
	log->texts[id] = strndup(bytes, len);
}

static inline struct read_log read_log_open(const char *path)
{
	struct read_log log = { .n = 0 };
	struct tauti_log_record record, *all;
	FILE *file = fopen(path, "rb");
	uint64_t used, n;

	if (!file)
		fail_msg("%s is not there", path);
	assert_int_equal(fread(&log.header, sizeof log.header, 1, file), 1);
	assert_memory_equal(log.header.magic, TAUTI_LOG_MAGIC, 8);
	used = log.header.reserved < log.header.capacity ?
		log.header.reserved : log.header.capacity;
	all = calloc(used + 1, sizeof record);
	log.records = calloc(used + 1, sizeof record);
	assert_non_null(all);
	assert_non_null(log.records);
	fseek(file, TAUTI_LOG_HEADER_BYTES, SEEK_SET);
	assert_int_equal(fread(all, sizeof record, used, file), used);
	fclose(file);
	read_log_text(&log, 0, "", 0);
	for (uint64_t i = 0; i < used; i += n) {
		n = 1;
		if (all[i].type == TAUTI_LOG_TEXT) {
			n += (all[i].u.text.bytes + 127) / 128;
			assert_true(i + n <= used);
			read_log_text(&log, all[i].name, &all[i + 1],
				all[i].u.text.bytes);
		} else if (all[i].type) {
			log.records[log.n++] = all[i];
		}
	}
	free(all);
	return log;
}

static inline const char *read_log_name(const struct read_log *log, uint32_t id)
{
	assert_true(id < log->n_texts);
	return log->texts[id];
}

/* The nth record of a type; NULL: there are fewer. */
static inline const struct tauti_log_record *read_log_nth(
	const struct read_log *log, enum tauti_log_type type, uint64_t n)
{
	for (uint64_t i = 0; i < log->n; i++)
		if (log->records[i].type == type && n-- == 0)
			return &log->records[i];
	return NULL;
}

static inline uint64_t read_log_count(
	const struct read_log *log, enum tauti_log_type type)
{
	uint64_t n = 0;

	while (read_log_nth(log, type, n))
		n++;
	return n;
}

/* The value of a fact; NULL: there is none. */
static inline const char *read_log_fact(
	const struct read_log *log, const char *key)
{
	const struct tauti_log_record *record;

	for (uint64_t i = 0;
		(record = read_log_nth(log, TAUTI_LOG_FACT, i)) != NULL; i++)
		if (!strcmp(read_log_name(log, record->name), key))
			return read_log_name(log, record->u.fact.value);
	return NULL;
}

static inline void read_log_close(struct read_log *log)
{
	for (uint64_t i = 0; i < log->n_texts; i++)
		free(log->texts[i]);
	free(log->texts);
	free(log->records);
}

#endif /* TAUT_TESTS_READ_LOG_H */

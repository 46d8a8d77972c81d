/* colltable.c - any bytes as a table of collectives; what was read is written, and
 * read again as the same. */
#include <stdlib.h>

#include "coll/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 13 };

static void write_again(const tauti_rows *rows)
{
	tauti_rows again = { 0 };
	char text[TAUTI_TABLE_ROW_BYTES];

	for (size_t i = 0; i < rows->count; i++) {
		size_t bytes = tauti_row_text(&rows->data[i], text);

		if (bytes >= sizeof text || tauti_rows_parse(
			text, bytes, "again", &again, NULL))
			abort();
	}
	if (tauti_rows_hash(rows->data, rows->count) !=
		tauti_rows_hash(again.data, again.count))
		abort();
	taut_vec_free(&again);
}

static void choose(const tauti_rows *rows)
{
	struct tauti_table table;

	if (tauti_table_init(
		&table, 4, 2, rows->data, rows->count, NULL))
		return;
	for (int verb = 0; verb < TAUT_VERBS; verb++)
		for (int bit = 0; bit < 64; bit++)
			if (!taut_coll_has((enum taut_coll_verb)verb,
				tauti_table_choice(&table,
					(enum taut_coll_verb)verb,
					UINT64_C(1) << bit)->way))
				abort();
	tauti_table_fini(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	tauti_rows rows = { 0 };
	struct taut_error err;

	if (size > MOST)
		return 0;
	(void)!tauti_rows_parse((const char *)data, size, "t", &rows, &err);
	write_again(&rows);
	choose(&rows);
	taut_vec_free(&rows);
	return 0;
}

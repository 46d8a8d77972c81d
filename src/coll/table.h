/* table.h - which way a call takes: rows of what was measured, before those that
 * are built in.
 *
 * Text, one row a line; '#' begins a comment; '*' is any number of ranks or hosts:
 *
 *     # verb     ranks hosts from_bytes way    pass_bytes passes_at_once
 *     allreduce      4     1      65536 direct    1048576              2
 *
 * Of the rows for a verb whose ranks and hosts fit, and whose from_bytes are not
 * more than the call's, those that name both come first, then those that name the
 * hosts, then the ranks; of these that with the most from_bytes; of equal ones the
 * last. Where none fits, what is built in. */
#ifndef TAUT_COLL_TABLE_H
#define TAUT_COLL_TABLE_H

#include <taut/coll.h>

#include "base/vec.h"

enum {
	TAUTI_TABLE_ROWS = 4096,     /* of a file, at most */
	TAUTI_TABLE_ROW_BYTES = 160, /* of a row's text, at most */
	TAUTI_PASSES_AT_ONCE = 64,   /* more bring nothing */
};

typedef TAUT_VEC(struct taut_coll_choice) tauti_rows;

/* Appends the rows of a text; 0 in n_ranks and n_hosts is '*'. TAUT_EFORMAT:
 * "name:line: expected ..."; rows may hold some then. */
TAUT_NODISCARD taut_status tauti_rows_parse(const char *text, size_t bytes,
	const char *name, tauti_rows *rows, struct taut_error *reterr);
TAUT_NODISCARD taut_status tauti_rows_read(
	const char *path, tauti_rows *rows, struct taut_error *reterr);
/* A line with its end, at most TAUTI_TABLE_ROW_BYTES with the zero: bytes without
 * it. */
size_t tauti_row_text(const struct taut_coll_choice *row, char *text);
/* Equal for equal rows: ranks with other tables do not belong together. */
uint64_t tauti_rows_hash(const struct taut_coll_choice *rows, size_t n_rows);

/* What holds for so many ranks on so many hosts. */
struct tauti_table {
	struct taut_coll_choice *rows;    /* by verb, from_bytes */
	uint32_t first[TAUT_VERBS + 1];   /* each verb has one from 0 bytes */
};

TAUT_NODISCARD taut_status tauti_table_init(struct tauti_table *table,
	uint32_t n_ranks, uint32_t n_hosts,
	const struct taut_coll_choice *rows, size_t n_rows,
	struct taut_error *reterr);
void tauti_table_fini(struct tauti_table *table);
const struct taut_coll_choice *tauti_table_choice(
	const struct tauti_table *table, enum taut_coll_verb verb,
	uint64_t bytes);

#endif /* TAUT_COLL_TABLE_H */

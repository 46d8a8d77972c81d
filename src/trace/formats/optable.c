/* optable.c - a table of operations that somebody wrote with a program of
 * their own: CSV with a header, one row an operation. docs/formats.md has the
 * columns. */
#include "trace/format.h"
#include "trace/formats/table.h"

static taut_status read_optable(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct tauti_table table = { .builder = builder };
	return tauti_table_run(&table, stream, err);
}

const struct tauti_format tauti_format_optable = {
	.name = "operation table",
	.probe = tauti_table_is_header,
	.read = read_optable,
};

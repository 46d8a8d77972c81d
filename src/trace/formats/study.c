/* study.c - the operations of a job, as published with studies of stragglers
 * (StragglerAnalysis): a CSV table of all ranks, of which each row is one
 * operation of one step:
 *
 *     dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc
 *
 * Times are seconds from the beginning of the step. The table tells nothing of
 * what lies between the steps: here each begins when the one before is over on
 * all ranks. All else is as in any table of operations. */
#include <string.h>

#include "trace/format.h"
#include "trace/formats/table.h"

static const char header[] = "dp_rank,stage,rank,step,optype,start_ts,duration,";

static taut_status read_study(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct tauti_table table = { .builder = builder, .lenient = true,
		.from_step = true };
	return tauti_table_run(&table, stream, err);
}

static bool probe_study(const char *head, size_t len)
{
	return len >= sizeof header - 1 &&
	       memcmp(head, header, sizeof header - 1) == 0;
}

const struct tauti_format tauti_format_study = {
	.name = "straggler study",
	.probe = probe_study,
	.read = read_study,
};

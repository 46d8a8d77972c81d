/* log.c - a timeline as lines of text, for eyes, diffs and golden files. */
#include "replay.h"

const char *tauti_replay_name(const struct taut_graph *graph, uint32_t op)
{
	if (!graph->names || !graph->name)
		return "";
	return taut_names_text(graph->names, graph->name[op]);
}

static int is_control(char c)
{
	return (unsigned char)c < ' ' || c == 0x7f;
}

static void write_name(const char *name, FILE *out)
{
	for (; *name; name++)
		putc_unlocked(is_control(*name) ? ' ' : *name, out);
}

taut_status taut_replay_log(const struct taut_graph *graph,
	const struct taut_timeline *timeline, FILE *out,
	struct taut_error *reterr)
{
	for (uint32_t i = 0; i < timeline->n_run && !ferror(out); i++) {
		uint32_t op = timeline->order[i];
		fprintf(out, "%lld %lld %u %u ",
			(long long)timeline->start_ns[op],
			(long long)timeline->end_ns[op],
			(unsigned)graph->lane[op], (unsigned)op);
		write_name(tauti_replay_name(graph, op), out);
		putc_unlocked('\n', out);
	}
	if (fflush(out) || ferror(out))
		return taut_error_set(reterr, TAUT_EIO, -1,
			"the replay's log could not be written");
	return TAUT_OK;
}

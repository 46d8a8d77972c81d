/* tables.h - renderers for single verbs, beside those of <taut/report.h>.
 * Each writes to an open stream; TAUT_EIO when it refuses. */
#ifndef TAUT_REPORT_TABLES_H
#define TAUT_REPORT_TABLES_H

#include <taut/report.h>
#include <taut/stragglers.h>

struct tauti_put;

/* How fast the graph was replayed, for taut replay; measured by the caller. */
struct tauti_replay_speed {
	int64_t elapsed_ns; /* of all rounds together */
	uint64_t rounds;
};

taut_status tauti_replay_text(const struct taut_report *report,
	const struct tauti_replay_speed *speed,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr);
taut_status tauti_replay_json(const struct taut_report *report,
	const struct tauti_replay_speed *speed, FILE *out,
	struct taut_error *reterr);

/* path: of the run. */
taut_status tauti_stragglers_text(const struct taut_stragglers *stragglers,
	const char *path, const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr);
taut_status tauti_stragglers_json(const struct taut_stragglers *stragglers,
	const char *path, FILE *out, struct taut_error *reterr);

/* The operations of all ranks, in the graph's order, as CSV (RFC 4180 but for
 * the line ends, which are \n): rank, step, name, kind, lane, start_us,
 * duration_us, group, bytes. A field that does not apply is empty. */
taut_status tauti_csv_write(const struct taut_report *report, FILE *out,
	struct taut_error *reterr);

/* The graph as Chakra execution traces: open, write any rank (its place in
 * run->traces) in any order, close. c->node of a rank is written while it is:
 * ranks may be written side by side. groups writes, as JSON, the ranks behind
 * each name of a communicator. TAUT_ENOMEM, TAUT_EIO; what taut_replay()
 * says. */
struct tauti_chakra;
taut_status tauti_chakra_open(const struct taut_report *report,
	struct tauti_chakra **ret_chakra, struct taut_error *reterr);
void tauti_chakra_close(struct tauti_chakra *chakra); /* NULL is fine */
taut_status tauti_chakra_write(struct tauti_chakra *chakra, uint32_t rank,
	FILE *out, struct taut_error *reterr);
taut_status tauti_chakra_write_groups(const struct tauti_chakra *chakra,
	FILE *out, struct taut_error *reterr);

/* What the graph is made of, as one JSON object. */
void tauti_json_graph(struct tauti_put *put, const struct taut_graph *graph);

#endif /* TAUT_REPORT_TABLES_H */

/* html.h - what the files that write the page share.
 *
 * The page holds the report as JSON (html_json.c) and the events as columns
 * of variable-length numbers, deflated and in base64 (html_events.c,
 * html_blob.c). web/data.js reads both; the two must change together.
 * Threads: ranks are encoded side by side; everything else by one thread. */
#ifndef TAUT_REPORT_HTML_H
#define TAUT_REPORT_HTML_H

#include <stdbool.h>

#include <taut/report.h>

#include "report/lanes.h"
#include "report/put.h"

/* --- html_blob.c: columns of numbers, then base64 of their deflate ------
 * A failed allocation is remembered and makes every later call do nothing;
 * tauti_blob_pack() says so. Zero is an empty blob. */
struct tauti_blob {
	uint8_t *data;
	size_t count, capacity;
	bool failed;
};

void tauti_blob_byte(struct tauti_blob *blob, uint8_t byte);
/* LEB128: 7 bits a byte, lowest first; the top bit says that more follow. */
void tauti_blob_uint(struct tauti_blob *blob, uint64_t value);
/* Signed: 0, -1, 1, -2, 2 ... as 0, 1, 2, 3, 4 ... */
void tauti_blob_int(struct tauti_blob *blob, int64_t value);
void tauti_blob_bytes(struct tauti_blob *blob, const void *bytes, size_t len);
/* Deflates in place (zlib form). TAUT_ENOMEM. */
taut_status tauti_blob_pack(struct tauti_blob *blob, struct taut_error *err);
/* <script type="application/octet-stream" id="ID">BASE64</script> */
void tauti_blob_put(
	const struct tauti_blob *blob, const char *id, struct tauti_put *put);
void tauti_blob_free(struct tauti_blob *blob);

/* --- html_names.c: one dictionary for the page --------------------------
 * The most frequent name gets the smallest number. */
struct tauti_page_names {
	struct taut_names *names; /* ids as added */
	uint32_t *place;          /* by id: number in the page */
	uint32_t *id;             /* by number: id */
	uint32_t n;
	uint32_t **of_trace; /* by trace, by the trace's name id: id here;
	                             TAUT_NONE for a name that no event uses */
};

/* --- the page ----------------------------------------------------------- */
struct tauti_page_rank {
	int64_t first_ns;    /* earliest start, on the rank's own clock */
	int64_t unit_ns;     /* every time in the blob is a multiple */
	uint32_t *lane_rows; /* by lane: events in the blob */
	uint64_t hidden;     /* host events left out, see min_ns */
	uint64_t hidden_device; /* kernels, copies, fills, see device_min_ns */
	struct tauti_blob blob;
};

struct tauti_page {
	const struct taut_report *report;
	struct tauti_page_names names;
	struct tauti_members members;
	struct tauti_page_rank *ranks; /* by run->traces */
	/* Shorter ones are left out; 0: none are. */
	int64_t min_ns;        /* of the host; steps and collectives stay */
	int64_t device_min_ns; /* of the device; collectives stay */
	struct tauti_blob name_blob, path_blob, coll_blob;
};

taut_status tauti_page_names_init(struct tauti_page_names *names,
	const struct taut_report *report, struct taut_error *err);
void tauti_page_names_fini(struct tauti_page_names *names, uint32_t n_traces);
/* Number in the page of a text that _init has seen (path, collectives). */
uint32_t tauti_page_name(
	const struct tauti_page_names *names, const char *text);

#define TAUTI_PAGE_EVENTS 3000000

/* Encodes everything. Of more than `most` events short ones are left out: first of
 * the host, of which a tenth of `most` stays, then of the device. On failure too,
 * release with tauti_page_fini(). */
taut_status tauti_page_init(struct tauti_page *page,
	const struct taut_report *report, uint64_t most, struct taut_error *err);
void tauti_page_fini(struct tauti_page *page);

void tauti_page_json(const struct tauti_page *page, struct tauti_put *put);

#endif /* TAUT_REPORT_HTML_H */

/* html.c - one file that holds everything: the page of web/, the report and
 * the events. Nothing is fetched when it is opened.
 *
 * web/page.html says with {{name}} where each part goes: a file of web/ (or
 * of a library built in beside them), or one of the parts below. A library
 * that was not there at build time leaves its place empty; the page does
 * without it. */
#include "report/html.h"

#include <stdlib.h>
#include <string.h>

#include "base/asset.h"

#define PAGE "page.html"

static void put_title(const struct tauti_page *page, struct tauti_put *put)
{
	const char *path = page->report->run->path;

	for (const char *s = path ? path : "report"; *s; s++) {
		if (*s == '<' || *s == '&')
			tauti_put_text(put, *s == '<' ? "&lt;" : "&amp;");
		else
			tauti_put_char(put, *s);
	}
}

static void put_events(const struct tauti_page *page, struct tauti_put *put)
{
	char id[32];

	tauti_blob_put(&page->name_blob, "names", put);
	tauti_blob_put(&page->path_blob, "path", put);
	tauti_blob_put(&page->coll_blob, "collectives", put);
	for (uint32_t i = 0; i < page->report->run->n_traces; i++) {
		snprintf(id, sizeof id, "rank-%u", i);
		tauti_blob_put(&page->ranks[i].blob, id, put);
	}
}

static const struct part {
	const char *name;
	void (*put)(const struct tauti_page *page, struct tauti_put *put);
} parts[] = {
	{ "title", put_title },
	{ "report", tauti_page_json },
	{ "events", put_events },
};

static void put_part(const struct tauti_page *page, const char *name,
	size_t len, struct tauti_put *put)
{
	char file[64];
	const struct tauti_asset *asset;

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		if (strlen(parts[i].name) == len &&
			memcmp(parts[i].name, name, len) == 0) {
			parts[i].put(page, put);
			return;
		}
	}
	if (len >= sizeof file)
		return;
	memcpy(file, name, len);
	file[len] = '\0';
	asset = tauti_asset_find(file);
	if (asset)
		tauti_put_bytes(put, asset->text, asset->len);
}

static void put_page(
	const struct tauti_page *page, const char *text, struct tauti_put *put)
{
	const char *open, *close;

	while ((open = strstr(text, "{{")) != NULL &&
		(close = strstr(open, "}}")) != NULL) {
		tauti_put_bytes(put, text, (size_t)(open - text));
		put_part(page, open + 2, (size_t)(close - open - 2), put);
		text = close + 2;
	}
	tauti_put_text(put, text);
}

taut_status taut_report_html(
	const struct taut_report *report, FILE *out, struct taut_error *reterr)
{
	const struct tauti_asset *html = tauti_asset_find(PAGE);
	struct tauti_put *put = malloc(sizeof *put);
	struct tauti_page page;
	taut_status status;

	if (!put || !html) {
		free(put);
		return html
			? taut_error_set(reterr, TAUT_ENOMEM, -1,
				  "no memory for the page")
			: taut_error_set(reterr, TAUT_EINVAL, -1,
				  "this library was built without %s", PAGE);
	}
	status = tauti_page_init(
		&page, report, TAUTI_PAGE_EVENTS, reterr);
	if (!status) {
		tauti_put_begin(put, out);
		put_page(&page, html->text, put);
		status = tauti_put_end(put, reterr);
	}
	tauti_page_fini(&page);
	free(put);
	return status;
}

/* text.h - what the files of the text renderer share. Each function prints
 * one section, heading included, or nothing when there is nothing to say. */
#ifndef TAUT_REPORT_TEXT_H
#define TAUT_REPORT_TEXT_H

#include <taut/report.h>

#include "report/sheet.h"

enum { TAUTI_TEXT_WIDTH = 100, TAUTI_TEXT_LEAST_WIDTH = 80 };

struct tauti_text {
	const struct taut_report *report;
	struct tauti_sheet *sheet;
	int decimals;   /* of milliseconds, the same all over the report */
	uint32_t steps; /* tauti_steps_of_a_rank() */
	int64_t step_ns; /* what savings are a share of */
	int all;         /* fold no table of ranks or steps */
};

/* Milliseconds of the whole recording, and per step. */
const char *tauti_text_ms(const struct tauti_text *t, int64_t ns);
const char *tauti_text_us(const struct tauti_text *t, int64_t ns);
const char *tauti_text_ms_a_step(const struct tauti_text *t, int64_t ns);
/* "35.2": part of whole in percent; "" when whole is 0. */
const char *tauti_text_pct(
	const struct tauti_text *t, int64_t part, int64_t whole);
/* A percentage that something stays within: "0.01" or more. */
const char *tauti_text_bound(const struct tauti_text *t, double pct);
const char *tauti_text_count(const struct tauti_text *t, uint64_t count);
/* A bar of `part` of `whole` in at most that many columns. */
const char *tauti_text_bar(const struct tauti_text *t, int64_t part,
	int64_t whole, int columns, enum tauti_style style);

/* The step that removals and findings of a report are savings of. */
int64_t tauti_text_base_step(const struct taut_report *report);
/* Says so where it is far from the steady step. */
void tauti_text_base(const struct tauti_text *t);

/* The width to use: the caller's if it is wide enough for the tables. */
int tauti_text_width(const struct taut_text_options *options);

/* Each behind `lead`; of very many the first. */
void tauti_text_notes(struct tauti_sheet *sheet, const char *lead,
	const char *const *notes, uint32_t n);

void tauti_text_steps(const struct tauti_text *t);
void tauti_text_collectives(const struct tauti_text *t);
void tauti_text_links(const struct tauti_text *t);
void tauti_text_memory(const struct tauti_text *t);
void tauti_text_late(const struct tauti_text *t);
void tauti_text_removals(const struct tauti_text *t);
void tauti_text_path(const struct tauti_text *t);
void tauti_text_quality(const struct tauti_text *t);

#endif /* TAUT_REPORT_TEXT_H */

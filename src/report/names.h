/* names.h - the keys and headings that no public header promises. All are
 * constant text, and never NULL. */
#ifndef TAUT_REPORT_NAMES_H
#define TAUT_REPORT_NAMES_H

#include <taut/report.h>

/* One short word, for the head of a column. */
const char *tauti_category_column(enum taut_category c);
/* Of enum taut_op_kind and enum taut_edge_kind, as written into files. */
const char *tauti_op_kind_key(unsigned kind);
const char *tauti_edge_kind_key(unsigned kind);

#endif /* TAUT_REPORT_NAMES_H */

/* lines.h - lines for the user, gathered; the texts lie in somebody's arena. */
#ifndef TAUT_TRACE_LINES_H
#define TAUT_TRACE_LINES_H

#include <stddef.h>

#include "base/vec.h"

typedef TAUT_VEC(const char *) tauti_lines;

#endif /* TAUT_TRACE_LINES_H */

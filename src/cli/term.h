/* term.h - what the terminals at both ends of the command can show. */
#ifndef TAUT_CLI_TERM_H
#define TAUT_CLI_TERM_H

#include <stdbool.h>

#include <taut/base.h>

/* Colour on standard output: a terminal, not a dumb one, and NO_COLOR is not
 * set to anything. */
bool term_colour(void);
/* Columns for text on standard output: of the terminal, at most 100; 100 when
 * it is none. */
int term_width(void);

/* Tells how far long work is on standard error, when that is a terminal; else
 * update is NULL. The line is gone after term_progress_end(). */
struct taut_progress term_progress(void);
void term_progress_end(void);

/* One line on standard error: "taut: " and the message, in which nothing
 * commands the terminal. */
void term_complain(const char *fmt, ...) TAUT_PRINTF(1, 2);

#endif /* TAUT_CLI_TERM_H */

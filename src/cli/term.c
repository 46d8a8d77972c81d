/* term.c - see term.h. */
#include "cli/term.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "report/label.h"

enum { MOST_COLUMNS = 100 };
#define CLEAR_LINE "\r\033[K"

static bool is_capable(int fd)
{
	const char *term = getenv("TERM");

	return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool term_colour(void)
{
	const char *no = getenv("NO_COLOR");

	return is_capable(STDOUT_FILENO) && !(no && *no);
}

int term_width(void)
{
	struct winsize size = { 0 };

	if (isatty(STDOUT_FILENO) &&
		!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) &&
		size.ws_col > 0 && size.ws_col < MOST_COLUMNS)
		return size.ws_col;
	return MOST_COLUMNS;
}

static void show(void *state, const char *what, uint64_t done, uint64_t total)
{
	(void)state;
	if (total)
		fprintf(stderr, CLEAR_LINE "%s %3d %%", what,
			(int)((double)done * 100 / (double)total));
	else
		fprintf(stderr, CLEAR_LINE "%s", what);
	fflush(stderr);
}

struct taut_progress term_progress(void)
{
	struct taut_progress progress = { NULL, NULL };

	if (is_capable(STDERR_FILENO))
		progress.update = show;
	return progress;
}

void term_progress_end(void)
{
	if (is_capable(STDERR_FILENO))
		fputs(CLEAR_LINE, stderr);
}

void term_complain(const char *fmt, ...)
{
	char text[TAUTI_LABEL_BYTES], plain[TAUTI_LABEL_BYTES];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	fprintf(stderr, "taut: %s\n", tauti_label_plain(text, plain));
}

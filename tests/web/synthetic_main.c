/* synthetic_main.c - writes the report of a run that is made up:
 *     web-synthetic html|perfetto RANKS EVENTS FILE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/web/synthetic.h"

int main(int argc, char **argv)
{
	struct synthetic s;
	struct taut_error err = { 0 };
	struct taut_clock clock = taut_clock_monotonic();
	taut_status status;
	int64_t began;
	FILE *out;

	if (argc != 5 || atoi(argv[2]) < 1 || atoi(argv[3]) < 1) {
		fprintf(stderr, "use: %s html|perfetto RANKS EVENTS FILE\n",
			argv[0]);
		return 2;
	}
	out = fopen(argv[4], "w");
	if (!out) {
		perror(argv[4]);
		return 1;
	}
	synthetic_make(&s, (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
	began = clock.now_ns(clock.state);
	status = strcmp(argv[1], "html") == 0
		? taut_report_html(&s.report, out, &err)
		: taut_report_perfetto(&s.report, out, &err);
	fprintf(stderr, "%s: written in %.1f ms\n", argv[4],
		(double)(clock.now_ns(clock.state) - began) / 1e6);
	synthetic_free(&s);
	if (fclose(out) != 0 || status) {
		fprintf(stderr, "%s: %s\n", argv[4], err.message);
		return 1;
	}
	return 0;
}

/* run_unseen.h - the part of taut run that finds out whether any process of the job
 * imported a framework where Taut could see it.
 *
 * A folder says so, which is there until the first such process removes it
 * (python/taut/inject/sitecustomize.py): nothing stays behind, and on other hosts
 * there is none. */
#ifndef TAUT_CLI_RUN_UNSEEN_H
#define TAUT_CLI_RUN_UNSEEN_H

#include <stdbool.h>

#include "cli/env.h"

/* Of a line about it. */
#define RUN_UNSEEN_LINE "no process on this host imported PyTorch, TensorFlow or " \
	"MXNet where Taut could see it (PYTHONPATH replaced, or a Python with -I, " \
	"-E or -S)"

struct run_unseen { /* from before the job until behind it */
	const char *folder; /* NULL: there is none, and it will not be known */
	const char *outer;  /* of the taut run that this one is a job of; NULL: none */
};

/* Sets the job's environment. That no folder can be made is no fault. */
taut_status run_unseen_set(
	const struct env_setting *s, struct run_unseen *ret_unseen);
/* True: there was no such process. The folder is gone; whether or not there was a job. */
bool run_unseen_end(struct run_unseen *unseen);

#endif /* TAUT_CLI_RUN_UNSEEN_H */

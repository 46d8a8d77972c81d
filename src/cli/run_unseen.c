/* run_unseen.c - see run_unseen.h. */
#include "cli/run_unseen.h"

#include <stdlib.h>
#include <unistd.h>

taut_status run_unseen_set(
	const struct env_setting *s, struct run_unseen *ret_unseen)
{
	const char *tmp = getenv("TMPDIR"), *outer = getenv("TAUT_RUN_UNSEEN");
	struct run_unseen unseen = { .folder = NULL };
	char *made = taut_arena_printf(s->arena, "%s/taut-unseen-XXXXXX",
		tmp && *tmp == '/' ? tmp : "/tmp");
	taut_status status;

	if (outer && *outer)
		unseen.outer = taut_arena_printf(s->arena, "%s", outer);
	if (!made || (outer && *outer && !unseen.outer))
		return taut_error_set(s->err, TAUT_ENOMEM, -1, "no memory");
	if (mkdtemp(made))
		unseen.folder = made;
	status = unseen.folder ? env_set(s, "TAUT_RUN_UNSEEN", made) : TAUT_OK;
	if (status)
		rmdir(made);
	else
		*ret_unseen = unseen;
	return status;
}

bool run_unseen_end(struct run_unseen *unseen)
{
	bool nobody = unseen->folder && !rmdir(unseen->folder);

	if (unseen->folder && !nobody && unseen->outer)
		rmdir(unseen->outer);
	*unseen = (struct run_unseen){ NULL, NULL };
	return nobody;
}

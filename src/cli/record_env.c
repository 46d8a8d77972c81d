/* record_env.c - the environment of a job that is recorded. */
#include <stdlib.h>

#include "cli/env.h"
#include "cli/record.h"

taut_status record_find_files(struct taut_arena *arena,
	struct record_files *ret_files, struct taut_error *err)
{
	const char *folder = env_folder_of_command(arena);
	struct record_files files;

	if (!folder)
		goto no_memory;
	files.inject = env_find_inject(arena, folder);
	files.record = env_find_library(arena, folder, "libtaut-record.so");
	files.mpi = env_find_library(arena, folder, "libtaut-mpi.so");
	files.nccl = env_find_library(arena, folder, "libtaut-nccl.so");
	if (!files.inject || !files.record || !files.mpi || !files.nccl)
		goto no_memory;
	*ret_files = files;
	return TAUT_OK;
no_memory:
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
}

static taut_status set_nccl(const struct env_setting *s,
	const struct record_plan *plan, const struct record_files *files)
{
	const char *before = getenv("NCCL_PROFILER_PLUGIN");

	if (plan->no_nccl || !*files->nccl)
		return TAUT_OK;
	if (before && *before)
		return env_tell(s, taut_arena_printf(s->arena, "NCCL_PROFILER_"
			"PLUGIN is %s: what NCCL does was not recorded",
			before));
	return env_set(s, "NCCL_PROFILER_PLUGIN", files->nccl);
}

static const char *const handed_on[] = { "TAUT_RECORD", "TAUT_RECORD_STEPS",
	"TAUT_RECORD_MEMORY", "TAUT_RECORD_COMPILE", "TAUT_RECORD_LIB",
	"PYTHONPATH", "LD_PRELOAD", "NCCL_PROFILER_PLUGIN" };

taut_status record_set_environment(const struct record_plan *plan,
	const struct record_files *files, struct taut_arena *arena,
	record_lines *lines, struct taut_error *err)
{
	struct env_setting s = { plan->command, plan->n_command, arena, lines,
		err };
	taut_status status = env_set(&s, "TAUT_RECORD", plan->run);

	if (!status)
		status = env_set(&s, "TAUT_RECORD_STEPS", taut_arena_printf(
			arena, "%u:%u", plan->first, plan->end));
	if (!status && plan->memory)
		status = env_set(&s, "TAUT_RECORD_MEMORY", "1");
	if (!status && plan->compile)
		status = env_set(&s, "TAUT_RECORD_COMPILE", plan->compile);
	if (!status && *files->record)
		status = env_set(&s, "TAUT_RECORD_LIB", files->record);
	if (!status)
		status = env_prepend_path(&s, "PYTHONPATH", files->inject, ":");
	if (!status && !plan->no_mpi)
		status = env_prepend_path(&s, "LD_PRELOAD", files->mpi, ": ");
	if (!status)
		status = set_nccl(&s, plan, files);
	if (!status)
		status = env_set_open_mpi(&s, handed_on,
			sizeof handed_on / sizeof handed_on[0]);
	if (!status && !*files->inject)
		status = env_tell(&s, "Taut's Python files do not lie where they "
			"were installed beside it: processes of PyTorch, "
			"TensorFlow and MXNet are not recorded");
	return status;
}

/* record_write.c - recording.json. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/record.h"
#include "report/put.h"

enum { PATH_BYTES = 4096 };

/* A number, or null where it is below `least`. */
static void put_number(struct tauti_put *put, const char *key, int64_t number,
	int64_t least)
{
	tauti_put_text(put, ",\n\"");
	tauti_put_text(put, key);
	tauti_put_text(put, "\": ");
	if (number < least)
		tauti_put_text(put, "null");
	else
		tauti_put_int(put, number);
}

static void put_texts(struct tauti_put *put, const char *key,
	const char *const *texts, size_t n)
{
	tauti_put_text(put, ",\n\"");
	tauti_put_text(put, key);
	tauti_put_text(put, "\": [");
	for (size_t i = 0; i < n; i++) {
		tauti_put_text(put, i ? ",\n " : "\n ");
		tauti_put_string(put, texts[i]);
	}
	tauti_put_char(put, ']');
}

static void put_missing(
	struct tauti_put *put, const struct record_result *result)
{
	tauti_put_text(put, ",\n\"missing\": [");
	for (size_t i = 0; i < result->missing.count; i++) {
		tauti_put_text(put, i ? ",\n {" : "\n {");
		tauti_put_key(put, "rank");
		tauti_put_int(put, result->missing.data[i].rank);
		tauti_put_char(put, ',');
		tauti_put_key(put, "why");
		tauti_put_string(put, result->missing.data[i].why);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_all(struct tauti_put *put, const struct record_plan *plan,
	const struct record_job *job, const struct record_result *result)
{
	int32_t steps[2] = { (int32_t)plan->first, (int32_t)plan->end };

	tauti_put_text(put, "{\n\"taut\": ");
	tauti_put_string(put, taut_version());
	put_texts(put, "command", plan->command, plan->n_command);
	put_number(put, "exit_status", job->exit_status, 0);
	put_number(put, "signal", job->signal, 1);
	put_number(put, "started_ns", job->started_ns, 0);
	put_number(put, "ended_ns", job->ended_ns, 0);
	tauti_put_text(put, ",\n\"steps\": ");
	tauti_put_ranks(put, steps, 2);
	put_number(put, "world_size", result->world_size, 0);
	tauti_put_text(put, ",\n\"ranks\": ");
	tauti_put_ranks(put, result->ranks.data, (uint32_t)result->ranks.count);
	put_missing(put, result);
	put_texts(put, "problems", result->problems.data,
		result->problems.count);
	tauti_put_text(put, result->complete ? ",\n\"complete\": true\n}\n" :
		",\n\"complete\": false\n}\n");
}

static bool write_to(int fd, const struct record_plan *plan,
	const struct record_job *job, const struct record_result *result)
{
	FILE *out = fdopen(fd, "w");
	struct tauti_put put;
	bool failed;

	if (!out) {
		close(fd);
		return false;
	}
	tauti_put_begin(&put, out);
	put_all(&put, plan, job, result);
	failed = tauti_put_end(&put, NULL) != TAUT_OK;
	return !fclose(out) && !failed;
}

taut_status record_write(const struct record_plan *plan,
	const struct record_job *job, const struct record_result *result,
	struct taut_error *err)
{
	char path[PATH_BYTES], part[PATH_BYTES];
	int fd;

	if (snprintf(path, sizeof path, "%s/recording.json", plan->run) >=
			PATH_BYTES ||
		snprintf(part, sizeof part, "%s/recording.json.part%ld",
			plan->run, (long)getpid()) >= PATH_BYTES)
		return taut_error_set(err, TAUT_EIO, -1,
			"%s: the path is too long", plan->run);
	fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	errno = fd < 0 ? errno : 0;
	if (fd >= 0 && write_to(fd, plan, job, result) &&
		!rename(part, path))
		return TAUT_OK;
	taut_error_set(err, TAUT_EIO, -1, "%s: cannot be written: %s", path,
		strerror(errno));
	if (fd >= 0)
		unlink(part);
	return TAUT_EIO;
}

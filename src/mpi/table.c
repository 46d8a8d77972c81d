/* table.c - from how many bytes on Taut is faster: rows of text, and what is built
 * in. See mpi.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "mpi/mpi.h"

/* As measured by bench/mpi_allreduce.py on one host; nothing is known of a network, or
 * of devices, that nobody measured. */
static const char built_in[] = "* 1 4096 taut\n";

struct reading {
	const char *name;
	uint32_t line, n_ranks, n_hosts;
	bool devices;
	int names; /* how much the rows kept so far name; -1: there are none */
	struct tauti_form_steps *steps;
};

static taut_status expected(const struct reading *r, const char *what,
	struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_EFORMAT, -1,
		"%s:%u: expected %s", r->name, r->line, what);
}

/* --- a row --------------------------------------------------------------------------------*/

static void skip_blanks(const char **at)
{
	while (**at == ' ' || **at == '\t' || **at == '\r')
		++*at;
}

/* Digits; star: '*' will do, and is 0. */
static bool take_number(
	const char **at, bool star, uint64_t most, uint64_t *ret_number)
{
	uint64_t number = 0;
	const char *from;

	skip_blanks(at);
	from = *at;
	if (star && **at == '*') {
		++*at;
	} else {
		for (; **at >= '0' && **at <= '9'; ++*at) {
			uint64_t digit = (uint64_t)(**at - '0');

			if (number > (most - digit) / 10)
				return false;
			number = number * 10 + digit;
		}
		if (star && !number)
			return false;
	}
	if (*at == from || !strchr(" \t\r#", **at))
		return false;
	*ret_number = number;
	return true;
}

static bool take_word(const char **at, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*at, word, n) || !strchr(" \t\r#", (*at)[n]))
		return false;
	*at += n;
	return true;
}

/* Sorted in; one of the same size is replaced. */
static bool keep(struct tauti_form_steps *steps, uint64_t from_bytes,
	enum tauti_form_who who)
{
	uint32_t i = steps->n;

	while (i && steps->step[i - 1].from_bytes > from_bytes)
		i--;
	if (i && steps->step[i - 1].from_bytes == from_bytes) {
		steps->step[i - 1].who = who;
		return true;
	}
	if (steps->n == TAUTI_FORM_STEPS)
		return false;
	memmove(&steps->step[i + 1], &steps->step[i],
		(steps->n - i) * sizeof steps->step[0]);
	steps->step[i].from_bytes = from_bytes;
	steps->step[i].who = who;
	steps->n++;
	return true;
}

static taut_status use_row(struct reading *r, uint64_t ranks, uint64_t hosts,
	uint64_t from_bytes, enum tauti_form_who who, struct taut_error *reterr)
{
	int names = (hosts ? 2 : 0) + (ranks ? 1 : 0);

	if ((ranks && ranks != r->n_ranks) || (hosts && hosts != r->n_hosts) ||
		names < r->names)
		return TAUT_OK;
	if (names > r->names)
		r->steps->n = 0;
	r->names = names;
	return keep(r->steps, from_bytes, who) ? TAUT_OK :
		expected(r, "at most 16 rows of one number of ranks", reterr);
}

static bool take_who(const char **row, enum tauti_form_who *ret_who)
{
	static const char *const words[] = { [TAUTI_FORM_MPI] = "mpi",
		[TAUTI_FORM_TAUT] = "taut", [TAUTI_FORM_PEER] = "peer" };

	skip_blanks(row);
	for (uint32_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (take_word(row, words[i])) {
			*ret_who = (enum tauti_form_who)i;
			return true;
		}
	return false;
}

static taut_status read_row(
	struct reading *r, const char *row, struct taut_error *reterr)
{
	uint64_t ranks, hosts, from_bytes;
	enum tauti_form_who who;
	bool device;

	skip_blanks(&row);
	if (!*row || *row == '#')
		return TAUT_OK;
	if (!take_number(&row, true, UINT32_MAX, &ranks))
		return expected(r, "a number of ranks, or *", reterr);
	if (!take_number(&row, true, UINT32_MAX, &hosts))
		return expected(r, "a number of hosts, or *", reterr);
	if (!take_number(&row, false, INT64_MAX, &from_bytes))
		return expected(r, "bytes", reterr);
	if (!take_who(&row, &who))
		return expected(r, "taut or mpi", reterr);
	skip_blanks(&row);
	device = take_word(&row, "device");
	skip_blanks(&row);
	if (*row && *row != '#')
		return expected(r, "the end of the row", reterr);
	if (who == TAUTI_FORM_PEER && !device)
		return expected(r, "device after peer", reterr);
	return device != r->devices ? TAUT_OK :
		use_row(r, ranks, hosts, from_bytes, who, reterr);
}

/* --- the text -----------------------------------------------------------------------------*/

taut_status tauti_form_table_parse(const char *text, size_t bytes,
	const char *name, uint32_t n_ranks, uint32_t n_hosts, bool devices,
	struct tauti_form_steps *ret_steps, struct taut_error *reterr)
{
	struct tauti_form_steps steps = { .n = 0 };
	struct reading r = { name, 0, n_ranks, n_hosts, devices, -1, &steps };
	taut_status status = TAUT_OK;
	char row[TAUTI_FORM_ROW_BYTES];

	for (size_t at = 0; at < bytes && !status;) {
		const char *end = memchr(text + at, '\n', bytes - at);
		size_t n = end ? (size_t)(end - text) - at : bytes - at;

		r.line++;
		if (n >= sizeof row || memchr(text + at, '\0', n))
			return expected(&r, "a row of text", reterr);
		memcpy(row, text + at, n);
		row[n] = '\0';
		status = read_row(&r, row, reterr);
		at += n + 1;
	}
	if (!status)
		*ret_steps = steps;
	return status;
}

/* Bytes that were read, or -1 and errno. */
static ssize_t read_file(const char *path, char *text, size_t most)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got = 1;

	if (fd < 0)
		return -1;
	while (n < most && got) {
		got = read(fd, text + n, most - n);
		if (got < 0 && errno != EINTR)
			break;
		n += got > 0 ? (size_t)got : 0;
	}
	close(fd);
	return got < 0 ? -1 : (ssize_t)n;
}

taut_status tauti_form_table_read(const char *path, uint32_t n_ranks,
	uint32_t n_hosts, bool devices, struct tauti_form_steps *ret_steps,
	struct taut_error *reterr)
{
	char text[TAUTI_FORM_TABLE_BYTES];
	ssize_t n;

	if (!path)
		return tauti_form_table_parse(built_in, strlen(built_in),
			"built in", n_ranks, n_hosts, devices, ret_steps,
			reterr);
	n = read_file(path, text, sizeof text);
	if (n < 0)
		return taut_error_set(reterr, TAUT_EIO, -1, "%s: %s", path,
			strerror(errno));
	if (n == sizeof text)
		return taut_error_set(reterr, TAUT_EFORMAT, -1, "%s: expected "
			"less than %zu bytes", path, sizeof text);
	return tauti_form_table_parse(text, (size_t)n, path, n_ranks, n_hosts,
		devices, ret_steps, reterr);
}

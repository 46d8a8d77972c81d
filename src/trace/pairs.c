/* pairs.c - execution traces and the traces that they belong to. */
#include "trace/pairs.h"

#include <stdlib.h>

#include "trace/format.h"
#include "trace/formats/et.h"
#include "trace/stream.h"

/* A file that an execution trace may belong to. */
struct partner {
	struct tauti_pair *file;
	int32_t rank; /* -1: not told */
};
typedef TAUT_VEC(struct partner) partners;

taut_status tauti_pairs_is_et(
	const struct tauti_input *input, bool *ret_is, struct taut_error *err)
{
	struct tauti_stream *stream = NULL;
	const char *head;
	size_t len;
	taut_status status =
		tauti_stream_open_file(input->path, NULL, &stream, err);
	*ret_is = false;
	if (status == TAUT_OK)
		status = tauti_stream_peek(stream, &head, &len, err);
	if (status == TAUT_OK)
		*ret_is = tauti_et_probe(head, len);
	tauti_stream_close(stream);
	return status == TAUT_EFORMAT ? TAUT_OK : status; /* told later */
}

static int32_t rank_of(const struct tauti_pair *file)
{
	return file->rank_given >= 0 ? file->rank_given :
				       tauti_rank_of_path(file->input->path);
}

static int by_rank(const void *a, const void *b)
{
	const struct partner *x = a, *y = b;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* What the trace says of its rank, where its name says nothing. */
static taut_status ask_inside(struct partner *partner, struct taut_error *err)
{
	struct tauti_stream *stream = NULL;
	taut_status status = tauti_stream_open_file(
		partner->file->input->path, NULL, &stream, err);
	if (status == TAUT_OK)
		status = tauti_kineto_rank(stream, &partner->rank, err);
	tauti_stream_close(stream);
	return status == TAUT_EFORMAT ? TAUT_OK : status; /* told later */
}

static taut_status list_partners(struct tauti_pair *files, size_t n,
	partners *ret_all, struct taut_error *err)
{
	taut_status status = TAUT_OK;
	for (size_t i = 0; i < n && status == TAUT_OK; i++) {
		struct partner partner = { &files[i], rank_of(&files[i]) };
		if (files[i].is_et)
			continue;
		if (partner.rank < 0)
			status = ask_inside(&partner, err);
		if (status == TAUT_OK && !taut_vec_push(ret_all, partner))
			status = taut_error_set(err, TAUT_ENOMEM, -1,
				"%s: no memory to find its execution trace",
				files[i].input->path);
	}
	if (ret_all->count)
		qsort(ret_all->data, ret_all->count, sizeof *ret_all->data,
			by_rank);
	return status;
}

/* The one of that rank, or the only one there is; NULL: there is none, or it
 * cannot be told. */
static struct tauti_pair *find_partner(const partners *all, int32_t rank)
{
	size_t n = all->count;
	struct partner key = { NULL, rank };
	struct partner *same = n && rank >= 0 ? bsearch(&key, all->data, n,
		sizeof key, by_rank) : NULL;
	if (!same)
		return n == 1 && (rank < 0 || all->data->rank < 0) ?
			all->data->file : NULL;
	if ((same > all->data && same[-1].rank == rank) ||
		(same + 1 < all->data + n && same[1].rank == rank))
		return NULL;
	return same->file;
}

taut_status tauti_pairs_find(
	struct tauti_pair *files, size_t n, struct taut_error *err)
{
	taut_status status = TAUT_OK;
	partners all = { 0 };
	size_t ets = 0;
	for (size_t i = 0; i < n; i++) {
		files[i].et = SIZE_MAX;
		ets += files[i].is_et;
	}
	if (ets)
		status = list_partners(files, n, &all, err);
	for (size_t i = 0; status == TAUT_OK && i < n; i++) {
		struct tauti_pair *partner = files[i].is_et ?
			find_partner(&all, rank_of(&files[i])) : NULL;
		if (partner && !partner->has_et) {
			partner->et = i;
			partner->has_et = true;
		}
	}
	taut_vec_free(&all);
	return status;
}

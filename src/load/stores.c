/* stores.c - the table of stores, and the lines of their faults. */
#include "load/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/near.h"

const struct tauti_store_table *const tauti_stores[] = {
	&tauti_store_file,
#ifdef TAUT_HAVE_URING
	&tauti_store_uring,
#endif
	&tauti_store_slow,
	&tauti_store_null,
	NULL,
};

static const struct tauti_store_table *find(const char *name)
{
	for (size_t i = 0; tauti_stores[i]; i++)
		if (strcmp(tauti_stores[i]->name, name) == 0)
			return tauti_stores[i];
	return NULL;
}

static taut_status unknown(const char *name, struct taut_error *err)
{
	const char *names[sizeof tauti_stores / sizeof tauti_stores[0]], *near;
	size_t n = 0;

	for (; tauti_stores[n]; n++)
		names[n] = tauti_stores[n]->name;
	near = tauti_nearest(name, names, n);
	return taut_error_set(err, TAUT_EINVAL, -1, "no store \"%s\"%s%s%s", name,
		near ? ": did you mean \"" : "", near ? near : "",
		near ? "\"?" : "");
}

static void note(struct tauti_store *store, const char *name, const char *why)
{
	snprintf(store->note, sizeof store->note, "no %.*s: %s", 12, name, why);
}

taut_status tauti_store_open(const char *name,
	const struct tauti_store_options *options, struct tauti_store *ret_store,
	struct taut_error *reterr)
{
	const char *wanted = name ? name : "file";
	struct tauti_store store = { .table = find(wanted) };
	struct taut_error err = { .offset = -1 };
	taut_status status;

	/* What was left out of the build, somebody may still ask for. */
	if (!store.table && strcmp(wanted, "uring") == 0) {
		store.table = &tauti_store_file;
		note(&store, wanted, "it was not built in (liburing)");
	}
	if (!store.table)
		return unknown(wanted, reterr);
	status = store.table->create(options, &store.context, &err);
	if (status == TAUT_EAGAIN && store.table->instead) {
		note(&store, wanted, err.message);
		store.table = find(store.table->instead);
		status = store.table->create(options, &store.context, &err);
	}
	if (status != TAUT_OK) {
		if (reterr)
			*reterr = err;
		return status;
	}
	*ret_store = store;
	return TAUT_OK;
}

void tauti_store_close(struct tauti_store *store)
{
	if (!store->table)
		return;
	store->table->stop(store->context);
	store->table->destroy(store->context);
	store->table = NULL;
}

/* --- lines ----------------------------------------------------------------------------*/
taut_status tauti_store_refused(
	struct tauti_store_read *read, const char *what, int code)
{
	return taut_error_set(&read->err, TAUT_EIO, (int64_t)read->offset,
		"%s: %s %" PRIu64 " bytes at %" PRIu64 ": %s", read->path, what,
		read->bytes, read->offset, strerror(code));
}

taut_status tauti_store_ended(struct tauti_store_read *read)
{
	uint64_t end = read->offset + read->got;

	return taut_error_set(&read->err, TAUT_EFORMAT, (int64_t)end,
		"%s: ends at byte %" PRIu64 ", where %" PRIu64 " bytes from %" PRIu64
		" on were expected", read->path, end, read->bytes, read->offset);
}

taut_status tauti_store_stopped(struct tauti_store_read *read)
{
	return taut_error_set(&read->err, TAUT_EAGAIN, (int64_t)read->offset,
		"%s: not read: the store was stopped", read->path);
}

void tauti_store_end_stopped(struct tauti_store_read *reads)
{
	while (reads) {
		struct tauti_store_read *read = reads;

		reads = read->next;
		read->done(read, tauti_store_stopped(read));
	}
}

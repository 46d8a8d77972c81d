/* loader_remote.c - items that other hosts have, and that they ask for; see remote.h. */
#include "load/loader.h"

#include <stddef.h>
#include <stdlib.h>

/* --- asked of others ---------------------------------------------------------------------*/
enum tauti_remote_where tauti_load_where(const struct taut_load *load, uint64_t item)
{
	return load->remote ? load->remote->where(load->remote, item) :
			      TAUTI_REMOTE_HERE;
}

/* What does not come from there is read here; once the store was stopped, that ends it. */
static void ask_done(struct tauti_remote_ask *ask, taut_status status)
{
	struct tauti_load_read *read = (struct tauti_load_read *)(void *)((char *)ask -
		offsetof(struct tauti_load_read, ask));

	if (status == TAUT_OK) {
		tauti_load_read_done(&read->read, TAUT_OK);
		return;
	}
	read->far = false;
	read->read.next = NULL;
	tauti_store_begin(&read->load->store, &read->read);
}

void tauti_load_remote_ask(struct taut_load *load, struct tauti_load_read *read)
{
	read->ask = (struct tauti_remote_ask){ .item = load->tickets[read->ticket].item,
		.bytes = read->read.bytes,
		.into = read->read.into,
		.done = ask_done };
	load->remote->ask(load->remote, &read->ask);
}

/* --- asked by others ---------------------------------------------------------------------*/
static uint64_t bytes_of(void *context, uint64_t item)
{
	const struct taut_load *load = context;

	return taut_set_at(load->set, item).bytes;
}

static void serve_done(struct tauti_store_read *done, taut_status status)
{
	struct tauti_load_serve *serve = (struct tauti_load_serve *)done;
	struct taut_load *load = serve->load;
	struct tauti_remote_read *what = serve->what;

	if (status == TAUT_OK)
		tauti_cache_fill(load->cache, (uint32_t)what->item);
	else
		tauti_cache_drop(load->cache, (uint32_t)what->item);
	pthread_mutex_lock(&load->lock);
	load->counts.reads += status == TAUT_OK;
	load->counts.read_bytes += status == TAUT_OK ? done->bytes : 0;
	serve->next = load->free_serves;
	load->free_serves = serve;
	pthread_mutex_unlock(&load->lock);
	what->done(what, status == TAUT_OK);
}

static void serve(void *context, struct tauti_remote_read *what)
{
	struct taut_load *load = context;
	struct taut_set_item at = taut_set_at(load->set, what->item);
	struct tauti_load_serve *serve;

	pthread_mutex_lock(&load->lock);
	serve = load->free_serves;
	load->free_serves = serve->next;
	pthread_mutex_unlock(&load->lock);
	taut_set_path(load->set, at.file, serve->path, sizeof serve->path);
	serve->load = load;
	serve->what = what;
	serve->read = (struct tauti_store_read){ .path = serve->path,
		.file = at.file,
		.offset = at.offset,
		.bytes = at.bytes,
		.whole = load->set_is_whole,
		.into = what->at,
		.done = serve_done };
	tauti_store_begin(&load->store, &serve->read);
}

/* --- life --------------------------------------------------------------------------------*/
taut_status tauti_load_remote_open(struct taut_load *load, struct taut_error *reterr)
{
	const struct tauti_remote_source source = { .context = load,
		.cache = load->cache,
		.fingerprint = taut_set_fingerprint(load->set),
		.n_items = load->share.n_items,
		.cache_bytes = load->options.cache_bytes,
		.n_asks = load->options.n_remote,
		.bytes = bytes_of,
		.read = serve };
	struct taut_load_remote *remote = load->options.remote;
	taut_status status;

	if (!remote)
		return TAUT_OK;
	load->serves = calloc(TAUTI_REMOTE_READS, sizeof *load->serves);
	if (!load->serves)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"loader: no memory for reads of other hosts");
	for (uint32_t i = 0; i < TAUTI_REMOTE_READS; i++) {
		load->serves[i].next = load->free_serves;
		load->free_serves = &load->serves[i];
	}
	status = remote->attach(remote, &source, reterr);
	if (status == TAUT_OK)
		load->remote = remote;
	return status;
}

void tauti_load_remote_close(struct taut_load *load)
{
	if (load->remote)
		load->remote->detach(load->remote);
}

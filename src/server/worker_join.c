/* worker_join.c - to the servers, and away from them; see worker.h. */
#include "server/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static const int64_t default_within_ns = 60000000000;

static taut_status no_memory(struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_ENOMEM, -1, "worker: out of memory");
}

/* --- one server ------------------------------------------------------------------------------- */

/* What a server says of itself, or what stands between it and this worker. */
static taut_status of_server(uint32_t i, taut_status status, const struct taut_error *why,
	struct taut_error *reterr)
{
	return status ? taut_error_set(reterr, status, -1, "server %u: %.440s", i,
		why->message) : TAUT_OK;
}

static taut_status greet(struct taut_server_worker *worker, uint32_t i,
	struct tauti_pair *pair, struct tauti_meet *meet, struct taut_error *reterr)
{
	struct tauti_server_link *server = &worker->servers[i];
	const struct tauti_greeting own = { TAUTI_WIRE_VERSION, i,
		worker->n_servers, worker->n_workers, (uint16_t)worker->mode,
		tauti_pair_says(pair, meet), tauti_host_id(),
		worker->lost_after_ns };
	uint8_t mine[TAUTI_GREETING_BYTES], all[2 * TAUTI_GREETING_BYTES];
	struct taut_error who, why = { .message = "" };
	taut_status status;

	tauti_greeting_write(&own, mine);
	status = tauti_meet_gather(meet, mine, sizeof mine, all, &why);
	if (status)
		return of_server(i, status, &why, reterr);
	taut_error_set(&who, TAUT_OK, -1, "server %u (%.200s)", i, server->name);
	status = tauti_greeting_check(&own, all, who.message, reterr);
	if (status)
		return status;
	/* The first one's holds for the others, too. */
	worker->mode = (enum taut_server_mode)tauti_greeting_mode(all);
	server->near = tauti_greeting_is_near(&own, all);
	worker->beat_every_ns = tauti_earlier_ns(
		worker->beat_every_ns, tauti_greeting_beat_ns(&own, all));
	status = tauti_pair_meet(pair, own.engine, tauti_greeting_engine(all), meet, 1,
		who.message, &server->engine, &why);
	return of_server(i, status, &why, reterr);
}

static taut_status connect_one(struct taut_server_worker *worker, uint32_t i,
	const struct taut_server_worker_options *options,
	struct taut_error *reterr)
{
	struct tauti_server_link *server = &worker->servers[i];
	const struct tauti_meet_options meet_options = {
		.rank = worker->worker + 1, .n_ranks = worker->n_workers + 1,
		.address = server->name,
		.secret = options->secret ? options->secret :
			getenv("TAUT_SECRET"),
		.within_ns = options->meet_within_ns ? options->meet_within_ns :
			default_within_ns,
		.lost_after_ns = worker->lost_after_ns,
		.listens = options->listening };
	struct tauti_meet *meet = NULL;
	struct tauti_pair pair;
	struct taut_error why = { .message = "" };
	/* First what takes long: the server waits for no slow hand-shake. */
	taut_status status = tauti_pair_open(worker->want, &pair, reterr);

	if (status)
		return status;
	status = tauti_meet_create(&meet_options, &meet, &why);
	if (status) {
		tauti_pair_close(&pair);
		return of_server(i, status, &why, reterr);
	}
	tauti_meet_make_pair(meet);
	status = greet(worker, i, &pair, meet, reterr);
	tauti_pair_close(&pair);
	if (!status) {
		server->link = meet->links[0];
		server->link.allowed = tauti_kind_bit(TAUTI_BEAT) |
			tauti_kind_bit(TAUTI_LEAVE) | tauti_kind_bit(TAUTI_LOST);
		server->link.heard_ns = tauti_meet_now_ns();
		meet->links[0].fd = -1;
	}
	tauti_meet_destroy(meet);
	return status;
}

/* --- all of them --------------------------------------------------------------------------------- */

/* "a:1,b:2" */
static taut_status read_list(struct taut_server_worker *worker,
	const char *list, struct taut_error *reterr)
{
	const char *at = list ? list : "";

	worker->n_servers = 1;
	for (const char *c = at; *c; c++)
		worker->n_servers += *c == ',';
	if (worker->n_servers > TAUTI_SERVERS_MOST)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "%u servers: "
			"expected at most %d", worker->n_servers,
			TAUTI_SERVERS_MOST);
	worker->servers = calloc(worker->n_servers, sizeof *worker->servers);
	worker->polls = calloc(2 * (size_t)worker->n_servers + 1,
		sizeof *worker->polls);
	if (!worker->servers || !worker->polls)
		return no_memory(reterr);
	for (uint32_t i = 0; i < worker->n_servers; i++) {
		size_t n = strcspn(at, ",");

		worker->servers[i].link.fd = -1;
		if (!n || n >= sizeof worker->servers[i].name)
			return taut_error_set(reterr, TAUT_EINVAL, -1,
				"servers: expected HOST:PORT,HOST:PORT, not "
				"'%.200s'", list ? list : "");
		memcpy(worker->servers[i].name, at, n);
		at += n + (at[n] == ',');
	}
	return TAUT_OK;
}

taut_status tauti_worker_connect(struct taut_server_worker *worker,
	const struct taut_server_worker_options *options,
	struct taut_error *reterr)
{
	taut_status status = read_list(worker, options->servers, reterr);

	if (!status)
		status = tauti_want_read(NULL, &worker->want, reterr);
	if (status && worker->servers)
		for (uint32_t i = 0; i < worker->n_servers; i++)
			worker->servers[i].link.fd = -1;
	for (uint32_t i = 0; i < worker->n_servers && !status; i++)
		status = connect_one(worker, i, options, reterr);
	return status;
}

void tauti_worker_disconnect(struct taut_server_worker *worker)
{
	for (uint32_t i = 0; worker->servers && i < worker->n_servers; i++) {
		struct tauti_server_link *server = &worker->servers[i];

		if (server->engine.table)
			server->engine.table->destroy(server->engine.context);
		server->engine.table = NULL;
		tauti_link_close(&server->link);
		tauti_board_close(&server->board);
	}
	free(worker->servers);
	free(worker->polls);
	worker->servers = NULL;
	worker->polls = NULL;
}

/* --- parts ----------------------------------------------------------------------------------------- */

static void on_done(struct taut_coll_request *request, taut_status status)
{
	tauti_half_done(((struct tauti_trip_request *)request)->half, status);
}

void tauti_half_done(struct tauti_half *half, taut_status status)
{
	struct taut_server_worker *worker = half->trip->worker;

	if (!half->status)
		half->status = status;
	if (--half->pending)
		return;
	half->next = NULL;
	*worker->ended_at = half;
	worker->ended_at = &half->next;
}

static void on_go(struct taut_coll_request *request, taut_status status)
{
	struct tauti_trip *trip = (struct tauti_trip *)request;
	struct taut_server_worker *worker = trip->worker;

	trip->go_status = status;
	trip->next = NULL;
	*worker->may_go_at = trip;
	worker->may_go_at = &trip->next;
}

static taut_status make_trip(struct taut_server_worker *worker, uint32_t i,
	const struct taut_server_part *part, struct taut_error *reterr)
{
	struct tauti_worker_key *key = &worker->keys[part->key];
	struct tauti_trip *trip = &worker->trips[i];
	uint64_t bytes = part->count * taut_type_bytes(key->key.type);
	uint32_t task;
	taut_status status;

	*trip = (struct tauti_trip){ .go_request = { on_go }, .place = *part, .part = i,
		.type = key->key.type, .worker = worker,
		.server = &worker->servers[part->server],
		.hash = tauti_hash_mix(part->first, tauti_hash(
			key->key.name, strlen(key->key.name))) };
	for (int k = 0; k < 4; k++) {
		struct tauti_half *half = &trip->halves[k / 2];

		half->trip = trip;
		half->requests[k % 2] = (struct tauti_trip_request){
			{ on_done }, half };
	}
	key->n_parts++;
	status = taut_sched_declare(worker->sched, bytes, key->priority,
		TAUT_NONE, &task, reterr);
	if (!status)
		status = taut_sched_declare(worker->sched, 1, key->priority,
			task, &task, reterr);
	return status;
}

uint64_t tauti_worker_credit(const struct taut_server_worker *worker)
{
	uint64_t least = worker->n_trips + 1;

	return worker->credit_bytes && worker->credit_bytes < least ? least :
		worker->credit_bytes;
}

static taut_status make_sched(
	struct taut_server_worker *worker, struct taut_error *reterr)
{
	const struct taut_sched_options options = { .order = TAUT_SCHED_ALONE,
		.credit_bytes = tauti_worker_credit(worker) };

	return taut_sched_create(&options, &tauti_worker_sched_engine, worker,
		&worker->sched, reterr);
}

static taut_status place(struct taut_server_worker *worker,
	struct taut_server_part **ret_parts, size_t *ret_n,
	struct taut_error *reterr)
{
	struct taut_server_key *keys = calloc(
		worker->n_keys ? worker->n_keys : 1, sizeof *keys);
	taut_status status;

	if (!keys)
		return no_memory(reterr);
	for (size_t i = 0; i < worker->n_keys; i++)
		keys[i] = worker->keys[i].key;
	status = taut_server_place(keys, worker->n_keys, worker->part_bytes,
		worker->n_servers, ret_parts, ret_n, reterr);
	free(keys);
	return status;
}

/* Where the parts are, may be tried again; what fails then is the end. */
taut_status tauti_worker_open(
	struct taut_server_worker *worker, struct taut_error *reterr)
{
	struct taut_server_part *parts = NULL;
	struct taut_error why = { .message = "" };
	size_t n = 0;
	taut_status status = worker->n_keys ? TAUT_OK : taut_error_set(reterr,
		TAUT_EINVAL, -1, "no key was declared");

	if (!status)
		status = place(worker, &parts, &n, reterr);
	if (status)
		return status;
	worker->trips = calloc(n, sizeof *worker->trips);
	worker->queue = calloc(2 * n, sizeof *worker->queue);
	worker->finished = calloc(worker->n_keys, sizeof *worker->finished);
	worker->n_trips = n;
	if (!worker->trips || !worker->queue || !worker->finished)
		status = no_memory(&why);
	if (!status)
		status = make_sched(worker, &why);
	for (size_t i = 0; i < n && !status; i++)
		status = make_trip(worker, (uint32_t)i, &parts[i], &why);
	free(parts);
	worker->is_open = !status;
	if (status) {
		worker->fault = why;
		if (reterr)
			*reterr = why;
	} else {
		tauti_worker_wake(worker);
	}
	return status;
}

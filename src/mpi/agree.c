/* agree.c - the ranks of an MPI communicator decide together. All of them are in the
 * same call of it, so what is asked here over MPI meets with its like. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hash.h"
#include "coll/engines/mpi.h"
#include "mpi/mpi.h"

/* --- what ranks say -----------------------------------------------------------------------*/

/* Bytes, the same on every machine of a job. */
struct answer {
	uint64_t version, host;
	int32_t level; /* MPI's, of threads */
	uint32_t can, has_device;
};

/* What rank 0 makes of it. */
struct verdict {
	uint32_t take, begins, by_mpi, asks_peers;
	uint64_t after_bytes, part_bytes;
	struct tauti_form_steps steps;
};

/* Where ranks meet. */
struct place {
	char address[112], secret[40];
	uint32_t found; /* 0: there is none */
};

static void complain(const struct tauti_form_comm *it, const char *what)
{
	tauti_form_say("rank %u of %u: %s; all-reduces stay with MPI", it->rank,
		it->n_ranks, what);
}

/* --- ask ----------------------------------------------------------------------------------*/

static struct answer own_answer(const struct tauti_form_comm *it)
{
	struct answer mine = { tauti_hash(TAUT_VERSION, strlen(TAUT_VERSION)),
		tauti_host_id(), tauti_mpi_form.level, 0, 0 };
	struct taut_error err = { .message = "" };
	enum tauti_form_devices devices = tauti_form_devices();

	if (devices == TAUTI_FORM_DEVICES_OTHER ||
		(devices == TAUTI_FORM_DEVICES_CUDA && !tauti_form_gpu()))
		return mine; /* nobody here knows its pointers */
	mine.has_device = devices == TAUTI_FORM_DEVICES_CUDA &&
		tauti_form_uses_devices();
	pthread_mutex_lock(&tauti_mpi_form.lock);
	mine.can = !tauti_form_open_taut(&err);
	pthread_mutex_unlock(&tauti_mpi_form.lock);
	if (!mine.can)
		complain(it, err.message);
	return mine;
}

static uint32_t count_hosts(const struct answer *all, uint32_t n)
{
	uint32_t hosts = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = 0;

		while (all[k].host != all[i].host)
			k++;
		hosts += k == i;
	}
	return hosts;
}

/* Digits; else what is given. */
static uint64_t number_in(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	unsigned long long number;
	char behind;

	return text && text[0] >= '0' && text[0] <= '9' &&
		sscanf(text, "%llu%c", &number, &behind) == 1 ?
		number : otherwise;
}

static bool any_taken(const struct tauti_form_steps *steps)
{
	for (uint32_t i = 0; i < steps->n; i++)
		if (steps->step[i].who != TAUTI_FORM_MPI)
			return true;
	return false;
}

static bool any_peers(const struct tauti_form_steps *steps)
{
	for (uint32_t i = 0; i < steps->n; i++)
		if (steps->step[i].who == TAUTI_FORM_PEER)
			return true;
	return false;
}

/* Of a part of a call: at least a page, and at most so much that what is pinned for a
 * call's parts is kept for the next. */
static uint64_t part_bytes(void)
{
	const uint64_t most = TAUTI_GPU_LANE_BYTES_KEPT / TAUTI_FORM_PIECES;
	uint64_t told = number_in("TAUT_MPI_PART", TAUTI_FORM_PART_BYTES);

	return told < 4096 ? 4096 : told > most ? most : told;
}

static bool uses_mpi_engine(void)
{
	const char *name = getenv("TAUT_MPI_ENGINE");

	return name && !strcmp(name, "mpi");
}

static struct verdict judge(
	const struct tauti_form_comm *it, const struct answer *all)
{
	const char *table = getenv("TAUT_MPI_TABLE");
	struct taut_error err = { .message = "" };
	struct verdict v = { .take = 1, .begins = 1,
		.by_mpi = uses_mpi_engine() };
	uint32_t n_hosts = count_hosts(all, it->n_ranks);
	bool devices = false;

	for (uint32_t i = 0; i < it->n_ranks; i++) {
		if (!all[i].can || all[i].version != all[0].version)
			v.take = 0;
		/* The engine over MPI is moved by a thread of ours. */
		if (all[i].level < 3 && v.by_mpi)
			v.begins = 0;
		devices |= all[i].has_device;
	}
	v.after_bytes = number_in("TAUT_MPI_AFTER", TAUTI_FORM_AFTER_BYTES);
	v.part_bytes = devices ? part_bytes() : 0;
	if (tauti_form_table_read(table && *table ? table : NULL, it->n_ranks,
		n_hosts, devices, &v.steps, &err)) {
		complain(it, err.message);
		v.take = 0;
	}
	if (!any_taken(&v.steps))
		v.take = 0;
	v.asks_peers = n_hosts == 1 && any_peers(&v.steps);
	return v;
}

static int gather(const struct tauti_form_comm *it, const struct answer *mine,
	struct answer *all)
{
	tauti_form_handle byte = tauti_mpi_form.abi->byte;

	return tauti_mpi_form.real.gather(mine, sizeof *mine, byte, all,
		sizeof *mine, byte, 0, it->handle);
}

static int ask(struct tauti_form_comm *it)
{
	struct answer mine = own_answer(it), *all = NULL;
	struct verdict verdict = { .take = 0 };
	int rc;

	if (it->rank == 0) {
		all = calloc(it->n_ranks, sizeof *all);
		if (!all) {
			tauti_mpi_form.real.comm_call_errhandler(
				it->handle, tauti_mpi_form.err_other);
			return tauti_mpi_form.err_other;
		}
	}
	rc = gather(it, &mine, all);
	if (!rc && it->rank == 0)
		verdict = judge(it, all);
	free(all);
	if (!rc)
		rc = tauti_mpi_form.real.bcast(&verdict, sizeof verdict,
			tauti_mpi_form.abi->byte, 0, it->handle);
	if (rc)
		return rc;
	it->phase = verdict.take ? TAUTI_FORM_ASKED : TAUTI_FORM_NEVER;
	it->steps = verdict.steps;
	it->after_bytes = verdict.after_bytes;
	it->begins = verdict.begins;
	it->by_mpi = verdict.by_mpi;
	it->part_bytes = verdict.part_bytes;
	it->asks_peers = verdict.asks_peers;
	return 0;
}

/* --- where to meet ------------------------------------------------------------------------*/

/* A port that the kernel has to spare, now. */
static unsigned free_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t bytes = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	unsigned port = 0;

	if (fd < 0)
		return 0;
	if (!bind(fd, (struct sockaddr *)&at, sizeof at) &&
		!getsockname(fd, (struct sockaddr *)&at, &bytes))
		port = ntohs(at.sin_port);
	close(fd);
	return port;
}

/* The first address of this host that is not its own alone. */
static bool outer_address(char *text, socklen_t bytes)
{
	struct ifaddrs *all, *at;
	bool found = false;

	if (getifaddrs(&all))
		return false;
	for (at = all; at && !found; at = at->ifa_next) {
		const struct sockaddr_in *in = (void *)at->ifa_addr;

		found = in && in->sin_family == AF_INET &&
			(at->ifa_flags & IFF_UP) &&
			!(at->ifa_flags & IFF_LOOPBACK) &&
			inet_ntop(AF_INET, &in->sin_addr, text, bytes);
	}
	freeifaddrs(all);
	return found;
}

static bool has_address(const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool has = fd >= 0 && !bind(fd, at->ai_addr, at->ai_addrlen);

	if (fd >= 0)
		close(fd);
	return has;
}

/* A job may be told where its first rank is, and this be the first of another
 * communicator, elsewhere. */
static bool is_of_this_host(const char *address)
{
	const struct addrinfo wanted = { .ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM };
	bool in_brackets = address[0] == '[';
	struct addrinfo *all;
	char host[112];
	bool found = false;

	snprintf(host, sizeof host, "%s", address + in_brackets);
	host[strcspn(host, "]")] = '\0';
	if (getaddrinfo(host, NULL, &wanted, &all))
		return false;
	for (struct addrinfo *at = all; at && !found; at = at->ai_next)
		found = has_address(at);
	freeaddrinfo(all);
	return found;
}

static bool is_one_host(const struct tauti_form_comm *it, int *ret_rc)
{
	int64_t host = (int64_t)(tauti_host_id() >> 1);
	int64_t mine[2] = { host, -host }, least[2] = { 0, 1 };

	*ret_rc = tauti_mpi_form.real.allreduce(mine, least, 2,
		tauti_mpi_form.abi->int64, tauti_mpi_form.min_op, it->handle);
	return least[0] == -least[1];
}

static struct place choose_place(bool one_host)
{
	const char *told = one_host ? NULL : getenv("TAUT_MPI_ADDRESS");
	struct place place = { .found = 0 };
	char host[INET6_ADDRSTRLEN] = "127.0.0.1";
	uint8_t random[16];
	unsigned port = free_port();

	if (told && (strlen(told) >= sizeof place.address - 8 ||
		!is_of_this_host(told)))
		told = NULL;
	if (!port ||
		(!one_host && !told && !outer_address(host, sizeof host)) ||
		getrandom(random, sizeof random, 0) != sizeof random)
		return place;
	snprintf(place.address, sizeof place.address, "%s:%u",
		told ? told : host, port);
	for (size_t i = 0; i < sizeof random; i++)
		snprintf(place.secret + 2 * i, 3, "%02x", random[i]);
	place.found = 1;
	return place;
}

/* --- over MPI's own messages --------------------------------------------------------------*/

taut_status tauti_form_make_by_mpi(
	struct tauti_form_comm *it, struct taut_error *reterr)
{
	const struct tauti_mpi_abi *abi = tauti_mpi_form.abi;
	const struct tauti_form_real *real = &tauti_mpi_form.real;
	const struct tauti_mpi_calls calls = {
		.handle_bytes = abi->handle_bytes, .any_source = abi->any_source,
		.undefined = -32766, /* in both */
		.status_ignore = (void *)abi->status_ignore, .byte = abi->byte,
		.isend = real->isend, .irecv = real->irecv,
		.testsome = real->testsome, .cancel = real->cancel,
		.wait = real->wait, .request_free = real->request_free };
	tauti_form_handle copy = 0;
	taut_status status;

	if (real->comm_dup(it->handle, &copy))
		return taut_error_set(reterr, TAUT_EIO, -1,
			"MPI cannot copy a communicator");
	it->copy = tauti_form_load(&copy);
	status = tauti_mpi_engine_create(&calls, it->copy, it->rank,
		it->n_ranks, &it->engine, reterr);
	return status ? status : tauti_mpi_form.taut.create_over(
		it->engine.table, it->engine.context, it->rank, it->n_ranks,
		NULL, &it->taut, reterr);
}

void tauti_form_unmake(struct tauti_form_comm *it)
{
	if (it->taut)
		tauti_mpi_form.taut.destroy(it->taut);
	if (it->engine.table)
		it->engine.table->destroy(it->engine.context);
	if (it->copy)
		tauti_mpi_form.real.comm_free(&it->copy);
	it->taut = NULL;
	it->engine.table = NULL;
	it->copy = 0;
}

/* --- a Taut communicator ------------------------------------------------------------------*/

static taut_status meet(struct tauti_form_comm *it, const struct place *place,
	struct taut_error *err)
{
	const struct taut_comm_options options = { .rank = it->rank,
		.n_ranks = it->n_ranks, .meet = place->address,
		.secret = place->secret, .meet_within_ns = 20000000000 };

	if (it->by_mpi)
		return tauti_form_make_by_mpi(it, err);
	if (!place->found)
		return taut_error_set(err, TAUT_EIO, -1,
			"no address of this host to meet at");
	return tauti_mpi_form.taut.create(&options, &it->taut, err);
}

static int make(struct tauti_form_comm *it)
{
	const struct tauti_form_real *real = &tauti_mpi_form.real;
	struct taut_error err = { .message = "" };
	struct place place = { .found = 0 };
	int64_t mine = 0, all = 0;
	int rc;
	bool one_host = is_one_host(it, &rc);

	if (!rc && it->rank == 0)
		place = choose_place(one_host);
	if (!rc)
		rc = real->bcast(&place, sizeof place, tauti_mpi_form.abi->byte,
			0, it->handle);
	/* From here on nobody waits for a message of MPI that another must move. */
	if (!rc)
		rc = real->barrier(it->handle);
	if (rc)
		return rc;
	mine = !meet(it, &place, &err);
	rc = real->allreduce(&mine, &all, 1, tauti_mpi_form.abi->int64,
		tauti_mpi_form.min_op, it->handle);
	if (!mine)
		complain(it, err.message);
	it->phase = all && !rc ? TAUTI_FORM_READY : TAUTI_FORM_NEVER;
	if (it->phase == TAUTI_FORM_NEVER)
		tauti_form_unmake(it);
	else if (it->asks_peers)
		rc = tauti_form_meet_peers(it);
	if (it->taut && it->rank == 0 && tauti_mpi_form.says)
		tauti_form_say("%u ranks: all-reduces of an MPI communicator "
			"are Taut's, by %s%s", it->n_ranks,
			tauti_mpi_form.taut.engine(it->taut), it->peers ?
			", and by the ranks' devices" : it->part_bytes ?
			", a device's by way of the host" : "");
	return rc;
}

int tauti_form_agree(struct tauti_form_comm *it)
{
	int rc = 0;

	if (it->phase == TAUTI_FORM_NEW)
		rc = ask(it);
	if (!rc && it->phase == TAUTI_FORM_ASKED && tauti_form_is_due(it))
		rc = make(it);
	return rc;
}

/* clock.c - what time is it on another host: a server and who asks it.
 *
 * A question is a datagram with a number that nobody else knows (the nonce);
 * the answer has the same number and when the server got the question and
 * when it answered, by its own clock. With the two times of who asked:
 *
 *     offset = ((received - asked) + (answered - arrived)) / 2
 *     delay  =  (arrived - asked) - (answered - received)
 *
 * and the true offset is within delay / 2 of it (RFC 5905, section 8), the
 * more certain the smaller the delay: of many answers the fastest counts. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <netinet/in.h>
#include <unistd.h>

#include <taut/record.h>

#define MAGIC "TAUTCLK1" /* 8 bytes, no zero */

enum {
	DEFAULT_ROUNDS = 256,
	DEFAULT_TIMEOUT_MS = 2000,
	/* No answer in this time: ask again. Doubles when nothing came. */
	FIRST_WAIT_MS = 20,
	LONGEST_WAIT_MS = 320,
	/* The path falls idle between two questions, so that no answer waits
	 * behind another. */
	PAUSE_NS = 200000,
	MOST_ADDRESSES = 8,
};

/* Both ways. Little-endian, like the logs: only such machines record. */
struct datagram {
	char magic[8];
	uint64_t nonce;
	int64_t received_ns, answered_ns; /* 0 in a question */
};

/* --- the server --------------------------------------------------------------------*/

struct taut_clock_server {
	int fd;
	int stop[2]; /* a pipe: closing its end wakes the thread */
	pid_t pid;   /* whose thread it is: a child has none */
	pthread_t thread;
};

static void answer(int fd)
{
	struct sockaddr_storage from;
	socklen_t from_bytes = sizeof from;
	struct datagram question;
	char bytes[sizeof question + 1]; /* a longer one shows itself */
	ssize_t n = recvfrom(fd, bytes, sizeof bytes, MSG_DONTWAIT,
		(struct sockaddr *)&from, &from_bytes);
	int64_t received_ns = taut_log_now();

	if (n != sizeof question)
		return;
	memcpy(&question, bytes, sizeof question);
	/* An answer gets no answer, or two servers could talk for ever. */
	if (memcmp(question.magic, MAGIC, sizeof question.magic) ||
		question.received_ns || question.answered_ns)
		return;
	question.received_ns = received_ns;
	question.answered_ns = taut_log_now();
	(void)!sendto(fd, &question, sizeof question, MSG_DONTWAIT,
		(struct sockaddr *)&from, from_bytes);
}

static void *serve(void *context)
{
	const struct taut_clock_server *server = context;
	struct pollfd wait[2] = {
		{ .fd = server->fd, .events = POLLIN },
		{ .fd = server->stop[0], .events = POLLIN },
	};

	for (;;) {
		if (poll(wait, 2, -1) < 0 && errno != EINTR)
			return NULL;
		if (wait[1].revents)
			return NULL;
		if (wait[0].revents)
			answer(server->fd);
	}
}

/* One socket for both families, or IPv4 alone where there is no IPv6. */
static int bind_any(void)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6,
		.sin6_addr = IN6ADDR_ANY_INIT };
	struct sockaddr_in four = { .sin_family = AF_INET };
	int off = 0;
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0) {
		if (!setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off,
			    sizeof off) &&
			!bind(fd, (struct sockaddr *)&six, sizeof six))
			return fd;
		close(fd);
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&four, sizeof four)) {
		int fault = errno;

		close(fd);
		errno = fault;
		return -1;
	}
	return fd;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_storage at = { .ss_family = AF_UNSPEC };
	socklen_t bytes = sizeof at;

	if (getsockname(fd, (struct sockaddr *)&at, &bytes))
		return 0;
	return ntohs(at.ss_family == AF_INET6 ?
		((struct sockaddr_in6 *)&at)->sin6_port :
		((struct sockaddr_in *)&at)->sin_port);
}

/* The thread takes no signals: they are the host program's. */
static int start_thread(struct taut_clock_server *server)
{
	sigset_t all, before;
	int fault;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	server->pid = getpid();
	fault = pthread_create(&server->thread, NULL, serve, server);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return fault;
}

static int start_server(struct taut_clock_server *server)
{
	int fault;

	server->fd = bind_any();
	if (server->fd < 0)
		return errno;
	if (pipe2(server->stop, O_CLOEXEC)) {
		fault = errno;
		close(server->fd);
		return fault;
	}
	fault = start_thread(server);
	if (fault) {
		close(server->fd);
		close(server->stop[0]);
		close(server->stop[1]);
	}
	return fault;
}

taut_status taut_clock_serve(struct taut_clock_server **ret_server,
	uint16_t *ret_port, struct taut_error *reterr)
{
	struct taut_clock_server *server = calloc(1, sizeof *server);
	int fault;

	if (!server)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"clock server: no memory");
	fault = start_server(server);
	if (fault) {
		free(server);
		return taut_error_set(reterr, TAUT_EIO, -1,
			"clock server: %s", strerror(fault));
	}
	*ret_port = port_of(server->fd);
	*ret_server = server;
	return TAUT_OK;
}

void taut_clock_stop(struct taut_clock_server *server)
{
	if (!server)
		return;
	close(server->stop[1]);
	if (server->pid == getpid())
		pthread_join(server->thread, NULL);
	close(server->stop[0]);
	close(server->fd);
	free(server);
}

/* --- asking ------------------------------------------------------------------------*/

struct asking {
	int fds[MOST_ADDRESSES]; /* one an address of the server's */
	int n_fds;
	uint64_t nonce;
	int64_t deadline_ns; /* monotonic */
	struct taut_clock_offset best;
};

static int64_t monotonic_ns(void)
{
	struct taut_clock clock = taut_clock_monotonic();

	return clock.now_ns(clock.state);
}

static uint64_t first_nonce(void)
{
	uint64_t nonce;

	if (getrandom(&nonce, sizeof nonce, GRND_NONBLOCK) != sizeof nonce)
		nonce = (uint64_t)monotonic_ns() ^ (uint64_t)getpid() << 40;
	return nonce;
}

static taut_status connect_all(struct asking *asking, const char *host,
	uint16_t port, struct taut_error *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_DGRAM }, *found = NULL;
	char service[8];
	int fault;

	snprintf(service, sizeof service, "%u", port);
	fault = getaddrinfo(host, service, &hints, &found);
	if (fault)
		return taut_error_set(err, TAUT_EIO, -1,
			"clock of %s: %s", host, gai_strerror(fault));
	for (struct addrinfo *at = found; at; at = at->ai_next) {
		int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			continue;
		/* The kernel then drops what others send. */
		if (asking->n_fds == MOST_ADDRESSES ||
			connect(fd, at->ai_addr, at->ai_addrlen))
			close(fd);
		else
			asking->fds[asking->n_fds++] = fd;
	}
	freeaddrinfo(found);
	if (asking->n_fds)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EIO, -1,
		"clock of %s: cannot be reached: %s", host, strerror(errno));
}

static void keep_only(struct asking *asking, int which)
{
	int fd = asking->fds[which];

	for (int i = 0; i < asking->n_fds; i++)
		if (i != which)
			close(asking->fds[i]);
	asking->fds[0] = fd;
	asking->n_fds = 1;
}

/* Is it the answer to this question, and can it be true? */
static bool take_answer(
	struct asking *asking, int fd, uint64_t nonce, int64_t asked_ns)
{
	struct datagram got;
	char bytes[sizeof got + 1];
	ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
	int64_t arrived_ns = taut_log_now(), delay_ns, offset_ns;

	if (n != sizeof got)
		return false;
	memcpy(&got, bytes, sizeof got);
	if (memcmp(got.magic, MAGIC, sizeof got.magic) || got.nonce != nonce)
		return false;
	/* Times that no clock shows are not computed with. */
	if (got.received_ns <= 0 || got.received_ns > INT64_MAX / 4 ||
		got.answered_ns < got.received_ns ||
		got.answered_ns > INT64_MAX / 4)
		return false;
	delay_ns = (arrived_ns - asked_ns) -
		(got.answered_ns - got.received_ns);
	if (delay_ns < 0)
		return false; /* a clock was set just now */
	offset_ns = ((got.received_ns - asked_ns) +
		(got.answered_ns - arrived_ns)) / 2;
	if (!asking->best.answers++ ||
		delay_ns < 2 * asking->best.half_width_ns) {
		asking->best.at_ns = asked_ns + (arrived_ns - asked_ns) / 2;
		asking->best.offset_ns = offset_ns;
		asking->best.half_width_ns = (delay_ns + 1) / 2;
	}
	return true;
}

/* The number of the socket that the answer came to; -1: none came. */
static int wait_answer(struct asking *asking, uint64_t nonce,
	int64_t asked_ns, int64_t until_ns)
{
	struct pollfd wait[MOST_ADDRESSES];

	for (int i = 0; i < asking->n_fds; i++)
		wait[i] = (struct pollfd){ .fd = asking->fds[i],
			.events = POLLIN };
	for (;;) {
		int64_t left_ns = until_ns - monotonic_ns();
		struct timespec left = { .tv_sec = left_ns / 1000000000,
			.tv_nsec = left_ns % 1000000000 };

		if (left_ns <= 0)
			return -1;
		if (ppoll(wait, (nfds_t)asking->n_fds, &left, NULL) <= 0)
			continue;
		for (int i = 0; i < asking->n_fds; i++)
			if (wait[i].revents && take_answer(asking,
				wait[i].fd, nonce, asked_ns))
				return i;
	}
}

static bool exchange(struct asking *asking, int64_t wait_ns)
{
	struct datagram question = { .magic = MAGIC,
		.nonce = asking->nonce++ };
	int64_t until_ns = monotonic_ns() + wait_ns, asked_ns;
	int which;

	if (until_ns > asking->deadline_ns)
		until_ns = asking->deadline_ns;
	asked_ns = taut_log_now();
	for (int i = 0; i < asking->n_fds; i++)
		(void)!send(asking->fds[i], &question, sizeof question,
			MSG_DONTWAIT | MSG_NOSIGNAL);
	which = wait_answer(asking, question.nonce, asked_ns, until_ns);
	if (which >= 0 && asking->n_fds > 1)
		keep_only(asking, which);
	return which >= 0;
}

static void ask_rounds(struct asking *asking, uint32_t rounds)
{
	int64_t wait_ns = FIRST_WAIT_MS * INT64_C(1000000);

	for (uint32_t i = 0; i < rounds; i++) {
		if (monotonic_ns() >= asking->deadline_ns)
			return;
		if (exchange(asking, wait_ns))
			nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS },
				NULL);
		else if (wait_ns < LONGEST_WAIT_MS * INT64_C(1000000))
			wait_ns *= 2;
	}
}

taut_status taut_clock_ask(const char *host, uint16_t port, uint32_t rounds,
	uint32_t timeout_ms, struct taut_clock_offset *ret_offset,
	struct taut_error *reterr)
{
	struct asking asking = { .nonce = first_nonce() };
	taut_status status;

	asking.deadline_ns = monotonic_ns() + INT64_C(1000000) *
		(timeout_ms ? timeout_ms : DEFAULT_TIMEOUT_MS);
	status = connect_all(&asking, host, port, reterr);
	if (status)
		return status;
	ask_rounds(&asking, rounds ? rounds : DEFAULT_ROUNDS);
	for (int i = 0; i < asking.n_fds; i++)
		close(asking.fds[i]);
	if (!asking.best.answers)
		return taut_error_set(reterr, TAUT_EIO, -1,
			"clock of %s port %u: no answer", host, port);
	*ret_offset = asking.best;
	return TAUT_OK;
}

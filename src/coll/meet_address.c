/* meet_address.c - where ranks meet; see meet.h. */
#include "coll/meet.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* For the port to be left by who had it before. */
static const int64_t in_use_ns = 500000000;
static const int64_t try_ns = 3000000000; /* one address, to connect */

static bool port_reads(const char *text)
{
	unsigned long port = 0;
	size_t n = strlen(text);

	for (const char *c = text; *c; c++) {
		if (*c < '0' || *c > '9')
			return false;
		port = port * 10 + (unsigned long)(*c - '0');
	}
	return n > 0 && n <= 5 && port > 0 && port <= 65535;
}

taut_status tauti_address_read(const char *text,
	struct tauti_address *ret_address, struct taut_error *reterr)
{
	struct tauti_address address;
	const char *colon = text ? strrchr(text, ':') : NULL;
	size_t n = colon ? (size_t)(colon - text) : 0;
	const char *host = text;

	if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
		host++;
		n -= 2;
	}
	if (!n || n >= sizeof address.host || !port_reads(colon + 1))
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"where ranks meet: expected HOST:PORT, not '%.200s'",
			text ? text : "");
	memcpy(address.host, host, n);
	address.host[n] = '\0';
	memcpy(address.port, colon + 1, strlen(colon + 1) + 1);
	*ret_address = address;
	return TAUT_OK;
}

void tauti_socket_prepare(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* The socket, or -1 and errno. */
static int listen_at(const struct addrinfo *at)
{
	int on = 1, error;
	int fd = socket(at->ai_family,
		at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (at->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
	if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 &&
		listen(fd, SOMAXCONN) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

/* Of all the addresses, as many as can be had; 0, or why there is none, or that
 * one is taken by another. */
static int listen_all(const struct addrinfo *list, int fds[TAUTI_LISTENERS])
{
	int error = EADDRNOTAVAIL, n = 0;
	bool taken = false;

	for (int i = 0; i < TAUTI_LISTENERS; i++)
		fds[i] = -1;
	for (; list && n < TAUTI_LISTENERS; list = list->ai_next) {
		int fd = listen_at(list);

		if (fd >= 0)
			fds[n++] = fd;
		else
			error = errno;
		taken |= fd < 0 && errno == EADDRINUSE;
	}
	if (n && !taken)
		return 0;
	while (n > 0) {
		close(fds[--n]);
		fds[n] = -1;
	}
	return taken ? EADDRINUSE : error;
}

static int look_up(const struct tauti_address *address, int flags, bool any,
	struct addrinfo **ret_list)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV | flags };

	return getaddrinfo(any ? NULL : address->host, address->port, &hints,
		ret_list);
}

/* One try; 0 or errno. */
static int try_listen(const struct tauti_address *address,
	int fds[TAUTI_LISTENERS])
{
	bool local = strcmp(address->host, "localhost") == 0;
	struct addrinfo *list = NULL;
	int error = EADDRNOTAVAIL;

	if (look_up(address, local ? 0 : AI_NUMERICHOST, false, &list) == 0) {
		error = listen_all(list, fds);
		freeaddrinfo(list);
	}
	if (error != EADDRNOTAVAIL)
		return error;
	if (look_up(address, AI_PASSIVE, true, &list) != 0)
		return ENOMEM;
	error = listen_all(list, fds);
	freeaddrinfo(list);
	return error;
}

taut_status tauti_address_listen(const char *text, int64_t until_ns,
	int ret_fds[TAUTI_LISTENERS], struct taut_error *reterr)
{
	struct tauti_address address;
	int64_t give_up_ns = tauti_meet_now_ns() + in_use_ns;
	taut_status status = tauti_address_read(text, &address, reterr);
	int error;

	if (status != TAUT_OK)
		return status;
	if (give_up_ns > until_ns)
		give_up_ns = until_ns;
	for (;;) {
		error = try_listen(&address, ret_fds);
		if (error != EADDRINUSE || tauti_meet_now_ns() >= give_up_ns)
			break;
		tauti_poll(NULL, 0, 20000000);
	}
	if (!error)
		return TAUT_OK;
	return taut_error_set(reterr, TAUT_EIO, -1,
		"rank 0 cannot listen at %s: %s", text, strerror(error));
}

/* A port of this machine at which nobody listens may be the one that the kernel
 * gives to who connects to it: it then speaks to itself. */
static bool is_own(int fd)
{
	struct sockaddr_storage here, there;
	socklen_t bytes_here = sizeof here, bytes_there = sizeof there;

	memset(&here, 0, sizeof here);
	memset(&there, 0, sizeof there);
	return getsockname(fd, (struct sockaddr *)&here, &bytes_here) == 0 &&
		getpeername(fd, (struct sockaddr *)&there, &bytes_there) == 0 &&
		bytes_here == bytes_there &&
		memcmp(&here, &there, bytes_here) == 0;
}

/* Until the connection stands; 0 or errno. */
static int finish_connect(int fd, int64_t until_ns)
{
	struct pollfd entry = { .fd = fd, .events = POLLOUT };
	int error = 0;
	socklen_t bytes = sizeof error;

	for (;;) {
		int64_t now_ns = tauti_meet_now_ns();

		if (now_ns >= until_ns)
			return ETIMEDOUT;
		if (tauti_poll(&entry, 1, until_ns - now_ns) > 0)
			break;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
		return errno;
	return error ? error : is_own(fd) ? ECONNREFUSED : 0;
}

/* 0 and a connection, or errno. */
static int connect_to(const struct addrinfo *to, int64_t until_ns, int *ret_fd)
{
	int64_t try_until_ns = tauti_meet_now_ns() + try_ns;
	int error = 0;
	int fd = socket(to->ai_family,
		to->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return errno;
	if (connect(fd, to->ai_addr, to->ai_addrlen) != 0)
		error = errno == EINTR ? EINPROGRESS : errno;
	if (!error || error == EINPROGRESS)
		error = finish_connect(fd,
			try_until_ns < until_ns ? try_until_ns : until_ns);
	if (error) {
		close(fd);
		return error;
	}
	tauti_socket_prepare(fd);
	*ret_fd = fd;
	return 0;
}

taut_status tauti_address_connect(const char *text, int64_t until_ns,
	int *ret_fd, struct taut_error *reterr)
{
	struct tauti_address address;
	struct addrinfo *list = NULL;
	taut_status status = tauti_address_read(text, &address, reterr);
	int error = EADDRNOTAVAIL;

	if (status != TAUT_OK)
		return status;
	error = look_up(&address, 0, false, &list);
	if (error)
		return taut_error_set(reterr, TAUT_EAGAIN, -1, "%s",
			gai_strerror(error));
	error = EADDRNOTAVAIL;
	for (struct addrinfo *at = list; at && error; at = at->ai_next)
		error = connect_to(at, until_ns, ret_fd);
	freeaddrinfo(list);
	if (!error)
		return TAUT_OK;
	return taut_error_set(reterr, error == ECONNREFUSED ? TAUT_EIO :
		TAUT_EAGAIN, -1, "%s", strerror(error));
}

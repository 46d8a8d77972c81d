/* meet_engine.c - what engines ask of a meeting, while they connect; see coll.h. */
#include "coll/meet.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int64_t tauti_meet_within_ns(const struct tauti_meet *meet)
{
	return meet->within_ns;
}

/* --- whether it ends ------------------------------------------------------------------*/

/* Looks, and leaves it there. */
static bool says_end(int fd)
{
	uint8_t head[TAUTI_FRAME_HEAD];
	ssize_t n = recv(fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n == (ssize_t)sizeof head &&
		(head[3] == TAUTI_LOST || head[3] == TAUTI_LEAVE));
}

bool tauti_meet_ends(struct tauti_meet *meet)
{
	uint32_t first = tauti_meet_first(meet), end = tauti_meet_end(meet);

	if (meet->fault.code)
		return true;
	for (uint32_t i = first; i < end; i++)
		meet->polls[i] = (struct pollfd){ .fd = meet->links[i].fd,
			.events = POLLIN | POLLRDHUP };
	if (first == end || tauti_poll(meet->polls + first, end - first, 0) <= 0)
		return false;
	for (uint32_t i = first; i < end; i++) {
		short seen = meet->polls[i].revents;

		if (seen & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL) ||
			(seen & POLLIN && says_end(meet->links[i].fd)))
			return true;
	}
	return false;
}

/* --- over which devices it goes -------------------------------------------------------*/

/* Of two addresses, the same number; ports do not matter. */
static bool is_same(const struct sockaddr *a, const struct sockaddr *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return a->sa_family == AF_INET6 && memcmp(&a6->sin6_addr,
		&b6->sin6_addr, sizeof a6->sin6_addr) == 0;
}

static const char *device_of(const struct ifaddrs *all, int fd)
{
	struct sockaddr_storage own;
	socklen_t bytes = sizeof own;

	if (fd < 0 || getsockname(fd, (struct sockaddr *)&own, &bytes) != 0)
		return NULL;
	for (const struct ifaddrs *one = all; one; one = one->ifa_next)
		if (one->ifa_addr && is_same(one->ifa_addr,
			(const struct sockaddr *)&own))
			return one->ifa_name;
	return NULL;
}

/* A name of the list, between commas. */
static bool has_name(const char *names, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = names; (at = strstr(at, name)); at += n)
		if ((at == names || at[-1] == ',') &&
			(!at[n] || at[n] == ','))
			return true;
	return false;
}

bool tauti_meet_devices(
	const struct tauti_meet *meet, char *ret_names, size_t bytes)
{
	struct ifaddrs *all = NULL;
	size_t used = 0;

	if (getifaddrs(&all) != 0)
		return false;
	ret_names[0] = '\0';
	for (uint32_t i = tauti_meet_first(meet); i < tauti_meet_end(meet); i++) {
		const char *name = device_of(all, meet->links[i].fd);

		if (!name || has_name(ret_names, name) ||
			used + strlen(name) + 2 > bytes)
			continue;
		used += (size_t)snprintf(ret_names + used, bytes - used,
			"%s%s", used ? "," : "", name);
	}
	freeifaddrs(all);
	return used > 0;
}

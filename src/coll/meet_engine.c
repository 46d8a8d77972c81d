/* meet_engine.c - what engines ask of a meeting, while they connect; see coll.h. */
#include "coll/meet.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const int64_t moment_ns = 500000000; /* for one that is about to be in */

int64_t tauti_meet_within_ns(const struct tauti_meet *meet)
{
	int64_t left_ns = meet->until_ns - tauti_meet_now_ns();

	return tauti_earlier_ns(meet->within_ns, left_ns < 0 ? 0 : left_ns);
}

void tauti_meet_hasten(struct tauti_meet *meet)
{
	meet->door_fd = -1;
	meet->until_ns = tauti_earlier_ns(
		meet->until_ns, tauti_meet_now_ns() + moment_ns);
}

/* --- what others say, and are told ----------------------------------------------------*/

void tauti_meet_summon(struct tauti_meet *meet)
{
	for (uint32_t i = tauti_meet_first(meet); i < tauti_meet_end(meet); i++)
		if (tauti_link_put(&meet->links[i], TAUTI_SUMMON, NULL, 0))
			(void)tauti_link_write(&meet->links[i]);
}

/* Looks at the next frame, and leaves it there. */
static enum tauti_meet_word word_of(const struct pollfd *seen)
{
	uint8_t head[TAUTI_FRAME_HEAD];
	ssize_t n;

	if (seen->revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL))
		return TAUTI_MEET_ENDS;
	if (!(seen->revents & POLLIN))
		return TAUTI_MEET_NOTHING;
	n = recv(seen->fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
	if (n == 0)
		return TAUTI_MEET_ENDS;
	if (n < (ssize_t)sizeof head)
		return TAUTI_MEET_NOTHING;
	if (head[3] == TAUTI_SUMMON)
		return TAUTI_MEET_SUMMONS;
	return head[3] == TAUTI_LOST || head[3] == TAUTI_LEAVE ?
		TAUTI_MEET_ENDS : TAUTI_MEET_NOTHING;
}

enum tauti_meet_word tauti_meet_hear(struct tauti_meet *meet)
{
	uint32_t first = tauti_meet_first(meet), end = tauti_meet_end(meet);
	enum tauti_meet_word last = TAUTI_MEET_NOTHING;

	if (meet->fault.code)
		return TAUTI_MEET_ENDS;
	for (uint32_t i = first; i < end; i++)
		meet->polls[i] = (struct pollfd){ .fd = meet->links[i].fd,
			.events = POLLIN | POLLRDHUP };
	meet->polls[end] = (struct pollfd){ .fd = meet->door_fd,
		.events = POLLIN };
	tauti_poll(meet->polls + first, (size_t)end - first + 1, 0);
	if (meet->polls[end].revents)
		tauti_meet_hasten(meet);
	for (uint32_t i = first; i < end; i++) {
		enum tauti_meet_word word = word_of(&meet->polls[i]);

		last = word > last ? word : last;
	}
	return tauti_meet_now_ns() < meet->until_ns ? last : TAUTI_MEET_ENDS;
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

/* Between commas. */
static bool has_name(const char *names, const char *name, size_t bytes)
{
	while (*names) {
		size_t n = strcspn(names, ",");

		if (n == bytes && memcmp(names, name, n) == 0)
			return true;
		names += n + (names[n] == ',');
	}
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
		/* "eth0:1" is another address of the device eth0. */
		size_t n = name ? strcspn(name, ":") : 0;

		if (!n || has_name(ret_names, name, n) || used + n + 2 > bytes)
			continue;
		used += (size_t)snprintf(ret_names + used, bytes - used,
			"%s%.*s", used ? "," : "", (int)n, name);
	}
	freeifaddrs(all);
	return used > 0;
}

bool tauti_devices_have(const char *devices, const char *names)
{
	bool have = true;

	if (!devices || !devices[0] || strcmp(devices, "all") == 0)
		return true;
	while (*names) {
		size_t n = strcspn(names, ",");

		have &= (n == 2 && memcmp(names, "lo", 2) == 0) ||
			has_name(devices, names, n);
		names += n + (names[n] == ',');
	}
	return have;
}

bool tauti_meet_may_connect(const struct tauti_meet *meet)
{
	char names[256];

	return !tauti_meet_devices(meet, names, sizeof names) ||
		tauti_devices_have(getenv("UCX_NET_DEVICES"), names);
}

/* --- at which addresses ---------------------------------------------------------------*/

static bool is_within(const struct sockaddr_storage *at)
{
	const struct sockaddr_in *four = (const void *)at;
	const struct sockaddr_in6 *six = (const void *)at;

	if (at->ss_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) ||
		(IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) &&
		six->sin6_addr.s6_addr[12] == IN_LOOPBACKNET);
}

bool tauti_meet_address(const struct tauti_meet *meet, bool of_rank_0,
	struct sockaddr_storage *ret_address)
{
	uint32_t first = tauti_meet_first(meet), end = tauti_meet_end(meet);
	bool found = false;

	for (uint32_t i = first; i < end && (!found || is_within(ret_address)); i++) {
		struct sockaddr_storage at = { .ss_family = AF_UNSPEC };
		socklen_t bytes = sizeof at;

		if (of_rank_0 && meet->rank ?
			getpeername(meet->links[i].fd, (struct sockaddr *)&at, &bytes) :
			getsockname(meet->links[i].fd, (struct sockaddr *)&at, &bytes))
			continue;
		if (found && is_within(&at))
			continue;
		*ret_address = at;
		found = true;
	}
	return found;
}

/* link_local.h - an address of this machine that means something on one of its links alone. */
#ifndef TAUT_TESTS_LINK_LOCAL_H
#define TAUT_TESTS_LINK_LOCAL_H

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>

/* False: there is none. ret_text: "[fe80::1%2]". */
static inline bool link_local(struct sockaddr_in6 *ret_at, char *ret_text, size_t room)
{
	struct ifaddrs *all = NULL;
	char text[INET6_ADDRSTRLEN];
	bool found = false;

	if (getifaddrs(&all) != 0)
		return false;
	for (const struct ifaddrs *one = all; one && !found; one = one->ifa_next) {
		const struct sockaddr_in6 *at = (const void *)one->ifa_addr;

		if (!at || at->sin6_family != AF_INET6 ||
			!IN6_IS_ADDR_LINKLOCAL(&at->sin6_addr))
			continue;
		*ret_at = *at;
		inet_ntop(AF_INET6, &at->sin6_addr, text, sizeof text);
		snprintf(ret_text, room, "[%s%%%u]", text, at->sin6_scope_id);
		found = true;
	}
	freeifaddrs(all);
	return found;
}

#endif /* TAUT_TESTS_LINK_LOCAL_H */

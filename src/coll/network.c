/* network.c - whether TCP is all that there is between this host and others. */
#include "coll/coll.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

extern char **environ;

bool tauti_network_has_rdma(void)
{
	DIR *devices = opendir("/sys/class/infiniband");
	const struct dirent *entry = NULL;

	while (devices && (entry = readdir(devices)) && entry->d_name[0] == '.')
		;
	if (devices)
		closedir(devices);
	return entry != NULL;
}

/* Whoever sets one wants UCX to do as it says. */
static bool has_ucx_variables(void)
{
	for (char **at = environ; at && *at; at++)
		if (!strncmp(*at, "UCX_", 4))
			return true;
	return false;
}

static bool is_device(const struct ifaddrs *one)
{
	return one->ifa_addr && one->ifa_flags & IFF_RUNNING &&
		!(one->ifa_flags & IFF_LOOPBACK) &&
		(one->ifa_addr->sa_family == AF_INET ||
		one->ifa_addr->sa_family == AF_INET6);
}

/* UCX chooses among several, and may use two at once. "eth0:1" is another address of the
 * device eth0. */
static bool has_one_device(void)
{
	struct ifaddrs *all = NULL;
	const char *first = NULL;
	size_t length = 0;
	bool one_device = true;

	if (getifaddrs(&all) != 0)
		return false;
	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		if (!is_device(one))
			continue;
		if (!first) {
			first = one->ifa_name;
			length = strcspn(first, ":");
		}
		one_device &= strcspn(one->ifa_name, ":") == length &&
			!strncmp(one->ifa_name, first, length);
	}
	one_device &= first != NULL;
	freeifaddrs(all);
	return one_device;
}

bool tauti_network_is_plain(void)
{
	return !tauti_network_has_rdma() && !has_ucx_variables() && has_one_device();
}

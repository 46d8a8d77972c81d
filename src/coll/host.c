/* host.c - what names a host.
 *
 * One boot of one kernel, under one name, with one network, one place for shared
 * memory and one user: a container may share some of it with its host. */
#include "coll/coll.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/hash.h"

struct host {
	char boot[64];
	char name[72]; /* with what is behind it: no padding */
	uint64_t network, memory, user;
};

static void read_boot(struct host *host)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!file)
		return;
	if (!fgets(host->boot, sizeof host->boot, file))
		memset(host->boot, 0, sizeof host->boot);
	fclose(file);
}

uint32_t tauti_hosts_count(const uint32_t *host_of, uint32_t n_ranks)
{
	uint32_t n = host_of ? 0 : 1;

	for (uint32_t i = 0; host_of && i < n_ranks; i++) {
		uint32_t k = 0;

		while (host_of[k] != host_of[i])
			k++;
		n += k == i;
	}
	return n;
}

uint32_t tauti_hosts_beside(
	const uint32_t *host_of, uint32_t n_ranks, uint32_t rank)
{
	uint32_t n = host_of ? 0 : n_ranks;

	for (uint32_t i = 0; host_of && i < n_ranks; i++)
		n += host_of[i] == host_of[rank];
	return n;
}

uint64_t tauti_host_id(void)
{
	struct host host = { .user = geteuid() };
	struct utsname name;
	struct stat at;

	read_boot(&host);
	if (uname(&name) == 0)
		strncpy(host.name, name.nodename, sizeof host.name - 1);
	if (stat("/proc/self/ns/net", &at) == 0)
		host.network = at.st_ino;
	/* Each mount of a tmpfs has a device number of its own. */
	if (stat("/dev/shm", &at) == 0)
		host.memory = at.st_dev;
	return tauti_hash((const char *)&host, sizeof host);
}

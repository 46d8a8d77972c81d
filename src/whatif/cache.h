/* cache.h - how many reads of a dataset a cache serves, once it is warm.
 *
 * Every epoch reads each item once, in a new random order. Of the items a host
 * reads a share q, another one in each epoch: 1 where it reads all, 1/H where H
 * hosts divide an epoch. Items are many and of one size. */
#ifndef TAUT_WHATIF_CACHE_H
#define TAUT_WHATIF_CACHE_H

enum tauti_cache_policy {
	TAUTI_CACHE_PAGE,   /* the kernel's page cache */
	TAUTI_CACHE_PINNED, /* what is in it stays, such as CoorDL's MinIO */
	TAUTI_CACHE_LRU,
};

/* The share of reads that are hits, of a cache that holds share of the dataset.
 *
 * Pinned: share, whatever the order (Mohan et al., VLDB'21, 6.1).
 *
 * LRU: a read hits when fewer than share of all items were read since the item
 * was. That was k epochs ago with probability q (1-q)^(k-1). With A and B the
 * shares of items that were not read in that epoch behind it, and in this one
 * before it, both uniform in [1-q, 1], the share of the items that were not read
 * since is A B (1-q)^(k-1); it must be above 1 - share. For q = 1 that is
 *     share + (1-share) ln(1-share)
 *
 * Page: three tenths of the way from LRU to pinned. Linux keeps two lists and
 * evicts from the younger first. The same authors measured 15 % hits with 35 % of
 * a dataset cached and 47 % with 65 %, which is 0.29 and 0.51 of the way; Linux
 * 6.18 under a limit of memory, files of 256 KiB, 0.17 to 0.25 of it (37 %: 13 %,
 * 52 %: 25 %, 67 %: 39 %). */
double tauti_cache_hits(
	enum tauti_cache_policy policy, double share, double q);
/* The share with which a policy has so many hits. */
double tauti_cache_share(
	enum tauti_cache_policy policy, double hits, double q);

#endif /* TAUT_WHATIF_CACHE_H */

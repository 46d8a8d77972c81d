/* peers_world.h - a small set on the disk whose every byte is known, and ranks over it that
 * are told to be on different hosts, of this process or of their own. */
#ifndef TAUT_PEERS_PEERS_WORLD_H
#define TAUT_PEERS_PEERS_WORLD_H

#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <taut/load.h>
#include <taut/peers.h>

enum {
	SIDE = 64, /* pictures of 64 by 64 pixels */
	ITEM_BYTES = SIDE * SIDE * 3,
};

struct world {
	char folder[64], meet[32];
	uint32_t n_items;
	uint64_t name; /* of caches: another in each world of this process */
	struct taut_arena *arena;
	const struct taut_set *set;
};

static inline unsigned char item_byte(uint64_t item, uint32_t k)
{
	return (unsigned char)((item * 2654435761u >> 13) + k * 7 + (k >> 8) * item);
}

static inline void item_path(const struct world *w, uint32_t item, char *into, size_t room)
{
	snprintf(into, room, "%s/%05u.png", w->folder, item);
}

static inline void write_item(const struct world *w, uint32_t item)
{
	unsigned char bytes[ITEM_BYTES];
	char path[128];
	FILE *out;

	item_path(w, item, path, sizeof path);
	for (uint32_t k = 0; k < ITEM_BYTES; k++)
		bytes[k] = item_byte(item, k);
	out = fopen(path, "wb");
	assert_non_null(out);
	assert_int_equal(fwrite(bytes, 1, sizeof bytes, out), sizeof bytes);
	assert_int_equal(fclose(out), 0);
}

/* A port that is free now. */
static inline void take_port(struct world *w)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, bytes), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
	close(fd);
	snprintf(w->meet, sizeof w->meet, "127.0.0.1:%u", ntohs(at.sin_port));
}

static inline void world_init(struct world *w, uint32_t n_items)
{
	static uint64_t n_worlds;
	const char *paths[] = { w->folder };
	struct taut_error err = { .offset = -1 };

	memset(w, 0, sizeof *w);
	w->n_items = n_items;
	w->name = (uint64_t)getpid() << 16 | ++n_worlds << 8;
	strcpy(w->folder, "/tmp/taut-peers-XXXXXX");
	assert_non_null(mkdtemp(w->folder));
	for (uint32_t i = 0; i < n_items; i++)
		write_item(w, i);
	w->arena = taut_arena_create();
	assert_non_null(w->arena);
	if (taut_set_open(paths, 1, NULL, w->arena, &w->set, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	take_port(w);
}

static inline void world_fini(struct world *w)
{
	char path[128];

	taut_arena_destroy(w->arena);
	for (uint32_t i = 0; i < w->n_items; i++) {
		item_path(w, i, path, sizeof path);
		unlink(path);
	}
	assert_int_equal(rmdir(w->folder), 0);
}

static const struct taut_prepare_options as_they_are = {
	.format = "raw",
	.height = SIDE,
	.width = SIDE,
	.crop = TAUT_CROP_NONE,
};

/* host: 'a', 'b', ... */
static inline struct taut_peers_options peers_options(const struct world *w, uint32_t rank,
	uint32_t n_ranks, const char *host, uint32_t n_items)
{
	return (struct taut_peers_options){ .rank = rank, .n_ranks = n_ranks,
		.meet = w->meet, .secret = "between friends", .host = host,
		.cache_bytes = (uint64_t)n_items * ITEM_BYTES,
		.meet_within_ns = INT64_C(20000000000) };
}

static inline struct taut_load_options load_options(const struct world *w,
	const struct taut_peers_options *peers, struct taut_load_remote *remote)
{
	return (struct taut_load_options){ .prepare = &as_they_are, .batch = 4,
		.n_workers = 1, .n_ranks = peers->n_ranks, .rank = peers->rank,
		.shuffle = true, .seed = 7, .cache_bytes = peers->cache_bytes,
		.cache_name = w->name + (unsigned char)peers->host[0],
		.remote = remote };
}

/* Bytes of the batch that are not what they should be. */
static inline uint32_t wrong_bytes(const struct taut_batch *batch)
{
	const unsigned char *at = batch->data;
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < batch->count; i++, at += batch->sample_bytes)
		for (uint32_t k = 0; k < ITEM_BYTES; k++)
			wrong += at[k] != item_byte(batch->items[i], k);
	return wrong;
}

#endif /* TAUT_PEERS_PEERS_WORLD_H */

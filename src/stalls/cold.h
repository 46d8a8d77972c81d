/* cold.h - makes a file cold, all or the part that control.h says: for the preloaded object,
 * so of the system's headers alone. It takes no memory and no lock, and keeps errno: it may
 * be called in a signal's handler and behind fork().
 *
 * Pages that are not written yet cannot be forgotten. They are written first, which for a
 * clean file is a look that finds none; unlike fsync() it asks no device to flush.
 *
 * The system keeps pages together that it read ahead together, up to 2 MiB of them, and
 * forgets those only as a whole: pieces are larger than that. */
#ifndef TAUT_STALLS_COLD_H
#define TAUT_STALLS_COLD_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

enum {
	TAUTI_COLD_ALL_PPM = 1000000,
	TAUTI_COLD_PIECE_BYTES = 4 << 20,
};

/* Every bit of the result depends on every bit of x (SplitMix's finalizer). */
static inline uint64_t tauti_cold_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Of a file, on this host. Never 0. */
static inline uint64_t tauti_cold_key(const struct stat *at)
{
	uint64_t key = tauti_cold_mix((uint64_t)at->st_dev + 0x9e3779b97f4a7c15u);

	key = tauti_cold_mix(key ^ (uint64_t)at->st_ino);
	return key ? key : 1;
}

static inline bool tauti_is_cold(uint64_t key, uint64_t piece, uint32_t cold_ppm)
{
	return tauti_cold_mix(key + piece * 0x9e3779b97f4a7c15u) % TAUTI_COLD_ALL_PPM <
		cold_ppm;
}

static inline void tauti_cold_range(int fd, uint64_t from, uint64_t bytes)
{
	const unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
		SYNC_FILE_RANGE_WAIT_AFTER;
	int fault = errno;

	(void)sync_file_range(fd, (off_t)from, (off_t)bytes, all);
	(void)posix_fadvise(fd, (off_t)from, (off_t)bytes, POSIX_FADV_DONTNEED);
	errno = fault;
}

/* From piece on: how many in a row are cold, or are not. */
static inline uint64_t tauti_cold_run(
	uint64_t key, uint64_t piece, uint64_t n_pieces, uint32_t cold_ppm)
{
	bool is_cold = tauti_is_cold(key, piece, cold_ppm);
	uint64_t end = piece + 1;

	while (end < n_pieces && tauti_is_cold(key, end, cold_ppm) == is_cold)
		end++;
	return end - piece;
}

/* Of a regular file, fstat() of which is given. Returns how many bytes of it the system was
 * told to forget. */
static inline uint64_t tauti_cold_forget(
	int fd, const struct stat *at, uint32_t cold_ppm)
{
	uint64_t key = tauti_cold_key(at), bytes = (uint64_t)at->st_size, forgotten = 0;
	uint64_t n = (bytes + TAUTI_COLD_PIECE_BYTES - 1) / TAUTI_COLD_PIECE_BYTES, run;

	for (uint64_t i = 0; i < n; i += run) {
		uint64_t from = i * TAUTI_COLD_PIECE_BYTES, end;

		run = tauti_cold_run(key, i, n, cold_ppm);
		if (!tauti_is_cold(key, i, cold_ppm))
			continue;
		end = from + run * TAUTI_COLD_PIECE_BYTES;
		if (i + run == n) { /* whatever the file grew to */
			tauti_cold_range(fd, from, 0);
			end = bytes;
		} else {
			tauti_cold_range(fd, from, end - from);
		}
		forgotten += end - from;
	}
	return forgotten;
}

#endif /* TAUT_STALLS_COLD_H */

/* taut/set.h - the items of a data set: where each one's bytes lie, and its label.
 *
 * Items count from 0, in an order that is the same on every machine. Where they come
 * from is found by looking at what is there, not by its name:
 *
 *   tree   a folder with a folder a class, as torchvision's ImageFolder reads it:
 *          classes are the names of the folders right below, sorted; an item is a file
 *          below one of them, at any depth, whose name ends in one of the extensions;
 *          items are sorted by class, then by folder, then by name, all bytewise. Links
 *          are followed, but not into a folder that they lie in. Without folders below
 *          it, its own files are the items, with label -1
 *   tar    archives in the form of WebDataset ("shards"; {000..099} and {a,b} are
 *          expanded): members that follow each other with the same name up to the first
 *          point after the last '/' are one sample, and that is its key. Its item is the
 *          member with one of the extensions, the first of them that it has; without, it
 *          is none of ours. Its label is the integer in its member .cls, else -1; other
 *          members (.json, .txt) are not read. What is kept is where the payload lies,
 *          so that an item is one read of the archive. ustar, old tar, GNU and pax;
 *          compressed archives and sparse members are refused
 *   lines  a text file with a path a line, then, if it has a label, a tab and an integer.
 *          Paths are relative to the folder of that file; empty lines count for nothing
 *   index  what taut_set_write() made of any of these: nothing is scanned
 *
 * Owner:   a set lives in the arena that it was opened into.
 * Threads: read-only once opened; any thread may read.
 * Memory:  of a set of files 16 bytes an item and its name (37 for ImageNet: 0.5 GB for 14
 *          million); of a set of archives 24 bytes an item and its key. While it lists a
 *          tree or archives little more than that; lines, twice.
 * Limits:  2^32 - 2 items and as many files; an item below 4 GiB, a label in 32 bits.
 * Units:   bytes. */
#ifndef TAUT_SET_H
#define TAUT_SET_H

#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

struct taut_set; /* opaque */

struct taut_set_options { /* zero is every field's default */
	/* Those that count, without points, divided by spaces, in whatever case: "wav
	 * flac". Of a tar the whole name behind the first point: "seg.png". NULL: "jpg
	 * jpeg png ppm bmp pgm tif tiff webp". Of tree and tar */
	const char *extensions;
	int empty_classes; /* 1: a class without an item is one all the same. 0: it is
	                      refused, for it shifts labels (.ipynb_checkpoints). Of tree */
	int quick_find;    /* 1: taut_set_find() by a table of 6 to 12 bytes an item */
	unsigned threads;  /* that scan; 0: one per core */
	struct taut_progress progress;
};

/* n_paths is 1 but for archives, of which each path may be a list in braces. options may
 * be NULL. *ret_set keeps no path of the caller's, and does not depend on the current
 * folder: relative paths, and links to the folder, were resolved.
 * TAUT_EIO: a file or folder is missing or cannot be read. TAUT_EFORMAT: an archive, list
 * or index is damaged, cut short or of a kind that is refused; or there is no item.
 * TAUT_EINVAL, TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_set_open(const char *const *paths,
	size_t n_paths, const struct taut_set_options *options,
	struct taut_arena *arena, const struct taut_set **ret_set,
	struct taut_error *reterr);

/* "tree", "tar", "lines", "index". */
TAUT_API const char *taut_set_source(const struct taut_set *set);

/* --- items -----------------------------------------------------------------------------*/
struct taut_set_item {
	uint64_t offset, bytes; /* within the file */
	int64_t label; /* -1: none */
	uint32_t file;
};

TAUT_API uint64_t taut_set_count(const struct taut_set *set); /* at least 1 */
/* item < taut_set_count(). */
TAUT_API struct taut_set_item taut_set_at(
	const struct taut_set *set, uint64_t item);
/* What an item is called: of a file its path as it was found, below the folder; of an
 * archive's sample its name up to the point. Writes at most room bytes, the last of them
 * zero, as snprintf() does; the key's length, without the zero. */
TAUT_API size_t taut_set_key(
	const struct taut_set *set, uint64_t item, char *into, size_t room);
/* The first item with that key; UINT64_MAX: there is none. Without quick_find it looks
 * at all of them. */
TAUT_API uint64_t taut_set_find(const struct taut_set *set, const char *key);

/* Of all items together; of the largest. */
TAUT_API uint64_t taut_set_bytes(const struct taut_set *set);
TAUT_API uint64_t taut_set_largest(const struct taut_set *set);

/* --- files -----------------------------------------------------------------------------
 * Where taut_set_whole() is 1 there are as many files as items, item i is all of file i,
 * and offsets are 0. */
TAUT_API uint32_t taut_set_files(const struct taut_set *set);
TAUT_API int taut_set_whole(const struct taut_set *set);
/* The size that the file had. */
TAUT_API uint64_t taut_set_file_bytes(const struct taut_set *set, uint32_t file);
/* Its path, absolute; writes and returns as taut_set_key() does. Room of PATH_MAX bytes
 * is enough for every path that can be opened. */
TAUT_API size_t taut_set_path(
	const struct taut_set *set, uint32_t file, char *into, size_t room);

/* That every file is there, with the size that it had. Times are not compared: a copy of
 * a set has other ones. threads 0: one per core. TAUT_EMATCH: the first that has another
 * size; TAUT_EIO: is not there. */
TAUT_API TAUT_NODISCARD taut_status taut_set_check(
	const struct taut_set *set, unsigned threads, struct taut_error *reterr);

/* --- classes ---------------------------------------------------------------------------
 * Names of labels 0 .. n - 1; of a tree, and of an index of one. Else 0. */
TAUT_API uint32_t taut_set_classes(const struct taut_set *set);
TAUT_API const char *taut_set_class(const struct taut_set *set, uint32_t label);

/* --- identity --------------------------------------------------------------------------
 * 64 bits of each item's path, offset, size and label, in their order; nothing of what
 * files hold. Equal in all processes that see the same set under the same paths, also
 * where one reads the index of another's scan. */
TAUT_API uint64_t taut_set_fingerprint(const struct taut_set *set);

/* Writes an index to a name beside path, and renames it: whoever reads path sees all of
 * it, or what was there before. Files below the index's folder are kept relative to it, so
 * that both can be moved together. TAUT_EIO. */
TAUT_API TAUT_NODISCARD taut_status taut_set_write(
	const struct taut_set *set, const char *path, struct taut_error *reterr);

TAUT_END_DECLS
#endif /* TAUT_SET_H */

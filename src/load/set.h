/* set.h - how a set of items lies in memory, and what the sources of sets share.
 *
 *   open: look at the path -> the first source whose probe says yes -> its scan() fills
 *   the columns, by a draft of parts that threads filled, or by itself -> totals,
 *   fingerprint, table of keys
 *
 * Owner:   a set's columns are of the arena. A draft is of whoever init()ed it.
 * Threads: a part belongs to one; a set is read-only once opened. */
#ifndef TAUT_LOAD_SET_H
#define TAUT_LOAD_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/set.h>

#include "base/meter.h"
#include "base/vec.h"
#include "load/packs.h"

TAUT_BEGIN_DECLS

/* --- texts: very many short ones, by number ---------------------------------------------
 * One behind the other, each with its zero; of each where it begins, counted from the
 * first of its stretch, so that 32 bits are enough. */
enum { TAUTI_TEXTS_STRETCH = 4096 };

struct tauti_texts {
	const char *bytes;
	const uint64_t *base; /* of each stretch */
	const uint32_t *at;
	uint64_t n, size;
};

static inline const char *tauti_text(const struct tauti_texts *texts, uint64_t i)
{
	return texts->bytes + texts->base[i / TAUTI_TEXTS_STRETCH] + texts->at[i];
}

/* Finds the n texts that lie at bytes. TAUT_ENOMEM; TAUT_EFORMAT: they are not exactly n,
 * or one is longer than 1 MiB. Sets no error. */
TAUT_NODISCARD taut_status tauti_texts_find(struct tauti_texts *texts,
	struct taut_arena *arena, const char *bytes, uint64_t size, uint64_t n);

/* --- the set ---------------------------------------------------------------------------*/
struct taut_set {
	const char *source;
	const char *root; /* absolute; relative folders lie below it */
	struct tauti_texts classes, folders;

	uint32_t n_files;
	struct tauti_texts names;     /* of files, without their folder */
	const uint32_t *folder_of;    /* file -> folder */
	const uint64_t *file_bytes;   /* NULL: whole, an item is all of a file */

	uint32_t n_items;
	const uint32_t *bytes;        /* item -> of it, as all below */
	const int32_t *label;
	const uint64_t *offset;       /* whole: NULL, as these */
	const uint32_t *file;
	struct tauti_texts keys;      /* whole: none */

	uint64_t total_bytes, largest_bytes, fingerprint;
	const uint32_t *slots;        /* 0 or item + 1, by hash of key; NULL: none */
	uint32_t slot_mask;
};

#define TAUTI_SET_MOST (UINT32_MAX - 1) /* items; files */

/* Totals, fingerprint and, where it is asked for, the table of keys. TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_set_finish(struct taut_set *set,
	struct taut_arena *arena, bool quick_find, struct taut_error *err);

/* "a/b" and "c" of "a/b/c"; nothing and "c" of "c"; "/" and "c" of "/c". Joined by
 * tauti_join() they are what they were, but for slashes that say nothing. */
struct tauti_split {
	size_t folder_len;
	size_t name_at; /* len: nothing is behind the last '/' */
};
struct tauti_split tauti_split(const char *path, size_t len);

/* As snprintf(into, room, "%s/%s", folder, name), with no more slashes than needed. */
size_t tauti_join(char *into, size_t room, const char *folder, const char *name);
/* folder, below root unless it is absolute. */
size_t tauti_below(char *into, size_t room, const char *root, const char *folder);
/* The folder that path lies in, without links, into room of PATH_MAX. TAUT_EIO. */
TAUT_NODISCARD taut_status tauti_folder_of(
	const char *path, char *into, struct taut_error *err);

/* --- what a scan finds -----------------------------------------------------------------*/
struct tauti_row {
	uint64_t where; /* whole: number of its folder in the part; else offset */
	uint32_t bytes;
	int32_t label;
};

/* Of one class, one archive or one list; in its order. */
struct tauti_part {
	TAUT_VEC(struct tauti_row) rows;
	TAUT_VEC(char) texts;   /* of each row its name, or its key, with its zero */
	TAUT_VEC(char) folders; /* whole: texts too */
	uint32_t n_folders;
	uint64_t file_bytes;    /* not whole: of the file that all rows lie in */
	struct tauti_pack *pack; /* that the three lie in; NULL: they are malloc's */
};

TAUT_NODISCARD bool tauti_part_text(
	struct tauti_part *part, const char *text, size_t len);
TAUT_NODISCARD bool tauti_part_folder(
	struct tauti_part *part, const char *text, size_t len);

struct tauti_draft {
	bool whole;
	struct tauti_part *parts;
	size_t n_parts;
	const char *const *paths; /* not whole: of each part's file */
	struct tauti_packs packs;
};

TAUT_NODISCARD taut_status tauti_draft_init(
	struct tauti_draft *draft, bool whole, size_t n_parts, struct taut_error *err);
void tauti_draft_fini(struct tauti_draft *draft); /* of zeros is fine */
/* The part is complete: nothing is added to it any more. Where parts are many and small it
 * moves to memory that goes back to the system while columns are built. Any thread, of a
 * part that is its own. TAUT_ENOMEM: it stays as it was. */
TAUT_NODISCARD taut_status tauti_draft_keep(struct tauti_draft *draft,
	struct tauti_part *part, struct taut_error *err);
/* Moves all into columns of the arena, and parts are empty afterwards. set->root is there.
 * TAUT_ENOMEM; TAUT_EFORMAT: there are too many; TAUT_EIO of paths. */
TAUT_NODISCARD taut_status tauti_draft_build(struct tauti_draft *draft,
	struct taut_arena *arena, struct taut_set *set, struct taut_error *err);

/* --- sources ---------------------------------------------------------------------------*/
enum { TAUTI_LOOK_BYTES = 512 };

struct tauti_look {
	const char *path;
	bool is_folder;
	uint64_t bytes; /* of a file */
	size_t head_bytes;
	unsigned char head[TAUTI_LOOK_BYTES];
};

/* TAUT_EIO: it is not there, cannot be read, or is neither a folder nor a file. */
TAUT_NODISCARD taut_status tauti_look_at(
	const char *path, struct tauti_look *ret_look, struct taut_error *err);

struct tauti_scan {
	const char *const *paths; /* at least one */
	size_t n_paths;
	const char *extensions;
	bool empty_classes;
	unsigned threads;
	struct taut_arena *arena;
	struct tauti_meter *meter; /* any thread adds what it found */
};

struct tauti_source {
	const char *name;
	bool several; /* takes more than one path */
	/* Could this be of the source? Pure. */
	bool (*probe)(const struct tauti_look *look);
	/* Fills root, the tables and the columns of a set that is zero. May block on
	 * files, and uses threads of its own. TAUT_EIO, TAUT_EFORMAT, TAUT_ENOMEM. */
	taut_status (*scan)(const struct tauti_scan *scan, struct taut_set *set,
		struct taut_error *err);
};

/* The first in the table whose probe says yes; NULL: none. */
const struct tauti_source *tauti_source_of(const struct tauti_look *look);

extern const struct tauti_source tauti_source_tree;
extern const struct tauti_source tauti_source_index;
extern const struct tauti_source tauti_source_tar;
extern const struct tauti_source tauti_source_lines;

/* The place of an extension in the list, from 0; -1: it is none of them. `name`: as the
 * end of a file's name, behind a point. */
int tauti_extension(const char *list, const char *text, size_t len);
int tauti_extension_of_name(const char *list, const char *name, size_t len);

/* An integer of 32 bits and nothing else, but for white space around it? */
bool tauti_label_of(const char *text, size_t len, int32_t *ret_label);

/* text for an error's line: at most 79 bytes of it, control characters as '?'. */
struct tauti_shown {
	char text[80];
};
struct tauti_shown tauti_shown(const char *text, size_t len);

taut_status tauti_set_no_memory(const char *path, struct taut_error *err);

/* Each path that text stands for, in order: {a,b}, {000..099}, also nested and several of
 * them. Calls back with each, until one fails. TAUT_EINVAL: braces that are not closed, or
 * more than `most` of them. */
TAUT_NODISCARD taut_status tauti_braces(const char *text, size_t most,
	taut_status (*each)(void *context, const char *path, struct taut_error *err),
	void *context, struct taut_error *err);

TAUT_END_DECLS
#endif /* TAUT_LOAD_SET_H */

/* kinds.h - from an item's bytes to its sample, whatever the items are: a kind is a small
 * table of functions; what the options ask for after it is the user's stage.
 *
 *   check -> shape -> create once -> make for each item -> destroy
 *
 * Owner:   whoever calls create().
 * Threads: a state, and a maker, belong to one thread at a time; there is one for each
 *          worker.
 * Errors:  faults of items begin with the item's name, then say the kind or format. */
#ifndef TAUT_LOAD_KINDS_H
#define TAUT_LOAD_KINDS_H

#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>
#include <taut/prepare.h>

#include "load/draw.h"

/* An item that is to be made a sample. Bytes and name are borrowed. */
struct tauti_item {
	const void *bytes;
	size_t n;
	const char *name;
	uint64_t number, epoch; /* for the stage; what is drawn is of draw */
	int64_t label;
	struct tauti_draw draw; /* tauti_draw_begin(seed, epoch, number) */
};

struct tauti_kind {
	/* Are these options allowed? TAUT_EINVAL: the message names the field. */
	taut_status (*check)(
		const struct taut_prepare_options *options, struct taut_error *err);
	/* Of options that are allowed, all but bytes. NULL: they say it themselves. */
	void (*shape)(const struct taut_prepare_options *options,
		struct taut_prepare_shape *ret_shape);
	/* TAUT_ENOMEM; TAUT_EIO: a library that is not there. options stay. */
	taut_status (*create)(const struct taut_prepare_options *options,
		void **ret_state, struct taut_error *err);
	void (*destroy)(void *state); /* NULL is fine */
	/* Writes all of the sample, or fails: TAUT_EFORMAT, TAUT_ENOMEM. The length is
	 * written where the shape varies. */
	taut_status (*make)(void *state, const struct tauti_item *item, void *sample,
		int64_t *ret_length, struct taut_error *err);
};

extern const struct tauti_kind tauti_kind_image, tauti_kind_tensor, tauti_kind_audio,
	tauti_kind_own;

/* --- for kinds ------------------------------------------------------------------------*/
/* TAUT_EINVAL, as "prepare: FIELD: expected EXPECTED". */
taut_status tauti_prepare_refuse(
	struct taut_error *err, const char *field, const char *expected);
/* n_dims, dims, type, varies and cut: what TENSOR and OWN say of their samples. */
TAUT_NODISCARD taut_status tauti_prepare_check_dims(
	const struct taut_prepare_options *options, struct taut_error *err);
/* Of `whole`, the first that is taken where n are wanted. Draws where it is RANDOM and
 * there is a choice. */
uint64_t tauti_cut(enum taut_prepare_cut cut, uint64_t whole, uint64_t n,
	struct tauti_draw *draw);

/* --- makers ---------------------------------------------------------------------------*/
struct tauti_maker;

/* NULL options: the defaults. They are copied, texts as pointers. TAUT_EINVAL: as
 * taut_prepare_check(). TAUT_ENOMEM, TAUT_EIO. */
TAUT_NODISCARD taut_status tauti_maker_create(
	const struct taut_prepare_options *options, struct tauti_maker **ret_maker,
	struct taut_error *err);
void tauti_maker_destroy(struct tauti_maker *maker); /* NULL is fine */
/* sample has the shape's bytes and any alignment. *ret_length is written where the shape
 * varies, and only then. After a failure the sample's contents are undefined and the maker
 * may be used further. TAUT_EFORMAT, TAUT_EIO, TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_maker_make(struct tauti_maker *maker,
	const struct tauti_item *item, void *sample, int64_t *ret_length,
	struct taut_error *err);

/* Puts type and dims of a file's first bytes where options say as_first, and takes that
 * away. bytes are the first n of all_bytes. */
TAUT_NODISCARD taut_status tauti_prepare_first(struct taut_prepare_options *options,
	const void *bytes, size_t n, uint64_t all_bytes, const char *name,
	struct taut_error *err);

/* Of all that makes a sample what it is but the set, seed and shuffle. A stage is its name. */
uint64_t tauti_prepare_fingerprint(const struct taut_prepare_options *options);

#endif /* TAUT_LOAD_KINDS_H */

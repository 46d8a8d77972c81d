/* jpeg_bits.c - Huffman codes of sequential JPEG: tables, bits, blocks. */
#include "load/image/jpeg_bits.h"

#include <stdlib.h>
#include <string.h>

#include "load/image/decoder.h" /* tauti_scratch() */

#if defined LIBJPEG_TURBO_VERSION_NUMBER && defined __has_include
#if __has_include(<jpegint.h>)
#include <jpegint.h>
#define HAVE_READER
#endif
#endif

#ifdef HAVE_READER

enum {
	LOOK = 10, /* bits; longer codes are rare */
	LOOKS = 1 << LOOK,
	PASS = 11, /* bits of a look that passes symbols; their values may be longer */
	LONGEST = 16, /* bits of a code */
	MOST_DC = 1 << 20,
	/* More bytes than the blocks of an MCU can have. */
	SLACK_BYTES = 4096,
	/* libjpeg reads so far ahead, at most, and misses bytes that it does not need. */
	AHEAD_BYTES = 16,
};

/* What a look finds, in a word; 0: the code is longer.
 *   bits 0 - 5    length of code and value
 *   VALUE         a value follows: a coefficient that is not zero
 *   LAST          the block ends
 *   bits 8 - 11   zeros before the coefficient
 *   bits 16 - 21  length of the code
 *   bits 24 - 29  64 - length of the value, modulo 64 */
enum { VALUE = 1 << 6, LAST = 1 << 7 };

/* What all symbols of a look are together, for who only passes them. length 0: there is none
 * that ends in it. */
struct passing {
	uint8_t length;
	uint8_t before, all; /* coefficients before the last symbol, and with it */
};

struct codes {
	bool is_made;
	JHUFF_TBL source; /* what it was made of */
	int32_t last[LONGEST + 1];   /* code of each length; -1: none */
	int32_t offset[LONGEST + 1]; /* from a code to its value's place */
	uint32_t looks[LOOKS];
	struct passing passings[1 << PASS]; /* of AC */
};

/* bits: from `at` on, the next one on top; after a fill at least 57. Its address is taken by
 * nobody, so that it stays in registers. */
struct reader {
	uint64_t bits, at;
	const unsigned char *bytes;
};

struct block {
	const struct codes *dc, *ac;
	int component;
};

struct tauti_jpeg_bits {
	struct jpeg_entropy_decoder face; /* first: libjpeg has its address */
	uint64_t at, end; /* bits */
	void (*give_up)(j_decompress_ptr d);
	struct block blocks[D_MAX_BLOCKS_IN_MCU];
	int n_blocks, dc[MAX_COMPS_IN_SCAN];
	uint32_t column, n_columns, first, last; /* MCUs; first .. last - 1 are wanted */
	uint32_t pixels; /* of an MCU across; 0: its columns cannot be told */
	void *bytes;     /* as they are without stuffing */
	size_t capacity;
	struct codes codes[2][NUM_HUFF_TBLS];
};

/* Broken runs end in the last place, as libjpeg has it. */
static const uint8_t places[DCTSIZE2 + 16] = { 0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25,
	18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28, 35,
	42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38,
	31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
	63, 63, 63, 63, 63, 63, 63 };

#define INLINE static inline __attribute__((always_inline))

/* --- tables ------------------------------------------------------------------------------*/
static uint32_t symbol_of(unsigned value, unsigned length, bool is_ac)
{
	unsigned run = value >> 4 & 15, size = value & 15;
	uint32_t symbol = (length + size) | run << 8 | length << 16 |
		((64 - size) & 63) << 24;

	if (size)
		return symbol | VALUE;
	return is_ac && run != 15 ? symbol | LAST : symbol;
}

static void put_code(
	struct codes *codes, unsigned code, unsigned length, unsigned value, bool is_ac)
{
	unsigned n;

	if (length > LOOK)
		return;
	n = 1u << (LOOK - length);
	for (uint32_t *at = codes->looks + code * n; n--; at++)
		*at = symbol_of(value, length, is_ac);
}

/* False: no such table is allowed. */
static bool make_looks(struct codes *codes, bool is_ac)
{
	unsigned code = 0, at = 0;

	memset(codes->looks, 0, sizeof codes->looks);
	for (unsigned length = 1; length <= LONGEST; length++, code *= 2) {
		unsigned n = codes->source.bits[length];

		if (code + n > 1u << length || at + n > 256)
			return false;
		codes->offset[length] = (int32_t)at - (int32_t)code;
		for (unsigned i = 0; i < n; i++, code++, at++)
			put_code(codes, code, length, codes->source.huffval[at], is_ac);
		codes->last[length] = n ? (int32_t)code - 1 : -1;
	}
	return true;
}

/* The last one's value may go on behind the look. */
static struct passing passing_of(const struct codes *codes, unsigned look)
{
	struct passing p = { 0 };

	while (p.length < PASS && p.all < DCTSIZE2) {
		uint32_t symbol = codes->looks[
			(look << p.length & ((1u << PASS) - 1)) >> (PASS - LOOK)];

		if (!symbol || p.length + (symbol >> 16 & 63) > PASS)
			break;
		p.before = p.all;
		p.length = (uint8_t)(p.length + (symbol & 63));
		p.all = (uint8_t)(p.all +
			(symbol & LAST ? DCTSIZE2 : (symbol >> 8 & 15) + 1));
	}
	return p;
}

static void make_passings(struct codes *codes)
{
	for (unsigned look = 0; look < 1u << PASS; look++)
		codes->passings[look] = passing_of(codes, look);
}

/* Tables of one image are those of the next one mostly. NULL: there is none. */
static const struct codes *codes_of(
	struct tauti_jpeg_bits *bits, const JHUFF_TBL *source, bool is_ac, unsigned at)
{
	struct codes *codes = &bits->codes[is_ac][at];

	if (!source)
		return NULL;
	if (codes->is_made &&
		memcmp(codes->source.bits, source->bits, sizeof source->bits) == 0 &&
		memcmp(codes->source.huffval, source->huffval,
			sizeof source->huffval) == 0)
		return codes;
	codes->source = *source;
	codes->is_made = make_looks(codes, is_ac);
	if (codes->is_made && is_ac)
		make_passings(codes);
	return codes->is_made ? codes : NULL;
}

/* --- bits --------------------------------------------------------------------------------*/
/* A zero behind 0xff is no part of the data; anything else is a marker, which ends it. */
static bool take_bytes(struct tauti_jpeg_bits *bits, const unsigned char *from, size_t n)
{
	const unsigned char *end = from + n;
	bool is_cut = true;
	unsigned char *to;

	if (!tauti_scratch(&bits->bytes, &bits->capacity, n + SLACK_BYTES))
		return false;
	to = bits->bytes;
	while (from < end) {
		const unsigned char *stop = memchr(from, 0xff, (size_t)(end - from));
		size_t part = (size_t)((stop ? stop : end) - from);

		memcpy(to, from, part);
		to += part;
		is_cut = !stop || end - stop < 2;
		if (is_cut || stop[1] != 0)
			break;
		*to++ = 0xff;
		from = stop + 2;
	}
	bits->at = 0;
	n = (size_t)(to - (unsigned char *)bits->bytes);
	if (is_cut || from == end)
		n = n > AHEAD_BYTES ? n - AHEAD_BYTES : 0;
	bits->end = (uint64_t)n * 8;
	memset(to, 0, SLACK_BYTES);
	return true;
}

INLINE void fill(struct reader *r)
{
	uint64_t word;

	memcpy(&word, r->bytes + (r->at >> 3), sizeof word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	r->bits = word << (r->at & 7);
}

/* Of a symbol's low bits; any bits above them. */
INLINE void drop(struct reader *r, uint32_t symbol)
{
	r->bits <<= symbol & 63;
	r->at += symbol & 63;
}

/* Of a symbol that has one and begins the bits. Values whose first bit is 0 are negative. */
INLINE int value_of(const struct reader *r, uint32_t symbol)
{
	uint64_t bits = r->bits << (symbol >> 16 & 63);
	uint64_t negative = ~(uint64_t)((int64_t)bits >> 63);

	return (int)(bits >> (symbol >> 24)) - (int)(negative >> (symbol >> 24));
}

/* Of a code longer than a look; 0: it is none. */
static uint32_t long_symbol(const struct codes *codes, uint64_t bits, bool is_ac)
{
	for (unsigned length = LOOK + 1; length <= LONGEST; length++) {
		int32_t code = (int32_t)(bits >> (64 - length));

		if (code <= codes->last[length])
			return symbol_of(codes->source.huffval[
				code + codes->offset[length]], length, is_ac);
	}
	return 0;
}

INLINE uint32_t next_symbol(const struct reader *r, const struct codes *codes, bool is_ac)
{
	uint32_t symbol = codes->looks[r->bits >> (64 - LOOK)];

	return symbol ? symbol : long_symbol(codes, r->bits, is_ac);
}

/* --- blocks ------------------------------------------------------------------------------*/
/* The difference to the block before it; false: no code. */
INLINE bool read_dc(struct reader *r, const struct codes *codes, int *dc)
{
	uint32_t symbol;

	fill(r);
	symbol = next_symbol(r, codes, false);
	if (symbol & VALUE)
		*dc += value_of(r, symbol);
	drop(r, symbol);
	return symbol && *dc <= MOST_DC && *dc >= -MOST_DC;
}

/* Where to go on; -1: no code. block NULL: it is passed. */
INLINE int read_symbol(
	struct reader *r, const struct codes *codes, int k, JCOEF *block)
{
	uint32_t symbol = next_symbol(r, codes, true);

	k += symbol >> 8 & 15;
	if (!(symbol & VALUE)) {
		drop(r, symbol);
		return symbol & LAST ? DCTSIZE2 : symbol ? k + 1 : -1;
	}
	if (block)
		block[places[k]] = (JCOEF)value_of(r, symbol);
	drop(r, symbol);
	return k + 1;
}

/* A look's symbol and any other need no more bits than a fill gives. */
INLINE bool read_ac(struct reader *r, const struct codes *codes, JCOEF *block)
{
	int k = 1;

	while (k < DCTSIZE2) {
		uint32_t symbol;

		fill(r);
		symbol = codes->looks[r->bits >> (64 - LOOK)];
		if (symbol & VALUE) {
			k += symbol >> 8 & 15;
			block[places[k++]] = (JCOEF)value_of(r, symbol);
			drop(r, symbol);
			if (k >= DCTSIZE2)
				return true;
		}
		k = read_symbol(r, codes, k, block);
		if (k < 0)
			return false;
	}
	return true;
}

/* Two looks, as above. */
INLINE bool pass_ac(struct reader *r, const struct codes *codes)
{
	int k = 1;

	while (k < DCTSIZE2) {
		struct passing p;

		fill(r);
		p = codes->passings[r->bits >> (64 - PASS)];
		if (p.length && k + p.before < DCTSIZE2) {
			drop(r, p.length);
			k += p.all;
			if (k >= DCTSIZE2)
				return true;
			p = codes->passings[r->bits >> (64 - PASS)];
			if (p.length && k + p.before < DCTSIZE2) {
				drop(r, p.length);
				k += p.all;
				continue;
			}
		}
		k = read_symbol(r, codes, k, NULL);
		if (k < 0)
			return false;
	}
	return true;
}

INLINE bool read_blocks(struct tauti_jpeg_bits *bits, JBLOCKROW *blocks)
{
	struct reader r = { .at = bits->at, .bytes = bits->bytes };
	bool is_good = true;

	for (int i = 0; i < bits->n_blocks && is_good; i++) {
		const struct block *b = &bits->blocks[i];
		int dc = bits->dc[b->component];

		is_good = read_dc(&r, b->dc, &dc) && read_ac(&r, b->ac, *blocks[i]);
		bits->dc[b->component] = dc;
		(*blocks[i])[0] = (JCOEF)dc;
	}
	bits->at = r.at;
	return is_good;
}

INLINE bool pass_blocks(struct tauti_jpeg_bits *bits)
{
	struct reader r = { .at = bits->at, .bytes = bits->bytes };
	bool is_good = true;

	for (int i = 0; i < bits->n_blocks && is_good; i++) {
		const struct block *b = &bits->blocks[i];
		int dc = bits->dc[b->component];

		is_good = read_dc(&r, b->dc, &dc) && pass_ac(&r, b->ac);
		bits->dc[b->component] = dc;
	}
	bits->at = r.at;
	return is_good;
}

/* libjpeg has cleared the blocks; NULL: none is wanted. */
INLINE boolean read_any_mcu(j_decompress_ptr d, JBLOCKROW *blocks)
{
	struct tauti_jpeg_bits *bits = (struct tauti_jpeg_bits *)d->entropy;
	bool is_wanted = blocks && bits->column >= bits->first &&
		bits->column < bits->last;

	if (!(is_wanted ? read_blocks(bits, blocks) : pass_blocks(bits)) ||
		bits->at > bits->end)
		bits->give_up(d);
	bits->column++;
	if (bits->column == bits->n_columns)
		bits->column = 0;
	return TRUE;
}

static boolean read_mcu(j_decompress_ptr d, JBLOCKROW *blocks)
{
	return read_any_mcu(d, blocks);
}

#ifdef __x86_64__
/* Shifts by other registers than the one, without a look at flags. */
__attribute__((target("bmi2"))) static boolean read_mcu_bmi2(
	j_decompress_ptr d, JBLOCKROW *blocks)
{
	return read_any_mcu(d, blocks);
}
#else
#define read_mcu_bmi2 read_mcu
#endif

/* --- an image ----------------------------------------------------------------------------*/
static bool is_of_the_kind(const struct jpeg_decompress_struct *d)
{
	return !d->progressive_mode && !d->arith_code && !d->restart_interval &&
		d->data_precision == 8 && d->comps_in_scan == d->num_components &&
		d->Ss == 0 && d->Se == DCTSIZE2 - 1 && d->Ah == 0 && d->Al == 0 &&
		!d->buffered_image;
}

static bool set_block(struct tauti_jpeg_bits *bits, const struct jpeg_decompress_struct *d, int i)
{
	int component = d->MCU_membership[i];
	const jpeg_component_info *c = d->cur_comp_info[component];
	unsigned dc = (unsigned)c->dc_tbl_no, ac = (unsigned)c->ac_tbl_no;

	if (dc >= NUM_HUFF_TBLS || ac >= NUM_HUFF_TBLS)
		return false;
	bits->blocks[i] = (struct block){
		.dc = codes_of(bits, d->dc_huff_tbl_ptrs[dc], false, dc),
		.ac = codes_of(bits, d->ac_huff_tbl_ptrs[ac], true, ac),
		.component = component,
	};
	return bits->blocks[i].dc && bits->blocks[i].ac;
}

static bool has_bmi2(void)
{
#ifdef __x86_64__
	return __builtin_cpu_supports("bmi2");
#else
	return false;
#endif
}

#if JPEG_LIB_VERSION >= 70
#define LEAST_BLOCK_SIZE(d) ((d)->min_DCT_h_scaled_size)
#else
#define LEAST_BLOCK_SIZE(d) ((d)->min_DCT_scaled_size)
#endif

bool tauti_jpeg_bits_attach(struct tauti_jpeg_bits *bits, j_decompress_ptr d,
	void (*give_up)(j_decompress_ptr d))
{
	if (!is_of_the_kind(d))
		return false;
	for (int i = 0; i < d->blocks_in_MCU; i++)
		if (!set_block(bits, d, i))
			return false;
	if (!take_bytes(bits, d->src->next_input_byte, d->src->bytes_in_buffer))
		return false;
	bits->n_blocks = d->blocks_in_MCU;
	bits->give_up = give_up;
	memset(bits->dc, 0, sizeof bits->dc);
	bits->column = 0;
	bits->n_columns = d->MCUs_per_row;
	bits->first = 0;
	bits->last = d->MCUs_per_row;
	bits->pixels = d->comps_in_scan == 1 ? 0 :
		(uint32_t)(d->max_h_samp_factor * LEAST_BLOCK_SIZE(d));
	bits->face = (struct jpeg_entropy_decoder){
		.start_pass = d->entropy->start_pass,
		.decode_mcu = has_bmi2() ? read_mcu_bmi2 : read_mcu };
	d->entropy = &bits->face;
	return true;
}

/* One more on each side: upsampling looks at neighbours. */
void tauti_jpeg_bits_want(
	struct tauti_jpeg_bits *bits, uint32_t first_column, uint32_t end_column)
{
	if (!bits->pixels)
		return;
	bits->first = first_column / bits->pixels;
	bits->first -= bits->first > 0;
	bits->last = (end_column + bits->pixels - 1) / bits->pixels + 1;
}

#else /* another libjpeg */

struct tauti_jpeg_bits {
	void *bytes;
};

bool tauti_jpeg_bits_attach(struct tauti_jpeg_bits *bits, j_decompress_ptr d,
	void (*give_up)(j_decompress_ptr d))
{
	(void)bits, (void)d, (void)give_up;
	return false;
}

void tauti_jpeg_bits_want(
	struct tauti_jpeg_bits *bits, uint32_t first_column, uint32_t end_column)
{
	(void)bits, (void)first_column, (void)end_column;
}

#endif

struct tauti_jpeg_bits *tauti_jpeg_bits_create(void)
{
	return calloc(1, sizeof(struct tauti_jpeg_bits));
}

void tauti_jpeg_bits_destroy(struct tauti_jpeg_bits *bits)
{
	if (bits)
		free(bits->bytes);
	free(bits);
}

/* jpeg_bits.h - coefficients out of the bits of a JPEG, in place of libjpeg's own reader of
 * them, which takes most of the time of decoding.
 *
 * It reads what nearly all images are: one scan of Huffman codes with all components, 8 bits
 * a sample, without restarts. The coefficients are those that libjpeg reads. Where anything
 * is not as it should be (a code of no symbol, the end before the last block) it gives up,
 * and the caller decodes the image again with libjpeg alone: what becomes of broken images
 * is libjpeg's to say, and stays so to the last bit.
 *
 * Faster by: several symbols a look in rows above and columns beside what is wanted, which
 * have to be passed and not to be known; no branch on how long a value is; stuffing taken
 * out beforehand, so that eight bytes are taken at a time without a look at them.
 *
 * libjpeg calls its reader through a struct of its header jpegint.h; built without that
 * header, or with another libjpeg than libjpeg-turbo, this attaches to nothing.
 *
 * Owner:   whoever creates it; the image's bytes are borrowed from attach on.
 * Threads: one at a time. */
#ifndef TAUT_LOAD_IMAGE_JPEG_BITS_H
#define TAUT_LOAD_IMAGE_JPEG_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

struct tauti_jpeg_bits;

struct tauti_jpeg_bits *tauti_jpeg_bits_create(void); /* NULL: no memory */
void tauti_jpeg_bits_destroy(struct tauti_jpeg_bits *bits); /* NULL is fine */

/* After jpeg_start_decompress(), before any row: reads this image, if it is of the kind;
 * all its bytes are in the source's buffer. give_up does not return. */
bool tauti_jpeg_bits_attach(struct tauti_jpeg_bits *bits, j_decompress_ptr d,
	void (*give_up)(j_decompress_ptr d));
/* Of the attached image blocks elsewhere than in these pixel columns (of the output, before
 * any cropping) are not looked at by anybody. */
void tauti_jpeg_bits_want(
	struct tauti_jpeg_bits *bits, uint32_t first_column, uint32_t end_column);

#endif /* TAUT_LOAD_IMAGE_JPEG_BITS_H */

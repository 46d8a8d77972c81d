/* exif.h - how a camera was held, as EXIF tells, and turning a picture back.
 * Threads: pure functions. Units: bytes, pixels. */
#ifndef TAUT_LOAD_IMAGE_EXIF_H
#define TAUT_LOAD_IMAGE_EXIF_H

#include <stddef.h>

#include "load/image/decoder.h"

/* 1 .. 8 from the TIFF bytes of an EXIF block (those after "Exif\0\0"); 1 when they do
 * not tell or are broken. */
unsigned tauti_exif_orientation(const unsigned char *tiff, size_t n);

/* The region of the stored image that shows `shown`, a region of the turned one.
 * height and width are those of the stored image. */
struct tauti_region tauti_orient_region(unsigned orientation, uint32_t height,
	uint32_t width, const struct tauti_region *shown);

/* One stored row, number `row` of a stored region of height x width, into the picture of
 * the region as shown, whose rows follow each other without gaps. */
void tauti_orient_row(unsigned orientation, uint32_t height, uint32_t width,
	uint32_t row, const unsigned char *from, unsigned char *picture);

#endif /* TAUT_LOAD_IMAGE_EXIF_H */

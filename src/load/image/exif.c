/* exif.c - one tag of EXIF, and the eight ways to turn a picture. */
#include <string.h>

#include "load/image/exif.h"

enum { ENTRY_BYTES = 12, TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3 };

static uint32_t number(
	const unsigned char *at, unsigned bytes, bool big_endian)
{
	uint32_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint32_t)at[i]
			<< 8 * (big_endian ? bytes - 1 - i : i);
	return value;
}

unsigned tauti_exif_orientation(const unsigned char *tiff, size_t n)
{
	uint32_t at, entries;
	bool big;

	if (n < 8 || (memcmp(tiff, "II", 2) != 0 && memcmp(tiff, "MM", 2) != 0))
		return 1;
	big = tiff[0] == 'M';
	at = number(tiff + 4, 4, big);
	if (number(tiff + 2, 2, big) != 42 || at > n - 2)
		return 1;
	entries = number(tiff + at, 2, big);
	for (at += 2; entries-- > 0 && n - at >= ENTRY_BYTES; at += ENTRY_BYTES) {
		uint32_t value = number(tiff + at + 8, 2, big);

		if (number(tiff + at, 2, big) == TAG_ORIENTATION &&
			number(tiff + at + 2, 2, big) == TYPE_SHORT)
			return value >= 1 && value <= 8 ? value : 1;
	}
	return 1;
}

/* What EXIF's numbers mean for a stored pixel (row, column): first rows or columns are
 * counted from the other end, then both change places. */
static const struct {
	unsigned char from_bottom, from_right, transposed;
} ways[9] = {
	[1] = { 0, 0, 0 }, [2] = { 0, 1, 0 }, [3] = { 1, 1, 0 },
	[4] = { 1, 0, 0 }, [5] = { 0, 0, 1 }, [6] = { 1, 0, 1 },
	[7] = { 1, 1, 1 }, [8] = { 0, 1, 1 },
};

struct tauti_region tauti_orient_region(unsigned orientation, uint32_t height,
	uint32_t width, const struct tauti_region *shown)
{
	struct tauti_region stored = *shown;

	if (ways[orientation].transposed)
		stored = (struct tauti_region){ shown->left, shown->top,
			shown->width, shown->height };
	if (ways[orientation].from_bottom)
		stored.top = height - stored.top - stored.height;
	if (ways[orientation].from_right)
		stored.left = width - stored.left - stored.width;
	return stored;
}

void tauti_orient_row(unsigned orientation, uint32_t height, uint32_t width,
	uint32_t row, const unsigned char *from, unsigned char *picture)
{
	size_t y = ways[orientation].from_bottom ? height - 1 - row : row;

	for (uint32_t column = 0; column < width; column++) {
		size_t x = ways[orientation].from_right ? width - 1 - column :
			column;
		size_t at = ways[orientation].transposed ? x * height + y :
			y * width + x;

		memcpy(picture + at * 3, from + (size_t)column * 3, 3);
	}
}

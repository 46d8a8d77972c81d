/* asset.c - see asset.h. There are few: a linear search is enough. */
#include "base/asset.h"

#include <string.h>

const struct tauti_asset *tauti_asset_find(const char *name)
{
	for (const struct tauti_asset *a = tauti_assets; a->name; a++) {
		if (strcmp(a->name, name) == 0)
			return a;
	}
	return NULL;
}

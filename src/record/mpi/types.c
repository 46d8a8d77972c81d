/* types.c - MPI's types under the names of the log. */
#include <stdlib.h>
#include <string.h>

#include "record/mpi/mpi.h"
#include "record/mpi/tables.h"

static const struct {
	const char *mpi; /* without MPI_ */
	const char *dtype;
	uint32_t element_bytes; /* 0: of the type itself */
	uint32_t per_item;      /* 0: 1 */
} named[] = {
	{ "FLOAT", "Float", 4, 0 }, { "REAL", "Float", 4, 0 },
	{ "REAL4", "Float", 4, 0 }, { "DOUBLE", "Double", 8, 0 },
	{ "DOUBLE_PRECISION", "Double", 8, 0 }, { "REAL8", "Double", 8, 0 },
	{ "REAL2", "Half", 2, 0 }, { "C_BOOL", "Bool", 1, 0 },
	{ "CXX_BOOL", "Bool", 1, 0 }, { "CHAR", "Char", 1, 0 },
	{ "SIGNED_CHAR", "Char", 1, 0 }, { "BYTE", "Byte", 1, 0 },
	{ "COMPLEX", "Float", 4, 2 }, { "C_COMPLEX", "Float", 4, 2 },
	{ "C_FLOAT_COMPLEX", "Float", 4, 2 }, { "COMPLEX8", "Float", 4, 2 },
	{ "CXX_FLOAT_COMPLEX", "Float", 4, 2 },
	{ "DOUBLE_COMPLEX", "Double", 8, 2 },
	{ "C_DOUBLE_COMPLEX", "Double", 8, 2 },
	{ "CXX_DOUBLE_COMPLEX", "Double", 8, 2 },
	{ "COMPLEX16", "Double", 8, 2 },
};

static const char *const integers[] = { "INT", "UNSIGNED", "LONG", "SHORT",
	"INTEGER", "UINT", "LOGICAL", "AINT", "OFFSET", "COUNT", NULL };
/* Pairs of a value and its place. */
static const char *const pairs[] = { "SHORT_INT", "LONG_INT",
	"LONG_DOUBLE", "LONG_DOUBLE_INT", NULL };

static bool begins_with_any(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (!strncmp(text, *words, strlen(*words)))
			return true;
	return false;
}

static bool is_any(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(text, *words))
			return true;
	return false;
}

static struct tauti_mpi_type bytes(uint32_t size)
{
	struct tauti_mpi_type type = { tauti_mpi_text("Byte"), 1, size };

	return type;
}

static struct tauti_mpi_type integer(uint32_t size)
{
	static const char *const of_size[9] = { [1] = "Char", [2] = "Short",
		[4] = "Int", [8] = "Long" };
	struct tauti_mpi_type type = { 0, size, 1 };

	if (size > 8 || !of_size[size])
		return bytes(size);
	type.dtype = tauti_mpi_text(of_size[size]);
	return type;
}

/* name: as MPI_Type_get_name has it. A predefined type may have been given
 * another name, so its size must agree too. */
static struct tauti_mpi_type by_name(const char *name, uint32_t size)
{
	if (!strncmp(name, "MPI_", 4))
		name += 4;
	for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
		uint32_t n = named[i].per_item ? named[i].per_item : 1;

		if (!strcmp(named[i].mpi, name) &&
			size == n * named[i].element_bytes) {
			struct tauti_mpi_type type = {
				tauti_mpi_text(named[i].dtype),
				named[i].element_bytes, n };
			return type;
		}
	}
	if (begins_with_any(name, integers) && !is_any(name, pairs))
		return integer(size);
	return bytes(size);
}

/* Only predefined types have contents of zero numbers and types. */
static bool is_predefined(tauti_mpi_handle type)
{
	int ints = 1, aints = 1, types = 1, combiner = 0;

	return !tauti_mpi.real.type_get_envelope(
		type, &ints, &aints, &types, &combiner) &&
		ints == 0 && aints == 0 && types == 0;
}

struct tauti_mpi_type tauti_mpi_type_of(tauti_mpi_handle handle)
{
	tauti_mpi_handle type = tauti_mpi_clean(handle);
	struct tauti_mpi_known_type *known = &tauti_mpi.tables->types[
		(type ^ type >> 7) % TAUTI_MPI_TYPES];
	int size = 0, len = 0;
	char name[512];

	if (known->handle == type && known->handle)
		return known->type;
	if (tauti_mpi.real.type_size(handle, &size) || size < 0)
		return bytes(0);
	if (!is_predefined(handle))
		return bytes((uint32_t)size);
	name[0] = '\0';
	if (tauti_mpi.real.type_get_name(handle, name, &len))
		name[0] = '\0';
	known->handle = type;
	known->type = by_name(name, (uint32_t)size);
	return known->type;
}

/* below.c - the MPI library below: where it is, and how its things look. */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "record/mpi/below.h"

bool tauti_mpi_is_narrow;

enum { MOST_LIBRARIES = 64, PATH_BYTES = 512 };

struct libraries {
	char path[MOST_LIBRARIES][PATH_BYTES];
	int n;
};

static int note_library(struct dl_phdr_info *info, size_t size, void *to)
{
	struct libraries *all = to;
	const char *slash = strrchr(info->dlpi_name, '/');
	size_t len = strlen(info->dlpi_name);

	(void)size;
	/* Not another object of ours: it would find this one. */
	if (strstr(slash ? slash : info->dlpi_name, "mpi") &&
		!strstr(slash ? slash : info->dlpi_name, "libtaut-") && len < PATH_BYTES && all->n < MOST_LIBRARIES)
		memcpy(all->path[all->n++], info->dlpi_name, len + 1);
	return 0;
}

static bool is_ours(const void *at)
{
	Dl_info it, me;

	return dladdr(at, &it) && dladdr((void *)&tauti_mpi_is_narrow, &me) &&
		it.dli_fbase == me.dli_fbase;
}

/* A library that was opened for one user alone (Python's modules are) is not
 * in the order of search. */
static void *hidden_symbol(const char *name)
{
	struct libraries *all = calloc(1, sizeof *all);
	void *found = NULL;

	if (!all)
		return NULL;
	dl_iterate_phdr(note_library, all);
	for (int i = 0; i < all->n && !found; i++) {
		void *library = dlopen(all->path[i], RTLD_LAZY | RTLD_NOLOAD);

		if (!library)
			continue;
		found = dlsym(library, name);
		if (found && is_ours(found))
			found = NULL;
		dlclose(library); /* it stays: somebody else has it open */
	}
	free(all);
	return found;
}

void *tauti_mpi_symbol(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	return found ? found : hidden_symbol(name);
}

void *tauti_mpi_symbol_or_plain(const char *name)
{
	size_t len = strlen(name);
	char plain[64];
	void *found = tauti_mpi_symbol(name);

	if (found || len < 3 || len >= sizeof plain ||
		strcmp(name + len - 2, "_c"))
		return found;
	memcpy(plain, name, len - 2);
	plain[len - 2] = '\0';
	found = tauti_mpi_symbol(plain);
	if (found)
		__atomic_store_n(&tauti_mpi_is_narrow, true, __ATOMIC_RELAXED);
	return found;
}

/* An object of data. The program may have a copy of its own, which is the
 * one that counts then. */
tauti_mpi_handle tauti_mpi_object(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	return (tauti_mpi_handle)(found ? found : hidden_symbol(name));
}

/* --- how its things look ----------------------------------------------------- */

static const struct tauti_mpi_abi mpich = {
	.name = "MPICH",
	.handle_bytes = 4,
	.status_bytes = 20, .source_at = 8, .tag_at = 12,
	.any_source = -2, .any_tag = -1, .proc_null = -1, .root = -3,
	.comm_type_shared = 1,
	.status_ignore = 1, .in_place = UINTPTR_MAX,
	.comm_world = 0x44000000, .comm_self = 0x44000001,
	.comm_null = 0x04000000, .request_null = 0x2c000000,
	.message_null = 0x2c000000, .byte = 0x4c00010d,
	.int64 = 0x4c000809, .errors_return = 0x54000001,
};

/* Handles are addresses of objects in the library. */
static struct tauti_mpi_abi open_mpi = {
	.name = "Open MPI",
	.handle_bytes = sizeof(void *),
	.status_bytes = 24, .source_at = 0, .tag_at = 4,
	.any_source = -1, .any_tag = -1, .proc_null = -2, .root = -4,
	.comm_type_shared = 0,
	.status_ignore = 0, .in_place = 1,
};

static const struct tauti_mpi_abi *find_open_mpi(void)
{
	open_mpi.comm_world = tauti_mpi_object("ompi_mpi_comm_world");
	open_mpi.comm_self = tauti_mpi_object("ompi_mpi_comm_self");
	open_mpi.comm_null = tauti_mpi_object("ompi_mpi_comm_null");
	open_mpi.request_null = tauti_mpi_object("ompi_request_null");
	open_mpi.message_null = tauti_mpi_object("ompi_message_null");
	open_mpi.byte = tauti_mpi_object("ompi_mpi_byte");
	open_mpi.int64 = tauti_mpi_object("ompi_mpi_int64_t");
	open_mpi.errors_return = tauti_mpi_object("ompi_mpi_errors_return");
	return open_mpi.comm_world && open_mpi.comm_null &&
		open_mpi.request_null && open_mpi.byte ? &open_mpi : NULL;
}

/* The library says of itself who it is; MPICH's binary interface is also
 * that of its children. */
static bool is_mpich(void)
{
	static const char *const names[] = { "MPICH", "Intel(R) MPI",
		"MVAPICH", "ParaStation" };
	int (*get_library_version)(char *text, int *len);
	void *found = tauti_mpi_symbol("PMPI_Get_library_version");
	char text[8192];
	int len = 0;

	memcpy(&get_library_version, &found, sizeof found);
	text[0] = '\0';
	if (!found || get_library_version(text, &len))
		return false;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strstr(text, names[i]))
			return true;
	return false;
}

const struct tauti_mpi_abi *tauti_mpi_abi_below(void)
{
	if (tauti_mpi_object("ompi_mpi_comm_world"))
		return find_open_mpi();
	/* MPI 5's own interface looks different, and its library says so. */
	if (tauti_mpi_object("MPI_Abi_get_version") &&
		!tauti_mpi_object("MPII_Version_ABI"))
		return NULL;
	return is_mpich() ? &mpich : NULL;
}

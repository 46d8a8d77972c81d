/* next.c - the function that a caller would have reached, were this object not here. */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "mpi/mpi.h"

/* --- finding ------------------------------------------------------------------------------*/

/* Whether a function is of CUDA itself, by the name of its library. */
static bool is_cudas(void *function)
{
	Dl_info it;
	const char *slash;

	if (!dladdr(function, &it) || !it.dli_fname)
		return false;
	slash = strrchr(it.dli_fname, '/');
	slash = slash ? slash + 1 : it.dli_fname;
	return !strncmp(slash, "libcuda.so", 10) ||
		!strncmp(slash, "libcudart.so", 12);
}

static bool is_ours(void *function)
{
	Dl_info it, me;

	return dladdr(function, &it) &&
		dladdr((void *)(uintptr_t)&is_cudas, &me) &&
		me.dli_fbase == it.dli_fbase;
}

/* What the caller's library finds among those that it needs, where it was opened for one
 * user alone. The program itself searches everywhere, and finds us. */
static void *find_among_its_own(const char *name, void *caller)
{
	void *found = NULL, *library;
	Dl_info it;

	if (!dladdr(caller, &it) || !it.dli_fname)
		return NULL;
	library = dlopen(it.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (!library)
		return NULL;
	found = dlsym(library, name);
	dlclose(library); /* it stays */
	return found && !is_ours(found) ? found : NULL;
}

/* Of what the process has loaded; a caller that names nothing of it itself may have
 * found it by way of the one that opened the caller. */
static void *find_anywhere(const char *name)
{
	static const char *const libraries[] = { "libcuda.so.1",
		"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0" };
	void *found = NULL;

	for (size_t i = 0; !found &&
		i < sizeof libraries / sizeof libraries[0]; i++) {
		void *library = dlopen(
			libraries[i], RTLD_LAZY | RTLD_NOLOAD);

		if (!library)
			continue;
		found = dlsym(library, name);
		dlclose(library);
	}
	return found;
}

/* As the linker searches: behind us in the order of all, where others may stand before
 * CUDA as we do; then in the caller's own. A run-time of CUDA that is behind us gives way
 * to the caller's own, which may be of another version: those have versions to their
 * names, by which the linker tells them apart, and we do not know the caller's. */
static void *find_next(const char *name, void *caller)
{
	void *next = dlsym(RTLD_NEXT, name), *own;

	if (next && !is_cudas(next))
		return next;
	own = find_among_its_own(name, caller);
	if (own)
		return own;
	return next ? next : find_anywhere(name);
}

/* --- remembering --------------------------------------------------------------------------*/

struct objects {
	unsigned long long n_loaded, n_closed;
	bool known;
};

static int note_objects(struct dl_phdr_info *info, size_t bytes, void *to)
{
	struct objects *objects = to;

	if (bytes >= offsetof(struct dl_phdr_info, dlpi_subs) +
		sizeof info->dlpi_subs)
		*objects = (struct objects){
			info->dlpi_adds, info->dlpi_subs, true };
	return 1; /* the numbers are the same for all */
}

bool tauti_form_count_objects(
	unsigned long long *ret_loaded, unsigned long long *ret_closed)
{
	struct objects objects = { .known = false };

	dl_iterate_phdr(note_objects, &objects);
	*ret_loaded = objects.n_loaded;
	*ret_closed = objects.n_closed;
	return objects.known;
}

static struct tauti_form_known *place_of(
	struct tauti_form_known known[TAUTI_FORM_KNOWN], uintptr_t caller)
{
	return &known[(uint64_t)caller * 0x9e3779b97f4a7c15u >>
		(64 - TAUTI_FORM_KNOWN_BITS)];
}

uintptr_t tauti_form_recall(struct tauti_form_known known[TAUTI_FORM_KNOWN],
	uintptr_t caller, unsigned long long n_closed)
{
	struct tauti_form_known *it = place_of(known, caller);
	uint32_t before = atomic_load_explicit(
		&it->sequence, memory_order_acquire);
	uintptr_t found = atomic_load_explicit(
		&it->found, memory_order_acquire);
	bool holds = atomic_load_explicit(
		&it->caller, memory_order_acquire) == caller;

	holds &= atomic_load_explicit(
		&it->n_closed, memory_order_acquire) == n_closed;
	/* As in gpu/cache.c: who read a word of a change sees its odd number, too. */
	holds &= !(before & 1) && atomic_load_explicit(
		&it->sequence, memory_order_relaxed) == before;
	return holds ? found : 0;
}

void tauti_form_remember(struct tauti_form_known known[TAUTI_FORM_KNOWN],
	uintptr_t caller, unsigned long long n_closed, uintptr_t found)
{
	struct tauti_form_known *it = place_of(known, caller);
	uint32_t before = atomic_load_explicit(
		&it->sequence, memory_order_relaxed);

	if ((before & 1) || !atomic_compare_exchange_strong_explicit(
		&it->sequence, &before, before + 1, memory_order_acquire,
		memory_order_relaxed))
		return; /* another thread writes: next time */
	atomic_store_explicit(&it->caller, caller, memory_order_release);
	atomic_store_explicit(&it->n_closed, n_closed, memory_order_release);
	atomic_store_explicit(&it->found, found, memory_order_release);
	atomic_store_explicit(
		&it->sequence, before + 2, memory_order_release);
}

void *tauti_form_next(struct tauti_form_known known[TAUTI_FORM_KNOWN],
	const char *name, void *caller)
{
	unsigned long long n_loaded, n_closed;
	bool counts = tauti_form_count_objects(&n_loaded, &n_closed);
	uintptr_t found = counts ? tauti_form_recall(
		known, (uintptr_t)caller, n_closed) : 0;

	if (found)
		return (void *)found;
	found = (uintptr_t)find_next(name, caller);
	if (found && counts)
		tauti_form_remember(
			known, (uintptr_t)caller, n_closed, found);
	return (void *)found;
}

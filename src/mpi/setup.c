/* setup.c - once: the MPI library below, libtaut.so, what handles mean. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/mpi.h"
#include "record/mpi/entry.h"

struct tauti_form_state tauti_mpi_form = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.idle_lock = PTHREAD_MUTEX_INITIALIZER,
	.over = PTHREAD_COND_INITIALIZER,
};

void tauti_form_say(const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	fprintf(stderr, "taut: %s\n", line);
}

/* --- functions of MPI ---------------------------------------------------------------------*/

static bool resolve(struct tauti_form_real *real)
{
	const struct {
		const char *name;
		void *at;
	} all[] = {
		{ "PMPI_Comm_rank", &real->comm_rank },
		{ "PMPI_Comm_size", &real->comm_size },
		{ "PMPI_Comm_test_inter", &real->comm_test_inter },
		{ "PMPI_Comm_group", &real->comm_group },
		{ "PMPI_Group_translate_ranks",
			&real->group_translate_ranks },
		{ "PMPI_Group_free", &real->group_free },
		{ "PMPI_Comm_dup", &real->comm_dup },
		{ "PMPI_Comm_free", &real->comm_free },
		{ "PMPI_Comm_create_keyval", &real->comm_create_keyval },
		{ "PMPI_Comm_set_attr", &real->comm_set_attr },
		{ "PMPI_Comm_get_attr", &real->comm_get_attr },
		{ "PMPI_Comm_call_errhandler", &real->comm_call_errhandler },
		{ "PMPI_Type_size", &real->type_size },
		{ "PMPI_Gather", &real->gather },
		{ "PMPI_Bcast", &real->bcast },
		{ "PMPI_Barrier", &real->barrier },
		{ "PMPI_Allreduce", &real->allreduce },
		{ "PMPI_Irecv", &real->irecv },
		{ "PMPI_Isend", &real->isend },
		{ "PMPI_Test", &real->test },
		{ "PMPI_Testsome", &real->testsome },
		{ "PMPI_Request_free", &real->request_free },
		{ "PMPI_Cancel", &real->cancel },
		{ "PMPI_Wait", &real->wait },
		{ "PMPI_Query_thread", &real->query_thread },
		{ "PMPI_Grequest_start", &real->grequest_start },
		{ "PMPI_Grequest_complete", &real->grequest_complete },
		{ "PMPI_Status_set_elements", &real->status_set_elements },
		{ "PMPI_Status_set_cancelled", &real->status_set_cancelled },
	};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		void *found = tauti_mpi_symbol(all[i].name);

		if (!found)
			return false;
		memcpy(all[i].at, &found, sizeof found);
	}
	return true;
}

/* --- what handles mean --------------------------------------------------------------------*/

static const struct {
	const char *open_mpi; /* its object */
	uint32_t mpich;
	enum taut_type type;
	bool wraps;
} types[] = {
	{ "ompi_mpi_float", 0x4c00040a, TAUT_FLOAT32, false },
	{ "ompi_mpi_double", 0x4c00080b, TAUT_FLOAT64, false },
	{ "ompi_mpi_int", 0x4c000405, TAUT_INT32, false },
	{ "ompi_mpi_unsigned", 0x4c000406, TAUT_INT32, true },
	{ "ompi_mpi_long", 0x4c000807, TAUT_INT64, false },
	{ "ompi_mpi_unsigned_long", 0x4c000808, TAUT_UINT64, false },
	{ "ompi_mpi_long_long_int", 0x4c000809, TAUT_INT64, false },
	{ "ompi_mpi_unsigned_long_long", 0x4c000819, TAUT_UINT64, false },
	{ "ompi_mpi_signed_char", 0x4c000118, TAUT_INT8, false },
	{ "ompi_mpi_unsigned_char", 0x4c000102, TAUT_UINT8, false },
	{ "ompi_mpi_int8_t", 0x4c000137, TAUT_INT8, false },
	{ "ompi_mpi_uint8_t", 0x4c00013b, TAUT_UINT8, false },
	{ "ompi_mpi_int32_t", 0x4c000439, TAUT_INT32, false },
	{ "ompi_mpi_uint32_t", 0x4c00043d, TAUT_INT32, true },
	{ "ompi_mpi_int64_t", 0x4c00083a, TAUT_INT64, false },
	{ "ompi_mpi_uint64_t", 0x4c00083e, TAUT_UINT64, false },
	{ "ompi_mpi_real", 0x4c00041c, TAUT_FLOAT32, false },
	{ "ompi_mpi_dblprec", 0x4c00081f, TAUT_FLOAT64, false },
	{ "ompi_mpi_integer", 0x4c00041b, TAUT_INT32, false },
	{ "ompi_mpi_real4", 0x4c000427, TAUT_FLOAT32, false },
	{ "ompi_mpi_real8", 0x4c000829, TAUT_FLOAT64, false },
	{ "ompi_mpi_integer4", 0x4c000430, TAUT_INT32, false },
	{ "ompi_mpi_integer8", 0x4c000831, TAUT_INT64, false },
};
_Static_assert(sizeof types / sizeof types[0] <= TAUTI_FORM_TYPES, "too few");

static const struct {
	const char *open_mpi;
	uint32_t mpich;
	enum taut_reduction reduction;
} ops[] = {
	{ "ompi_mpi_op_sum", 0x58000003, TAUT_SUM },
	{ "ompi_mpi_op_prod", 0x58000004, TAUT_PRODUCT },
	{ "ompi_mpi_op_min", 0x58000002, TAUT_MIN },
	{ "ompi_mpi_op_max", 0x58000001, TAUT_MAX },
	{ "ompi_mpi_op_band", 0x58000006, TAUT_BIT_AND },
	{ "ompi_mpi_op_bor", 0x58000008, TAUT_BIT_OR },
	{ "ompi_mpi_op_bxor", 0x5800000a, TAUT_BIT_XOR },
};

static const uint8_t bytes_of[TAUT_TYPES] = { 4, 8, 2, 2, 1, 1, 4, 8, 8 };

static tauti_form_handle handle_of(const char *open_mpi, uint32_t mpich)
{
	return tauti_mpi_form.abi->handle_bytes == 4 ? mpich :
		tauti_mpi_object(open_mpi);
}

/* A library whose type of that name has another size than ours leaves it out. */
static void find_types(struct tauti_form_state *it)
{
	uint32_t n = 0;

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		tauti_form_handle handle =
			handle_of(types[i].open_mpi, types[i].mpich);
		int size = 0;

		if (handle && !it->real.type_size(handle, &size) &&
			size == bytes_of[types[i].type])
			it->types[n++] = (struct tauti_form_type){ handle,
				types[i].type, types[i].wraps };
	}
	for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
		it->ops[ops[i].reduction] =
			handle_of(ops[i].open_mpi, ops[i].mpich);
}

static const struct tauti_form_type *find_type(tauti_form_handle type)
{
	const struct tauti_form_type *at = tauti_mpi_form.types;

	type = tauti_form_clean(type);
	while (at->handle && at->handle != type)
		at++;
	return at->handle ? at : NULL;
}

static bool is_float(enum taut_type type)
{
	return type == TAUT_FLOAT32 || type == TAUT_FLOAT64;
}

uint32_t tauti_form_means(tauti_form_handle type, tauti_form_handle op,
	enum taut_type *ret_type, enum taut_reduction *ret_reduction)
{
	const struct tauti_form_type *found = find_type(type);
	unsigned r = 0;

	op = tauti_form_clean(op);
	while (r < TAUT_REDUCTIONS && tauti_mpi_form.ops[r] != op)
		r++;
	if (!found || r == TAUT_REDUCTIONS || !op ||
		(is_float(found->type) && r >= TAUT_BIT_AND) ||
		(found->wraps && (r == TAUT_MIN || r == TAUT_MAX)))
		return 0;
	*ret_type = found->type;
	*ret_reduction = (enum taut_reduction)r;
	return bytes_of[found->type];
}

/* --- once ---------------------------------------------------------------------------------*/

static int copy_nothing(tauti_form_handle comm, int keyval, void *extra,
	void *in, void *out, int *flag)
{
	(void)comm, (void)keyval, (void)extra, (void)in, (void)out;
	*flag = 0;
	return 0;
}

static bool is_on(const char *name)
{
	const char *text = getenv(name);

	return text && *text && strcmp(text, "0") != 0;
}

/* A program of sessions has no MPI_COMM_WORLD: all is MPI's, until it has. */
static bool has_world(void)
{
	static void *known;
	int (*initialized)(int *flag);
	void *found = tauti_mpi_next(&known, "PMPI_Initialized");
	int flag = 0;

	memcpy(&initialized, &found, sizeof found);
	return found && !initialized(&flag) && flag;
}

static void set_up(void)
{
	struct tauti_form_state *it = &tauti_mpi_form;
	tauti_form_handle alone = 0;
	static char nothing;

	it->abi = tauti_mpi_abi_below();
	if (!it->abi || !resolve(&it->real))
		return;
	find_types(it);
	it->min_op = it->ops[TAUT_MIN];
	it->err_other = it->abi->handle_bytes == 4 ? 15 : 16;
	it->says = is_on("TAUT_MPI_SAY");
	if (it->real.query_thread(&it->level) || !it->min_op ||
		it->real.comm_dup(it->abi->comm_self, &alone) ||
		it->real.comm_create_keyval(copy_nothing, tauti_form_forget,
			&it->keyval, NULL))
		return;
	it->alone = tauti_form_load(&alone);
	if (!it->real.irecv(&nothing, 1, it->abi->byte, 0, 0, it->alone,
		&it->idle))
		atomic_store(&it->on, true);
}

/* Not in its caller, which is in every call. */
__attribute__((noinline)) static bool turn_on(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static atomic_bool tried;

	if (!atomic_load_explicit(&tried, memory_order_acquire)) {
		if (!has_world())
			return false;
		pthread_once(&once, set_up);
		atomic_store(&tried, true);
	}
	return atomic_load(&tauti_mpi_form.on);
}

bool tauti_form_on(void)
{
	return atomic_load_explicit(
		&tauti_mpi_form.on, memory_order_relaxed) || turn_on();
}

/* A look for what is there would not do: MPICH does not move for one of itself. */
void tauti_form_poke_mpi(void)
{
	void *ignore = (void *)tauti_mpi_form.abi->status_ignore;
	int flag = 0;

	if (pthread_mutex_trylock(&tauti_mpi_form.idle_lock))
		return;
	tauti_mpi_form.real.test(&tauti_mpi_form.idle, &flag, ignore);
	pthread_mutex_unlock(&tauti_mpi_form.idle_lock);
}

/* --- libtaut.so ---------------------------------------------------------------------------*/

static void *open_beside(void)
{
	static const char *const places[] = { "", "../", "../../" };
	Dl_info me;
	const char *slash;
	char path[4096];
	void *library = NULL;

	if (!dladdr((void *)&tauti_mpi_form, &me) || !me.dli_fname)
		return NULL;
	slash = strrchr(me.dli_fname, '/');
	for (size_t i = 0; slash && !library && i < 3; i++) {
		snprintf(path, sizeof path, "%.*s/%slibtaut.so.0",
			(int)(slash - me.dli_fname), me.dli_fname, places[i]);
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	}
	return library;
}

taut_status tauti_form_open_taut(struct taut_error *reterr)
{
	struct tauti_form_taut *taut = &tauti_mpi_form.taut;
	const struct {
		const char *name;
		void *at;
	} all[] = {
		{ "taut_comm_create", &taut->create },
		{ "taut_comm_create_over", &taut->create_over },
		{ "taut_comm_destroy", &taut->destroy },
		{ "taut_comm_start", &taut->start },
		{ "taut_comm_progress", &taut->progress },
		{ "taut_comm_wait", &taut->wait },
		{ "taut_comm_wake", &taut->wake },
		{ "taut_comm_engine", &taut->engine },
	};
	const char *path = getenv("TAUT_LIB");

	if (tauti_mpi_form.library)
		return TAUT_OK;
	tauti_mpi_form.library = path && *path ?
		dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) :
		open_beside();
	if (!tauti_mpi_form.library)
		return taut_error_set(reterr, TAUT_EIO, -1,
			"%s: expected Taut's library", path && *path ? path :
			"libtaut.so.0 beside libtaut-mpi-coll.so");
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		void *found = dlsym(tauti_mpi_form.library, all[i].name);

		memcpy(all[i].at, &found, sizeof found);
		if (found)
			continue;
		tauti_mpi_form.library = NULL;
		return taut_error_set(reterr, TAUT_EMATCH, -1,
			"libtaut.so.0: expected one with %s", all[i].name);
	}
	return TAUT_OK;
}

/* device.c - the devices that this process has, and whose memory a call's is. */
#include <link.h>
#include <string.h>

#include "mpi/mpi.h"

/* By the beginning of its name: behind that is a version, also where a program is linked
 * with it. */
static int note_other(struct dl_phdr_info *info, size_t bytes, void *found)
{
	static const char *const others[] = { "libamdhip64.so",
		"libhsa-runtime64.so", "libze_loader.so" };
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;

	(void)bytes;
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		*(bool *)found |= !strncmp(name, others[i], strlen(others[i]));
	return *(bool *)found;
}

enum tauti_form_devices tauti_form_devices(void)
{
	bool other = false;

	dl_iterate_phdr(note_other, &other);
	if (other)
		return TAUTI_FORM_DEVICES_OTHER;
	return tauti_gpu_driver_is_there() ? TAUTI_FORM_DEVICES_CUDA :
		TAUTI_FORM_DEVICES_NONE;
}

/* --- a driver that comes late -------------------------------------------------------------*/

static struct tauti_gpu *open_gpu(void)
{
	struct tauti_gpu *gpu = NULL;
	struct taut_error err = { .message = "" };

	pthread_mutex_lock(&tauti_mpi_form.lock);
	gpu = atomic_load(&tauti_mpi_form.gpu);
	if (!gpu && !tauti_mpi_form.no_gpu && tauti_gpu_driver_is_there()) {
		tauti_mpi_form.no_gpu = tauti_gpu_create(&gpu, &err) != TAUT_OK;
		if (!tauti_mpi_form.no_gpu)
			atomic_store(&tauti_mpi_form.gpu, gpu);
		else
			tauti_form_say("%s; memory of devices is not known",
				err.message);
	}
	pthread_mutex_unlock(&tauti_mpi_form.lock);
	return gpu;
}

struct tauti_gpu *tauti_form_gpu(void)
{
	struct tauti_gpu *gpu = atomic_load_explicit(
		&tauti_mpi_form.gpu, memory_order_acquire);
	unsigned long long n_loaded, n_closed;

	if (gpu)
		return gpu;
	if (!tauti_form_count_objects(&n_loaded, &n_closed))
		n_loaded = 0;
	if (n_loaded && n_loaded == atomic_load_explicit(
		&tauti_mpi_form.n_loaded, memory_order_relaxed))
		return NULL;
	gpu = open_gpu();
	atomic_store(&tauti_mpi_form.n_loaded, n_loaded);
	return gpu;
}

bool tauti_form_uses_devices(void)
{
	struct tauti_gpu *gpu = tauti_form_gpu();
	tauti_gpu_context context = NULL;

	return gpu && !gpu->driver.context_current(&context);
}

/* --- places -------------------------------------------------------------------------------*/

taut_status tauti_form_where(struct tauti_gpu *gpu,
	const struct tauti_form_call *call, struct tauti_form_where *ret_where,
	struct taut_error *reterr)
{
	struct tauti_gpu_place in = { .context = NULL }, out = in;
	bool in_place = (uintptr_t)call->in == tauti_mpi_form.abi->in_place;
	taut_status status = TAUT_OK;

	if (gpu && call->out)
		status = tauti_gpu_find(gpu, call->out, &out, reterr);
	if (in_place)
		in = out;
	else if (gpu && call->in && !status)
		status = tauti_gpu_find(gpu, call->in, &in, reterr);
	ret_where->in = in.context;
	ret_where->out = out.context;
	return status;
}

/* --- captures -----------------------------------------------------------------------------*/

struct tauti_form_aside tauti_form_aside_begin(struct tauti_gpu *gpu)
{
	struct tauti_form_aside aside = { gpu, TAUTI_GPU_CAPTURE_RELAXED };

	if (gpu && gpu->driver.capture_mode(&aside.before))
		aside.gpu = NULL;
	return aside;
}

void tauti_form_aside_end(const struct tauti_form_aside *aside)
{
	unsigned mode = aside->before;

	if (aside->gpu)
		aside->gpu->driver.capture_mode(&mode);
}

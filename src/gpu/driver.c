/* driver.c - finds the CUDA driver that the program has loaded. */
#include <dlfcn.h>
#include <string.h>

#include "gpu/driver.h"

static const char name[] = "libcuda.so.1";

bool tauti_gpu_driver_is_there(void)
{
	void *library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);

	if (library)
		dlclose(library); /* it stays: somebody else has it open */
	return library != NULL;
}

taut_status tauti_gpu_driver_open(
	struct tauti_gpu_driver *ret_driver, struct taut_error *reterr)
{
	struct tauti_gpu_driver driver;
	const struct {
		const char *symbol;
		void *at;
	} all[] = {
#define ROW(field, symbol, args) { #symbol, &driver.field },
		TAUTI_GPU_CALLS(ROW)
	}, later[] = {
		TAUTI_GPU_CALLS_LATER(ROW)
#undef ROW
	};

	driver.library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
	if (!driver.library)
		return taut_error_set(reterr, TAUT_EIO, -1,
			"%s: expected to be loaded", name);
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		void *found = dlsym(driver.library, all[i].symbol);

		if (!found) {
			dlclose(driver.library);
			return taut_error_set(reterr, TAUT_EMATCH, -1,
				"%s: expected one with %s", name,
				all[i].symbol);
		}
		memcpy(all[i].at, &found, sizeof found);
	}
	for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
		void *found = dlsym(driver.library, later[i].symbol);

		memcpy(later[i].at, &found, sizeof found);
	}
	*ret_driver = driver;
	return TAUT_OK;
}

taut_status tauti_gpu_check(const struct tauti_gpu_driver *driver,
	tauti_gpu_result result, const char *what, struct taut_error *reterr)
{
	const char *text = NULL;

	if (!result)
		return TAUT_OK;
	if (driver->error_name(result, &text) || !text)
		text = "an error that it has no name for";
	return taut_error_set(reterr, result == TAUTI_GPU_OUT_OF_MEMORY ?
		TAUT_ENOMEM : TAUT_EIO, -1, "%s: %s (%u)", what, text, result);
}

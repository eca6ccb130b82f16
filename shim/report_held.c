/*
 * report_held.c - libraries that keep memory until the process ends, on purpose.
 *
 * Caching allocators of frameworks, and work spaces of NVIDIA's libraries, are never given back. The
 * library that called the driver, through the CUDA runtime or not, tells them.
 */
#include "report_held.h"

#include <string.h>

#include "report_sites.h"

/* Beginnings of the name of the file. */
static const char *const files[] = {
	"libc10_cuda", "libtorch_cuda", "libtorch_python", /* PyTorch */
	"xla_extension", "libjax", "xla_cuda_plugin", "libpjrt", /* JAX */
	"librmm", /* RAPIDS */
	"libcublas", "libcudnn", "libnccl", "libcufft", "libcusolver", "libcusparse", "libcurand",
	NULL,
};

/* Folders of packages whose files have names of no meaning. */
static const char *const folders[] = { "/cupy/", "/cupy_backends/", "/rmm/", "/jaxlib/", NULL };

static bool is_listed(const char *path)
{
	const char *file = report_base_name(path);

	for (const char *const *name = files; *name; name++)
		if (strncmp(file, *name, strlen(*name)) == 0)
			return true;
	for (const char *const *name = folders; *name; name++)
		if (strstr(path, *name))
			return true;
	return false;
}

bool report_is_held(const struct ledger_view *view, uint32_t site)
{
	const struct ledger_site *place = report_site_owner(view, site);

	return place && is_listed(report_site_path(view, place));
}

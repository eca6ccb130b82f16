/*
 * cmd_preflight.c - hidden: `cuward run` starts itself as this, to see whether its preload works.
 *
 * Status 0 if the library named by the argument is in this process.
 */
#include <dlfcn.h>
#include <sys/stat.h>

#include "cuward.h"

int cmd_preflight(int argc, char **argv)
{
	void *ours = dlsym(RTLD_DEFAULT, "cuward_label");
	struct stat loaded, wanted;
	Dl_info info;

	if (argc != 2 || !ours || !dladdr(ours, &info))
		return EXIT_FOUND;
	if (stat(info.dli_fname, &loaded) != 0 || stat(argv[1], &wanted) != 0)
		return EXIT_FOUND;
	return loaded.st_dev == wanted.st_dev && loaded.st_ino == wanted.st_ino ? 0 : EXIT_FOUND;
}

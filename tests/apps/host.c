/*
 * host.c - a program that knows nothing of CUDA and has a plug-in that does:
 * `host local|global|deep|space|deeplazy PLUGIN [END]` opens it, runs plugin_run() if there is one,
 * and ends: exit (default), _exit, close (dlclose first), quiet (plugin_run is not looked up).
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[1] : "";
	const char *end = argc > 3 ? argv[3] : "exit";
	int mode = !strcmp(how, "global") ? RTLD_NOW | RTLD_GLOBAL :
		!strcmp(how, "deep") ? RTLD_NOW | RTLD_DEEPBIND :
		!strcmp(how, "deeplazy") ? RTLD_LAZY | RTLD_DEEPBIND : RTLD_NOW;
	void *plugin = !strcmp(how, "space") ? dlmopen(LM_ID_NEWLM, argv[2], mode) : dlopen(argv[2], mode);
	int (*run)(void) = NULL;

	if (!plugin) {
		puts(dlerror());
		return 2;
	}
	if (strcmp(end, "quiet") != 0)
		run = (int (*)(void))dlsym(plugin, "plugin_run");
	if (run && run())
		return 1;
	if (!strcmp(end, "close"))
		dlclose(plugin);
	if (!strcmp(end, "_exit"))
		_exit(0);
	return 0;
}

/*
 * lookups.c - who answers the look-up of which name: `lookups [local|global|deepbind LIBRARY]...`.
 *
 * Opens the libraries, then prints `HOW NAME ANSWER` for each way to ask: ANSWER is the file that
 * defines what was found, or `absent` with the loader's words. A preload may change no line of
 * this but the file. lookups_linked.c is the same program with the driver among its libraries.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
	"cuInit", "cuMemAlloc", "cuMemAlloc_v2", "cuMemAllocAsync", "cuMemAllocAsync_ptsz", "cuMemCreate",
	"cuGetProcAddress", "cuGetProcAddress_v2", "cuGraphLaunch", "cuCtxCreate_v4", "cuGetErrorName",
	"cuward_simulated_driver", "cuMemAlloc_v9", "cuMemAlloc_", "cuMem", "cu", "cuI", "c", "",
	"cublasCreate_v2", "cudnnCreate", "curl_easy_init", "culaXYZ", "cuUserDefined", "CuInit",
	"cuGLInit", "cuMemGetAttribute_v2", "cuGraphicsGLRegisterImage", "cuEGLApiInit",
	"cuGLMapBufferObjectAsync_v2_ptsz", "cuFutureCall", "cuda", "malloc", "dlsym", "_exit",
};

int cuInit(unsigned int flags);

static void show(const char *how, const char *name, void *found)
{
	const char *problem = dlerror();
	const char *file = "?";
	Dl_info info;

	if (!found) {
		printf("%s %s absent: %s\n", how, name,
			problem ? strstr(problem, "undefined symbol") : "no word");
		return;
	}
	if (dladdr(found, &info))
		file = strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') + 1 : info.dli_fname;
	printf("%s %s %s%s%s\n", how, name, file, problem ? " but " : "", problem ? problem : "");
}

static void ask(void **handles, int count, const char *name)
{
	char how[20];

	show("default", name, dlsym(RTLD_DEFAULT, name));
	show("next", name, dlsym(RTLD_NEXT, name));
	show("main", name, dlsym(dlopen(NULL, RTLD_NOW), name));
	show("versioned", name, dlvsym(RTLD_DEFAULT, name, "CUDA_1.0"));
	for (int i = 0; i < count; i++) {
		snprintf(how, sizeof(how), "handle%d", i);
		show(how, name, dlsym(handles[i], name));
		snprintf(how, sizeof(how), "versioned%d", i);
		show(how, name, dlvsym(handles[i], name, "CUDA_1.0"));
	}
}

int main(int argc, char **argv)
{
	void *handles[8] = { NULL };
	int count = 0;

	for (int i = 1; i + 1 < argc; i += 2) {
		int mode = !strcmp(argv[i], "global") ? RTLD_GLOBAL :
			!strcmp(argv[i], "deepbind") ? RTLD_DEEPBIND : RTLD_LOCAL;

		handles[count] = dlopen(argv[i + 1], RTLD_NOW | mode);
		printf("open %s\n", handles[count++] ? "fine" : dlerror());
	}
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		ask(handles, count, names[i]);
#ifdef LINKED
	return cuInit(0);
#endif
	return 0;
}

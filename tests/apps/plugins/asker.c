/*
 * asker.c - what dlsym and dlvsym answer somebody, to the byte: ask_all() prints for each name and way
 * `WHO HOW NAME FILE+OFFSET`. A library; who.c is a program that asks too.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

void ask_all(const char *who);

static const char *const asked[] = {
	"malloc", "free", "calloc", "realloc", "memalign", "pthread_create", "pthread_mutex_lock",
	"pthread_key_create", "dlopen", "dlclose", "dladdr", "getenv", "puts", "fopen", "fork", "vfork", "close",
	"open", "write", "exit", "atexit", "memcpy", "strlen", "time", "sigaction", "environ",
	"ask_all", "main", "_start", "no_such_function", "cuts", "cuserid", "cublasCreate_v2", "cu", "",
};

static void show(const char *who, const char *how, const char *name, void *found)
{
	Dl_info info = { 0 };
	const char *file = "?";

	if (found && dladdr(found, &info) && info.dli_fname)
		file = strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') + 1 : info.dli_fname;
	if (found)
		printf("%s %s %s %s+%#lx\n", who, how, name, file,
			(unsigned long)((char *)found - (char *)info.dli_fbase));
	else
		printf("%s %s %s none\n", who, how, name);
}

void ask_all(const char *who)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	void *program = dlopen(NULL, RTLD_LAZY);

	for (unsigned i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		show(who, "next", asked[i], dlsym(RTLD_NEXT, asked[i]));
		show(who, "default", asked[i], dlsym(RTLD_DEFAULT, asked[i]));
		show(who, "libc", asked[i], dlsym(libc, asked[i]));
		show(who, "program", asked[i], dlsym(program, asked[i]));
		show(who, "next-version", asked[i], dlvsym(RTLD_NEXT, asked[i], GLIBC));
		show(who, "default-version", asked[i], dlvsym(RTLD_DEFAULT, asked[i], GLIBC));
	}
	dlclose(libc);
	dlclose(program);
}

/* Early: before main, while libraries are being opened. */
static __attribute__((constructor)) void ask_early(void)
{
	show("constructor", "next", "malloc", dlsym(RTLD_NEXT, "malloc"));
	show("constructor", "default", "malloc", dlsym(RTLD_DEFAULT, "malloc"));
}

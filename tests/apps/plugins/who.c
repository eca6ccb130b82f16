/*
 * who.c - a program that asks as asker.c does: itself, by a library it is linked with, and by the same
 * as a plug-in in another place, opened, closed and opened again, from a thread too.
 */
#include "asker.c"

static void *in_thread(void *library)
{
	((void (*)(const char *))dlsym(library, "ask_all"))("thread");
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	void *library = NULL;

	ask_all("main");
	for (int i = 1; i < argc; i++) {
		library = dlopen(argv[i], RTLD_NOW);
		if (!library)
			return 1;
		((void (*)(const char *))dlsym(library, "ask_all"))("plugin");
		dlclose(library);
		library = dlopen(argv[i], RTLD_LAZY);
	}
	if (library && (pthread_create(&thread, NULL, in_thread, library) || pthread_join(thread, NULL)))
		return 2;
	return 0;
}

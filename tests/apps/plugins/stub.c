/*
 * stub.c - what a toolkit installs as stubs/libcuda.so, to link with: every call fails.
 */
int cuInit(unsigned int flags);
int cuMemAlloc_v2(unsigned long long *pointer, unsigned long bytes);

int cuInit(unsigned int flags)
{
	(void)flags;
	return 34;
}

int cuMemAlloc_v2(unsigned long long *pointer, unsigned long bytes)
{
	(void)pointer;
	(void)bytes;
	return 34;
}

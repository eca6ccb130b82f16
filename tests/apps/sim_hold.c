/*
 * sim_hold.c - allocate bytes (argv[1]), print "ready", wait for a line, free them, print what is
 * free.
 *
 * Without a number it only prints the devices it sees: ordinal, bus, uuid, bytes.
 */
#include "sim_check.h"

static void list(void)
{
	CUuuid uuid;
	char bus[16];
	size_t bytes;
	int i, j, count;

	OK(cuDeviceGetCount(&count));
	for (i = 0; i < count; i++) {
		OK(cuDeviceGetPCIBusId(bus, sizeof(bus), i));
		OK(cuDeviceGetUuid(&uuid, i));
		OK(cuDeviceTotalMem_v2(&bytes, i));
		printf("%d %s ", i, bus);
		for (j = 0; j < 16; j++)
			printf("%02x", (unsigned char)uuid.bytes[j]);
		printf(" %zu\n", bytes);
	}
}

int main(int argc, char **argv)
{
	CUresult result = cuInit(0);
	size_t available, total;
	CUcontext context;
	CUdeviceptr p;

	if (result != CUDA_SUCCESS) {
		printf("cuInit %d\n", result);
		return 1;
	}
	if (argc < 2) {
		list();
		return 0;
	}
	OK(cuCtxCreate_v2(&context, 0, 0));
	result = cuMemAlloc_v2(&p, strtoull(argv[1], NULL, 0));
	printf("%s\n", result == CUDA_SUCCESS ? "ready" : "refused");
	fflush(stdout);
	if (getchar() == EOF || result != CUDA_SUCCESS)
		return 2;
	OK(cuMemFree_v2(p));
	OK(cuMemGetInfo_v2(&available, &total));
	printf("free %zu\n", available);
	return 0;
}

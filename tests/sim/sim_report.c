/*
 * sim_report.c - what a driver tells when something goes wrong: core dumps, logs, notifications.
 * Nothing goes wrong here: settings are kept, logs are empty, and nobody is notified.
 */
#include "sim_context.h"

#include <stdio.h>
#include <string.h>

/* ---- core dumps ---- */

#define TEXT 1024

static struct {
	char bytes[TEXT];
	size_t size; /* 0: as it was at the start */
} settings[CU_COREDUMP_MAX];

static bool is_text(CUcoredumpSettings attrib)
{
	return attrib == CU_COREDUMP_FILE || attrib == CU_COREDUMP_PIPE;
}

static size_t size_of(CUcoredumpSettings attrib)
{
	if (is_text(attrib))
		return settings[attrib].size ? settings[attrib].size : 1;
	return attrib == CU_COREDUMP_GENERATION_FLAGS ? sizeof(int) : sizeof(bool);
}

CUresult sim_cuCoredumpGetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size)
{
	size_t room;

	if (!size || attrib < CU_COREDUMP_ENABLE_ON_EXCEPTION || attrib >= CU_COREDUMP_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	room = *size;
	*size = size_of(attrib);
	if (!value)
		return CUDA_SUCCESS;
	if (room < *size)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(value, settings[attrib].bytes, *size);
	return CUDA_SUCCESS;
}

CUresult sim_cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size)
{
	if (!value || !size || attrib < CU_COREDUMP_ENABLE_ON_EXCEPTION ||
		attrib >= CU_COREDUMP_MAX || *size > TEXT ||
		(!is_text(attrib) && *size != size_of(attrib)))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(settings[attrib].bytes, value, *size);
	settings[attrib].size = *size;
	return CUDA_SUCCESS;
}

/* A context has what was set for all. */
CUresult sim_cuCoredumpGetAttribute(CUcoredumpSettings attrib, void *value, size_t *size)
{
	struct context *context;
	CUresult result = context_current(&context);

	return result == CUDA_SUCCESS ? sim_cuCoredumpGetAttributeGlobal(attrib, value, size)
				      : result;
}

CUresult sim_cuCoredumpSetAttribute(CUcoredumpSettings attrib, void *value, size_t *size)
{
	struct context *context;
	CUresult result = context_current(&context);

	return result == CUDA_SUCCESS ? sim_cuCoredumpSetAttributeGlobal(attrib, value, size)
				      : result;
}

/* ---- logs ---- */

static CUresult listen(void *call, struct device *device, void **out)
{
	struct listener *listener;

	if (!call || !out)
		return CUDA_ERROR_INVALID_VALUE;
	listener = object_new(KIND_listener, NULL);
	if (!listener)
		return CUDA_ERROR_OUT_OF_MEMORY;
	listener->device = device;
	*out = listener;
	return CUDA_SUCCESS;
}

static CUresult hush(const void *handle, const struct device *device)
{
	struct listener *listener = object_get(KIND_listener, handle);

	if (!listener || listener->device != device)
		return CUDA_ERROR_INVALID_VALUE;
	object_delete(listener);
	return CUDA_SUCCESS;
}

CUresult sim_cuLogsRegisterCallback(
	CUlogsCallback callbackFunc, void *userData, CUlogsCallbackHandle *callback_out)
{
	(void)userData;
	return listen((void *)callbackFunc, NULL, (void **)callback_out);
}

CUresult sim_cuLogsUnregisterCallback(CUlogsCallbackHandle callback)
{
	return hush(callback, NULL);
}

CUresult sim_cuLogsCurrent(CUlogIterator *iterator_out, unsigned int flags)
{
	if (!iterator_out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*iterator_out = 0;
	return CUDA_SUCCESS;
}

CUresult sim_cuLogsDumpToFile(CUlogIterator *iterator, const char *pathToFile, unsigned int flags)
{
	FILE *file = pathToFile && !flags ? fopen(pathToFile, "we") : NULL;

	(void)iterator;
	if (!pathToFile || flags)
		return CUDA_ERROR_INVALID_VALUE;
	return file && !fclose(file) ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult sim_cuLogsDumpToMemory(
	CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags)
{
	(void)iterator;
	if (!buffer || !size || !*size || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*buffer = 0;
	*size = 0;
	return CUDA_SUCCESS;
}

/* ---- notifications ---- */

CUresult sim_cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
	void *userData, CUasyncCallbackHandle *callback)
{
	(void)userData;
	if (!device_get(device))
		return CUDA_ERROR_INVALID_DEVICE;
	return listen((void *)callbackFunc, device_get(device), (void **)callback);
}

CUresult sim_cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle callback)
{
	return device_get(device) ? hush(callback, device_get(device)) : CUDA_ERROR_INVALID_DEVICE;
}

/* ---- what this device can do of the newest things: nothing ---- */

static CUresult no_atomics(
	unsigned int *capabilities, const CUatomicOperation *operations, unsigned int count)
{
	if (!capabilities || !operations || !count)
		return CUDA_ERROR_INVALID_VALUE;
	memset(capabilities, 0, count * sizeof(*capabilities));
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
	const CUatomicOperation *operations, unsigned int count, CUdevice dev)
{
	return device_get(dev) ? no_atomics(capabilities, operations, count)
			       : CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
	const CUatomicOperation *operations, unsigned int count, CUdevice srcDevice,
	CUdevice dstDevice)
{
	if (!device_get(srcDevice) || !device_get(dstDevice) || srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_DEVICE;
	return no_atomics(capabilities, operations, count);
}

CUresult sim_cuFlushGPUDirectRDMAWrites(
	CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope)
{
	struct context *context;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	return target == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX &&
			       (scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER ||
				       scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

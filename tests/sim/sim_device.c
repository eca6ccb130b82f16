/*
 * sim_device.c - which devices there are, which of them a process sees, and what they say.
 */
#include "sim_device.h"
#include "sim_context.h"
#include "sim_knobs.h"
#include "sim_pool.h"
#include "sim_visible.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct device devices[SIM_DEVICES];
int device_count;
static struct device *visible[SIM_DEVICES];
static int visible_count;

/* ---- the box ---- */

/* The n-th item of a list, or its last one. */
static size_t item(const char *list, int n, const char **start)
{
	size_t length = strcspn(list, ",");

	for (; n > 0 && list[length]; n--) {
		list += length + 1;
		length = strcspn(list, ",");
	}
	*start = list;
	return length;
}

static uint64_t memory_of(int index)
{
	const char *start;
	size_t length = item(knobs.memory, index, &start);
	char text[32];
	uint64_t bytes;

	snprintf(text, sizeof(text), "%.*s", (int)length, start);
	if (!knobs_size(text, &bytes) || !bytes) {
		fprintf(stderr, "simulated driver: CUWARD_SIM_MEMORY: cannot understand '%s'\n",
			text);
		abort();
	}
	return bytes / SIM_BLOCK * SIM_BLOCK;
}

static void parse_uuid(const char *text, CUuuid *uuid, bool *slice)
{
	unsigned char *bytes = (unsigned char *)uuid->bytes;
	size_t nibble = 0;

	memset(uuid, 0, sizeof(*uuid));
	*slice = !strncasecmp(text, "MIG-", 4);
	text += *slice || !strncasecmp(text, "GPU-", 4) ? 4 : 0;
	for (; *text && *text != ',' && nibble < 2 * sizeof(uuid->bytes); text++) {
		if (!isxdigit((unsigned char)*text))
			continue;
		bytes[nibble / 2] = (unsigned char)(bytes[nibble / 2] << 4 |
						    (isdigit((unsigned char)*text)
								    ? *text - '0'
								    : (*text | 0x20) - 'a' + 10));
		nibble++;
	}
}

static void name_device(struct device *device)
{
	char text[48];
	const char *start;
	int i, items = 1;

	for (i = 0; knobs.uuids[i]; i++)
		items += knobs.uuids[i] == ',';
	snprintf(text, sizeof(text), "51000000-0000-4000-8000-%012x", device->index);
	if (*knobs.uuids && device->index < items)
		item(knobs.uuids, device->index, &start);
	else
		start = text;
	parse_uuid(start, &device->uuid, &device->slice);
}

/* ---- CUDA_VISIBLE_DEVICES ---- */

/* The fastest first, unless the bus is to decide: then as they stand in the box. */
static void put_in_order(int order[SIM_DEVICES])
{
	const char *by = getenv("CUDA_DEVICE_ORDER"), *start = knobs.fastest;
	bool taken[SIM_DEVICES] = { false };
	int i, count = 0;

	while (*start && (!by || strcmp(by, "PCI_BUS_ID"))) {
		i = atoi(start);
		if (i >= 0 && i < device_count && !taken[i])
			taken[order[count++] = i] = true;
		start += strcspn(start, ",");
		start += *start == ',';
	}
	for (i = 0; i < device_count; i++)
		if (!taken[i])
			order[count++] = i;
}

static void make_visible(struct device *device)
{
	device->ordinal = visible_count;
	visible[visible_count++] = device;
}

static void read_visible(const char *list)
{
	CUuuid uuids[SIM_DEVICES];
	int i, count, order[SIM_DEVICES], seen[SIM_DEVICES];
	uint64_t slices = 0;

	put_in_order(order);
	for (i = 0; i < device_count; i++) {
		uuids[i] = devices[order[i]].uuid;
		slices |= (uint64_t)devices[order[i]].slice << i;
		seen[i] = i;
	}
	count = list ? visible_parse(list, uuids, slices, device_count, seen) : device_count;
	for (i = 0; i < count; i++)
		make_visible(&devices[order[seen[i]]]);
}

static void look_around(void)
{
	int i;

	device_count = (int)(knobs.devices < SIM_DEVICES ? knobs.devices : SIM_DEVICES);
	for (i = 0; i < device_count; i++) {
		devices[i].index = i;
		devices[i].ordinal = -1;
		devices[i].memory = memory_of(i);
		pthread_mutex_init(&devices[i].lock, NULL);
		name_device(&devices[i]);
	}
	read_visible(getenv("CUDA_VISIBLE_DEVICES"));
}

CUresult devices_open(void)
{
	int i;

	visible_count = 0;
	look_around();
	if (!visible_count)
		return CUDA_ERROR_NO_DEVICE;
	if (!arenas_open() || !usage_open())
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (i = 0; i < device_count; i++)
		if (!pool_default(&devices[i]))
			return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

int devices_visible(void)
{
	return visible_count;
}

struct device *device_get(CUdevice ordinal)
{
	return ordinal >= 0 && ordinal < visible_count ? visible[ordinal] : NULL;
}

/* ---- calls ---- */

CUresult sim_cuDeviceGetCount(int *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = visible_count;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGet(CUdevice *device, int ordinal)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetName(char *name, int len, CUdevice dev)
{
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)len, "Simulated GPU");
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*uuid = device_get(dev)->uuid;
	return CUDA_SUCCESS;
}

/* The first ABI says of every slice which GPU it is a part of: here that all are of one. */
CUresult sim_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	CUresult result = sim_cuDeviceGetUuid_v2(uuid, dev);

	if (result == CUDA_SUCCESS && device_get(dev)->slice)
		memset(uuid->bytes, 0x51, sizeof(uuid->bytes));
	return result;
}

CUresult sim_cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
	(void)luid, (void)deviceNodeMask, (void)dev;
	return CUDA_ERROR_NOT_SUPPORTED; /* a Windows notion */
}

CUresult sim_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = device_get(dev)->memory;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
	size_t all;
	CUresult result = bytes ? sim_cuDeviceTotalMem_v2(&all, dev) : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		*bytes = all > UINT32_MAX ? UINT32_MAX : (unsigned)all;
	return result;
}

CUresult sim_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	if (!pi || (int)attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*pi = device_attribute(device_get(dev), attrib);
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	CUresult result =
		sim_cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev);

	if (result != CUDA_SUCCESS)
		return result;
	return sim_cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev);
}

CUresult sim_cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
	struct device *device = device_get(dev);

	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	*prop = (CUdevprop){
		.maxThreadsPerBlock =
			device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
		.maxThreadsDim = { 1024, 1024, 64 },
		.maxGridSize = { 2147483647, 65535, 65535 },
		.sharedMemPerBlock = 49152,
		.totalConstantMemory = 65536,
		.SIMDWidth = 32,
		.memPitch = 2147483647,
		.regsPerBlock = 65536,
		.clockRate = device_attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
		.textureAlign = 512,
	};
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	if (!pciBusId || len < 13)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(pciBusId, (size_t)len, "0000:%02X:00.0", device_get(dev)->index + 1);
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	unsigned domain = 0, bus, slot, function = 0;
	int i;

	if (!dev || !pciBusId)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3 &&
		(domain = 0, sscanf(pciBusId, "%x:%x.%x", &bus, &slot, &function) < 2))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < visible_count; i++)
		if (!domain && !slot && bus == (unsigned)visible[i]->index + 1) {
			*dev = i;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	if (!canAccessPeer)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev) || !device_get(peerDev))
		return CUDA_ERROR_INVALID_DEVICE;
	*canAccessPeer = dev != peerDev;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetP2PAttribute(
	int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice)
{
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(srcDevice) || !device_get(dstDevice) || srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_DEVICE;
	*value = attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
		 attrib == CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
	if (!pi || type >= CU_EXEC_AFFINITY_TYPE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*pi = 0;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetTexture1DLinearMaxWidth(
	size_t *maxWidthInElements, CUarray_format format, unsigned numChannels, CUdevice dev)
{
	if (!maxWidthInElements || !numChannels || !format)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*maxWidthInElements = 268435456;
	return CUDA_SUCCESS;
}

/*
 * attach.c - what happens once, when cuInit has succeeded: devices, slot, limits, tracing.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "guest.h"
#include "attend.h"
#include "bounds.h"
#include "log.h"
#include "lookup.h"
#include "share.h"
#include "uncancelled.h"
#include "versions.h"

/* A GPU without memory of its own takes the machine's: whoever reads its total is told. */
static void tell_integrated(struct ledger_device *device, CUdevice handle)
{
	static const char mark[] = " (integrated)";
	int integrated = 0;
	size_t length;

	if (real.cuDeviceGetAttribute(&integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, handle) != CUDA_SUCCESS ||
	    !integrated)
		return;
	length = strnlen(device->name, sizeof(device->name) - sizeof(mark));
	memcpy(device->name + length, mark, sizeof(mark));
}

static bool is_known(const struct ledger_device *device)
{
	for (const struct ledger_device *other = guest.header->devices; other < device; other++)
		if (memcmp(other->uuid, device->uuid, sizeof(device->uuid)) == 0)
			return true;
	return false;
}

/*
 * Everything is kept by UUID. Where a driver has none, or the same for two devices, the place on the bus
 * stands for it: it is the same in each process that sees the device.
 */
static void identify(struct ledger_device *device, CUdevice handle)
{
	static const uint8_t none[sizeof(device->uuid)];
	CUuuid uuid = { { 0 } };

	if (!driver_has(CALL_cuDeviceGetUuid_v2) || real.cuDeviceGetUuid_v2(&uuid, handle) != CUDA_SUCCESS)
		real.cuDeviceGetUuid(&uuid, handle);
	memcpy(device->uuid, uuid.bytes, sizeof(device->uuid));
	if (memcmp(device->uuid, none, sizeof(none)) != 0 && !is_known(device))
		return;
	memset(device->uuid, 0, sizeof(device->uuid));
	memcpy(device->uuid, device->pci_bus_id, strnlen(device->pci_bus_id, sizeof(device->uuid) - 1));
	if (!device->pci_bus_id[0] || is_known(device))
		device->uuid[sizeof(device->uuid) - 1] = 1 + (device - guest.header->devices);
}

static void describe_device(struct ledger_device *device, CUdevice handle)
{
	size_t total = 0;

	real.cuDeviceTotalMem_v2(&total, handle);
	real.cuDeviceGetName(device->name, sizeof(device->name), handle);
	tell_integrated(device, handle);
	real.cuDeviceGetPCIBusId(device->pci_bus_id, sizeof(device->pci_bus_id), handle);
	identify(device, handle);
	device->total_bytes = total;
	device->limit_bytes = BYTES_NONE;
	device->job_limit_bytes = BYTES_NONE;
	device->inner_limit_bytes = BYTES_NONE;
	device->user_limit_bytes = BYTES_NONE;
	device->group_limit_bytes = BYTES_NONE;
	device->gpu_limit_bytes = BYTES_NONE;
	device->untracked_bytes = -1;
	device->overhead_bytes = -1;
}

static void find_devices(int count)
{
	guest.more_devices = count > SLOT_DEVICES;
	if (count > SLOT_DEVICES)
		count = SLOT_DEVICES;
	for (int i = 0; i < count; i++) {
		struct guest_device *device = &guest.devices[i];

		device->ledger = &guest.header->devices[i];
		device->word = &guest.private_words[i];
		device->limit = BYTES_NONE;
		memset(&device->group, 0xff, sizeof(device->group)); /* BYTES_NONE */
		device->unattributed = INT64_MIN;
		if (real.cuDeviceGet(&device->handle, i) == CUDA_SUCCESS)
			describe_device(device->ledger, device->handle);
	}
	guest.device_count = guest.header->device_count = count;
}

/* The simulated driver says what it is by a symbol no real driver has. */
static void describe_driver(void)
{
	int version = 0;
	void *driver = dlopen(driver_path(), RTLD_LAZY | RTLD_NOLOAD);

	real.cuDriverGetVersion(&version);
	guest.header->driver_version = version;
	guest.header->simulated = driver && lookup_real(driver, "cuward_simulated_driver") != NULL;
	if (driver)
		dlclose(driver);
}

static void take_slot(void)
{
	char why[256] = "";

	guest.slot = share_take_slot(guest.header, why, sizeof(why));
	if (guest.slot) {
		for (uint32_t i = 0; i < guest.device_count; i++)
			guest.devices[i].word = &guest.slot->words[guest.devices[i].ledger->slot_device];
		guest.key = guest.header->slot << 22 | (guest.slot->generation & 0x3ff) << 12;
	} else {
		guest_find(FINDING_SHARE_UNAVAILABLE);
		log_line(LOG_WARN, "%s; other processes do not see this one", why);
		guest.key = (guest.pid * 2654435761u ^ guest_clock_ns()) & ~0xfffu;
	}
	guest.header->who.process = guest.key;
	if (guest.slot)
		guest.slot->who = guest.header->who;
}

/*
 * One thread does it, without our lock while others may need it: the loader is called. Also reached
 * by an allocation without a cuInit that we saw; the driver says whether there was one.
 */
static void attach(int count)
{
	bool granted;
	UNCANCELLED_HERE;

	lock_take(&guest.attaching);
	if (!guest.attached) {
		describe_driver();
		find_devices(count);
		take_slot();
		granted = bounds_open();
		driver_settle();
		if (lookup_asked_nvml())
			guest_find_once(FINDING_NVML_UNLIMITED);
		guest.header->uses_cuda = granted;
		if (!granted) {
			guest.refused = true;
			guest_find(FINDING_LIMIT_REFUSED);
			log_line(LOG_ERROR, "%s", guest.header->refusal);
		}
		attend_open();
		__atomic_store_n(&guest.attached, true, __ATOMIC_RELEASE);
	}
	lock_give_back(&guest.attaching);
}

/* Without devices no limit binds: a driver that does not say how many there are is tried. -1: none. */
static int count_devices(void)
{
	CUdevice handle;
	int count = 0;

	if (real.cuDeviceGetCount(&count) == CUDA_SUCCESS)
		return count;
	for (count = 0; count <= SLOT_DEVICES; count++)
		if (real.cuDeviceGet(&handle, count) != CUDA_SUCCESS)
			break;
	return count ? count : -1;
}

bool guest_attach(void)
{
	int count;

	if (!__atomic_load_n(&guest.attached, __ATOMIC_ACQUIRE) && guest.header) {
		versions_bind_absent();
		count = count_devices();
		if (count >= 0)
			attach(count);
	}
	return !guest.refused;
}

void guest_look(void)
{
	if (!guest.attached)
		guest_attach();
	attend_slow();
}

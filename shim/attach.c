/*
 * attach.c - what happens once, when cuInit has succeeded: devices, slot, limits, tracing.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "limit.h"
#include "log.h"
#include "lookup.h"
#include "settings.h"
#include "share.h"
#include "trace.h"

static void describe_device(struct ledger_device *device, CUdevice handle)
{
	CUuuid uuid = { { 0 } };
	size_t total = 0;

	if (!driver_has(CALL_cuDeviceGetUuid_v2) || real.cuDeviceGetUuid_v2(&uuid, handle) != CUDA_SUCCESS)
		real.cuDeviceGetUuid(&uuid, handle);
	memcpy(device->uuid, uuid.bytes, sizeof(device->uuid));
	real.cuDeviceTotalMem_v2(&total, handle);
	real.cuDeviceGetName(device->name, sizeof(device->name), handle);
	real.cuDeviceGetPCIBusId(device->pci_bus_id, sizeof(device->pci_bus_id), handle);
	device->total_bytes = total;
	device->limit_bytes = BYTES_NONE;
	device->job_limit_bytes = BYTES_NONE;
	device->untracked_bytes = -1;
	device->overhead_bytes = -1;
}

static void find_devices(int count)
{
	if (count > SLOT_DEVICES)
		count = SLOT_DEVICES;
	for (int i = 0; i < count; i++) {
		struct guest_device *device = &guest.devices[i];

		device->ledger = &guest.header->devices[i];
		device->word = &guest.private_words[i];
		device->limit = device->group.job = device->group.user = BYTES_NONE;
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

/* What one setting says of each device. False: `refusal` says what is wrong with it. */
static bool resolve(enum setting setting, uint64_t bytes[SLOT_DEVICES])
{
	struct limit limit;
	struct limit_device devices[SLOT_DEVICES];
	char why[200] = "";
	char unused[200];

	for (uint32_t i = 0; i < guest.device_count; i++) {
		memcpy(devices[i].uuid, guest.devices[i].ledger->uuid, sizeof(devices[i].uuid));
		devices[i].total_bytes = guest.devices[i].ledger->total_bytes;
	}
	if (!limit_parse(&limit, settings_get(setting), why, sizeof(why)) ||
	    !limit_resolve(&limit, devices, guest.device_count, bytes, why, sizeof(why))) {
		snprintf(guest.header->refusal, sizeof(guest.header->refusal), "%s: %s",
			settings_variable(setting), why);
		return false;
	}
	if (limit_unused(&limit, devices, guest.device_count, unused, sizeof(unused))) {
		guest_find(FINDING_LIMIT_UNUSED);
		log_line(LOG_WARN, "%s names a GPU that is not visible: %s", settings_variable(setting),
			unused);
	}
	return true;
}

static void limit_process(struct guest_device *device, uint64_t bytes)
{
	device->limit = device->ledger->limit_bytes = bytes;
	if (bytes != BYTES_NONE)
		strcpy(device->ledger->limit_source, "CUWARD_MEMORY");
	if (guest.slot)
		guest.slot->process_limit[device->ledger->slot_device] = bytes;
}

/* Without a slot nobody sees the others: then such a limit cannot be kept, and nothing may start. */
static bool limit_groups(struct guest_device *device, uint64_t job_bytes)
{
	device->group = (struct group_limits){ .job = job_bytes, .user = BYTES_NONE };
	device->grouped = job_bytes != BYTES_NONE;
	device->ledger->job_limit_bytes = job_bytes;
	if (device->grouped)
		strcpy(device->ledger->job_limit_source, "CUWARD_JOB_MEMORY");
	if (!device->grouped || guest.slot)
		return true;
	snprintf(guest.header->refusal, sizeof(guest.header->refusal),
		"CUWARD_JOB_MEMORY: the shared state cannot be used, so the job's other processes cannot be "
		"seen; `cuward doctor` says why");
	return false;
}

/* The job that the job's limit is of: told by `cuward run`, else the outermost. */
static void find_group(void)
{
	char job[128];

	if (!guest.slot)
		return;
	snprintf(job, sizeof(job), "%s", settings_get(SETTING_job_of));
	if (!job[0]) {
		snprintf(job, sizeof(job), "%s", settings_get(SETTING_job));
		job[strcspn(job, "/")] = '\0';
	}
	group_open(job, guest.header->slot);
}

static bool resolve_limits(void)
{
	uint64_t process[SLOT_DEVICES];
	uint64_t job[SLOT_DEVICES];
	bool kept = true;

	find_group();
	if (!resolve(SETTING_memory, process) || !resolve(SETTING_job_memory, job))
		return false;
	for (uint32_t i = 0; i < guest.device_count && kept; i++) {
		limit_process(&guest.devices[i], process[i]);
		kept = limit_groups(&guest.devices[i], job[i]);
	}
	return kept;
}

static void uuid_text(char text[48], const uint8_t uuid[16])
{
	static const char digits[] = "0123456789abcdef";
	char *at = stpcpy(text, "GPU-");

	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		*at++ = digits[uuid[i] >> 4];
		*at++ = digits[uuid[i] & 15];
	}
	*at = '\0';
}

static void trace_who(void)
{
	const struct process_identity *who = &guest.header->who;
	struct event_process event = {
		.process = guest.key, .pid = who->pid, .ppid = who->ppid, .uid = who->uid,
		.pid_ns = who->pid_ns, .image = who->image, .start_ticks = who->start_ticks,
		.start_realtime_ns = who->start_realtime_ns, .command = who->command, .job = who->job,
		.labels = who->labels, .version = CUWARD_VERSION,
	};

	trace_process(&event);
	for (uint32_t i = 0; i < guest.device_count; i++) {
		const struct ledger_device *device = guest.devices[i].ledger;
		char uuid[48];
		struct event_device seen = {
			.process = guest.key, .device = i, .uuid = uuid, .name = device->name,
			.total_bytes = device->total_bytes, .limit_bytes = device->limit_bytes,
		};

		uuid_text(uuid, device->uuid);
		trace_device(&seen);
	}
}

static void note_trace_state(enum trace_state state)
{
	guest.header->trace = state;
	if (guest.slot)
		__atomic_store_n(&guest.slot->trace, state, __ATOMIC_RELEASE);
}

static void start_tracing(void)
{
	char folder[512] = ".";
	char why[256] = "";
	enum trace_state state;
	Dl_info info;
	char *slash;

	if (strcmp(settings_get(SETTING_trace), "1") != 0)
		return;
	if (dladdr((void *)guest_attach, &info) && info.dli_fname)
		snprintf(folder, sizeof(folder), "%s", info.dli_fname);
	slash = strrchr(folder, '/');
	if (slash)
		*slash = '\0';
	note_trace_state(TRACE_STARTING);
	state = trace_start(folder, why, sizeof(why));
	note_trace_state(state);
	if (state == TRACE_REGISTERED) {
		trace_who();
	} else {
		guest_find(FINDING_TRACE_UNAVAILABLE);
		log_line(LOG_WARN, "no trace: %s", why);
	}
}

/*
 * One thread does it, without our lock while others may need it: the loader is called. Also reached
 * by an allocation without a cuInit that we saw; the driver says whether there was one.
 */
bool guest_attach(void)
{
	bool granted = true;
	int count = 0;

	if (__atomic_load_n(&guest.attached, __ATOMIC_ACQUIRE))
		return !guest.refused;
	if (!guest.header || real.cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return !guest.refused;
	lock_take(&guest.attaching);
	if (!guest.attached) {
		describe_driver();
		find_devices(count);
		take_slot();
		granted = resolve_limits();
		driver_settle();
		guest.header->uses_cuda = granted;
		if (!granted) {
			guest.refused = true;
			guest_find(FINDING_LIMIT_REFUSED);
			log_line(LOG_ERROR, "%s", guest.header->refusal);
		}
		start_tracing();
		__atomic_store_n(&guest.attached, true, __ATOMIC_RELEASE);
	}
	lock_give_back(&guest.attaching);
	return !guest.refused;
}

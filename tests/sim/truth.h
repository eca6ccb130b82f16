/*
 * truth.h - what the simulated driver knows about its memory, laid out in the file
 * CUWARD_SIM_TRUTH.
 *
 * Processes that name the same file share the devices: one fills them, the next runs out. Each
 * process writes only to its own row, at every change and straight into the mapping, so a process
 * that is killed leaves its truth behind. It holds an open-file-description lock on the bytes of
 * its row; a row without that lock belongs to a dead process, whose memory the next one to look
 * gives back. `build/sim/truth FILE` prints all of this as key=value lines.
 */
#ifndef SIM_TRUTH_H
#define SIM_TRUTH_H

#include <stdatomic.h>
#include <stdint.h>

#define SIM_TRUTH_MAGIC 0x63757472u
#define SIM_TRUTH_VERSION 4u
#define SIM_TRUTH_DEVICES 40
#define SIM_TRUTH_PROCESSES 256

/*
 * Who asked for the memory. `charged` families use up a device and are counted in `requested`.
 * `graph` are the bytes that nodes ask for, launched or not; `host` all memory of hosts;
 * `imported` what other processes or drivers pay for, of the device it lies on.
 */
#define SIM_FAMILIES(X) \
	X(device, 1) \
	X(pool, 1) \
	X(managed, 1) \
	X(array, 1) \
	X(vmm, 1) \
	X(graph, 0) \
	X(module, 0) \
	X(host, 0) \
	X(imported, 0)

#define SIM_FAMILY_NUMBER(name, charged) FAMILY_##name,
enum sim_family { SIM_FAMILIES(SIM_FAMILY_NUMBER) SIM_TRUTH_FAMILIES };

/* Handles that programs were given, by the words of reports; those that the driver keeps to itself do not count. */
#define SIM_OBJECTS(X) \
	X(stream) \
	X(event) \
	X(module) \
	X(library) \
	X(kernel) \
	X(graph) \
	X(graph_exec) \
	X(mem_pool) \
	X(texture) \
	X(surface) \
	X(texture_reference) \
	X(link) \
	X(external_semaphore) \
	X(green_context)

#define SIM_OBJECT_NUMBER(name) GIVEN_##name,
enum sim_given { GIVEN_nothing, SIM_OBJECTS(SIM_OBJECT_NUMBER) SIM_TRUTH_OBJECTS };

typedef _Atomic uint64_t sim_count;

struct sim_usage {
	sim_count bytes;
	sim_count high;
	sim_count live;
	sim_count allocs;
	sim_count frees;
};

struct sim_handles {
	sim_count created;
	sim_count live;
};

/* One device, as one process uses it. Bytes requested are exact; physical ones come in blocks. */
struct sim_truth_usage {
	sim_count physical;
	sim_count physical_high;
	sim_count requested;
	sim_count requested_high;
	sim_count pool_reserved;
	sim_count pool_reserved_high;
	sim_count graph_reserved; /* what graphs use, and what is kept for their next launch */
	sim_count graph_reserved_high;
	sim_count taken_high; /* requested and kept for graphs, together */
	sim_count contexts;
	struct sim_usage family[SIM_TRUTH_FAMILIES];
};

enum sim_row_state { ROW_FREE, ROW_LIVE, ROW_REAPED };

struct sim_truth_process {
	_Atomic uint32_t state;
	_Atomic int32_t pid;
	sim_count start_time; /* of the process, clock ticks since boot, as in /proc/PID/stat */
	sim_count inits;
	sim_count launches;
	sim_count graph_launches;
	sim_count copies;
	sim_count synchronised; /* streams, contexts and events waited for */
	sim_count bad_frees;    /* frees of something that is not live */
	sim_count begun, done;  /* changes of its own and the device's figures; equal: none is under way */
	struct sim_handles objects[SIM_TRUTH_OBJECTS];
	struct sim_truth_usage device[SIM_TRUTH_DEVICES];
};

/* One device, as all live processes use it together. */
struct sim_truth_device {
	sim_count memory;
	sim_count physical;
	sim_count physical_high;
	sim_count requested;
	sim_count requested_high;
};

struct sim_truth {
	_Atomic uint32_t magic;
	uint32_t version;
	_Atomic uint32_t devices;
	_Atomic uint32_t reaps; /* of the dead: how often from bit 16 on, how many are at it below */
	_Atomic uint32_t torn;  /* somebody died between his own figures and those of the device */
	struct sim_truth_device device[SIM_TRUTH_DEVICES];
	struct sim_truth_process process[SIM_TRUTH_PROCESSES];
};

#endif

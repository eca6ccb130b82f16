/*
 * sim_device.h - the devices of the simulated box.
 */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

#include "sim_memory.h"

struct device {
	int index;   /* in the box */
	int ordinal; /* as CUDA_VISIBLE_DEVICES left it, or -1 */
	CUuuid uuid;
	bool slice; /* of a GPU that is divided; its UUID is said as MIG-... */
	uint64_t memory;
	pthread_mutex_t lock;
	struct arena arenas[ARENA_KINDS];
	struct sim_truth_usage *truth;   /* what this process uses */
	struct sim_truth_device *shared; /* what all do; NULL: nobody else looks */
	struct context *primary;
	unsigned primary_flags, primary_references;
	struct pool *default_pool, *current_pool;
	struct heap graph_heap;
};

extern struct device devices[SIM_DEVICES];
extern int device_count; /* in the box */

CUresult devices_open(void);
int devices_visible(void);
struct device *device_get(CUdevice ordinal); /* NULL: no such device */
int device_attribute(const struct device *device, CUdevice_attribute attribute);

#endif

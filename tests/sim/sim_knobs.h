/*
 * sim_knobs.h - the settings of the simulated driver, one row each. README.md explains them.
 *
 * X(kind, field, "NAME", "default"), read from CUWARD_SIM_NAME when the library is loaded.
 * Kinds: number, size (bytes, with K M G T), text, flag.
 */
#ifndef SIM_KNOBS_H
#define SIM_KNOBS_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_KNOBS(X) \
	X(number, devices, "DEVICES", "1") \
	X(text, memory, "MEMORY", "16G") \
	X(text, uuids, "UUIDS", "") \
	X(text, fastest, "FASTEST", "") \
	X(text, cc, "CC", "8.6") \
	X(flag, integrated, "INTEGRATED", "0") \
	X(number, driver_version, "DRIVER_VERSION", "0") \
	X(size, context_bytes, "CONTEXT_BYTES", "300M") \
	X(size, module_bytes, "MODULE_BYTES", "0") \
	X(text, kernel_ns, "KERNEL_NS", "0") \
	X(number, queue, "QUEUE", "0") \
	X(text, copy_gbps, "COPY_GBPS", "0") \
	X(number, clock_ppm, "CLOCK_PPM", "0") \
	X(text, call_delay_ns, "CALL_DELAY_NS", "0") \
	X(text, return_delay_ns, "RETURN_DELAY_NS", "0") \
	X(number, auto_free_ns, "AUTO_FREE_NS", "0") \
	X(text, reuse, "REUSE", "immediate") \
	X(text, handles, "HANDLES", "late") \
	X(text, fault, "FAULT", "") \
	X(flag, reenter, "REENTER", "0") \
	X(flag, unreadable, "UNREADABLE", "0") \
	X(flag, poison_fork, "POISON_FORK", "1") \
	X(text, deinit, "DEINIT", "0") \
	X(text, call_log, "CALL_LOG", "") \
	X(text, look_ups, "LOOK_UPS", "") \
	X(flag, tables, "TABLES", "0") \
	X(text, truth, "TRUTH", "")

typedef uint64_t sim_number, sim_size;
typedef const char *sim_text;
typedef bool sim_flag;

#define SIM_KNOB_FIELD(kind, field, name, fallback) sim_##kind field;
struct sim_knobs {
	SIM_KNOBS(SIM_KNOB_FIELD)
};
extern struct sim_knobs knobs;

void knobs_read(void);
bool knobs_size(const char *text, uint64_t *bytes);

/* A value out of "1000" or "name=1000,other=never,*=5": the first row that fits, else fallback. */
uint64_t knobs_by_name(const char *list, const char *name, uint64_t fallback);

#endif

/*
 * module.h - which file an address of the process comes from, as the loader knows it.
 */
#ifndef CUWARD_MODULE_H
#define CUWARD_MODULE_H

#include <stdbool.h>
#include <stdint.h>

enum module_what {
	MODULE_LENDS_GIL = 1,   /* calls on behalf of Python, with Python's lock given up */
	MODULE_INTERPRETER = 2, /* is the interpreter of Python */
};

struct module_place {
	uint32_t module; /* site of the module in the ledger, 0 none */
	uint64_t offset; /* the address as the file has it */
	const char *function; /* that exports it, "" */
	uint64_t function_offset;
	unsigned what; /* enum module_what */
};

/* What stands just before this return address. False: no module; offset is the address. */
bool module_describe(struct module_place *place, uint64_t address);

/* Is this an address in executable memory of a module? */
bool module_holds(uint64_t address);

/* Before the first of them. */
void module_prepare(void);
void module_forget(void);

#endif

/*
 * traces.h - the TRACE arguments of a command as a finished model.
 */
#ifndef TRACES_H
#define TRACES_H

#include "model.h"

struct traces {
	char **paths;
	unsigned count;
	struct model_range range;
	bool has_pid; /* only processes with it */
	uint32_t pid;
	const struct model_observer *observer; /* NULL none */
};

/* Returns NULL and the exit status, the reason being told, or a model to be closed. */
struct model *traces_read(const struct traces *traces, struct trace_facts *facts, int *status);

#endif

/*
 * sim_host.h - host memory that the device may reach.
 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "sim_context.h"

bool host_registered(uint64_t address, struct found *found);
void host_forget(const struct context *context);

#endif

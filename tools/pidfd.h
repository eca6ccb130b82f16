/*
 * pidfd.h - a descriptor of a process: a pid that is handed on in the meantime means nobody else.
 */
#ifndef PIDFD_H
#define PIDFD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* -1 with errno: there is no such process, or the kernel is older than 5.3. */
int pidfd_of(pid_t pid);
bool pidfd_signal(int fd, int number);
bool pidfd_ends_within(int fd, uint64_t ns);

#endif

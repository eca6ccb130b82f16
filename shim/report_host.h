/*
 * report_host.h - who and where this is, read without libc's stdio, locale and name services.
 */
#ifndef CUWARD_REPORT_HOST_H
#define CUWARD_REPORT_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each fills text with a word; false, and an empty text, where it is unknown. */
bool report_host_name(char *text, size_t bytes);
bool report_boot_id(char *text, size_t bytes);
bool report_user_name(uint32_t uid, char *text, size_t bytes); /* from /etc/passwd */

/* Our own pid in the outermost namespace that /proc knows; 0 unknown. */
uint32_t report_outer_pid(void);

#endif

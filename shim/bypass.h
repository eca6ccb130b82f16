/*
 * bypass.h - libraries whose calls of the driver do not come by us, and how they are led back.
 */
#ifndef CUWARD_BYPASS_H
#define CUWARD_BYPASS_H

#include <stdbool.h>

struct ledger_header;

/* From here on look-ups are watched: whoever started before us (a sanitizer) is ready now. */
void bypass_start(void);

/* Something is looked up by a handle other than before: a library may have been opened. */
void bypass_look(void *handle);

/* Look once more, at the end of the process: by exit, or by _exit? Did anything get around us? */
bool bypass_look_at_end(bool at_exit);

/* Copy what was found into the ledger. */
void bypass_publish(struct ledger_header *header);

/* The last handle that was looked at: on the way of every dlsym, so it is compared in place. */
extern void *bypass_handle __attribute__((visibility("hidden")));

#endif

/*
 * refs.h - memory that lives as long as somebody refers to it, by handle or by mapping.
 *
 * Physical memory of cuMemCreate dies when its handle was released as often as it was handed out and
 * nothing is mapped any more; IPC memory when it was closed as often as opened. A count falls
 * before the driver is told, as any record is claimed before its free: the driver may reissue the
 * handle at once. While a call is under way the record stays, and comes back if the driver refused.
 */
#ifndef CUWARD_REFS_H
#define CUWARD_REFS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuward/ledger.h"

enum ref { REF_HANDLE, REF_MAPPING };

struct ref_change {
	uint32_t record; /* LEDGER_NO_RECORD: nothing we know */
	enum ref what;
	bool more; /* one more; else one less */
	uint32_t moved; /* after the close: its references are this record's now, or LEDGER_NO_RECORD */
};

/* The driver is about to be told. Then call it, always, and close. False: no such live record. */
bool refs_open(struct ref_change *change, enum record_class class, uint64_t handle, enum ref what,
	bool more);
/*
 * One more to memory of others, if the handle stands for such memory in this context; or to our own,
 * opened where it was made: a driver may say where it is, and it must not stop being charged. Looked
 * at and opened in one go: the record of what was closed meanwhile may stand for anything.
 */
bool refs_open_again(struct ref_change *change, enum record_class class, uint64_t handle,
	uint64_t context);
/* The same where the record is known, because something that refers to it is. */
bool refs_open_record(struct ref_change *change, uint32_t record, enum ref what, bool more);

/* The driver answered. True: that was the last one; the record is claimed, account for it. */
bool refs_close(struct ref_change *change, bool done);

/*
 * A claimed record's memory is gone, however many refer to it. False: a call that changes its count is
 * still under way, and accounts for it when it closes.
 */
bool refs_gone(uint32_t record);

#endif

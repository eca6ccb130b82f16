/*
 * trace_end.h - the end of a process, told to a trace on its behalf: it cannot do so itself.
 */
#ifndef TRACE_END_H
#define TRACE_END_H

#include "ledger_read.h"
#include "session.h"

/* Is it still running, as far as its ledger and its view tell? */
bool trace_end_is_running(const struct ledger_file *file);

/* Its leaks, if it ended, and its end. */
void trace_end_tell(struct session *session, const struct ledger_file *file);

#endif

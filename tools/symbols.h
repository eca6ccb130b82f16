/*
 * symbols.h - addresses of modules as functions, files and lines, from debug information.
 *
 * The file must be the one that ran: where its build id is another, or it is gone, offsets are all
 * there is, and the note says why.
 */
#ifndef SYMBOLS_H
#define SYMBOLS_H

#include "report.h"

/* One instance; modules that were looked at stay open. */
const struct report_symbols *symbols_open(void);
void symbols_close(void);

/* The name as its programmer wrote it, where it is one of C++; free() it. */
char *symbols_demangled(const char *name);

#endif

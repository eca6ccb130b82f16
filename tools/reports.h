/*
 * reports.h - JSON reports that lie beside a trace: what they say about leaks is the truth.
 */
#ifndef REPORTS_H
#define REPORTS_H

#include "model.h"

/* Read every report (*.json) in the folder of a trace; what is none is left alone. */
void reports_beside(const char *trace, struct model *model);

#endif

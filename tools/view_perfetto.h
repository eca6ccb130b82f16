/*
 * view_perfetto.h - a trace for ui.perfetto.dev, written while the model is fed.
 */
#ifndef VIEW_PERFETTO_H
#define VIEW_PERFETTO_H

#include <stdio.h>

#include "model.h"

struct perfetto;

/* The observer is to be set in the model before its first event. only_pid NULL: all processes. */
struct perfetto *perfetto_open(FILE *out, const uint32_t *only_pid);
const struct model_observer *perfetto_observer(struct perfetto *perfetto);
/* After the last event: names that came late. The file stays open. */
void perfetto_finish(struct perfetto *perfetto, const struct model *model);
void perfetto_close(struct perfetto *perfetto);

#endif

/*
 * fuzz_text.c - a fuzz target for events as text, and for the model and every view behind it: times
 * never decrease, and what is written again reads the same.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events_text.h"
#include "model.h"
#include "view.h"
#include "view_perfetto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(struct model *model, const struct trace_facts *facts)
{
	static const struct view_style style = { .columns = 80, .unicode = true, .all = true };
	FILE *out = fopen("/dev/null", "w");

	view_terminal(out, model, facts, &style);
	view_json(out, model, facts);
	view_csv(out, model);
	view_stats(out, model, facts, &style);
	view_stats_json(out, model, facts);
	fclose(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FILE *file = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL, *null;
	struct event_source *source;
	struct perfetto *perfetto;
	struct model *model;
	struct event event;
	uint64_t last_ns = 0;

	if (!file)
		return 0;
	source = events_text_open(file, "fuzz", NULL);
	null = fopen("/dev/null", "w");
	perfetto = perfetto_open(null, NULL);
	model = model_open(NULL);
	model->observer = perfetto_observer(perfetto);
	while (source->next(source, &event)) {
		if (event.time_ns < last_ns)
			abort();
		last_ns = event.time_ns;
		model_feed(model, &event);
	}
	model_finish(model);
	perfetto_finish(perfetto, model);
	look(model, &source->facts);
	perfetto_close(perfetto);
	fclose(null);
	source->close(source);
	model_close(model);
	return 0;
}

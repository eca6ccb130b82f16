/*
 * fuzz_tsdl.c - a fuzz target for the metadata of traces.
 */
#include <stdint.h>

#include "tsdl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tsdl *tsdl = tsdl_parse((const char *)data, size);

	for (const struct tsdl_event *event = tsdl->events; event; event = event->next)
		if (event->fields && event->fields->kind != TSDL_STRUCT)
			__builtin_trap();
	for (const struct tsdl_clock *clock = tsdl->clocks; clock; clock = clock->next)
		if (clock->frequency == 0)
			__builtin_trap();
	tsdl_free(tsdl);
	return 0;
}

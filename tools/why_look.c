/*
 * why_look.c - the slots of processes, again and again for a while.
 */
#include "why.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "need.h"

static uint64_t used_bytes(const struct slot *slot, uint32_t words)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < words; i++)
		sum = slots_add(sum, slot->words[i] & WORD_BYTES_MASK);
	return sum;
}

static const struct slots_entry *find_entry(const struct slots_list *list,
	const struct box_process *process)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct slots_file *file = &list->files[i];

		for (size_t j = 0; j < file->count && strcmp(file->path, process->file->path) == 0; j++)
			if (file->entries[j].number == process->entry->number &&
				file->entries[j].slot.generation == process->entry->slot.generation &&
				file->entries[j].owner != OWNER_DEAD)
				return &file->entries[j];
	}
	return NULL;
}

static void take_sample(struct why_watch *watch)
{
	struct slots_list list;

	slots_list_open(&list);
	for (size_t i = 0; i < watch->box->count; i++) {
		const struct box_process *process = &watch->box->processes[i];
		const struct slots_entry *entry = find_entry(&list, process);

		if (!entry) {
			watch->of[i].gone = true;
			continue;
		}
		watch->of[i].now = entry->slot;
		watch->of[i].used[watch->samples] = used_bytes(&entry->slot,
			process->file->header.device_count);
	}
	watch->samples++;
	slots_list_close(&list);
}

void why_look(struct why_watch *watch, struct box *box, uint64_t ns)
{
	uint64_t step = ns / (WHY_SAMPLES / 2 - 1);

	watch->box = box;
	watch->ns = ns;
	watch->samples = 0;
	watch->of = need_zeroed(box->count, sizeof(*watch->of));
	take_sample(watch);
	while (watch->samples < WHY_SAMPLES / 2) {
		nanosleep(&(struct timespec){ .tv_sec = (time_t)(step / 1000000000),
			.tv_nsec = (long)(step % 1000000000) }, NULL);
		take_sample(watch);
	}
	box_look(box);
}

void why_look_done(struct why_watch *watch)
{
	free(watch->of);
	watch->of = NULL;
}

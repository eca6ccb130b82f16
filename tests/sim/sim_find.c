/*
 * sim_find.c - what an address is, wherever its memory came from.
 */
#include "sim_host.h"
#include "sim_vmm.h"

bool memory_known(uint64_t address)
{
	return arena_of(address) || vmm_reserved(address) || host_registered(address, NULL);
}

bool memory_find(uint64_t address, struct found *found)
{
	struct arena *arena = arena_of(address);
	bool is_there;

	if (!arena)
		return vmm_find(address, found);
	pthread_mutex_lock(arena->lock);
	is_there = heap_find(arena, address, found) && address < found->start + found->bytes;
	pthread_mutex_unlock(arena->lock);
	return is_there;
}

bool memory_bytes(uint64_t address, uint64_t bytes, bool write, void **place)
{
	struct arena *arena = arena_of(address);
	struct found found;
	bool fits;

	*place = (void *)address;
	if (!arena && vmm_reserved(address)) {
		*place = vmm_bytes(address, bytes);
		return *place != NULL;
	}
	if (!arena)
		return address != 0;
	pthread_mutex_lock(arena->lock);
	fits = heap_find(arena, address, &found) && address < found.start + found.bytes &&
	       bytes <= found.start + found.bytes - address;
	if (fits && write)
		arena->table[(address - arena->base) / SIM_BLOCK]->touched = true;
	pthread_mutex_unlock(arena->lock);
	*place = (void *)((intptr_t)address + arena->alias);
	return fits;
}

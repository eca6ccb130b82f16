/*
 * map.c - open addressing with linear probing; at most three quarters full.
 */
#include "map.h"

#include "need.h"

static struct map_entry *find(const struct map *map, uint64_t key)
{
	uint64_t mask = (1ull << map->bits) - 1;
	uint64_t at = map_mix(key) & mask;

	while (map->entries[at].value != MAP_NONE && map->entries[at].key != key)
		at = (at + 1) & mask;
	return &map->entries[at];
}

uint32_t map_get(const struct map *map, uint64_t key)
{
	return map->entries ? find(map, key)->value : MAP_NONE;
}

static void grow(struct map *map)
{
	struct map old = *map;
	uint64_t count = old.entries ? 1ull << old.bits : 0;

	map->bits = old.entries ? old.bits + 1 : 4;
	map->entries = need_zeroed(1ull << map->bits, sizeof(*map->entries));
	for (uint64_t i = 0; i < 1ull << map->bits; i++)
		map->entries[i].value = MAP_NONE;
	for (uint64_t i = 0; i < count; i++)
		if (old.entries[i].value != MAP_NONE)
			*find(map, old.entries[i].key) = old.entries[i];
	free(old.entries);
}

void map_set(struct map *map, uint64_t key, uint32_t value)
{
	struct map_entry *entry;

	if (!map->entries || map->used >= 3ull << map->bits >> 2)
		grow(map);
	entry = find(map, key);
	map->used += entry->value == MAP_NONE;
	*entry = (struct map_entry){ key, value };
}

/* Entries behind a gap move into it, so that no search ends there too early. */
uint32_t map_remove(struct map *map, uint64_t key)
{
	uint64_t mask = (1ull << map->bits) - 1, gap, at;
	struct map_entry *entry = map->entries ? find(map, key) : NULL;
	uint32_t value = entry ? entry->value : MAP_NONE;

	if (value == MAP_NONE)
		return MAP_NONE;
	gap = (uint64_t)(entry - map->entries);
	for (at = (gap + 1) & mask; map->entries[at].value != MAP_NONE; at = (at + 1) & mask) {
		uint64_t home = map_mix(map->entries[at].key) & mask;

		if (((at - home) & mask) >= ((at - gap) & mask)) {
			map->entries[gap] = map->entries[at];
			gap = at;
		}
	}
	map->entries[gap].value = MAP_NONE;
	map->used--;
	return value;
}

void map_free(struct map *map)
{
	free(map->entries);
	*map = (struct map){ 0 };
}

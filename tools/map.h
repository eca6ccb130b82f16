/*
 * map.h - 64-bit keys to 32-bit values, open addressing; grows, never shrinks.
 */
#ifndef MAP_H
#define MAP_H

#include <stdint.h>

#define MAP_NONE UINT32_MAX

struct map_entry {
	uint64_t key;
	uint32_t value; /* MAP_NONE: empty */
};

struct map {
	struct map_entry *entries;
	uint32_t used;
	unsigned bits; /* 1 << bits entries, once there are any */
};

/* The value of key, MAP_NONE if it has none. */
uint32_t map_get(const struct map *map, uint64_t key);
void map_set(struct map *map, uint64_t key, uint32_t value);
/* Returns the value it had, MAP_NONE if it had none. */
uint32_t map_remove(struct map *map, uint64_t key);
void map_free(struct map *map);

/* Well mixed bits of a key; also to make one key of several numbers. */
static inline uint64_t map_mix(uint64_t key)
{
	key ^= key >> 32;
	key *= 0x9e3779b97f4a7c15ull;
	return key ^ key >> 29;
}

#endif

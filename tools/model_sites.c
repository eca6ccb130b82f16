/*
 * model_sites.c - which places of a program hold how much memory, at its peak and at its end.
 *
 * What a place held at the peak is noted only when it changes after it: a peak that rises with each
 * allocation costs nothing. Past LIVE_MAX allocations at a time no more are remembered.
 */
#include "model_private.h"
#include "need.h"

#define LIVE_MAX (1u << 20)

struct model_live {
	uint64_t bytes;
	uint64_t time_ns; /* of its event */
	uint32_t thread;
	uint32_t site; /* index; of an unused one the next unused one, + 1 */
};

static uint64_t live_key(uint64_t pointer, uint8_t kind)
{
	return map_mix(pointer) + kind;
}

static uint32_t site_of(struct model_sites *sites, uint32_t id)
{
	uint32_t index = map_get(&sites->index_of, id);

	if (index == MAP_NONE) {
		sites->items =
			need_room(sites->items, sites->count, &sites->capacity, sizeof(*sites->items));
		index = (uint32_t)sites->count++;
		sites->items[index] = (struct model_site){ .id = id, .epoch = sites->epoch };
		map_set(&sites->index_of, id, index);
	}
	return index;
}

/* What it held at the last peak, before that changes. */
static void keep_peak(const struct model_sites *sites, struct model_site *site)
{
	if (site->epoch == sites->epoch)
		return;
	site->epoch = sites->epoch;
	site->peak_bytes = site->live_bytes;
	site->peak_count = site->live_count;
}

static void change(struct model_sites *sites, uint32_t index, uint64_t bytes, bool more)
{
	struct model_site *site = &sites->items[index];

	keep_peak(sites, site);
	site->live_bytes += more ? bytes : -bytes;
	site->live_count += more ? 1 : (uint64_t)-1;
	sites->bytes += more ? bytes : -bytes;
	if (sites->bytes > sites->peak_bytes) {
		sites->peak_bytes = sites->bytes;
		sites->epoch++;
	}
}

static void forget(struct model_sites *sites, uint32_t live)
{
	change(sites, sites->lives[live].site, sites->lives[live].bytes, false);
	sites->lives[live].site = sites->free_live;
	sites->free_live = live + 1;
}

static uint32_t new_live(struct model_sites *sites)
{
	uint32_t live = sites->free_live;

	if (live) {
		sites->free_live = sites->lives[live - 1].site;
		return live - 1;
	}
	sites->lives = need_room(sites->lives, sites->live_count, &sites->live_capacity,
		sizeof(*sites->lives));
	return (uint32_t)sites->live_count++;
}

static void hold(struct model_sites *sites, uint64_t key, const struct model_live *new)
{
	uint32_t live = map_remove(&sites->live, key);

	/* Its free was lost. */
	if (live != MAP_NONE)
		forget(sites, live);
	if ((sites->live.used >= LIVE_MAX) | (sites->bytes > UINT64_MAX - new->bytes)) {
		sites->incomplete = true;
		return;
	}
	live = new_live(sites);
	sites->lives[live] = *new;
	map_set(&sites->live, key, live);
	change(sites, new->site, new->bytes, true);
}

void sites_add(struct model_sites *sites, const struct event_alloc *e, uint64_t time_ns)
{
	uint32_t index = site_of(sites, e->site);
	struct model_site *site = &sites->items[index];

	site->allocs++;
	site->bytes = sum_saturated(site->bytes, e->bytes);
	hold(sites, live_key(e->pointer, e->kind),
		&(struct model_live){ e->bytes, time_ns, e->thread, index });
}

/* Allocated before the trace began: every free is one of it. */
void sites_hold(struct model_sites *sites, const struct event_held *e)
{
	hold(sites, live_key(e->pointer, e->kind),
		&(struct model_live){ e->bytes, 0, 0, site_of(sites, e->site) });
}

/*
 * Events come after their calls: an address may be handed out again before the event of its free
 * is there. A free by another thread that began before the allocation was told is not of that one.
 */
void sites_remove(struct model_sites *sites, const struct event_free *e, uint64_t begin_ns)
{
	uint64_t key = live_key(e->pointer, e->kind);
	uint32_t live = map_get(&sites->live, key);

	if (live == MAP_NONE ||
		(sites->lives[live].thread != e->thread && sites->lives[live].time_ns > begin_ns))
		return;
	map_remove(&sites->live, key);
	forget(sites, live);
}

void sites_name(struct model_sites *sites, uint32_t id, const char *frames)
{
	uint32_t index = site_of(sites, id);
	struct model_site *site = &sites->items[index];

	free(site->frames);
	site->frames = need_copy(frames);
}

void sites_finish(struct model_sites *sites)
{
	for (size_t i = 0; i < sites->count; i++)
		keep_peak(sites, &sites->items[i]);
}

void sites_free(struct model_sites *sites)
{
	for (size_t i = 0; i < sites->count; i++)
		free(sites->items[i].frames);
	free(sites->items);
	free(sites->lives);
	map_free(&sites->index_of);
	map_free(&sites->live);
}

/*
 * queue_order.c - whose turn it is.
 *
 * Everybody grows older at the same pace, so an order between two, once they wait, stays: who came first
 * wins, but for each step of priority a minute.
 */
#include "queue.h"

#include <string.h>

/* The moment at which somebody without a priority would have had to come for this turn. */
static int64_t turn(const struct queue_place *place)
{
	return (int64_t)place->since_ns - place->priority * QUEUE_STEP_NS;
}

int queue_order(const struct queue_place *a, const struct queue_place *b)
{
	if (turn(a) != turn(b))
		return turn(a) < turn(b) ? -1 : 1;
	return strcmp(a->name, b->name);
}

const struct queue_ask *queue_asks_for(const struct queue_place *place, const uint8_t uuid[16])
{
	for (unsigned i = 0; i < place->count; i++)
		if (memcmp(place->asks[i].uuid, uuid, 16) == 0)
			return &place->asks[i];
	return NULL;
}

bool queue_rivals(const struct queue_place *a, const struct queue_place *b)
{
	for (unsigned i = 0; i < a->count; i++)
		if (queue_asks_for(b, a->asks[i].uuid))
			return true;
	return false;
}

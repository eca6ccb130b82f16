/*
 * turn_rank.c - a priority that ages.
 */
#include "turn_rank.h"

#include "admin.h"

#define STEP_NS 60000000000ll      /* of waiting: one step of priority */
#define BELIEVED_NS (60 * STEP_NS) /* of waiting, of others */

int64_t turn_rank(int priority, int64_t waited_ns, bool trusted)
{
	if (priority > PRIORITY_MAX)
		priority = PRIORITY_MAX;
	if (priority < -PRIORITY_MAX)
		priority = -PRIORITY_MAX;
	if (!trusted && waited_ns > BELIEVED_NS)
		waited_ns = BELIEVED_NS;
	return priority * STEP_NS + waited_ns;
}

/*
 * turn_rank.h - who of those that wait for memory comes first, as one number.
 */
#ifndef CUWARD_TURN_RANK_H
#define CUWARD_TURN_RANK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The higher goes first: priority, where a minute of waiting counts as much as one step. Others may
 * say in their files what they like: who is not trusted has waited for an hour at most.
 */
int64_t turn_rank(int priority, int64_t waited_ns, bool trusted);

#endif

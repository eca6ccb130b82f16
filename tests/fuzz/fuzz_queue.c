/*
 * fuzz_queue.c - a fuzz target for the files of the queue and of reserves, which others write.
 *
 *	clang -fsanitize=fuzzer,address,undefined -Iinclude -Ishim -Itools tests/fuzz/fuzz_queue.c \
 *		tools/queue_text.c tools/queue_order.c tools/reserve_text.c -ljansson -o build/fuzz_queue
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin.h"
#include "queue.h"
#include "reserve.h"

#define HOLDS(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "fuzz_queue: %s does not hold\n", #condition); \
			abort(); \
		} \
	} while (0)

static void check_asks(const struct queue_ask *asks, unsigned count)
{
	HOLDS(count >= 1 && count <= SLOT_DEVICES);
	for (unsigned i = 0; i < count; i++)
		HOLDS(asks[i].bytes >= 1 && asks[i].bytes <= 1ull << WORD_BYTES_BITS);
}

/* What is understood means the same when it is written again. */
static void check_place(const struct queue_place *place)
{
	static struct queue_place again;
	char *text = queue_text(place);

	HOLDS(place->priority >= -PRIORITY_MAX && place->priority <= PRIORITY_MAX);
	HOLDS(memchr(place->job, 0, sizeof(place->job)) && place->job[0]);
	HOLDS(memchr(place->command, 0, sizeof(place->command)));
	check_asks(place->asks, place->count);
	again = (struct queue_place){ 0 };
	if (strlen(text) <= QUEUE_FILE_BYTES)
		HOLDS(queue_parse(&again, text, strlen(text)) && queue_order(place, &again) == 0 &&
			again.count == place->count && strcmp(again.command, place->command) == 0);
	free(text);
}

static void check_reserve(const struct reserve *reserve)
{
	static struct reserve again;
	char *text = reserve_text(reserve), why[100];

	HOLDS(reserve->until_ns > reserve->since_ns);
	check_asks(reserve->keeps, reserve->count);
	HOLDS(reserve_parse(&again, text, strlen(text), why, sizeof(why)));
	HOLDS(again.count == reserve->count && again.who == reserve->who && again.until_ns == reserve->until_ns);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct queue_place place;
	static struct reserve reserve;
	char *text = malloc(size ? size : 1), why[100] = "";

	memcpy(text, data, size);
	place = (struct queue_place){ 0 };
	if (queue_parse(&place, text, size))
		check_place(&place);
	else
		HOLDS(place.problem[0] && memchr(place.problem, 0, sizeof(place.problem)));
	reserve = (struct reserve){ 0 };
	if (reserve_parse(&reserve, text, size, why, sizeof(why)))
		check_reserve(&reserve);
	else
		HOLDS(why[0] && memchr(why, 0, sizeof(why)));
	free(text);
	return 0;
}

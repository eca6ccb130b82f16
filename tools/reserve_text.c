/*
 * reserve_text.c - a reserve as text and back; whatever it does not clearly say is an error.
 */
#include "reserve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "need.h"

static bool wrong(char *why, size_t why_bytes, const char *text)
{
	snprintf(why, why_bytes, "%s", text);
	return false;
}

static bool get_keeps(struct reserve *reserve, const json_t *all)
{
	size_t count = json_array_size(all);

	for (size_t i = 0; i < count && count <= SLOT_DEVICES; i++) {
		const json_t *one = json_array_get(all, i);
		const char *uuid = json_string_value(json_object_get(one, "uuid"));
		json_int_t bytes = json_integer_value(json_object_get(one, "bytes"));

		if (!uuid || !queue_uuid(uuid, reserve->keeps[i].uuid) || bytes < 1 ||
			bytes > 1ll << WORD_BYTES_BITS)
			return false;
		reserve->keeps[i].bytes = (uint64_t)bytes;
		reserve->count++;
	}
	return reserve->count > 0;
}

static bool get_whose(struct reserve *reserve, const json_t *from)
{
	static const char *const words[] = { "nobody", "user", "group" };
	const char *word = json_string_value(json_object_get(from, "whose"));
	json_int_t who = json_integer_value(json_object_get(from, "who"));

	for (unsigned i = 0; word && i < 3; i++) {
		if (strcmp(word, words[i]) == 0) {
			reserve->whose = (enum reserve_for)i;
			reserve->who = (uint32_t)who;
			return who >= 0 && who <= UINT32_MAX;
		}
	}
	return false;
}

bool reserve_parse(struct reserve *reserve, const char *text, size_t bytes, char *why, size_t why_bytes)
{
	json_t *from = bytes > QUEUE_FILE_BYTES ? NULL :
		json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
	json_int_t since = json_integer_value(json_object_get(from, "since_ns"));
	json_int_t until = json_integer_value(json_object_get(from, "until_ns"));
	bool fine = from != NULL;

	reserve->count = 0;
	reserve->since_ns = (uint64_t)since;
	reserve->until_ns = (uint64_t)until;
	if (!from)
		wrong(why, why_bytes, bytes > QUEUE_FILE_BYTES ? "it is too long" :
			bytes ? "it is cut off, or was not written by cuward" : "it is empty");
	else if (since <= 0 || until <= since)
		fine = wrong(why, why_bytes, "it does not say from when until when");
	else if (!get_whose(reserve, from))
		fine = wrong(why, why_bytes, "it does not say for whom");
	else if (!get_keeps(reserve, json_object_get(from, "gpus")))
		fine = wrong(why, why_bytes, "it does not say how much of which GPU");
	json_decref(from);
	return fine;
}

char *reserve_text(const struct reserve *reserve)
{
	static const char *const words[] = { "nobody", "user", "group" };
	json_t *keeps = json_array(), *all;
	char *text;

	for (unsigned i = 0; i < reserve->count; i++) {
		char uuid[48];

		queue_uuid_text(uuid, reserve->keeps[i].uuid);
		json_array_append_new(keeps, json_pack("{s:s, s:I}", "uuid", uuid, "bytes",
			(json_int_t)reserve->keeps[i].bytes));
	}
	all = need(json_pack("{s:s, s:I, s:I, s:I, s:o}", "whose", words[reserve->whose], "who",
		(json_int_t)reserve->who, "since_ns", (json_int_t)reserve->since_ns, "until_ns",
		(json_int_t)reserve->until_ns, "gpus", keeps));
	text = need(json_dumps(all, JSON_COMPACT));
	json_decref(all);
	return text;
}

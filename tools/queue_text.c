/*
 * queue_text.c - a place as text and back; whatever it does not clearly say is an error.
 */
#include "queue.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin.h"
#include "need.h"

bool queue_uuid(const char *text, uint8_t uuid[16])
{
	unsigned at = 4;

	if (strncmp(text, "GPU-", 4) != 0 || strlen(text) != 40)
		return false;
	for (unsigned i = 0; i < 16; i++) {
		char byte[3] = { 0 };

		if (i == 4 || i == 6 || i == 8 || i == 10) {
			if (text[at++] != '-')
				return false;
		}
		memcpy(byte, text + at, 2);
		if (strspn(byte, "0123456789abcdef") != 2)
			return false;
		uuid[i] = (uint8_t)strtoul(byte, NULL, 16);
		at += 2;
	}
	return true;
}

void queue_uuid_text(char text[48], const uint8_t uuid[16])
{
	int at = sprintf(text, "GPU-");

	for (int i = 0; i < 16; i++)
		at += sprintf(text + at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

/* ---- from a file ---- */

static bool __attribute__((format(printf, 2, 3))) wrong(struct queue_place *place,
	const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(place->problem, sizeof(place->problem), format, arguments);
	va_end(arguments);
	return false;
}

static bool get_number(struct queue_place *place, const json_t *from, const char *key, json_int_t least,
	json_int_t most, json_int_t *number)
{
	const json_t *value = json_object_get(from, key);

	*number = json_integer_value(value);
	return (json_is_integer(value) && *number >= least && *number <= most) ||
		wrong(place, "its %s is no number from %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT, key,
			least, most);
}

static bool get_text(struct queue_place *place, const json_t *from, const char *key, char *to,
	size_t bytes)
{
	const char *text = json_string_value(json_object_get(from, key));

	if (!text || strlen(text) >= bytes)
		return wrong(place, "its %s is no text of less than %zu bytes", key, bytes);
	strcpy(to, text);
	return true;
}

static bool get_ask(struct queue_place *place, const json_t *from)
{
	struct queue_ask *ask = &place->asks[place->count];
	const char *uuid = json_string_value(json_object_get(from, "uuid"));
	json_int_t bytes;

	if (!uuid || !queue_uuid(uuid, ask->uuid) || queue_asks_for(place, ask->uuid))
		return wrong(place, "its GPUs are not named by different UUIDs");
	if (!get_number(place, from, "bytes", 1, 1ll << WORD_BYTES_BITS, &bytes))
		return false;
	ask->bytes = (uint64_t)bytes;
	place->count++;
	return true;
}

static bool get_asks(struct queue_place *place, const json_t *all)
{
	size_t count = json_array_size(all);

	if (count < 1 || count > SLOT_DEVICES)
		return wrong(place, "it names no GPU, or more than %d", SLOT_DEVICES);
	for (size_t i = 0; i < count; i++)
		if (!get_ask(place, json_array_get(all, i)))
			return false;
	return true;
}

/* A job's name leads nowhere else, and a promise to "" would be one to all that have no job. */
static bool is_job(const char *job)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";

	return *job && *job != '/' && strspn(job, letters) == strlen(job);
}

static bool get_place(struct queue_place *place, const json_t *from)
{
	json_int_t pid, pid_ns, priority;
	const json_t *any = json_object_get(from, "any");

	if (!get_number(place, from, "pid", 1, INT32_MAX, &pid) ||
		!get_number(place, from, "pid_ns", 0, UINT32_MAX, &pid_ns) ||
		!get_number(place, from, "priority", -PRIORITY_MAX, PRIORITY_MAX, &priority) ||
		!get_text(place, from, "job", place->job, sizeof(place->job)) ||
		!get_text(place, from, "command", place->command, sizeof(place->command)))
		return false;
	place->pid = (uint32_t)pid;
	place->pid_ns = (uint32_t)pid_ns;
	place->priority = (int)priority;
	place->any = json_is_true(any);
	if (!is_job(place->job))
		return wrong(place, "its job is no name of a job");
	if (!json_is_boolean(any))
		return wrong(place, "it does not say whether any of its GPUs will do");
	return get_asks(place, json_object_get(from, "gpus"));
}

bool queue_parse(struct queue_place *place, const char *text, size_t bytes)
{
	json_error_t error;
	json_t *from = bytes > QUEUE_FILE_BYTES ? NULL :
		json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
	bool fine;

	place->problem[0] = '\0';
	if (!from)
		return wrong(place, bytes > QUEUE_FILE_BYTES ? "it is too long" :
			bytes ? "it is cut off, or was not written by cuward" : "it is empty");
	fine = json_is_object(from) ? get_place(place, from) : wrong(place, "it holds something else");
	json_decref(from);
	return fine;
}

/* ---- to a file ---- */

char *queue_text(const struct queue_place *place)
{
	json_t *asks = json_array(), *all;
	char *text;

	for (unsigned i = 0; i < place->count; i++) {
		char uuid[48];

		queue_uuid_text(uuid, place->asks[i].uuid);
		json_array_append_new(asks, json_pack("{s:s, s:I}", "uuid", uuid, "bytes",
			(json_int_t)place->asks[i].bytes));
	}
	all = need(json_pack("{s:I, s:I, s:i, s:s, s:s, s:b, s:o}", "pid", (json_int_t)place->pid, "pid_ns",
		(json_int_t)place->pid_ns, "priority", place->priority, "job", place->job, "command",
		place->command, "any", place->any, "gpus", asks));
	text = need(json_dumps(all, JSON_COMPACT | JSON_ENSURE_ASCII));
	json_decref(all);
	return text;
}

/*
 * session_wire.c - events that `cuward run` emits on behalf of ended processes.
 *
 * A helper process holds the trace provider, so that `run` itself stays free of its threads.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "session_parts.h"
#include "trace.h"

/* A message: which event, its struct, then its strings in order, each ended by a 0 byte. */
struct wire_head {
	uint32_t which;
	uint32_t reserved;
};

#define WIRE_STRING_MAX 3000

static size_t put_string(char *buffer, size_t size, size_t used, const char *text)
{
	size_t length = text ? strnlen(text, WIRE_STRING_MAX) : 0;

	if (used + length + 1 > size)
		length = size > used ? size - used - 1 : 0;
	if (used >= size)
		return used;
	if (length)
		memcpy(buffer + used, text, length);
	buffer[used + length] = 0;
	return used + length + 1;
}

#define PUT_u8(name)
#define PUT_u16(name)
#define PUT_u32(name)
#define PUT_u64(name)
#define PUT_i32(name)
#define PUT_x64(name)
#define PUT_str(name) used = put_string(buffer, size, used, e->name);
#define F(type, name) PUT_##type(name)
#define X(event, fields) \
	static size_t put_##event(char *buffer, size_t size, const struct event_##event *e) \
	{ \
		size_t used = sizeof(*e); \
\
		if (size < used) \
			return 0; \
		memcpy(buffer, e, used); \
		fields \
		return used; \
	}
CUWARD_EVENTS(X, F)
#undef X
#undef F

static size_t put_event(char *buffer, size_t size, enum cuward_event which, const void *event)
{
	switch (which) {
#define F(type, name)
#define X(event_name, fields) \
	case EVENT_##event_name: \
		return put_##event_name(buffer, size, event);
		CUWARD_EVENTS(X, F)
#undef X
#undef F
	case EVENT_COUNT:
		break;
	}
	return 0;
}

size_t wire_put(char *buffer, size_t size, enum cuward_event which, const void *event)
{
	struct wire_head head = {.which = which};
	size_t used;

	if (size < sizeof(head))
		return 0;
	memcpy(buffer, &head, sizeof(head));
	used = put_event(buffer + sizeof(head), size - sizeof(head), which, event);
	return used ? sizeof(head) + used : 0;
}

/* The next string of a message; the message ends with a 0 byte of our own. */
static const char *take_string(const char **text, const char *end)
{
	const char *string = *text < end ? *text : "";

	*text += strlen(string) + 1;
	return string;
}

#define TAKE_u8(name)
#define TAKE_u16(name)
#define TAKE_u32(name)
#define TAKE_u64(name)
#define TAKE_i32(name)
#define TAKE_x64(name)
#define TAKE_str(name) e.name = take_string(&text, end);
#define F(type, name) TAKE_##type(name)
#define X(event, fields) \
	static void take_##event(const char *text, const char *end) \
	{ \
		struct event_##event e; \
\
		if ((size_t)(end - text) < sizeof(e)) \
			return; \
		memcpy(&e, text, sizeof(e)); \
		text += sizeof(e); \
		fields \
		trace_##event(&e); \
	}
CUWARD_EVENTS(X, F)
#undef X
#undef F

void wire_take(const char *message, size_t bytes)
{
	struct wire_head head;
	const char *end = message + bytes;

	if (bytes < sizeof(head))
		return;
	memcpy(&head, message, sizeof(head));
	message += sizeof(head);
	switch (head.which) {
#define F(type, name)
#define X(event, fields) \
	case EVENT_##event: \
		take_##event(message, end); \
		break;
		CUWARD_EVENTS(X, F)
#undef X
#undef F
	}
}

/* ---- the processes ---- */

/* The session may still be in the making when the provider has registered with the daemon. */
static void register_with_daemon(const struct session_plan *plan, int talk, int seconds)
{
	int64_t deadline = clock_ms() + seconds * 1000;
	char why[256] = "";

	plan_environment(plan);
	setenv("LTTNG_UST_REGISTER_TIMEOUT", "3000", 1);
	while (trace_start(plan->folder, why, sizeof(why)) != TRACE_REGISTERED) {
		if (!trace_ops.enabled || clock_ms() > deadline || talk_ended(talk, 2)) {
			talk_bad(talk, "%s", why);
			_exit(1);
		}
	}
	talk_good(talk);
}

/*
 * For the first process of a uid LTTng makes the buffers, and when the first one ends it writes the
 * metadata and waits 200 ms. Both are better done before the guest starts than on its time.
 */
void warmer_main(const struct session_plan *plan, int talk)
{
	register_with_daemon(plan, talk, READY_SECONDS / WARMERS);
	while (!talk_ended(talk, 60000))
		;
	_exit(0);
}

void emitter_main(const struct session_plan *plan, int talk)
{
	static char message[WIRE_BYTES_MAX + 1];
	ssize_t bytes;

	register_with_daemon(plan, talk, READY_SECONDS);
	while ((bytes = recv(plan->events, message, WIRE_BYTES_MAX, 0)) > 0) {
		message[bytes] = 0;
		wire_take(message, bytes);
	}
	talk_good(talk);
	_exit(0); /* no destructors: liblttng-ust's waits for its threads; all is in the buffers */
}

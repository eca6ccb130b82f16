/* links: tools/session_wire.c tools/session_talk.c shim/trace.c shim/calls.c */
/*
 * test_session_wire.c - events from `cuward run` to its emitter arrive as they were sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "session_parts.h"
#include "trace.h"

static unsigned arrived[EVENT_COUNT];
static uint64_t serial;
static char text[8192];

static uint64_t next_value(void)
{
	return serial = serial * 6364136223846793005 + 1442695040888963407;
}

/* The same sequence is walked twice: to fill an event, and to compare what arrived. */
#define FILL_u8(name) e.name = next_value() >> 32;
#define FILL_u16(name) FILL_u8(name)
#define FILL_u32(name) FILL_u8(name)
#define FILL_u64(name) FILL_u8(name)
#define FILL_i32(name) FILL_u8(name)
#define FILL_x64(name) FILL_u8(name)
#define FILL_str(name) e.name = text + sizeof(text) - 1 - next_value() % 2000;
#define SAME_u8(name) \
	{ \
		__typeof__(e->name) want = next_value() >> 32; \
		assert_true(e->name == want); \
	}
#define SAME_u16(name) SAME_u8(name)
#define SAME_u32(name) SAME_u8(name)
#define SAME_u64(name) SAME_u8(name)
#define SAME_i32(name) SAME_u8(name)
#define SAME_x64(name) SAME_u8(name)
#define SAME_str(name) assert_int_equal(strlen(e->name), next_value() % 2000);

#define F(type, name) SAME_##type(name)
#define X(event, fields) \
	static void got_##event(const struct event_##event *e) \
	{ \
		serial = EVENT_##event; \
		fields \
		arrived[EVENT_##event]++; \
	}
CUWARD_EVENTS(X, F)
#undef X
#undef F

#define F(type, name) FILL_##type(name)
#define X(event, fields) \
	static size_t send_##event(char *message) \
	{ \
		struct event_##event e = {0}; \
\
		serial = EVENT_##event; \
		fields \
		return wire_put(message, WIRE_BYTES_MAX, EVENT_##event, &e); \
	}
CUWARD_EVENTS(X, F)
#undef X
#undef F

static int setup(void **state)
{
	(void)state;
#define F(type, name)
#define X(event, fields) trace_ops.event = got_##event;
	CUWARD_EVENTS(X, F)
#undef X
#undef F
	trace_on = true;
	memset(text, 'x', sizeof(text) - 1);
	memset(arrived, 0, sizeof(arrived));
	return 0;
}

static void every_event_arrives(void **state)
{
	static char message[WIRE_BYTES_MAX + 1];
	size_t bytes;

	(void)state;
#define F(type, name)
#define X(event, fields) \
	bytes = send_##event(message); \
	assert_true(bytes >= sizeof(struct event_##event)); \
	message[bytes] = 0; \
	wire_take(message, bytes);
	CUWARD_EVENTS(X, F)
#undef X
#undef F
	for (unsigned i = 0; i < EVENT_COUNT; i++)
		assert_int_equal(arrived[i], 1);
}

static size_t command_length;
static size_t version_length;

static void got_long(const struct event_process *e)
{
	command_length = strlen(e->command);
	version_length = strlen(e->version);
}

static void long_strings_are_cut_and_null_is_empty(void **state)
{
	struct event_process e = {.command = text, .job = text, .labels = text, .version = NULL};
	static char message[WIRE_BYTES_MAX + 1];
	size_t bytes = wire_put(message, WIRE_BYTES_MAX, EVENT_process, &e);

	(void)state;
	trace_ops.process = got_long;
	assert_in_range(bytes, 9000, WIRE_BYTES_MAX);
	message[bytes] = 0;
	wire_take(message, bytes);
	assert_int_equal(command_length, 3000);
	assert_int_equal(version_length, 0);
}

static void short_buffers_and_messages_do_no_harm(void **state)
{
	struct event_process e = {.command = "command", .job = "job"};
	char message[512];
	char small[512];
	size_t whole = wire_put(message, sizeof(message) - 1, EVENT_process, &e);

	(void)state;
	trace_ops.process = got_long;
	assert_int_equal(wire_put(message, 4, EVENT_process, &e), 0);
	assert_int_equal(wire_put(message, sizeof(message) - 1, EVENT_COUNT, &e), 0);
	for (size_t bytes = 1; bytes <= whole; bytes++) {
		memset(small, 'y', sizeof(small));
		size_t put = wire_put(small, bytes, EVENT_process, &e);

		assert_true(put <= bytes);
		assert_int_equal(small[bytes], 'y');
		command_length = SIZE_MAX;
		message[bytes] = 0;
		wire_put(message, bytes, EVENT_process, &e);
		message[bytes] = 0;
		wire_take(message, bytes);
		assert_true(command_length == SIZE_MAX || command_length <= strlen("command"));
	}
	assert_int_equal(command_length, strlen("command"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(every_event_arrives, setup),
		cmocka_unit_test_setup(long_strings_are_cut_and_null_is_empty, setup),
		cmocka_unit_test_setup(short_buffers_and_messages_do_no_harm, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

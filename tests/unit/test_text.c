/* links: shim/json.c shim/report_host.c shim/text.c */
/*
 * test_text.c - the writers of words and JSON, and what is known of the host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "json.h"
#include "report_host.h"
#include "text.h"

#include "sink.h"

#define MIB (1ull << 20)
#define SECOND 1000000000ull

static const char *size_of(uint64_t bytes)
{
	text_size(open_sink(), bytes);
	return close_sink();
}

static const char *time_of(uint64_t seconds)
{
	text_time(open_sink(), seconds * SECOND + 7000000);
	return close_sink();
}

static const char *span_of(uint64_t seconds)
{
	text_span(open_sink(), seconds * SECOND);
	return close_sink();
}

static void test_words(void **state)
{
	(void)state;
	assert_string_equal(size_of(0), "0 bytes");
	assert_string_equal(size_of(1), "1 byte");
	assert_string_equal(size_of(1023), "1023 bytes");
	assert_string_equal(size_of(1024), "1 KiB");
	assert_string_equal(size_of(1025), "1.00 KiB");
	assert_string_equal(size_of(1536 * MIB), "1.50 GiB");
	assert_string_equal(size_of(1024 * MIB - 1), "1023.99 MiB");
	assert_string_equal(size_of(UINT64_MAX), "15.99 EiB");
	assert_string_equal(time_of(0), "1970-01-01T00:00:00.007Z");
	assert_string_equal(time_of(951782399), "2000-02-28T23:59:59.007Z");
	assert_string_equal(time_of(951782400), "2000-02-29T00:00:00.007Z");
	assert_string_equal(time_of(1709251199), "2024-02-29T23:59:59.007Z");
	assert_string_equal(time_of(1709251200), "2024-03-01T00:00:00.007Z");
	assert_string_equal(time_of(4102444800), "2100-01-01T00:00:00.007Z");
	assert_string_equal(span_of(119), "119 s");
	assert_string_equal(span_of(120), "2 min");
	assert_string_equal(span_of(7200), "2 h");
	text_clean(open_sink(), "a\x1b[0m\xc3\xa9z", 7);
	assert_string_equal(close_sink(), "a?[0m??");
}

static const char *json_of(const char *text)
{
	struct json json = { .out = open_sink() };

	json_string(&json, NULL, text);
	return close_sink();
}

static void test_json_strings(void **state)
{
	(void)state;
	assert_string_equal(json_of("plain / 'text'"), "\"plain / 'text'\"");
	assert_string_equal(json_of("\"\\\n\t\r\x01\x7f"),
		"\"\\\"\\\\\\n\\t\\u000d\\u0001\\u007f\"");
	assert_string_equal(json_of("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
		"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
	assert_string_equal(json_of("\xff" "a\x80"), "\"\xef\xbf\xbd" "a\xef\xbf\xbd\"");
	assert_string_equal(json_of("\xc0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	assert_string_equal(json_of("\xe2\x82"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	assert_string_equal(json_of("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
	assert_string_equal(json_of("\xf4\x90\x80\x80"),
		"\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void test_json_layout(void **state)
{
	struct json json = { .out = open_sink(), .indent = 1 };

	(void)state;
	json_open(&json, NULL, '{');
	json_signed(&json, "low", INT64_MIN);
	json_bytes(&json, "none", BYTES_NONE);
	json_open(&json, "empty", '[');
	json_close(&json, ']');
	json_open_flat(&json, "flat", '{');
	json_open(&json, "in", '[');
	json_bool(&json, NULL, true);
	json_time(&json, NULL, 0);
	json_close(&json, ']');
	json_close(&json, '}');
	json_close(&json, '}');
	assert_string_equal(close_sink(),
		"{\n\t\t\"low\": -9223372036854775808,\n\t\t\"none\": null,\n"
		"\t\t\"empty\": [],\n\t\t\"flat\": { \"in\": [ true, null ] }\n\t}");
}

static void test_host(void **state)
{
	char word[64], tiny[4];

	(void)state;
	assert_true(report_user_name(0, word, sizeof(word)));
	assert_string_equal(word, "root");
	assert_true(report_user_name(0, tiny, sizeof(tiny)));
	assert_string_equal(tiny, "roo");
	assert_false(report_user_name(4000000000u, word, sizeof(word)));
	assert_string_equal(word, "");
	assert_true(report_boot_id(word, sizeof(word)));
	assert_int_equal(strlen(word), 36);
	assert_true(report_host_name(word, sizeof(word)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_json_strings),
		cmocka_unit_test(test_json_layout),
		cmocka_unit_test(test_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

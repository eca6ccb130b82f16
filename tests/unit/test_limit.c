/* links: shim/limit.c */
/*
 * test_limit.c - the grammar of limits: what each text means, and that everything else is refused
 * with a sentence that names it. The last test feeds random texts to the fuzz target's body.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "limit.h"
#include "../fuzz/fuzz_limit.c"

#define KIB (1ull << 10)
#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define TIB (1ull << 40)
#define REFUSED 0
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A total that no percentage divides evenly. */
#define TOTAL 25757220001ull

static const struct limit_device gpus[] = {
	{ "\x89\x32\xf9\x37\xd7\x2c\x41\x06\xc1\x2f\x20\xbd\x9f\xae\xd9\xf6", TOTAL },
	{ "\x89\x32\xf9\x37\xd7\x2c\x41\x06\xc1\x2f\x20\xbd\x9f\xae\xd9\xf7", 8 * GIB },
	{ "\xab\xcd\xef\x01\x23\x45\x67\x89\x00\x00\x00\x00\x00\x00\x00\x01", 99 },
};

/* A text that speaks of every GPU: bytes on one of TOTAL bytes, BYTES_NONE, or REFUSED. */
static const struct {
	const char *text;
	uint64_t bytes;
} amounts[] = {
	{ "none", BYTES_NONE }, { " none\n", BYTES_NONE },
	{ "1", 1 }, { "1B", 1 }, { "7b", 7 }, { "1.0", 1 }, { "1.000B", 1 }, { "0001", 1 },
	{ "4294967295", 4294967295 }, { "4294967296", 4294967296 }, { "4294967297", 4294967297 },
	{ "1K", KIB }, { "1k", KIB }, { "1Ki", KIB }, { "1KiB", KIB }, { "1kib", KIB },
	{ "1KB", 1000 }, { "1kb", 1000 },
	{ "3M", 3 * MIB }, { "3Mi", 3 * MIB }, { "3MiB", 3 * MIB }, { "3MB", 3000000 },
	{ "4G", 4 * GIB }, { "4g", 4 * GIB }, { "4Gi", 4 * GIB }, { "4gI", 4 * GIB },
	{ "4GiB", 4 * GIB }, { "4GB", 4000000000 }, { "4gb", 4000000000 },
	{ "2T", 2 * TIB }, { "2Ti", 2 * TIB }, { "2TiB", 2 * TIB }, { "2TB", 2000000000000 },
	{ "08G", 8 * GIB }, { " 4G\n", 4 * GIB }, { "\t\r\v\f4G ", 4 * GIB },
	{ "1.5G", 1610612736 }, { "0.5G", GIB / 2 }, 
	{ "1.50000000000000000000000000G", 1610612736 },
	{ "0.25KB", 250 }, { "0.001KB", 1 }, { "1.001KB", 1001 }, { "0.0009765625K", 1 },
	{ "0.0000000000009094947017729282379150390625T", 1 },
	{ "9223372036854775807", INT64_MAX }, { "9223372036854775807B", INT64_MAX },
	{ "8388607T", 8388607 * TIB }, { "8388607.9990234375T", 8388607 * TIB + 1023 * GIB },
	{ "00000000000000000000000000000000001G", GIB },
	{ "100%", TOTAL }, { "100.000%", TOTAL }, { "50%", 12878610000 }, { "0050%", 12878610000 },
	{ "33.3%", 8577154260 }, { "0.1%", 25757220 }, { "99.99999999999999999%", TOTAL - 1 },
	{ "0.00000001%", 2 }, { " 12.5%\n", 3219652500 },

	{ "", REFUSED }, { " ", REFUSED }, { "\n\t", REFUSED },
	{ "0", REFUSED }, { "0m", REFUSED }, { "0.0G", REFUSED }, { "000", REFUSED },
	{ "0%", REFUSED }, { "0.000%", REFUSED }, { "00%", REFUSED },
	{ "-1", REFUSED }, { "-4G", REFUSED }, { "+4G", REFUSED }, { "-50%", REFUSED },
	{ "101%", REFUSED }, { "100.0001%", REFUSED }, { "100.00000000000000001%", REFUSED },
	{ "99999999999999999999%", REFUSED }, { "50.123456789012345678%", REFUSED },
	{ "50%%", REFUSED }, { "50 %", REFUSED }, { "%", REFUSED }, { "50%G", REFUSED },
	{ ".5G", REFUSED }, { "5.", REFUSED }, { "5.G", REFUSED }, { "1.2.3G", REFUSED },
	{ "1,5G", REFUSED }, { "1'000", REFUSED }, { "1_000", REFUSED },
	{ "1e9", REFUSED }, { "1E9", REFUSED }, { "1e9G", REFUSED }, { "0x10M", REFUSED },
	{ "0x10", REFUSED }, { "010x", REFUSED }, { "inf", REFUSED }, { "nan", REFUSED },
	{ "1.5", REFUSED }, { "1.5B", REFUSED }, { "0.1K", REFUSED }, { "0.0001KB", REFUSED },
	{ "0.1G", REFUSED }, { "1.00000000000000000001G", REFUSED },
	{ "0.00000000000045474735088646411895751953125T", REFUSED },
	{ "9223372036854775808", REFUSED }, { "8388608T", REFUSED }, { "16777216T", REFUSED },
	{ "18446744073709551615", REFUSED }, { "18446744073709551616", REFUSED },
	{ "18446744073709551617", REFUSED }, { "99999999999999999999G", REFUSED },
	{ "9223372036854775807.5", REFUSED }, { "9223372036854775807K", REFUSED },
	{ "G", REFUSED }, { "KiB", REFUSED }, { "4 G", REFUSED }, { "4G 4G", REFUSED },
	{ "4P", REFUSED }, { "4E", REFUSED }, { "4Gb/s", REFUSED }, { "4GBi", REFUSED },
	{ "4iB", REFUSED }, { "4BB", REFUSED }, { "4GiBi", REFUSED }, { "4GG", REFUSED },
	{ "4Gig", REFUSED }, { "4 GiB", REFUSED }, { "4G;", REFUSED }, { "4G#", REFUSED },
	{ "None", REFUSED }, { "NONE", REFUSED }, { "nonee", REFUSED }, { "non", REFUSED },
	{ "unlimited", REFUSED }, { "null", REFUSED }, { "4G\x01", REFUSED },
	{ "\xef\xbc\x94G", REFUSED }, { "4\xef\xbc\xa7", REFUSED }, { "\xc2\xa0" "4G", REFUSED },
	{ "4\xd0\x9a", REFUSED }, { "\xff\xfe", REFUSED },
};

/* A list, and what it means on the three GPUs. */
static const struct {
	const char *text;
	uint64_t bytes[3]; /* all 0: refused */
} lists[] = {
	{ "0=2G", { 2 * GIB, BYTES_NONE, BYTES_NONE } },
	{ " 1=2G\n", { BYTES_NONE, 2 * GIB, BYTES_NONE } },
	{ "0=2G,1=50%,2=33.4%", { 2 * GIB, 4 * GIB, 33 } },
	{ "1=none,0=1K", { KIB, BYTES_NONE, BYTES_NONE } },
	{ "00=1K,002=5", { KIB, BYTES_NONE, 5 } },
	{ "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6=4G", { 4 * GIB, BYTES_NONE, BYTES_NONE } },
	{ "GPU-8932f937-d72c-4106-c12f-20bd9faed9f7=4G,0=1G", { GIB, 4 * GIB, BYTES_NONE } },
	{ "gpu-ABCDEF01-2345-6789-0000-000000000001=7", { BYTES_NONE, BYTES_NONE, 7 } },
	{ "GPU-a=7", { BYTES_NONE, BYTES_NONE, 7 } },
	{ "GPU-abcdef01-=7", { BYTES_NONE, BYTES_NONE, 7 } },
	{ "MIG-abcdef01-2=7", { BYTES_NONE, BYTES_NONE, 7 } },
	{ "GPU-ffff=4G", { BYTES_NONE, BYTES_NONE, BYTES_NONE } },
	{ "GPU-ffff=4G,1=1M", { BYTES_NONE, MIB, BYTES_NONE } },

	{ "3=2G", { 0 } }, { "0=1G,31=1G", { 0 } }, { "32=1G", { 0 } },
	{ "4294967296=1G", { 0 } }, { "18446744073709551616=1G", { 0 } },
	{ "0=1G,0=1G", { 0 } }, { "0=1G,00=2G", { 0 } }, { "0=1G,1=2G,0=none", { 0 } },
	{ "0=1G,GPU-8932f937-d72c-4106-c12f-20bd9faed9f6=1G", { 0 } },
	{ "2=1,GPU-abcd=1", { 0 } }, { "GPU-abcd=1,GPU-abc=1", { 0 } },
	{ "GPU-ffff=1,gpu-FFFF=2", { 0 } }, { "GPU-8932f937=4G", { 0 } }, { "GPU-8=4G", { 0 } },
	{ "GPU-=4G", { 0 } }, { "GPU=4G", { 0 } }, { "G=4G", { 0 } }, { "=4G", { 0 } },
	{ "=", { 0 } },
	{ "GPU-xyz=4G", { 0 } }, { "GPU-89-32=4G", { 0 } }, { "GPU-8932f9370=4G", { 0 } },
	{ "GPU-8932f937-d72c-4106-c12f-20bd9faed9f60=4G", { 0 } },
	{ "8932f937=4G", { 0 } }, { "-1=4G", { 0 } }, { "+0=4G", { 0 } }, { "0x0=4G", { 0 } },
	{ "0.0=4G", { 0 } }, { "*=4G", { 0 } }, { "all=4G", { 0 } },
	{ "0=", { 0 } }, { "0=4G=5G", { 0 } }, { "0==4G", { 0 } }, { "0=0", { 0 } },
	{ "0=-1", { 0 } }, { "0=200%", { 0 } }, { "0=4Q", { 0 } }, { "0=1.5", { 0 } },
	{ "4G,0=1G", { 0 } }, { "4G,", { 0 } }, { ",4G", { 0 } }, { ",", { 0 } }, { ",,", { 0 } },
	{ "none,0=1G", { 0 } }, { "0=1G,", { 0 } }, { ",0=1G", { 0 } }, { "0=1G,,1=1G", { 0 } },
	{ "0=1G, 1=1G", { 0 } }, { "0 =1G", { 0 } }, { "0= 1G", { 0 } }, { "0=1G;1=1G", { 0 } },
	{ "0:1G", { 0 } }, { "2=1%", { 0 } }, { "1%", { 0 } }, { "0=1G,1", { 0 } },
};

static bool understand(const char *text, unsigned count, uint64_t bytes[SLOT_DEVICES], char *why,
	size_t why_bytes)
{
	struct limit limit;

	return limit_parse(&limit, text, why, why_bytes) &&
		limit_resolve(&limit, gpus, count, bytes, why, why_bytes);
}

static void test_amounts(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(amounts); i++) {
		uint64_t bytes[SLOT_DEVICES];
		char why[256];
		bool fine = understand(amounts[i].text, 1, bytes, why, sizeof(why));

		if (fine != (amounts[i].bytes != REFUSED) || (fine && bytes[0] != amounts[i].bytes))
			fail_msg("'%s': %s, %llu", amounts[i].text, why,
				(unsigned long long)bytes[0]);
		assert_int_equal(fine, why[0] == 0);
		for (unsigned gpu = 1; fine && gpu < SLOT_DEVICES; gpu++)
			assert_true(bytes[gpu] == BYTES_NONE);
	}
}

static void test_lists(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(lists); i++) {
		uint64_t bytes[SLOT_DEVICES];
		char why[256];
		bool fine = understand(lists[i].text, 3, bytes, why, sizeof(why));

		if (fine != (lists[i].bytes[0] != 0))
			fail_msg("'%s': %s", lists[i].text, fine ? "accepted" : why);
		for (unsigned gpu = 0; fine && gpu < 3; gpu++)
			if (bytes[gpu] != lists[i].bytes[gpu])
				fail_msg("'%s': GPU %u has %llu", lists[i].text, gpu,
					(unsigned long long)bytes[gpu]);
		assert_int_equal(fine, why[0] == 0);
	}
}

static void assert_reason(const char *text, const char *reason)
{
	uint64_t bytes[SLOT_DEVICES];
	char why[256];

	assert_false(understand(text, 3, bytes, why, sizeof(why)));
	assert_string_equal(why, reason);
}

static void test_reasons(void **state)
{
	(void)state;
	assert_reason("4Q", "'4Q': unknown unit; units are B K M G T, KiB to TiB, KB to TB");
	assert_reason(" -1 ", "'-1': a limit is not negative");
	assert_reason("1.5", "'1.5': this is not a whole number of bytes");
	assert_reason("0=1G,7x=2G",
		"'7x' in '0=1G,7x=2G': not a GPU: give its index, or its UUID, GPU-...");
	assert_reason("0=1G,0=2G", "'0' in '0=1G,0=2G': this GPU is named twice");
	assert_reason("5=1G", "GPU 5 is not visible");
	assert_reason("GPU-8932=1G", "GPU-8932 is the beginning of more than one UUID");
	assert_reason("2=1%", "GPU 2 would have a limit of 0 bytes");
	assert_reason("\x1b[31m4G", "'\\x1b[31m4G': it does not begin with a digit, as 4G and 50% do");
}

/* A sentence never runs over its room, and a long value is cut. */
static void test_short_room(void **state)
{
	char value[5000], why[300], *exact = malloc(8);
	struct limit limit;

	(void)state;
	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = 0;
	assert_false(limit_parse(&limit, value, why, sizeof(why)));
	assert_non_null(strstr(why, "xxx...': it does not begin"));
	assert_false(limit_parse(&limit, value, exact, 8));
	assert_string_equal(exact, "'xxxxxx");
	assert_false(limit_parse(&limit, value, NULL, 0));
	free(exact);
}

static void test_unused(void **state)
{
	struct limit limit;
	char text[64];

	(void)state;
	assert_true(limit_parse(&limit, "0=1,GPU-FFFF=2,GPU-ab=3,MIG-12=4", text, sizeof(text)));
	assert_int_equal(limit_unused(&limit, gpus, 3, text, sizeof(text)), 2);
	assert_string_equal(text, "GPU-ffff,GPU-12");
	assert_int_equal(limit_unused(&limit, gpus, 3, text, 6), 2);
	assert_string_equal(text, "GPU-f");
	assert_true(limit_parse(&limit, "0=1", text, sizeof(text)));
	assert_int_equal(limit_unused(&limit, gpus, 3, text, sizeof(text)), 0);
	assert_string_equal(text, "");
}

/* 32 GPUs by index and as many by UUID fit; resolve looks at no more GPUs than there can be. */
static void test_many(void **state)
{
	static struct limit_device many[SLOT_DEVICES + 1];
	char text[2000] = "", why[256];
	uint64_t bytes[SLOT_DEVICES];
	struct limit limit;

	(void)state;
	for (unsigned i = 0; i < SLOT_DEVICES; i++)
		sprintf(text + strlen(text), "%s%u=%u", i ? "," : "", i, i + 1);
	for (unsigned i = 0; i < SLOT_DEVICES; i++)
		sprintf(text + strlen(text), ",GPU-f%u=1", i);
	assert_true(limit_parse(&limit, text, why, sizeof(why)));
	assert_int_equal(limit.count, 2 * SLOT_DEVICES);
	assert_true(limit_resolve(&limit, many, SLOT_DEVICES + 1, bytes, why, sizeof(why)));
	assert_int_equal(bytes[SLOT_DEVICES - 1], SLOT_DEVICES);
	strcat(text, ",GPU-e=1");
	assert_false(limit_parse(&limit, text, why, sizeof(why)));
}

/* No percentage is above the exact share, nor a byte below it. */
static void test_percent_rounds_down(void **state)
{
	char text[32], why[64];

	(void)state;
	for (unsigned tenths = 1; tenths <= 1000; tenths++) {
		struct limit_device gpu = { .total_bytes = INT64_MAX - tenths };
		uint64_t bytes[SLOT_DEVICES];
		struct limit limit;

		snprintf(text, sizeof(text), "%u.%u%%", tenths / 10, tenths % 10);
		assert_true(limit_parse(&limit, text, why, sizeof(why)));
		assert_true(limit_resolve(&limit, &gpu, 1, bytes, why, sizeof(why)));
		assert_true((unsigned __int128)bytes[0] * 1000 <=
			(unsigned __int128)gpu.total_bytes * tenths);
		assert_true(((unsigned __int128)bytes[0] + 1) * 1000 >
			(unsigned __int128)gpu.total_bytes * tenths);
	}
}

static void test_random(void **state)
{
	static const char letters[] = "0123456789..,,==%KMGTBkib -GPU-89none\n\x01\xef";
	uint8_t text[48];
	unsigned accepted = 0;

	(void)state;
	srandom(20240229);
	for (unsigned round = 0; round < 300000; round++) {
		size_t length = (size_t)random() % sizeof(text);

		for (size_t i = 0; i < length; i++)
			text[i] = (uint8_t)letters[(size_t)random() % (sizeof(letters) - 1)];
		accepted += fuzz_one(text, length);
	}
	assert_in_range(accepted, 100, 299900);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_amounts),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_short_room),
		cmocka_unit_test(test_unused),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_percent_rounds_down),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

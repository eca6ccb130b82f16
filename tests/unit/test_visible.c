/* links: tests/sim/sim_visible.c */
/*
 * test_visible.c - CUDA_VISIBLE_DEVICES in the simulated driver: what each list means, and random ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../fuzz/fuzz_visible.c"

static void lists(void **state)
{
	static const struct {
		const char *list, *seen;
	} table[] = {
		{ "", "" }, { "0", "0" }, { "2,0,1", "2 0 1" }, { " 3 , 1\t", "3 1" }, { "1,1", "1" },
		{ "0,-1,1", "0" }, { "-1", "" }, { "11", "11" }, { "12", "" }, { "0,12,1", "0" },
		{ "00", "0" }, { "+1", "" }, { "0x1", "" }, { "1 2", "1" }, { ",1", "" }, { "1,,2", "1" },
		{ "1,", "1" }, { "99999999999999999999", "" }, { "MIG-1", "" }, { "GPU-", "" }, { "gpu-0", "" },
		{ "GPU-00515151-5151-5151-5151-515151515102", "2" },
		{ "gpu-00515151-5151-5151-5151-515151515103,0", "3 0" },
		{ "GPU-00515151-5151-5151-5151-5151515151", "" }, /* of several */
		{ "GPU-00515151-5151-5151-5151-5151515151022", "" }, { "GPU-ff", "" }, { "no", "" },
		{ "MIG-02515151-5151-5151-5151-515151515109,1", "9 1" },
		{ "GPU-02515151-5151-5151-5151-515151515109", "" }, /* a slice has another name */
		{ "MIG-00515151-5151-5151-5151-515151515102", "" }, { "mig-02", "" }, { "8,9", "8 9" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int seen[BOX], count = visible_parse(table[i].list, visible_box(), SLICES, BOX, seen);
		char text[BOX * 4] = "";

		for (int k = 0; k < count; k++)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d", k ? " " : "",
				seen[k]);
		if (strcmp(text, table[i].seen) != 0)
			fail_msg("'%s' shows '%s', not '%s'", table[i].list, text, table[i].seen);
	}
}

static void random_lists(void **state)
{
	static const char alphabet[] = "0123456789,,,,  \t-+GPUgpuMIG-51abcdef";
	uint64_t random = 1;
	int seen = 0;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint8_t text[64];
		size_t size;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		size = random >> 58;
		for (size_t k = 0; k < size; k++) {
			random = random * 6364136223846793005ull + 1442695040888963407ull;
			text[k] = (uint8_t)alphabet[(random >> 33) % (sizeof(alphabet) - 1)];
		}
		seen += visible_one(text, size);
	}
	assert_true(seen > 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(lists), cmocka_unit_test(random_lists) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

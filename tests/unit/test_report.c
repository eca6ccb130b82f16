/* links: shim/report.c shim/report_leaks.c shim/report_sites.c shim/report_found.c shim/report_refusal.c shim/report_growth.c shim/report_held.c shim/report_suppress.c shim/limit.c shim/report_text.c shim/report_host.c shim/json.c shim/text.c shim/calls.c */
/*
 * test_report.c - reports over ledgers made up in memory, against tests/golden/report_*; and hostile
 * ledgers.
 *
 * Run with UPDATE_GOLDEN=1 the expected files are written anew: read the difference before it is
 * committed. Files are found from $TOP, else from the current directory.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report.h"
#include "report_growth.h"
#include "report_leaks.h"
#include "report_suppress.h"
#include "text.h"

#include "driver_calls.h"

#define MIB (1ull << 20)
#define SECOND 1000000000ull
#define START (1709208184ull * SECOND) /* 2024-02-29T12:03:04Z */

enum {
#define X(name, params, args) CALL_##name,
	DRIVER_CALLS(X)
#undef X
};

#include "sink.h"

/* ---- a made-up ledger ---- */

static struct ledger_header header;
static struct ledger_thread threads[2];
static char sites[4096] __attribute__((aligned(8)));
static struct ledger_record records[64];
static struct ledger_growth growth[4];
static struct ledger_view view;

static uint32_t add_entry(struct ledger_site entry, const char *text, const void *more, size_t bytes)
{
	struct ledger_site *site = (void *)(sites + view.sites_bytes);
	size_t length = strlen(text) + 1;

	entry.site = (uint32_t)(view.sites_bytes / 8 + 1);
	entry.bytes = (uint32_t)(sizeof(*site) + (length + bytes + 7) / 8 * 8);
	*site = entry;
	strcpy((char *)(site + 1), text);
	if (more)
		memcpy((char *)(site + 1) + length, more, bytes);
	view.sites_bytes += entry.bytes;
	return entry.site;
}

/* A place in a module of its own. */
static uint32_t add_site(uint64_t offset, const char *path, const char *function, uint64_t inside)
{
	uint32_t module = add_entry((struct ledger_site){ .type = SITE_MODULE, .count = 3 }, path,
		"\xab\x01\xff", 3);

	return add_entry((struct ledger_site){ .type = SITE_PLACE, .module = module,
		.offset = offset, .function_offset = inside }, function, NULL, 0);
}

static struct ledger_record *add_record(unsigned kind, uint64_t bytes, unsigned api, unsigned site)
{
	struct ledger_record *record = &records[view.record_count++];

	*record = (struct ledger_record){ .handle = 0x7f0000000000 + view.record_count,
		.bytes = bytes, .time_ns = START + view.record_count * SECOND, .site = site,
		.api = (uint16_t)api, .kind = (uint8_t)kind, .class = CLASS_MEMORY,
		.state = RECORD_LIVE,
		.flags = kind == KIND_PINNED ? 0 : RECORD_CHARGED };
	return record;
}

static void new_ledger(void)
{
	memset(&header, 0, sizeof(header));
	memset(threads, 0, sizeof(threads));
	memset(sites, 0, sizeof(sites));
	memset(records, 0, sizeof(records));
	header.magic = LEDGER_MAGIC;
	header.version = CUWARD_LAYOUT_VERSION;
	header.call_count = DRIVER_CALL_COUNT;
	header.who = (struct process_identity){ .pid = 4711, .ppid = 4710, .pid_ns = 4026531836,
		.start_realtime_ns = START, .command = "train" };
	strcpy(header.version_text, "9.9.9");
	header.uses_cuda = 1;
	header.driver_version = 13000;
	header.simulated = 1;
	view = (struct ledger_view){ .header = &header, .threads = threads, .sites = sites,
		.records = records };
}

static void end_orderly(int status)
{
	header.ended = END_EXIT;
	header.status = status;
	header.end_realtime_ns = START + 300 * SECOND + 42000000;
}

static void add_device(const char *bus, uint64_t limit, const char *source)
{
	struct ledger_device *device = &header.devices[header.device_count++];

	memset(device->uuid, 0xa0 + (int)header.device_count, sizeof(device->uuid));
	strcpy(device->pci_bus_id, bus);
	strcpy(device->name, "Simulated GPU");
	device->total_bytes = 25757220864;
	device->limit_bytes = limit;
	strcpy(device->limit_source, source);
	device->job_limit_bytes = device->inner_limit_bytes = BYTES_NONE;
	device->user_limit_bytes = BYTES_NONE;
	device->group_limit_bytes = BYTES_NONE;
	device->gpu_limit_bytes = BYTES_NONE;
	device->peak_bytes = 48 * MIB;
	device->untracked_bytes = -1;
}

/* A process that used most of what a ledger can tell. */
static void full_ledger(void)
{
	uint32_t train, framework;

	new_ledger();
	memcpy(header.argv, "./train\0--epochs\0""3\0\xff\"\n", 23);
	strcpy(header.who.job, "k7x2/p9q1");
	strcpy(header.who.labels, "team=a b,run=1,flag,team=c");
	add_device("0000:01:00.0", 64 * MIB, "CUWARD_MEMORY");
	add_device("0000:02:00.0", BYTES_NONE, "");
	header.devices[0].denied = 3;
	header.devices[0].denied_bytes = 96 * MIB;
	header.devices[0].untracked_bytes = 5 * (int64_t)MIB;
	header.devices[1].job_limit_bytes = 128 * MIB;
	strcpy(header.devices[1].job_limit_source, "CUWARD_JOB_MEMORY");
	train = add_site(0x1234, "/opt/app/bin/train", "load_batch", 0x1f);
	framework = add_site(0xabc0, "/usr/lib/libframework.so.2", "", 0);
	add_record(KIND_DEVICE, 16 * MIB, CALL_cuMemAlloc_v2, train);
	add_record(KIND_DEVICE, 8 * MIB, CALL_cuMemAlloc_v2, train);
	add_record(KIND_DEVICE, 3 * MIB / 2, CALL_cuMemAllocPitch_v2, framework)->device = 1;
	add_record(KIND_PINNED, 1000, CALL_cuMemHostAlloc, framework);
	add_record(KIND_IMPORTED, MIB, CALL_cuIpcOpenMemHandle_v2, 0)->flags = 0;
	add_record(KIND_VMM, 2 * MIB, CALL_cuMemCreate, 77)->class = CLASS_PHYSICAL;
	add_record(OBJECT_STREAM, 0, CALL_cuStreamCreate, 0)->class = CLASS_OBJECT;
	add_record(OBJECT_STREAM, 0, CALL_cuStreamCreate, 0)->class = CLASS_OBJECT;
	add_record(KIND_DEVICE, 7, CALL_cuMemAlloc_v2, train)->state = RECORD_FREE;
	add_record(KIND_DEVICE, 9, CALL_cuMemAlloc_v2, train)->state = RECORD_LOST;
	add_record(KIND_DEVICE, 11, CALL_cuMemAlloc_v2, train)->state = RECORD_ALLOCATING;
	add_record(KIND_DEVICE, 13, CALL_cuMemAlloc_v2, train)->state = RECORD_FREEING;
	view.thread_count = 2;
	threads[0].allocs[KIND_DEVICE] = 5;
	threads[1].allocs[KIND_DEVICE] = 2;
	threads[1].frees[KIND_DEVICE] = 4;
	threads[0].created[OBJECT_STREAM] = 3;
	threads[1].destroyed[OBJECT_STREAM] = 1;
	threads[0].calls[CALL_cuMemAlloc_v2].count = 5;
	threads[1].calls[CALL_cuMemAlloc_v2].count = 5;
	threads[1].calls[CALL_cuMemAlloc_v2].errors = 3;
	threads[0].calls[CALL_cuInit].count = 1;
	header.kind_peak_bytes[KIND_DEVICE] = 48 * MIB;
	header.denials[0] = (struct ledger_denial){ .bytes = 32 * MIB, .limit_bytes = 64 * MIB,
		.used_bytes = 40 * MIB, .count = 3, .time_ns = START + SECOND, .site = train,
		.api = CALL_cuMemAlloc_v2, .scope = SCOPE_PROCESS, .present = 1 };
	header.denials[1] = (struct ledger_denial){ .bytes = 1, .api = CALL_cuMemAlloc_v2 };
	header.findings[FINDING_DOUBLE_FREE] = 2;
	header.faults[0] = (struct ledger_fault){ .pointer = 0x7f00, .count = 2, .time_ns = START,
		.site = framework, .other_site = train, .api = CALL_cuMemFree_v2,
		.finding = FINDING_DOUBLE_FREE, .present = 1 };
	header.looked_up = 12;
	header.hooked = 11;
	header.passed_through = 1;
	strcpy(header.unhooked, "cuFuture");
	header.trace = TRACE_REGISTERED;
	view.trace_dir = "/tmp/trace";
	view.trace_lost = 0;
	end_orderly(3);
}

/* ---- golden files ---- */

static char *golden_path(const char *name)
{
	static char path[PATH_MAX];
	const char *top = getenv("TOP");

	snprintf(path, sizeof(path), "%s/tests/golden/%s", top ? top : ".", name);
	return path;
}

/* Put a string of * where the value of "key" stands, so that a golden file fits every machine. */
static void mask_value(char *text, const char *key)
{
	char *value = strstr(text, key), *end;

	assert_non_null(value);
	value += strlen(key);
	end = strchr(value, '\n');
	assert_non_null(end);
	assert_true(end - value > 4);
	memmove(value + 4, end, strlen(end) + 1);
	memcpy(value, "\"*\",", 4);
}

static void assert_golden(const char *name, const char *text)
{
	FILE *file;
	char *expected;
	size_t got;

	if (getenv("UPDATE_GOLDEN")) {
		file = fopen(golden_path(name), "w");
		assert_non_null(file);
		fputs(text, file);
		fclose(file);
	}
	file = fopen(golden_path(name), "r");
	assert_non_null(file);
	expected = calloc(1, 1 << 20);
	got = fread(expected, 1, (1 << 20) - 1, file);
	fclose(file);
	assert_true(got > 0);
	assert_string_equal(text, expected);
	free(expected);
}

static void assert_golden_document(const char *name)
{
	report_document_json(open_sink(), &view);
	close_sink();
	mask_value(sink.text, "\"host\": ");
	mask_value(sink.text, "\"boot_id\": ");
	assert_golden(name, sink.text);
}

static void test_full(void **state)
{
	(void)state;
	full_ledger();
	assert_golden_document("report_full.json");
	report_leaks_text(open_sink(), &view, 12);
	assert_golden("report_full.txt", close_sink());
}

/* Nothing is said of a process that was killed, and what it held is no leak. */
static void test_killed(void **state)
{
	struct report_leaks sum;

	(void)state;
	full_ledger();
	header.ended = END_RUNNING;
	header.end_realtime_ns = 0;
	view.how = END_SIGNAL;
	view.status = 137;
	assert_golden_document("report_killed.json");
	report_leaks_text(open_sink(), &view, 12);
	assert_string_equal(close_sink(), "");
	sum = report_leak_sum(&view);
	assert_int_equal(sum.bytes, 0);
	assert_int_equal(sum.count, 0);
}

static void test_empty(void **state)
{
	(void)state;
	new_ledger();
	assert_golden_document("report_empty.json");
	report_leaks_text(open_sink(), &view, 12);
	assert_string_equal(close_sink(), "");
}

static void test_sum(void **state)
{
	struct report_leaks sum;

	(void)state;
	full_ledger();
	sum = report_leak_sum(&view);
	assert_int_equal(sum.bytes, 16 * MIB + 8 * MIB + 3 * MIB / 2 + 1000 + 2 * MIB);
	assert_int_equal(sum.count, 5);
	view.leaks_off = true;
	assert_int_equal(report_leak_sum(&view).count, 0);
	view.leaks_off = false;
	view.how = END_EXIT; /* a status, but its final handler never ran */
	header.ended = END_RUNNING;
	assert_int_equal(report_leak_sum(&view).count, 0);
}

static unsigned count_lines(const char *text)
{
	unsigned lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

static void test_lines(void **state)
{
	(void)state;
	full_ledger();
	for (unsigned lines = 0; lines < 8; lines++) {
		report_leaks_text(open_sink(), &view, lines);
		assert_int_equal(count_lines(close_sink()), lines < 5 ? lines : 5);
	}
	report_leaks_text(open_sink(), &view, 3);
	assert_non_null(strstr(close_sink(), "\n  3.50 MiB in 3 allocations from 3 more places\n"));
}

/* ---- groups ---- */

/* A million records at 5000 places: no byte is lost, the table is full, the rest is one group. */
static void test_many_places(void **state)
{
	const size_t count = 1000000;
	struct ledger_record *many = calloc(count, sizeof(*many));
	uint64_t bytes = 0, records_seen = 0, unplaced = 0;
	const struct leak_group *groups;
	unsigned group_count;

	(void)state;
	new_ledger();
	end_orderly(0);
	for (size_t i = 0; i < count; i++)
		many[i] = (struct ledger_record){ .bytes = i, .site = 1 + i % 5000,
			.time_ns = START + i, .state = RECORD_LIVE,
			.kind = i % 2 ? KIND_DEVICE : KIND_VMM };
	view.records = many;
	view.record_count = count;
	groups = report_leak_groups(&view, &group_count);
	for (unsigned i = 0; i < group_count; i++) {
		bytes += groups[i].bytes;
		records_seen += groups[i].count;
		unplaced += groups[i].api == API_NONE;
		assert_true(i == 0 || groups[i].bytes <= groups[i - 1].bytes);
	}
	assert_int_equal(bytes, (uint64_t)count * (count - 1) / 2);
	assert_int_equal(records_seen, count);
	assert_int_equal(group_count, 4096 - KIND_COUNT * VERDICT_COUNT + 2);
	assert_int_equal(unplaced, 2);
	free(many);
}

static uint64_t hash_of_first(unsigned kind, uint64_t offset, const char *path,
	const char *function)
{
	const struct leak_group *groups;
	uint32_t site;
	unsigned count;

	new_ledger();
	end_orderly(0);
	add_site(0x99, "/lib/other.so", "f", 1);
	site = add_site(offset, path, function, 0x10);
	add_record(kind, 4096, CALL_cuMemAlloc_v2, site);
	groups = report_leak_groups(&view, &count);
	assert_int_equal(count, 1);
	assert_non_null(report_site_owner(&view, groups[0].site));
	return report_leak_hash(&view, &groups[0]);
}

/* ---- growth ---- */

/* An entry of so many samples, one an activity, that are live as live(i) says. */
static bool grows(unsigned samples, uint64_t (*live)(unsigned i))
{
	struct ledger_growth *entry = &growth[0];

	new_ledger();
	end_orderly(0);
	memset(growth, 0, sizeof(growth));
	*entry = (struct ledger_growth){ .used = 1, .site = 1, .sample_count = samples, .live = 100,
		.last_time_ns = START + samples * SECOND };
	for (unsigned i = 0; i < samples; i++)
		entry->samples[i] = (struct ledger_sample){ i, START + i * SECOND, live(i) };
	entry->least_bytes = live(samples);
	header.activity = samples;
	header.end_realtime_ns = START + samples * SECOND;
	return report_growth_of(&view, entry).grows;
}

static uint64_t line(unsigned i) { return 1000 + 10 * i; }
static uint64_t flat(unsigned i) { return i < 4 ? 100 * i : 400; }
static uint64_t waves(unsigned i) { return i % 6 * 100; }
static uint64_t rising_waves(unsigned i) { return i % 6 * 100 + 40 * i; }
static uint64_t slower(unsigned i) { return 10000 - 10000 / (i + 1); }
static uint64_t half(unsigned i) { return i < 16 ? 10 * i : 160; }
static uint64_t late(unsigned i) { return i < 16 ? 0 : 10 * (i - 16); }
static uint64_t falling(unsigned i) { return 10000 - 10 * i; }
static uint64_t huge(unsigned i) { return UINT64_MAX / 64 * (i + 1); }
static uint64_t stairs(unsigned i) { return i / 3 * 1000; }

static void test_growth(void **state)
{
	struct report_growth told;

	(void)state;
	assert_true(grows(32, line));
	assert_true(grows(8, line));
	assert_false(grows(6, line));
	assert_false(grows(32, flat));
	assert_false(grows(32, waves));
	assert_true(grows(32, rising_waves));
	assert_false(grows(32, slower));
	assert_false(grows(32, half));
	assert_false(grows(32, late));
	assert_false(grows(32, falling));
	assert_true(grows(32, huge));
	assert_true(grows(32, stairs));
	assert_true(grows(32, line));
	told = report_growth_of(&view, growth);
	assert_int_equal(told.confidence, 100);
	assert_int_equal(told.to_bytes, 1000 + 320);
	assert_int_equal(told.bytes_per_s, 10);
	growth[0].live = 3;
	assert_false(report_growth_of(&view, growth).grows);
	/* It stopped, and the program went on for longer. */
	growth[0].live = 100;
	growth[0].last_time_ns = START + 10 * SECOND;
	assert_false(report_growth_of(&view, growth).grows);
	/* Samples that go back in time. */
	growth[0].last_time_ns = START + 32 * SECOND;
	growth[0].samples[5].activity = 0;
	assert_false(report_growth_of(&view, growth).grows);
}

/* ---- suppressions ---- */

static void test_patterns(void **state)
{
	static const struct { const char *pattern, *text; bool match; } rows[] = {
		{ "abc", "abc", true }, { "abc", "xabcx", true }, { "abc", "ab", false },
		{ "^abc", "abcx", true }, { "^abc", "xabc", false }, { "abc$", "xabc", true },
		{ "abc$", "abcx", false }, { "^abc$", "abc", true }, { "^abc$", "abcabc", false },
		{ "a*c", "xabbbcx", true }, { "a*c", "ca", false }, { "^a*c$", "abcabc", true },
		{ "^a*c$", "abcab", false }, { "*", "", true }, { "*", "x", true }, { "^*$", "", true },
		{ "a**b", "ab", true }, { "^a*b*c", "a-b-c-d", true }, { "a*b*c", "acb", false },
		{ "$", "x", true }, { "^$", "x", false }, { "^$", "", true }, { "^", "x", true },
		{ "aa$", "a", false }, { "a*aa$", "aa", false }, { "a*aa$", "aaa", true },
		{ "operator*", "Layer::operator*(int)", true }, { "f<int>", "f<int>(int)", true },
		{ "$a", "x$a", true }, { "a^b", "a^b", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (suppress_pattern(rows[i].pattern, rows[i].text) != rows[i].match)
			fail_msg("%s against %s", rows[i].pattern, rows[i].text);
}

/* ---- frames ---- */

static unsigned resolve(const struct report_symbols *symbols, const struct report_module *module,
	uint64_t offset, struct report_frame frames[REPORT_INLINED_MAX], const char **note)
{
	(void)symbols;
	assert_int_equal(module->build_id_bytes, 3);
	assert_memory_equal(module->build_id, "\xab\x01\xff", 3);
	if (strcmp(module->path, "/opt/app/bin/train") != 0) {
		*note = "the file is gone";
		return 0;
	}
	frames[0] = (struct report_frame){ "inner<int>", "/src/inner.h", 7 };
	frames[1] = (struct report_frame){ "outer", "/src/train.c", (unsigned)offset };
	return 2;
}

static uint32_t add_stack(const uint32_t *ids, unsigned count)
{
	uint32_t id = add_entry((struct ledger_site){ .type = SITE_STACK, .count = (uint16_t)count },
		"", NULL, count * sizeof(*ids));

	memcpy((struct ledger_site *)(sites + (id - 1) * 8) + 1, ids, count * sizeof(*ids));
	return id;
}

static uint32_t add_line(const char *file, const char *function, unsigned line)
{
	return add_entry((struct ledger_site){ .type = SITE_PYTHON, .offset = line }, file,
		function, strlen(function) + 1);
}

/* Inlined frames, lines of Python, and a module that is gone. */
static void test_frames(void **state)
{
	static const struct report_symbols symbols = { .resolve = resolve };
	uint32_t ids[4], native, mixed;
	uint64_t hash;

	(void)state;
	new_ledger();
	end_orderly(0);
	view.symbols = &symbols;
	ids[0] = add_line("/usr/lib/python3/dist-packages/cuda/driver.py", "alloc", 1077);
	ids[1] = add_line("jobs/train.py", "Trainer.step", 42);
	ids[2] = add_site(63, "/opt/app/bin/train", "", 0);
	ids[3] = add_site(0x10, "/tmp/plugin.so", "plug", 0x10);
	native = add_stack(ids + 2, 2);
	mixed = add_stack(ids, 4);
	add_record(KIND_DEVICE, 4096, CALL_cuMemAlloc_v2, native);
	report_leaks_text(open_sink(), &view, 12);
	assert_non_null(strstr(close_sink(), ") from inner<int>, inner.h:7 (train+0x3f), "));
	report_document_json(open_sink(), &view);
	assert_golden("report_frames.json", strstr(close_sink(), "\"leaks\""));
	hash = report_site_hash(&view, native, REPORT_HASH_START);
	view.symbols = NULL;
	assert_true(hash != report_site_hash(&view, native, REPORT_HASH_START));
	assert_true(report_site_hash(&view, mixed, REPORT_HASH_START) !=
		report_site_hash(&view, native, REPORT_HASH_START));
	add_record(KIND_DEVICE, 8192, CALL_cuMemAlloc_v2, mixed);
	report_leaks_text(open_sink(), &view, 12);
	assert_non_null(strstr(close_sink(), ") from Trainer.step, train.py:42 (python), "));
	report_document_json(open_sink(), &view);
	assert_non_null(strstr(close_sink(), "\"python\": [\n\t\t\t\t\t\t{ \"file\": \"/usr/lib/python3"
		"/dist-packages/cuda/driver.py\", \"line\": 1077, \"function\": \"alloc\" },"));
}

static void test_hash(void **state)
{
	uint64_t hash = hash_of_first(KIND_DEVICE, 0x500, "/a/b/train", "step");

	(void)state;
	assert_true(hash == 0xf4aaf3d0ec304ef6ull);
	assert_true(hash == hash_of_first(KIND_DEVICE, 0x700, "/elsewhere/train", "step"));
	assert_true(hash != hash_of_first(KIND_POOL, 0x500, "/a/b/train", "step"));
	assert_true(hash != hash_of_first(KIND_DEVICE, 0x500, "/a/b/train", "other"));
	assert_true(hash != hash_of_first(KIND_DEVICE, 0x500, "/a/b/brain", "step"));
	assert_true(hash_of_first(KIND_DEVICE, 0x500, "/a/train", "") !=
		hash_of_first(KIND_DEVICE, 0x501, "/a/train", ""));
}

/* A ledger of another build: its numbers of calls mean nothing here. */
static void test_other_build(void **state)
{
	(void)state;
	full_ledger();
	header.call_count++;
	report_document_json(open_sink(), &view);
	assert_non_null(strstr(close_sink(), "\"calls\": {}"));
	assert_null(strstr(sink.text, "cuMemAlloc"));
	assert_non_null(strstr(sink.text, "\"api\": null"));
}

/* ---- hostile ---- */

/* Whatever the bytes of a ledger are, the report of it ends, in valid characters. */
static void test_random_ledgers(void **state)
{
	static struct suppressions suppressions = { .count = 2, .rules = {
		{ .text = "leak:a*b", .pattern = "a*b", .type = SUPPRESS_LEAK },
		{ .text = "size<77", .bytes = 77, .type = SUPPRESS_SIZE } } };
	uint8_t *at;

	(void)state;
	srandom(7);
	for (unsigned round = 0; round < 300; round++) {
		full_ledger();
		for (unsigned i = 0; i < 400; i++) {
			at = (uint8_t *)&header + (size_t)random() % sizeof(header);
			*at = (uint8_t)random();
			at = (uint8_t *)records + (size_t)random() % sizeof(records);
			*at = (uint8_t)random();
			if (i % 8 == 0)
				sites[(size_t)random() % view.sites_bytes] = (char)random();
		}
		for (size_t i = 0; i < sizeof(growth); i++)
			((uint8_t *)growth)[i] = (uint8_t)random();
		view.growth = growth;
		view.growth_count = sizeof(growth) / sizeof(growth[0]);
		view.suppressions = &suppressions;
		header.leak_mode = round % 5;
		for (size_t i = 0; i < view.growth_count; i++)
			growth[i].site = records[i].site;
		view.how = (unsigned)random() % END_COUNT;
		report_document_json(open_sink(), &view);
		report_leaks_text(&out, &view, 12);
		close_sink();
		for (at = (uint8_t *)sink.text; *at; at++)
			assert_true(*at >= 0x20 || *at == '\n' || *at == '\t');
	}
}

/* Strings without an end stop at the end of their field. */
static void test_endless_strings(void **state)
{
	(void)state;
	full_ledger();
	memset(header.who.command, 'c', sizeof(header.who.command));
	memset(header.who.job, 'j', sizeof(header.who.job));
	memset(header.who.labels, 'l', sizeof(header.who.labels));
	memset(header.argv, 'a', sizeof(header.argv));
	memset(header.unhooked, 'u', sizeof(header.unhooked));
	memset(header.devices[0].name, 'n', sizeof(header.devices[0].name));
	memset(header.devices[0].limit_source, 's', sizeof(header.devices[0].limit_source));
	report_document_json(open_sink(), &view);
	close_sink();
	assert_int_equal(strspn(strstr(sink.text, "ccc"), "c"), 64);
	assert_int_equal(strspn(strstr(sink.text, "nnn"), "n"), 64);
	assert_int_equal(strspn(strstr(sink.text, "jjj"), "j"), 128);
	assert_int_equal(strspn(strstr(sink.text, "lll"), "l"), 128);
	assert_int_equal(strspn(strstr(sink.text, "uuu"), "u"), 1024);
	assert_int_equal(strspn(strstr(sink.text, "aaa"), "a"), 4096);
	assert_int_equal(strspn(strstr(sink.text, "sss"), "s"), 48);
}

/* A table of sites that is cut, or whose entries lie about their size, is read up to there. */
static void test_damaged_sites(void **state)
{
	struct ledger_site *module = (void *)sites, *place;
	const struct ledger_site *frames[SITE_FRAMES_MAX];
	uint32_t train, id;

	(void)state;
	new_ledger();
	id = train = add_site(0x1234, "/opt/app/bin/train", "load_batch", 0x1f);
	place = (void *)(sites + (train - 1) * 8);
	assert_ptr_equal(report_site(&view, train), place);
	assert_string_equal(report_site_module(&view, place), "train");
	assert_null(report_site(&view, train + 1));
	assert_null(report_site(&view, train - 1));
	assert_null(report_site(&view, UINT32_MAX));
	assert_null(report_site(&view, 0));
	view.sites_bytes--;
	assert_null(report_site(&view, train));
	view.sites_bytes++;
	module->bytes = 0;
	assert_string_equal(report_site_module(&view, place), "");
	module->bytes = UINT32_MAX - 7;
	assert_null(report_site(&view, 1));
	module->bytes = sizeof(*module) + 8; /* ends inside the path */
	assert_null(report_site(&view, 1));
	place->type = 77;
	assert_null(report_site(&view, train));
	/* A stack that claims more frames than it has, and one that is its own frame. */
	place->type = SITE_STACK;
	place->count = 5;
	assert_null(report_site(&view, train));
	place->count = 1;
	memcpy(place + 1, &id, sizeof(id));
	assert_int_equal(report_site_frames(&view, train, SITE_PLACE, frames), 0);
	assert_null(report_site_owner(&view, train));
}

/* ---- writers ---- */

static void test_output_fails(void **state)
{
	(void)state;
	full_ledger();
	open_sink();
	sink.flushes_left = 1;
	for (unsigned i = 0; i < 10; i++)
		report_document_json(&out, &view);
	assert_false(report_finish(&out));
	assert_int_equal(sink.used, sizeof(out.buffer));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_many_places),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_hash),
		cmocka_unit_test(test_other_build),
		cmocka_unit_test(test_random_ledgers),
		cmocka_unit_test(test_endless_strings),
		cmocka_unit_test(test_damaged_sites),
		cmocka_unit_test(test_output_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* links: tools/ledger_read.c */
/*
 * test_ledger_read.c - ledgers that are whole, cut, foreign or hostile; and do their owners live?
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"
#include "ledger_read.h"

static struct ledger_header header;
static char why[256];

static void new_header(void)
{
	memset(&header, 0, sizeof(header));
	header.magic = LEDGER_MAGIC;
	header.version = CUWARD_LAYOUT_VERSION;
	header.header_bytes = sizeof(header);
	header.record_bytes = sizeof(struct ledger_record);
	header.slot = SLOT_COUNT;
	header.who.pid = 4711;
	header.who.start_ticks = 99;
}

/* Write the header and, where its counts say so, parts of recognisable bytes. */
static void write_ledger(const char *path)
{
	struct ledger_record record = { .bytes = 7 };
	struct ledger_thread thread = { .tid = 5 };
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
	for (unsigned i = 0; i < 3 && i < header.record_count; i++)
		assert_int_equal(pwrite(fd, &record, sizeof(record),
			(off_t)(LEDGER_RECORDS_OFFSET + i * sizeof(record))), sizeof(record));
	for (unsigned i = 0; i < 2 && i < header.thread_count; i++)
		assert_int_equal(pwrite(fd, &thread, sizeof(thread),
			(off_t)(LEDGER_THREADS_OFFSET + i * sizeof(thread))), sizeof(thread));
	if (header.sites_bytes)
		assert_int_equal(pwrite(fd, "sites", 6, LEDGER_SITES_OFFSET), 6);
	close(fd);
}

static void test_whole(void **state)
{
	struct ledger_file file;

	(void)state;
	new_header();
	header.record_count = 3;
	header.thread_count = 2;
	header.sites_bytes = 6;
	write_ledger("whole.ledger");
	assert_true(ledger_open(&file, "whole.ledger", why, sizeof(why)));
	assert_false(file.cut);
	assert_int_equal(file.view.record_count, 3);
	assert_int_equal(file.view.records[2].bytes, 7);
	assert_int_equal(file.view.thread_count, 2);
	assert_int_equal(file.view.threads[1].tid, 5);
	assert_int_equal(file.view.sites_bytes, 6);
	assert_string_equal(file.view.sites, "sites");
	assert_int_equal(file.view.header->who.pid, 4711);
	ledger_close(&file);
	assert_null(file.view.records);
}

/* Counts that promise more than there is are cut to what there is. */
static void test_counts_lie(void **state)
{
	struct ledger_file file;

	(void)state;
	new_header();
	header.record_count = 3;
	write_ledger("lies.ledger");
	header.record_count = UINT32_MAX;
	header.thread_count = UINT32_MAX;
	header.sites_bytes = UINT32_MAX;
	write_ledger("lies.ledger");
	assert_true(ledger_open(&file, "lies.ledger", why, sizeof(why)));
	assert_true(file.cut);
	assert_int_equal(file.view.record_count, 3);
	assert_true(file.view.thread_count <= LEDGER_THREADS_MAX);
	assert_true(file.view.sites_bytes <= LEDGER_SITES_BYTES_MAX);
	ledger_close(&file);
	assert_int_equal(truncate("lies.ledger", LEDGER_RECORDS_OFFSET + 100), 0);
	assert_true(ledger_open(&file, "lies.ledger", why, sizeof(why)));
	assert_int_equal(file.view.record_count, 1);
	ledger_close(&file);
	assert_int_equal(truncate("lies.ledger", sizeof(header)), 0);
	assert_true(ledger_open(&file, "lies.ledger", why, sizeof(why)));
	assert_int_equal(file.view.record_count, 0);
	assert_int_equal(file.view.sites_bytes, 0);
	ledger_close(&file);
}

static void assert_refused(const char *path, const char *problem)
{
	struct ledger_file file;
	char expected[300];

	snprintf(expected, sizeof(expected), "%s: %s", path, problem);
	assert_false(ledger_open(&file, path, why, sizeof(why)));
	assert_string_equal(why, expected);
	assert_null(file.path);
	assert_null(file.header);
}

static void test_refused(void **state)
{
	(void)state;
	assert_refused("nosuch.ledger", "No such file or directory");
	new_header();
	write_ledger("bad.ledger");
	assert_int_equal(truncate("bad.ledger", sizeof(header) - 1), 0);
	assert_refused("bad.ledger", "too short to be a ledger");
	header.magic = 0;
	write_ledger("bad.ledger");
	assert_refused("bad.ledger", "still being made");
	header.magic = SLOTS_MAGIC;
	write_ledger("bad.ledger");
	assert_refused("bad.ledger", "not a ledger");
	new_header();
	header.version++;
	write_ledger("bad.ledger");
	assert_refused("bad.ledger", "a ledger of another version of cuward");
	new_header();
	header.record_bytes = 0;
	write_ledger("bad.ledger");
	assert_refused("bad.ledger", "a ledger of another layout");
	assert_int_equal(symlink("bad.ledger", "link.ledger"), 0);
	assert_refused("link.ledger", strerror(ELOOP));
	assert_int_equal(mkfifo("pipe.ledger", 0600), 0);
	assert_refused("pipe.ledger", "too short to be a ledger"); /* and does not wait */
}

static void test_list(void **state)
{
	struct ledger_list list;

	(void)state;
	assert_int_equal(system("mkdir -p s/jobs/a/b s/jobs/ab s/jobs/-"), 0);
	new_header();
	header.who.start_realtime_ns = 2;
	write_ledger("s/jobs/a/1-0-1.ledger");
	header.who.start_realtime_ns = 1;
	write_ledger("s/jobs/a/b/2-0-1.ledger");
	write_ledger("s/jobs/ab/3-0-1.ledger");
	write_ledger("s/jobs/a/.run");
	write_ledger("s/jobs/a/.ledger");
	assert_int_equal(system("echo junk >s/jobs/a/4-0-1.ledger; mkdir s/jobs/a/d.ledger"), 0);
	ledger_list_open(&list, "s", "a");
	assert_int_equal(list.count, 2);
	assert_string_equal(list.files[0].path, "s/jobs/a/b/2-0-1.ledger");
	assert_string_equal(list.files[1].path, "s/jobs/a/1-0-1.ledger");
	assert_int_equal(list.unreadable, 1);
	assert_string_equal(list.why, "s/jobs/a/4-0-1.ledger: too short to be a ledger");
	ledger_list_close(&list);
	ledger_list_open(&list, "s", "");
	assert_int_equal(list.count, 3);
	ledger_list_close(&list);
	ledger_list_open(&list, "s", "nosuch");
	assert_int_equal(list.count, 0);
	ledger_list_close(&list);
}

static void test_images(void **state)
{
	struct ledger_header first = { .who = { .pid = 1, .start_ticks = 2 } }, second = first;
	struct ledger_file a = { .header = &first }, b = { .header = &second };

	(void)state;
	assert_false(ledger_is_later_image(&a, &b));
	second.who.image = 1;
	assert_true(ledger_is_later_image(&a, &b));
	assert_false(ledger_is_later_image(&b, &a));
	second.who.start_ticks = 3; /* the pid was used again */
	assert_false(ledger_is_later_image(&a, &b));
}

/* ---- owners ---- */

enum { SLOT = 3 };

static off_t slot_offset(void)
{
	return sizeof(struct slots_header) + SLOT * (off_t)sizeof(struct slot);
}

/* A slots file whose slot says it belongs to the ledger's owner; returns its descriptor. */
static int write_slots(uint32_t slot_state)
{
	struct slots_header slots = { .magic = SLOTS_MAGIC, .version = CUWARD_LAYOUT_VERSION,
		.slot_bytes = sizeof(struct slot), .slot_count = SLOT_COUNT, .slots_used = 4 };
	struct slot slot = { .state = slot_state, .who = header.who };
	int fd = open("s/slots.0", O_RDWR | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &slots, sizeof(slots), 0), sizeof(slots));
	assert_int_equal(pwrite(fd, &slot, sizeof(slot), slot_offset()), sizeof(slot));
	return fd;
}

static void lock_slot(int fd, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = slot_offset(),
		.l_len = sizeof(struct slot) };

	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
}

static enum ledger_owner owner(void)
{
	struct ledger_file file = { .header = &header };

	return ledger_owner(&file, "s");
}

static void test_owner_by_lock(void **state)
{
	int fd;

	(void)state;
	mkdir("s", 0700);
	new_header();
	header.slot = SLOT;
	fd = write_slots(SLOT_TAKEN);
	assert_int_equal(owner(), OWNER_DEAD);
	lock_slot(fd, F_WRLCK);
	assert_int_equal(owner(), OWNER_ALIVE);
	header.who.stack_start = 1; /* another image has the slot now */
	assert_int_equal(owner(), OWNER_DEAD);
	header.who.stack_start = 0;
	lock_slot(fd, F_UNLCK);
	assert_int_equal(owner(), OWNER_DEAD);
	lock_slot(fd, F_WRLCK);
	close(fd);
	assert_int_equal(owner(), OWNER_DEAD);
	fd = write_slots(SLOT_FREE);
	lock_slot(fd, F_WRLCK);
	assert_int_equal(owner(), OWNER_DEAD);
	close(fd);
	assert_int_equal(unlink("s/slots.0"), 0);
}

static uint64_t own_ticks(void)
{
	char text[1024], *at;
	FILE *file = fopen("/proc/self/stat", "r");
	unsigned long long ticks = 0;

	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	at = strrchr(text, ')') + 1;
	for (int field = 3; field < 22; field++)
		at = strchr(at + 1, ' ');
	assert_int_equal(sscanf(at, " %llu", &ticks), 1);
	return ticks;
}

/* Without a slot only /proc can tell. */
static void test_owner_by_proc(void **state)
{
	int status;
	pid_t child;

	(void)state;
	new_header();
	assert_int_equal(owner(), OWNER_UNKNOWN); /* a pid of which namespace? */
	header.who.pid_ns = ledger_own_pid_ns();
	header.who.pid = (uint32_t)getpid();
	header.who.start_ticks = own_ticks();
	assert_int_equal(owner(), OWNER_ALIVE);
	header.who.stack_start = 4096; /* an image before ours */
	assert_int_equal(owner(), OWNER_DEAD);
	header.who.stack_start = 0;
	header.who.start_ticks++;
	assert_int_equal(owner(), OWNER_DEAD);
	child = fork();
	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, &status, 0), child);
	header.who.pid = (uint32_t)child;
	assert_int_equal(owner(), OWNER_DEAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_counts_lie),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_owner_by_lock),
		cmocka_unit_test(test_owner_by_proc),
	};

	return cmocka_run_group_tests(tests, enter_folder, remove_folder);
}

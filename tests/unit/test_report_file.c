/* links: shim/report_file.c shim/report_host.c shim/text.c */
/*
 * test_report_file.c - names of reports, and that no file is ever overwritten or half written.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"
#include "report_file.h"
#include "text.h"

static const struct report_writer writer = { .pid = 4711, .uid = 0,
	.start_ns = 1709208184500000000ull };

static const char *name_of(const char *pattern)
{
	static char name[PATH_MAX];
	int error = report_file_name(name, pattern, &writer);

	if (error == -EINVAL)
		return "EINVAL";
	return error == -ENAMETOOLONG ? "ENAMETOOLONG" : name;
}

static void test_names(void **state)
{
	char host[300], expected[700];

	(void)state;
	assert_string_equal(name_of("a.json"), "a.json");
	assert_string_equal(name_of("/x/%p-%t-%u.json"), "/x/4711-20240229T120304Z-root.json");
	assert_string_equal(name_of("100%%"), "100%");
	gethostname(host, sizeof(host));
	snprintf(expected, sizeof(expected), "%s.%s", host, host);
	assert_string_equal(name_of("%h.%h"), expected);
	assert_string_equal(name_of("%"), "EINVAL");
	assert_string_equal(name_of("%q"), "EINVAL");
	assert_string_equal(name_of("a%"), "EINVAL");
}

static void test_long_names(void **state)
{
	char pattern[PATH_MAX + 10];

	(void)state;
	memset(pattern, 'x', sizeof(pattern));
	pattern[PATH_MAX - 1] = 0;
	assert_string_equal(name_of(pattern), pattern);
	pattern[PATH_MAX - 1] = 'x';
	pattern[PATH_MAX] = 0;
	assert_string_equal(name_of(pattern), "ENAMETOOLONG");
	strcpy(pattern + PATH_MAX - 3, "%t");
	assert_string_equal(name_of(pattern), "ENAMETOOLONG");
}

/* Write a report of this text; where it landed. */
static const char *write_report(const char *name, const char *text)
{
	static struct report_file file;

	assert_int_equal(report_file_open(&file, name), 0);
	text_put(&file.out, text);
	assert_int_equal(report_file_close(&file, 4711), 0);
	return file.name;
}

static void assert_content(const char *name, const char *text)
{
	char content[64] = "";
	FILE *file = fopen(name, "r");

	assert_non_null(file);
	assert_non_null(fgets(content, sizeof(content), file));
	assert_string_equal(content, text);
	fclose(file);
}

static void test_never_overwrites(void **state)
{
	(void)state;
	assert_string_equal(write_report("r.json", "one"), "r.json");
	assert_string_equal(write_report("r.json", "two"), "r-4711.json");
	assert_string_equal(write_report("r.json", "three"), "r-4711-2.json");
	assert_content("r.json", "one");
	assert_content("r-4711.json", "two");
	assert_content("r-4711-2.json", "three");
	assert_string_equal(write_report("./plain", "x"), "./plain");
	assert_string_equal(write_report("./plain", "y"), "./plain-4711");
	assert_string_equal(write_report(".hidden", "x"), ".hidden");
	assert_string_equal(write_report(".hidden", "y"), ".hidden-4711");
	assert_int_equal(symlink("nowhere", "link.json"), 0);
	assert_string_equal(write_report("link.json", "z"), "link-4711.json");
	assert_int_equal(access("nowhere", F_OK), -1);
}

/* Nothing but whole reports is left in the folder. */
static void test_fails_clean(void **state)
{
	static struct report_file file;
	int full = 0;

	(void)state;
	assert_int_equal(report_file_open(&file, "no/such/r.json"), -ENOENT);
	assert_int_equal(report_file_open(&file, "fail.json"), 0);
	file.out.failed = true;
	assert_int_equal(report_file_close(&file, 4711), -EIO);
	assert_int_equal(access("fail.json", F_OK), -1);
	assert_int_equal(report_file_open(&file, "/dev/full"), 0);
	text_put(&file.out, "x");
	assert_int_equal(report_file_close(&file, 4711), -ENOSPC);
	full = system("ls -A | grep -c cuward > count");
	assert_true(WIFEXITED(full));
	assert_content("count", "0\n");
}

static void test_device(void **state)
{
	struct stat info;

	(void)state;
	assert_string_equal(write_report("/dev/null", "gone"), "/dev/null");
	assert_int_equal(stat("/dev/null", &info), 0);
	assert_true(S_ISCHR(info.st_mode));
}

/* A descriptor is added to, be it of a file. */
static void test_descriptor(void **state)
{
	FILE *file = fopen("open", "w");
	char name[32];

	(void)state;
	fputs("before ", file);
	fflush(file);
	snprintf(name, sizeof(name), "/dev/fd/%d", fileno(file));
	write_report(name, "after");
	fclose(file);
	assert_content("open", "before after");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_never_overwrites),
		cmocka_unit_test(test_fails_clean),
		cmocka_unit_test(test_device),
		cmocka_unit_test(test_descriptor),
	};

	return cmocka_run_group_tests(tests, enter_folder, remove_folder);
}

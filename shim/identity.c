/*
 * identity.c - what the kernel says of this process and of this boot.
 */
#include "identity.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned long long stat_field(const char *text, int field)
{
	/* The command in field 2 may hold anything: count from its last parenthesis. */
	const char *at = strrchr(text, ')');

	for (int i = 2; at && i < field; i++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

static void copy_comm(char comm[16], const char *text)
{
	const char *from = strchr(text, '(');
	const char *to = strrchr(text, ')');
	size_t length = from && to > from ? to - from - 1 : 0;

	memset(comm, 0, 16);
	if (length > 0)
		memcpy(comm, from + 1, length < 15 ? length : 15);
}

static bool read_small_file(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t count = fd < 0 ? -1 : read(fd, text, bytes - 1);

	if (fd >= 0)
		close(fd);
	text[count > 0 ? count : 0] = '\0';
	return count > 0;
}

bool identity_read(struct process_identity *who, char comm[16])
{
	char text[1024];
	struct stat ns;

	who->pid = getpid();
	who->ppid = getppid();
	who->uid = getuid();
	if (stat("/proc/self/ns/pid", &ns) == 0)
		who->pid_ns = ns.st_ino;
	comm[0] = '\0';
	if (!read_small_file("/proc/self/stat", text, sizeof(text)))
		return false;
	copy_comm(comm, text);
	who->start_ticks = stat_field(text, 22);
	who->stack_start = stat_field(text, 28);
	return true;
}

uint64_t identity_boot(void)
{
	char text[64];
	uint64_t boot = 0;

	if (read_small_file("/proc/sys/kernel/random/boot_id", text, sizeof(text)))
		boot = strtoull(text, NULL, 16) << 16 | (strtoull(text + 9, NULL, 16) & 0xffff);
	return boot;
}

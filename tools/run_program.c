/*
 * run_program.c - can this command be watched at all?
 *
 * A preload does not reach programs that are static, run with other rights than ours, or are made
 * for another machine. To start them all the same would be a run without limit that looks like one
 * with it.
 */
#include "run.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#if __SIZEOF_POINTER__ == 8
#define NATIVE_CLASS ELFCLASS64
#define NATIVE(type) Elf64_##type
#else
#define NATIVE_CLASS ELFCLASS32
#define NATIVE(type) Elf32_##type
#endif

#if defined(__x86_64__)
#define NATIVE_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define NATIVE_MACHINE EM_AARCH64
#else
#error "cuward knows no dynamic loader of this machine"
#endif

enum { SCRIPTS_DEEP = 5 }; /* a script's interpreter may be a script; the kernel follows 5 */

/* ---- where it is ---- */

static bool is_program(const char *path)
{
	struct stat info;

	return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* What execvp will find; errno as it would leave it. */
static bool search_path(const char *name, char path[PATH_MAX])
{
	const char *folders = getenv("PATH"), *next;
	int error = ENOENT;

	if (!folders)
		folders = "/bin:/usr/bin";
	for (const char *folder = folders; folder; folder = *next ? next + 1 : NULL) {
		next = strchrnul(folder, ':');
		if (snprintf(path, PATH_MAX, "%.*s%s%s", (int)(next - folder), folder,
			next > folder ? "/" : "", name) >= PATH_MAX)
			continue;
		if (is_program(path))
			return true;
		if (access(path, F_OK) == 0)
			error = EACCES;
	}
	errno = error;
	return false;
}

static int find_program(struct run *run)
{
	const char *name = run->argv[0];
	struct stat info;
	int error;

	if (!strchr(name, '/') && *name && search_path(name, run->program))
		return 0;
	error = *name ? errno : ENOENT;
	if (strchr(name, '/')) {
		snprintf(run->program, sizeof(run->program), "%s", name);
		if (is_program(name))
			return 0;
		error = stat(name, &info) == 0 ? EACCES : errno;
	}
	run_fail("%s: %s", name, error == EACCES ? "cannot be executed" : strerror(error));
	return error == ENOENT || error == ENOTDIR ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/* ---- ELF ---- */

struct elf {
	int fd;
	NATIVE(Ehdr) header;
};

static bool read_exactly(int fd, void *to, size_t bytes, uint64_t offset)
{
	return pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* The first program header of a type. */
static bool find_segment(const struct elf *elf, uint32_t type, NATIVE(Phdr) *segment)
{
	for (unsigned i = 0; i < elf->header.e_phnum; i++)
		if (read_exactly(elf->fd, segment, sizeof(*segment),
			elf->header.e_phoff + (uint64_t)i * elf->header.e_phentsize) &&
			segment->p_type == type)
			return true;
	return false;
}

/* Has its dynamic section this entry? The dynamic loader itself has a soname, a static PIE none. */
static bool has_dynamic(const struct elf *elf, NATIVE(Sxword) tag)
{
	NATIVE(Phdr) dynamic;
	NATIVE(Dyn) entry;

	if (!find_segment(elf, PT_DYNAMIC, &dynamic))
		return false;
	for (uint64_t at = 0; at + sizeof(entry) <= dynamic.p_filesz; at += sizeof(entry)) {
		if (!read_exactly(elf->fd, &entry, sizeof(entry), dynamic.p_offset + at))
			return false;
		if (entry.d_tag == tag)
			return true;
	}
	return false;
}

/* Why the preload does not reach this ELF file, NULL if it does. */
static const char *elf_problem(const struct elf *elf)
{
	NATIVE(Phdr) interpreter;
	char loader[128] = "";

	if (elf->header.e_ident[EI_CLASS] != NATIVE_CLASS)
		return "it is made for another word size than cuward's";
	if (elf->header.e_machine != NATIVE_MACHINE)
		return "it is made for another machine than cuward";
	if (!find_segment(elf, PT_INTERP, &interpreter))
		return has_dynamic(elf, DT_SONAME) ? NULL :
			"it is linked statically, so nothing can be preloaded into it";
	if (pread(elf->fd, loader, sizeof(loader) - 1, (off_t)interpreter.p_offset) > 0 &&
		strstr(loader, "musl"))
		return "it is made for the C library musl, and cuward for the GNU C library";
	return NULL;
}

/* Why the kernel would start it with other rights than ours, NULL if it would not. */
static const char *rights_problem(int fd)
{
	struct stat info;

	if (fstat(fd, &info) != 0)
		return "it cannot be examined";
	if (info.st_mode & S_ISUID)
		return "it is set-uid, and the system preloads nothing into such programs";
	if (info.st_mode & S_ISGID && info.st_mode & S_IXGRP)
		return "it is set-gid, and the system preloads nothing into such programs";
	if (fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return "it has file capabilities, and the system preloads nothing into those";
	return NULL;
}

/* ---- scripts ---- */

/* The interpreter in the first line of a script. */
static bool script_interpreter(const char *head, char path[PATH_MAX])
{
	const char *at = head + 2 + strspn(head + 2, " \t");
	size_t length = strcspn(at, " \t\n");

	if (length == 0 || length >= PATH_MAX)
		return false;
	memcpy(path, at, length);
	path[length] = 0;
	return true;
}

/* *problem is set, or path becomes the interpreter and true is returned: look at that. */
static bool look_at(char path[PATH_MAX], const char **problem)
{
	char head[256] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct elf elf = { .fd = fd };
	ssize_t got = fd < 0 ? -1 : pread(fd, head, sizeof(head) - 1, 0);
	bool again = false;

	*problem = NULL;
	if (got < 0) {
		*problem = "it cannot be read, so it is not known whether cuward reaches it";
	} else if (strncmp(head, "#!", 2) == 0) {
		again = script_interpreter(head, path);
	} else if (memcmp(head, ELFMAG, SELFMAG) == 0) {
		*problem = rights_problem(fd);
		if (!*problem && read_exactly(fd, &elf.header, sizeof(elf.header), 0))
			*problem = elf_problem(&elf);
	} else {
		/* Neither: execvp gives it to the shell. */
		again = strcmp(path, "/bin/sh") != 0;
		strcpy(path, "/bin/sh");
	}
	if (fd >= 0)
		close(fd);
	return again;
}

int run_program_check(struct run *run)
{
	char path[PATH_MAX];
	const char *problem;
	int error = find_program(run);

	if (error)
		return error;
	strcpy(path, run->program);
	for (unsigned depth = 0; depth <= SCRIPTS_DEEP && look_at(path, &problem); depth++)
		;
	if (!problem)
		return 0;
	return run_fail("%s cannot be watched: %s%s%s%s", run->argv[0],
		strcmp(path, run->program) != 0 ? "it is run by " : "",
		strcmp(path, run->program) != 0 ? path : "",
		strcmp(path, run->program) != 0 ? ", and " : "", problem);
}

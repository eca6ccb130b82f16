/*
 * cmd_doctor.c - `cuward doctor`: what is enforced here today, and what is not.
 *
 * One row a check; each says ok, warn or fail, one sentence, and what to do. Whatever may crash or hang
 * or change the process (loading a driver, preloading) happens in a child. Exit 0 all ok, else 1.
 */
#include <argp.h>
#include <dlfcn.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "admin.h"
#include "admin_dir.h"
#include "cuward.h"
#include "doctor.h"
#include "libraries.h"
#include "limit.h"
#include "slots_read.h"

static const char *const verdict_words[] = { "ok", "warn", "fail" };

void doctor_say(struct diagnosis *d, enum verdict verdict, const char *format, ...)
{
	va_list arguments;

	d->verdict = verdict;
	va_start(arguments, format);
	vsnprintf(d->text, sizeof(d->text), format, arguments);
	va_end(arguments);
}

void doctor_advise(struct diagnosis *d, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(d->advice, sizeof(d->advice), format, arguments);
	va_end(arguments);
}

/* ---- the checks ---- */

/* Where the libraries lie; "" nowhere. */
static const char *libraries(void)
{
	static char folder[PATH_MAX];

	return libraries_find(folder) ? folder : "";
}

static void check_library(struct diagnosis *d)
{
	if (libraries()[0]) {
		doctor_say(d, OK, "the shim is %s/libcuward.so", libraries());
		return;
	}
	doctor_say(d, FAIL, "libcuward.so is neither beside the command nor in %s: nothing can be "
		"limited",
		CUWARD_LIBDIR);
	doctor_advise(d, "install it there: make install prefix=...");
}

/* Status of a child that runs this program as `cuward preflight LIBRARY` under the preload. */
static int preflight(const char *library)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout))
			_exit(1);
		setenv("LD_PRELOAD", library, 1);
		execl("/proc/self/exe", "cuward", "preflight", library, NULL);
		_exit(1);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return status;
}

static void check_preload(struct diagnosis *d)
{
	char library[PATH_MAX + 16];

	snprintf(library, sizeof(library), "%s/libcuward.so", libraries());
	if (libraries()[0] && preflight(library) == 0) {
		doctor_say(d, OK, "programs started here load the shim");
		return;
	}
	doctor_say(d, FAIL, "the preload does not work: no limit would be enforced");
	doctor_advise(d, "`LD_PRELOAD=%s true` may say why", library);
}

static void check_other_preload(struct diagnosis *d)
{
	const char *preload = getenv("LD_PRELOAD");

	if (!preload || !*preload) {
		doctor_say(d, OK, "no other library is preloaded");
		return;
	}
	doctor_say(d, WARN, "LD_PRELOAD is set: %s", preload);
	doctor_advise(d, "cuward run puts the shim in front of it; an interposer of CUDA there is not "
		"called");
}

static void check_disabled(struct diagnosis *d)
{
	const char *disable = getenv("CUWARD_DISABLE");

	if (!disable || strcmp(disable, "1") != 0) {
		doctor_say(d, OK, "cuward is not switched off");
		return;
	}
	doctor_say(d, FAIL, "CUWARD_DISABLE=1: the shim passes every call through, nothing is enforced");
	doctor_advise(d, "unset CUWARD_DISABLE");
}

static void check_limits(struct diagnosis *d)
{
	const char *memory = getenv("CUWARD_MEMORY");
	const char *job = getenv("CUWARD_JOB_MEMORY");
	struct limit limit;
	char why[256];

	if (memory && !limit_parse(&limit, memory, why, sizeof(why))) {
		doctor_say(d, FAIL, "CUWARD_MEMORY: %s; programs are refused the driver", why);
		doctor_advise(d, "a limit is 8G, 50%%, none, or 0=2G,GPU-uuid=4G");
	} else if (job && !limit_parse(&limit, job, why, sizeof(why))) {
		doctor_say(d, FAIL, "CUWARD_JOB_MEMORY: %s; programs are refused the driver", why);
		doctor_advise(d, "a limit is 8G, 50%%, none, or 0=2G,GPU-uuid=4G");
	} else if (job && strcmp(job, "none") != 0) {
		doctor_say(d, OK, "all processes of a job together are limited to CUWARD_JOB_MEMORY=%s", job);
	} else if (memory && strcmp(memory, "none") != 0) {
		doctor_say(d, OK, "each process is limited to CUWARD_MEMORY=%s", memory);
	} else {
		doctor_say(d, OK, "the environment sets no limit; cuward run -m does");
	}
}

/* One that cannot be understood lets nobody start; one that is ignored binds nobody. */
static void check_policy(struct diagnosis *d)
{
	struct admin admin;
	char why[300];

	if (access(CUWARD_SYSCONFDIR, F_OK) != 0) {
		doctor_say(d, OK, "the administrator sets no limit (" CUWARD_SYSCONFDIR " is not there)");
	} else if (!admin_read(&admin, NULL, 0, getuid(), why, sizeof(why))) {
		doctor_say(d, FAIL, "%s; programs are refused the driver", why);
		doctor_advise(d, "`cuward limit check` tells when it can be understood; see cuward-limit(1)");
	} else if (admin.warning[0]) {
		doctor_say(d, WARN, "%s: its limits bind nobody", admin.warning);
		doctor_advise(d, "chown root and chmod go-w, for the folder too");
	} else if (admin.nobody[0]) {
		doctor_say(d, WARN, "%s: the section binds nobody", admin.nobody);
		doctor_advise(d, "write the name as it is there, or the user's number");
	} else {
		doctor_say(d, OK, "the policy files in " CUWARD_SYSCONFDIR " can be read; `cuward limit get` "
			"tells the limits");
	}
}

/* In a child: what does the loader find, and what does it say of itself? One line to `out`. */
static void describe_driver(FILE *out)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*version)(int *) = driver ? (int (*)(int *))dlsym(driver, "cuDriverGetVersion") : NULL;
	Dl_info info;
	int number = 0;

	if (!version || version(&number) != 0 || !dladdr((void *)version, &info))
		return;
	fprintf(out, "%d %d %s", number, dlsym(driver, "cuward_simulated_driver") != NULL,
		info.dli_fname);
	fflush(out);
}

static bool ask_child(void (*describe)(FILE *), char *answer, size_t bytes)
{
	int ends[2];
	size_t used = 0;
	ssize_t count;
	pid_t child;

	if (pipe(ends) != 0)
		return false;
	child = fork();
	if (child == 0) {
		alarm(10);
		close(ends[0]);
		describe(fdopen(ends[1], "w"));
		_exit(0);
	}
	close(ends[1]);
	while ((count = read(ends[0], answer + used, bytes - 1 - used)) > 0)
		used += count;
	answer[used] = '\0';
	close(ends[0]);
	if (child > 0)
		waitpid(child, NULL, 0);
	return used > 0;
}

static void check_driver(struct diagnosis *d)
{
	char answer[PATH_MAX + 64], path[PATH_MAX];
	int version, simulated;

	if (!ask_child(describe_driver, answer, sizeof(answer)) ||
		sscanf(answer, "%d %d %4095[^\n]", &version, &simulated, path) != 3) {
		doctor_say(d, WARN, "no CUDA driver is found (libcuda.so.1)");
		doctor_advise(d, "install the NVIDIA driver, or try programs with cuward run --sim");
	} else if (simulated) {
		doctor_say(d, OK, "the driver is the simulated one, CUDA %d.%d: %s", version / 1000,
			version % 1000 / 10, path);
	} else if (access("/dev/nvidiactl", F_OK) != 0) {
		doctor_say(d, WARN, "driver CUDA %d.%d is found (%s), and /dev/nvidiactl is not there",
			version / 1000, version % 1000 / 10, path);
		doctor_advise(d, "no GPU is visible here, or its kernel module is not loaded");
	} else {
		doctor_say(d, OK, "driver CUDA %d.%d: %s", version / 1000, version % 1000 / 10, path);
	}
}

static void folder_name(char path[PATH_MAX])
{
	const char *dir = getenv("CUWARD_DIR");
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (dir && *dir)
		snprintf(path, PATH_MAX, "%s", dir);
	else if (runtime && runtime[0] == '/')
		snprintf(path, PATH_MAX, "%s/cuward", runtime);
	else
		snprintf(path, PATH_MAX, "/dev/shm/cuward-%u", getuid());
}

/* Of an older version, before an upgrade: its processes and new ones do not see each other. */
static void check_slots(struct diagnosis *d, const char *folder)
{
	int common = admin_dir_open("slots");
	char path[PATH_MAX + 32];

	if (common >= 0)
		close(common);
	snprintf(path, sizeof(path), "%s/slots.%u", common >= 0 ? CUWARD_RUNDIR "/slots" : folder, getuid());
	if (!slots_file_is_foreign(path))
		return;
	doctor_say(d, WARN, "%s is in use by another version of cuward", path);
	doctor_advise(d, "end the processes that were started under it; until then new ones are not seen, "
		"and refused where a limit of a job or user binds them");
}

static void check_folder(struct diagnosis *d)
{
	char path[PATH_MAX];
	struct stat info;

	folder_name(path);
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		doctor_say(d, FAIL, "the folder of shared state %s cannot be made: %s", path, strerror(errno));
	else if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
		doctor_say(d, FAIL, "%s is not a folder", path);
	else if (info.st_uid != getuid())
		doctor_say(d, FAIL, "%s belongs to uid %u, not to you", path, info.st_uid);
	else if (info.st_mode & 022)
		doctor_say(d, FAIL, "%s is writable by others", path);
	else if (access(path, W_OK | X_OK) != 0)
		doctor_say(d, FAIL, "%s is not writable: %s", path, strerror(errno));
	else
		doctor_say(d, OK, "shared state lives in %s", path);
	if (d->verdict == OK)
		check_slots(d, path);
	if (d->verdict == FAIL)
		doctor_advise(d, "set CUWARD_DIR to a folder of yours, mode 0700, best on a tmpfs; without "
			"it limits "
			"of a process still hold, in private memory");
}

/* Does the policy limit what users hold together? Then nobody starts who cannot see them all. */
static bool is_common_needed(void)
{
	const struct limit_device some = { .total_bytes = 1ull << 40 };
	struct admin admin;
	char why[300];

	return admin_read(&admin, &some, 1, getuid(), why, sizeof(why)) && (admin.group_count ||
		admin.reserve_count || admin.max[ADMIN_GPU][0].bytes != BYTES_NONE);
}

/* Where all users meet; without it they do not count together. */
static void check_common(struct diagnosis *d)
{
	int fd = admin_dir_open("slots");

	if (fd >= 0) {
		doctor_say(d, OK, "all users meet in " CUWARD_RUNDIR);
		close(fd);
	} else if (access(CUWARD_RUNDIR, F_OK) == 0) {
		doctor_say(d, FAIL, CUWARD_RUNDIR " is not as tmpfiles.d makes it: root's, slots and queue with "
			"mode 1777");
		doctor_advise(d, "systemd-tmpfiles --create cuward.conf, or see docs/shared-box.md");
	} else if (is_common_needed()) {
		doctor_say(d, FAIL, CUWARD_RUNDIR " is not there, and " CUWARD_SYSCONFDIR " has a group_max "
			"or a reserve: programs are refused the driver");
		doctor_advise(d, "systemd-tmpfiles --create cuward.conf, or see docs/shared-box.md");
	} else {
		doctor_say(d, OK, "users do not meet: each counts and queues for himself (" CUWARD_RUNDIR
			" is not there)");
	}
}

#define SPACE_LEAST (64ull << 20)

static void check_space(struct diagnosis *d)
{
	char path[PATH_MAX];
	struct statvfs fs;

	folder_name(path);
	if (statvfs(path, &fs) != 0) {
		doctor_say(d, FAIL, "%s: %s", path, strerror(errno));
		doctor_advise(d, "see the folder of shared state");
	} else if (fs.f_bavail * fs.f_frsize < SPACE_LEAST) {
		doctor_say(d, WARN, "%llu MiB are free in %s",
			(unsigned long long)(fs.f_bavail * fs.f_frsize >> 20), path);
		doctor_advise(d, "64 MiB remember a million allocations; with less, some are counted but "
			"not listed");
	} else {
		doctor_say(d, OK, "%llu MiB are free for ledgers",
			(unsigned long long)(fs.f_bavail * fs.f_frsize >> 20));
	}
}

static bool in_path(const char *program)
{
	char *folders = strdup(getenv("PATH") ? getenv("PATH") : "");
	char *rest = NULL;
	char path[PATH_MAX];
	bool found = false;

	for (char *folder = strtok_r(folders, ":", &rest); folder && !found;
	     folder = strtok_r(NULL, ":", &rest)) {
		snprintf(path, sizeof(path), "%s/%s", folder, program);
		found = access(path, X_OK) == 0;
	}
	free(folders);
	return found;
}

#ifdef CUWARD_WITHOUT_LTTNG
static const bool with_lttng;
#else
static const bool with_lttng = true;
#endif

static void check_session_daemon(struct diagnosis *d)
{
	if (!with_lttng) {
		doctor_say(d, OK, "this cuward was built without LTTng: --trace is not there");
		return;
	}
	if (in_path("lttng-sessiond")) {
		doctor_say(d, OK, "lttng-sessiond is there for --trace");
		return;
	}
	doctor_say(d, WARN, "lttng-sessiond is not in PATH: --trace will not work");
	doctor_advise(d, "apt-get install lttng-tools");
}

static void load_provider(FILE *out)
{
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/libcuward-lttng.so", libraries());
	setenv("LTTNG_UST_REGISTER_TIMEOUT", "200", 0);
	if (dlopen(path, RTLD_NOW | RTLD_LOCAL))
		fprintf(out, "loaded");
	else
		fprintf(out, "%s", dlerror());
	fflush(out);
}

static void check_provider(struct diagnosis *d)
{
	char answer[500];

	if (!with_lttng) {
		doctor_say(d, OK, "this cuward was built without LTTng: there is no trace provider");
		return;
	}
	if (ask_child(load_provider, answer, sizeof(answer)) && strcmp(answer, "loaded") == 0) {
		doctor_say(d, OK, "the trace provider loads");
		return;
	}
	doctor_say(d, WARN, "the trace provider does not load: %s", answer);
	doctor_advise(d, "apt-get install liblttng-ust1; limits and leak reports work without it");
}

static const struct check {
	const char *name;
	void (*run)(struct diagnosis *);
} checks[] = {
	{ "shim", check_library },
	{ "preload", check_preload },
	{ "other-preload", check_other_preload },
	{ "switch", check_disabled },
	{ "limits", check_limits },
	{ "policy", check_policy },
	{ "driver", check_driver },
	{ "folder", check_folder },
	{ "common", check_common },
	{ "space", check_space },
	{ "nvml", doctor_check_nvml },
	{ "mig", doctor_check_mig },
	{ "mps", doctor_check_mps },
	{ "dmem", doctor_check_dmem },
	{ "session-daemon", check_session_daemon },
	{ "provider", check_provider },
};

enum { CHECK_COUNT = sizeof(checks) / sizeof(checks[0]) };

/* ---- the command ---- */

static void print_text(const struct diagnosis *all)
{
	static const char *const colors[] = { "32", "33", "31" };
	bool color = isatty(STDOUT_FILENO) && !(getenv("NO_COLOR") && *getenv("NO_COLOR"));

	for (int i = 0; i < CHECK_COUNT; i++) {
		const char *word = verdict_words[all[i].verdict];

		if (color)
			printf("\033[%sm%-4s\033[0m  ", colors[all[i].verdict], word);
		else
			printf("%-4s  ", word);
		printf("%-15s %s\n", checks[i].name, all[i].text);
		if (all[i].advice[0])
			printf("%22s-> %s\n", "", all[i].advice);
	}
	printf("\nNot a wall: a program that wants to can get around a preload. Not counted yet:\n"
		"memory of OpenGL, EGL and VDPAU.\n");
}

static void print_json(const struct diagnosis *all)
{
	json_t *list = json_array();

	for (int i = 0; i < CHECK_COUNT; i++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s?}", "check", checks[i].name,
			"verdict", verdict_words[all[i].verdict], "text", all[i].text, "advice",
			all[i].advice[0] ? all[i].advice : NULL));
	list = json_pack("{s:i, s:o}", "schema", 1, "checks", list);
	json_dumpf(list, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(list);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	(void)argument;
	switch (key) {
	case 'j':
		*(bool *)state->input = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_doctor(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "json", 'j', NULL, 0, "Print the checks as JSON", 0 }, { 0 }
	};
	static const struct argp parser = {
		.options = options, .parser = parse,
		.doc = "What is enforced here today, and what is not.\v"
			"Exit status: 0 all checks are fine, 1 one of them warns or fails, 2 usage.",
	};
	static struct diagnosis all[CHECK_COUNT];
	bool json = false;
	int status = EXIT_FINE;

	argp_parse(&parser, argc, argv, 0, NULL, &json);
	for (int i = 0; i < CHECK_COUNT; i++) {
		checks[i].run(&all[i]);
		if (all[i].verdict != OK)
			status = EXIT_FOUND;
	}
	if (json)
		print_json(all);
	else
		print_text(all);
	return status;
}

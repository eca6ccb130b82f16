/*
 * doctor_walls.c - what limits GPU memory here beside cuward, and cannot be got around: MIG, MPS, the
 * dmem controller of cgroups. And NVML, which tells of processes that are not under cuward.
 *
 * Whether there is a wall or none is no fault, so these say ok; warn is for what is broken.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"
#include "format.h"
#include "nvml.h"

/* Asked once: what hangs, hangs once. */
static const struct nvml_facts *facts(void)
{
	static const struct nvml_facts *answer;

	if (!answer)
		answer = nvml_answer();
	return answer;
}

void doctor_check_nvml(struct diagnosis *d)
{
	switch (facts()->state) {
	case NVML_ABSENT:
		doctor_say(d, OK, "NVML (libnvidia-ml.so.1) is not here: processes that are not under "
			"cuward are not "
			"listed");
		break;
	case NVML_FAILED:
		doctor_say(d, WARN, "NVML is here and answers with error %d: processes that are not under "
			"cuward "
			"are not listed", facts()->error);
		doctor_advise(d, "nvidia-smi may say more; limits do not need NVML");
		break;
	case NVML_LOST:
		doctor_say(d, WARN, "NVML does not answer within 5 s: processes that are not under cuward "
			"are not "
			"listed");
		doctor_advise(d, "does nvidia-smi answer? A GPU may have fallen off the bus; limits do not "
			"need NVML");
		break;
	default:
		doctor_say(d, OK, "NVML tells of %u GPU%s, and of processes that are not under cuward",
			facts()->gpu_count, facts()->gpu_count == 1 ? "" : "s");
	}
}

void doctor_check_mig(struct diagnosis *d)
{
	char text[400] = "";
	size_t used = 0;
	unsigned divided = 0;
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	if (visible && strncmp(visible, "MIG-", 4) == 0) {
		doctor_say(d, OK, "MIG is a hard wall here: CUDA_VISIBLE_DEVICES=%.200s is a slice of a "
			"GPU, and nobody gets memory of another one", visible);
		return;
	}
	if (facts()->state != NVML_THERE) {
		doctor_say(d, OK, "whether a GPU is divided by MIG is not known without NVML");
		return;
	}
	for (uint32_t i = 0; i < facts()->gpu_count; i++) {
		const struct nvml_gpu *gpu = &facts()->gpus[i];

		if (!gpu->mig)
			continue;
		divided++;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "; GPU %u into", i);
		for (uint32_t k = 0; k < gpu->slice_count && used < sizeof(text) - 60; k++)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s %s", k ? "," : "",
				gpu->slice_bytes[k] == NVML_UNKNOWN ? "unknown" :
				format_bytes(gpu->slice_bytes[k]));
		if (!gpu->slice_count)
			used += (size_t)snprintf(text + used, sizeof(text) - used, " nothing yet");
		if (used > sizeof(text) - 60)
			break;
	}
	if (!divided)
		doctor_say(d, OK, "no GPU is divided by MIG");
	else
		doctor_say(d, OK, "MIG is a hard wall here: nobody gets memory of another slice%s", text);
}

/* The control daemon makes its pipes in this folder. */
void doctor_check_mps(struct diagnosis *d)
{
	const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
	const char *limit = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
	char path[PATH_MAX];
	struct stat info;

	folder = folder && *folder ? folder : "/tmp/nvidia-mps";
	snprintf(path, sizeof(path), "%s/control", folder);
	if (stat(path, &info) != 0 || !S_ISFIFO(info.st_mode)) {
		doctor_say(d, OK, "no MPS daemon has its pipes in %s", folder);
	} else if (limit && *limit) {
		doctor_say(d, OK, "MPS is a hard wall here: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%s limits "
			"each client, "
			"and the lower limit binds", limit);
	} else {
		doctor_say(d, OK, "MPS runs (%s), and without CUDA_MPS_PINNED_DEVICE_MEM_LIMIT it limits "
			"nobody's "
			"memory; all clients share one context's overhead", folder);
	}
}

/* ---- cgroups ---- */

static bool read_text(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, bytes - 1);

	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	return got >= 0;
}

/* "a 1 b 2" on one line, for people. */
static void flatten(char *text)
{
	size_t length = strlen(text);

	while (length && text[length - 1] == '\n')
		text[--length] = '\0';
	for (; *text; text++)
		if (*text == '\n')
			*text = ' ';
}

/* Some region of the card may have a limit other than max, in our group or one above. */
static bool find_dmem_limit(char *group, char *limits, size_t bytes)
{
	char path[PATH_MAX];

	for (;;) {
		char *slash = strrchr(group, '/');

		snprintf(path, sizeof(path), "/sys/fs/cgroup%s/dmem.max", group);
		if (read_text(path, limits, bytes) && limits[strcspn(limits, "0123456789")] &&
			strpbrk(limits, " ") && strspn(strpbrk(limits, " ") + 1, "0123456789"))
			return true;
		if (!slash)
			return false;
		*slash = '\0';
	}
}

void doctor_check_dmem(struct diagnosis *d)
{
	char capacity[300], limits[300], group[1200];
	char *own;

	if (!read_text("/sys/fs/cgroup/dmem.capacity", capacity, sizeof(capacity))) {
		doctor_say(d, OK, "this kernel has no dmem controller of cgroups (Linux 6.14 and newer)");
		return;
	}
	flatten(capacity);
	own = read_text("/proc/self/cgroup", group, sizeof(group)) ? strstr(group, "0::/") : NULL;
	if (own)
		flatten(own);
	if (!capacity[0])
		doctor_say(d, OK, "the dmem controller of cgroups knows no card here: NVIDIA's driver has "
			"not told it "
			"of one");
	else if (own && find_dmem_limit(own + 3, limits, sizeof(limits))) {
		flatten(limits);
		doctor_say(d, OK, "dmem is a hard wall here: %s", limits);
	} else
		doctor_say(d, OK, "the dmem controller of cgroups knows of %s, and limits nobody here",
			capacity);
}

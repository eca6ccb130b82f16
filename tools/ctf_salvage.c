/*
 * ctf_salvage.c - what is left of a trace that does not open: each stream apart, cut to packets.
 *
 * A stream whose writer was killed may end inside a packet. Its copy keeps the beginning of that
 * packet, with sizes to match, so that the events in it can be read up to the cut.
 */
#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctf.h"
#include "need.h"

/* What LTTng-UST writes before the events of a packet; sizes in bits. */
struct packet_header {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_id;
	uint64_t stream_instance_id;
	uint64_t begin, end;
	uint64_t content_size, packet_size;
} __attribute__((packed));

#define PACKET_MAGIC 0xc1fc1fc1u

/* ---- one folder a stream ---- */

static void add_part(struct ctf_parts *parts, const char *path, const char *name)
{
	char folder[PATH_MAX], target[PATH_MAX];
	size_t capacity = parts->capacity;

	snprintf(folder, sizeof(folder), "%s/%zu", parts->folder, parts->count);
	if (mkdir(folder, 0700) != 0)
		return;
	parts->names = need_room(parts->names, parts->count, &capacity, sizeof(*parts->names));
	parts->paths = need_room(parts->paths, parts->count, &parts->capacity, sizeof(*parts->paths));
	parts->names[parts->count] = need_copy(name);
	parts->paths[parts->count] = need_copy(folder);
	snprintf(target, sizeof(target), "%s/metadata", path);
	snprintf(folder, sizeof(folder), "%s/metadata", parts->paths[parts->count]);
	if (symlink(target, folder) != 0)
		return;
	snprintf(target, sizeof(target), "%s/%s", path, name);
	snprintf(folder, sizeof(folder), "%s/stream", parts->paths[parts->count++]);
	(void)!symlink(target, folder);
}

static bool is_file(const char *path, const char *name)
{
	char full[PATH_MAX];
	struct stat about;

	snprintf(full, sizeof(full), "%s/%s", path, name);
	return name[0] != '.' && strcmp(name, "metadata") != 0 && stat(full, &about) == 0 &&
		S_ISREG(about.st_mode);
}

static char *make_folder(void)
{
	const char *base = getenv("TMPDIR");
	char *path = NULL;

	if (asprintf(&path, "%s/cuward-trace-XXXXXX", base && *base ? base : "/tmp") < 0)
		return need(NULL);
	if (mkdtemp(path))
		return path;
	free(path);
	return NULL;
}

struct ctf_parts *ctf_split(const char *path)
{
	struct ctf_parts *parts = need_zeroed(1, sizeof(*parts));
	DIR *folder = opendir(path);
	const struct dirent *entry;

	parts->folder = make_folder();
	while (folder && parts->folder && (entry = readdir(folder)))
		if (is_file(path, entry->d_name))
			add_part(parts, path, entry->d_name);
	if (folder)
		closedir(folder);
	return parts;
}

void ctf_parts_free(struct ctf_parts *parts)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < parts->count; i++) {
		snprintf(path, sizeof(path), "%s/metadata", parts->paths[i]);
		unlink(path);
		snprintf(path, sizeof(path), "%s/stream", parts->paths[i]);
		unlink(path);
		rmdir(parts->paths[i]);
		free(parts->paths[i]);
		free(parts->names[i]);
	}
	if (parts->folder)
		rmdir(parts->folder);
	free(parts->folder);
	free(parts->paths);
	free(parts->names);
	free(parts);
}

/* ---- readable packets ---- */

static bool copy_bytes(int from, int to, uint64_t offset, uint64_t bytes)
{
	char buffer[65536];

	while (bytes) {
		size_t chunk = bytes < sizeof(buffer) ? (size_t)bytes : sizeof(buffer);
		ssize_t got = pread(from, buffer, chunk, (off_t)offset);

		if (got <= 0 || write(to, buffer, (size_t)got) != got)
			return false;
		offset += (uint64_t)got;
		bytes -= (uint64_t)got;
	}
	return true;
}

static bool header_is_sound(const struct packet_header *header)
{
	uint64_t packet = le64toh(header->packet_size), content = le64toh(header->content_size);

	return le32toh(header->magic) == PACKET_MAGIC && packet % 8 == 0 && content <= packet &&
		content >= sizeof(*header) * 8;
}

/* Copy the packet at offset, shortened to what is there. Returns its size, 0 if it is none. */
static uint64_t copy_packet(int from, int to, uint64_t offset, uint64_t size)
{
	struct packet_header header;
	uint64_t left = size - offset, bytes;

	if (left <= sizeof(header) || pread(from, &header, sizeof(header), (off_t)offset) !=
		(ssize_t)sizeof(header) || !header_is_sound(&header))
		return 0;
	bytes = le64toh(header.packet_size) / 8;
	if (bytes > left) {
		bytes = left;
		header.packet_size = htole64(left * 8);
		if (le64toh(header.content_size) > left * 8)
			header.content_size = header.packet_size;
	}
	if (write(to, &header, sizeof(header)) != (ssize_t)sizeof(header) ||
		!copy_bytes(from, to, offset + sizeof(header), bytes - sizeof(header)))
		return 0;
	return bytes;
}

bool ctf_salvage(const struct ctf_parts *parts, size_t part)
{
	char path[PATH_MAX];
	struct stat about;
	uint64_t offset = 0, bytes;
	int from, to;

	snprintf(path, sizeof(path), "%s/stream", parts->paths[part]);
	from = open(path, O_RDONLY | O_CLOEXEC);
	if (from < 0)
		return false;
	unlink(path);
	to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fstat(from, &about) == 0 && to >= 0)
		while ((bytes = copy_packet(from, to, offset, (uint64_t)about.st_size)))
			offset += bytes;
	if (to >= 0)
		close(to);
	close(from);
	return offset > 0;
}

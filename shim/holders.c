/*
 * holders.c - reading the ledgers of this user's other processes: who allocated what they hold?
 */
#include "holders.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ledger.h"
#include "report_sites.h"
#include "share.h"
#include "top_sites.h"

#define CHUNK_RECORDS 1024u
#define RECORDS_MAX (64u * CHUNK_RECORDS) /* of more only the first are looked at */

/* What of a ledger is needed, and room for a line about it. */
struct copy {
	struct ledger_header header;
	struct ledger_record records[CHUNK_RECORDS];
	struct top_sites sums;
	struct report_out out;
};

static int open_ledger(const struct process_identity *who)
{
	char path[256], why[256];
	int folder, fd;

	snprintf(path, sizeof(path), "jobs/%s/%u-%u-%llu.ledger", who->job[0] ? who->job : "-", who->pid,
		who->image, (unsigned long long)who->start_ticks);
	folder = strstr(path, "..") ? -1 : share_folder(why, sizeof(why));
	if (folder < 0)
		return -1;
	fd = openat(folder, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	close(folder);
	return fd;
}

static bool read_header(int fd, struct ledger_header *header)
{
	return pread(fd, header, sizeof(*header), 0) == sizeof(*header) && header->magic == LEDGER_MAGIC &&
		header->version == CUWARD_LAYOUT_VERSION && header->header_bytes == sizeof(*header) &&
		header->record_bytes == sizeof(struct ledger_record) && header->device_count <= SLOT_DEVICES &&
		header->sites_bytes <= LEDGER_SITES_BYTES_MAX;
}

/* Its number of the device that has this word in the slots; UINT8_MAX for none. */
static uint8_t device_of(const struct ledger_header *header, unsigned word_index)
{
	for (uint32_t i = 0; i < header->device_count; i++)
		if (header->devices[i].slot_device == word_index)
			return i;
	return UINT8_MAX;
}

static uint32_t largest_site(struct copy *copy, int fd, uint8_t device)
{
	struct ledger_holder largest[LEDGER_HOLDERS] = { 0 };
	uint32_t count = copy->header.record_count < RECORDS_MAX ? copy->header.record_count : RECORDS_MAX;

	for (uint32_t first = 0; first < count; first += CHUNK_RECORDS) {
		uint32_t wanted = count - first < CHUNK_RECORDS ? count - first : CHUNK_RECORDS;
		ssize_t got = pread(fd, copy->records, wanted * sizeof(struct ledger_record),
			LEDGER_RECORDS_OFFSET + (uint64_t)first * sizeof(struct ledger_record));

		for (uint32_t i = 0; i < wanted && (ssize_t)((i + 1) * sizeof(struct ledger_record)) <= got; i++)
			top_sites_add(&copy->sums, &copy->records[i], device);
	}
	top_sites_largest(&copy->sums, largest);
	return largest[0].site;
}

/* A report in miniature: its words go into the line, cut where it ends. */
static void tell_site(struct ledger_holder *holder, struct copy *copy, int fd, uint32_t site)
{
	const struct ledger_header *header = &copy->header;
	struct report_out *out = &copy->out;
	char *sites = site ? share_private(header->sites_bytes) : NULL;
	struct ledger_view view = { .header = header, .sites = sites, .sites_bytes = header->sites_bytes };
	size_t length;

	if (!sites)
		return;
	if (pread(fd, sites, header->sites_bytes, LEDGER_SITES_OFFSET) == (ssize_t)header->sites_bytes &&
	    report_site(&view, site)) {
		report_site_text(out, &view, site);
		length = out->used < sizeof(holder->line) ? out->used : sizeof(holder->line) - 1;
		memcpy(holder->line, out->buffer, length);
	}
	share_private_done(sites, header->sites_bytes);
}

static void read_line(struct ledger_holder *holder, const struct process_identity *who,
	unsigned word_index)
{
	struct copy *copy = share_private(sizeof(*copy));
	int fd = copy ? open_ledger(who) : -1;

	if (fd >= 0 && read_header(fd, &copy->header))
		tell_site(holder, copy, fd, largest_site(copy, fd, device_of(&copy->header, word_index)));
	if (fd >= 0)
		close(fd);
	if (copy)
		share_private_done(copy, sizeof(*copy));
}

static void find_line(struct ledger_holder *holder, unsigned word_index)
{
	const struct slots_header *header = share_slots();
	const struct slot *slots = (const struct slot *)(header + 1);

	for (uint32_t i = 0; header && i < header->slots_used && i < SLOT_COUNT; i++) {
		struct process_identity who = slots[i].who;

		who.job[sizeof(who.job) - 1] = '\0';
		if (slots[i].state != SLOT_FREE && who.pid == holder->pid &&
			who.start_realtime_ns == holder->since_ns)
			read_line(holder, &who, word_index);
	}
}

void holders_find_lines(struct ledger_holder holders[LEDGER_HOLDERS], uint8_t device,
	unsigned word_index)
{
	for (int i = 0; i < LEDGER_HOLDERS && holders[i].bytes; i++) {
		if (holders[i].uid != getuid() || !holders[i].pid)
			continue;
		if (holders[i].pid == (uint32_t)getpid()) {
			struct ledger_holder own[LEDGER_HOLDERS] = { 0 };

			ledger_top_sites(device, own);
			holders[i].site = own[0].site;
		} else {
			find_line(&holders[i], word_index);
		}
	}
}

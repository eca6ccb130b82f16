/*
 * ledger.c - the slab of records, its file, and the counters beside it; the index is index.c.
 */
#include "ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver_calls.h"
#include "job.h"
#include "kernel.h"
#include "lock.h"
#include "report.h"
#include "share.h"
#include "uncancelled.h"

#define FILE_BYTES (LEDGER_RECORDS_OFFSET + (uint64_t)LEDGER_RECORDS_MAX * sizeof(struct ledger_record))
#define FILE_BYTES_LEAST (LEDGER_RECORDS_OFFSET + (1ull << 20))

#define PRIVATE_MAX (16u << 20)

_Static_assert(DRIVER_CALL_COUNT <= LEDGER_CALLS_MAX, "thread blocks hold every call");

struct ledger_memory ledger;

/* ---- the file ---- */

static int open_folder(char *why, size_t why_bytes)
{
	int top = share_folder(why, why_bytes);
	int folder;

	if (top < 0)
		return -1;
	folder = job_open_folder(top, ledger.job);
	if (folder < 0)
		snprintf(why, why_bytes, "cannot make the folder of job \"%s\": %s", ledger.job,
			strerror(errno));
	close(top);
	return folder;
}

/* A free name: an image before ours with this pid and start left its file when it called exec. */
static int create_file(int folder, struct process_identity *who)
{
	int fd;

	do {
		snprintf(ledger.name, sizeof(ledger.name), "%u-%u-%llu.ledger", who->pid, who->image,
			(unsigned long long)who->start_ticks);
		fd = openat(folder, ledger.name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	} while (fd < 0 && errno == EEXIST && ++who->image < 10000);
	if (fd >= 0)
		fchmod(fd, 0600); /* whatever the umask: the command writes marks into it */
	return fd;
}

/*
 * Address space may be limited (ulimit -v), and is the program's: a smaller window holds fewer records.
 */
static char *map_file(int fd)
{
	char *base = NULL;
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
	uint64_t most = FILE_BYTES;

	getrlimit(RLIMIT_AS, &limit);
	while (most / 4 > FILE_BYTES_LEAST && most > limit.rlim_cur / 16)
		most = LEDGER_RECORDS_OFFSET + (most - LEDGER_RECORDS_OFFSET) / 4;
	for (uint64_t bytes = most; !base && bytes >= FILE_BYTES_LEAST;
	     bytes = LEDGER_RECORDS_OFFSET + (bytes - LEDGER_RECORDS_OFFSET) / 4) {
		base = fd < 0 ? share_private(bytes) : share_map(fd, 0, bytes);
		ledger.mapped_bytes = bytes;
	}
	return base;
}

/* Header, first thread blocks and first records: with less room, all of it goes to private memory. */
static int allocate_first(int fd)
{
	int error = share_allocate(fd, 0, sizeof(struct ledger_header));

	if (!error)
		error = share_allocate(fd, LEDGER_THREADS_OFFSET, 
			LEDGER_FIRST_THREADS * sizeof(struct ledger_thread));
	if (!error)
		error = share_allocate(fd, LEDGER_RECORDS_OFFSET, LEDGER_GROW_BYTES);
	return error;
}

/* A run that reads our books would take us for one that never was. Elsewhere nobody would remove it. */
static void leave_mark(int folder, const struct process_identity *who)
{
	char name[sizeof(ledger.name)];
	int fd;

	if (faccessat(folder, ".run", F_OK, 0) != 0)
		return;
	snprintf(name, sizeof(name), "%u-%u-%llu" LEDGER_LOST, who->pid, who->image,
		(unsigned long long)who->start_ticks);
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
}

static bool open_file(struct process_identity *who, char *why, size_t why_bytes)
{
	int folder = open_folder(why, why_bytes);
	int fd = folder < 0 ? -1 : create_file(folder, who);
	struct stat status;
	int error = fd < 0 ? -errno : 0;

	if (folder < 0)
		return false;
	if (!error)
		error = allocate_first(fd);
	if (!error && fstat(fd, &status) == 0) {
		ledger.device = status.st_dev;
		ledger.inode = status.st_ino;
		ledger.base = map_file(fd);
	}
	if (!ledger.base) {
		snprintf(why, why_bytes, "cannot make the ledger %s: %s", ledger.name,
			strerror(error ? -error : ENOMEM));
		if (fd >= 0)
			unlinkat(folder, ledger.name, 0);
		leave_mark(folder, who);
	}
	if (fd >= 0)
		close(fd);
	close(folder);
	if (ledger.base) {
		ledger.in_file = true;
		ledger.threads_allocated = LEDGER_FIRST_THREADS;
		ledger.allocated = LEDGER_GROW_BYTES / sizeof(struct ledger_record);
	}
	return ledger.in_file;
}

struct ledger_header *ledger_open(const struct process_identity *who, char *why, size_t why_bytes)
{
	struct process_identity self = *who;

	share_wipe_on_fork(&ledger, sizeof(ledger));
	snprintf(ledger.job, sizeof(ledger.job), "%s", who->job);
	if (!open_file(&self, why, why_bytes))
		ledger.base = map_file(-1);
	if (!ledger.base || !index_open())
		return NULL;
	ledger.header = (struct ledger_header *)ledger.base;
	ledger.records = (struct ledger_record *)(ledger.base + LEDGER_RECORDS_OFFSET);
	ledger.header->version = CUWARD_LAYOUT_VERSION;
	ledger.header->header_bytes = sizeof(struct ledger_header);
	ledger.header->record_bytes = sizeof(struct ledger_record);
	ledger.header->call_count = DRIVER_CALL_COUNT;
	ledger.header->slot = SLOT_COUNT;
	ledger.header->who = self;
	__atomic_store_n(&ledger.header->magic, LEDGER_MAGIC, __ATOMIC_RELEASE);
	return ledger.header;
}

bool ledger_is_open(void)
{
	return ledger.header != NULL;
}

/* Give the file room for [offset, offset + bytes). It is found by its name again: a descriptor
 * kept open would be one the guest can see and close. */
static bool grow(uint64_t offset, uint64_t bytes)
{
	char why[256];
	struct stat status;
	int folder;
	int fd;
	bool grown = false;
	UNCANCELLED_HERE;

	if (offset + bytes > ledger.mapped_bytes)
		return false;
	if (!ledger.in_file)
		return true;
	folder = open_folder(why, sizeof(why));
	if (folder < 0)
		return false;
	fd = openat(folder, ledger.name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &status) == 0 && status.st_dev == ledger.device &&
	    status.st_ino == ledger.inode)
		grown = share_allocate(fd, offset, bytes) == 0;
	if (fd >= 0)
		close(fd);
	close(folder);
	return grown;
}

/* Its folder or one above it is that of a run. Who cannot tell leaves it to a run. */
bool ledger_is_of_run(void)
{
	char why[256];
	int top = ledger.job[0] ? share_folder(why, sizeof(why)) : -1;
	bool found = ledger.job[0] && (top < 0 || job_is_of_run(top, ledger.job));

	if (top >= 0)
		close(top);
	return found;
}

void ledger_unlink(void)
{
	char why[256];
	int folder = ledger.in_file ? open_folder(why, sizeof(why)) : -1;

	if (folder < 0)
		return;
	unlinkat(folder, ledger.name, 0);
	close(folder);
}

struct ledger_thread *ledger_thread(uint32_t number)
{
	uint64_t block = sizeof(struct ledger_thread);
	bool shared = number >= LEDGER_THREADS_MAX;

	lock_take(&ledger.lock);
	if (number >= ledger.threads_allocated && !shared) {
		if (grow(LEDGER_THREADS_OFFSET + number * block, 16 * block))
			ledger.threads_allocated = number + 16;
		else
			shared = true;
	}
	if (shared)
		ledger.header->dropped_threads++;
	else if (number >= ledger.header->thread_count)
		__atomic_store_n(&ledger.header->thread_count, number + 1, __ATOMIC_RELEASE);
	lock_give_back(&ledger.lock);
	number = shared ? ledger.header->thread_count - 1 : number;
	return (struct ledger_thread *)(ledger.base + LEDGER_THREADS_OFFSET) + number;
}

/* ---- records ---- */

static bool room_for_records(uint32_t count)
{
	uint64_t step = LEDGER_GROW_BYTES;

	if (ledger.header->record_count + count <= ledger.allocated)
		return true;
	if (ledger.allocated > 8 * 1024)
		step = ledger.allocated / 8 * sizeof(struct ledger_record) / LEDGER_GROW_BYTES *
			LEDGER_GROW_BYTES;
	if (!grow(LEDGER_RECORDS_OFFSET + (uint64_t)ledger.allocated * sizeof(struct ledger_record), step))
		return false;
	ledger.allocated += step / sizeof(struct ledger_record);
	return true;
}

static uint32_t new_private_record(void)
{
	if (!ledger.private_records)
		ledger.private_records = share_private((uint64_t)PRIVATE_MAX * sizeof(struct ledger_record));
	if (!ledger.private_records || ledger.private_count == PRIVATE_MAX)
		return LEDGER_NO_RECORD;
	ledger.header->findings[FINDING_RECORDS_DROPPED]++;
	return LEDGER_PRIVATE_FIRST + ledger.private_count++;
}

void ledger_refill(struct ledger_spares *spares)
{
	const uint32_t batch = LEDGER_SPARES / 2;

	if (!ledger.header)
		return;
	lock_take(&ledger.lock);
	while (spares->count < batch && ledger.free_record) {
		uint32_t record = ledger.free_record - 1;

		ledger.free_record = ledger_record(record)->handle;
		spares->record[spares->count++] = record;
	}
	if (spares->count == 0 && room_for_records(batch)) {
		/* Backwards: they are used from the top, so memory is touched in order. */
		for (uint32_t i = batch; i > 0; i--)
			spares->record[spares->count++] = ledger.header->record_count + i - 1;
		__atomic_store_n(&ledger.header->record_count, ledger.header->record_count + batch,
			__ATOMIC_RELEASE);
	}
	if (spares->count == 0 && (spares->record[0] = new_private_record()) != LEDGER_NO_RECORD)
		spares->count = 1;
	lock_give_back(&ledger.lock);
}

bool ledger_find(enum record_class class, uint64_t handle, struct ledger_record *copy)
{
	return index_find(class, handle, copy);
}

/* Live first: once it is in the index it may be claimed by others, who say so in its state. */
uint32_t ledger_restore(uint32_t record)
{
	struct ledger_record *r = ledger_record(record);
	uint32_t other;

	ledger_set_state(r, RECORD_LIVE);
	other = index_put_back(r->class, r->handle, record);
	if (unlikely(other != LEDGER_NO_RECORD))
		ledger_set_state(r, RECORD_FREEING);
	return other;
}

/* Half of a full set of spares goes where other threads find it. */
void ledger_spill(struct ledger_spares *spares)
{
	lock_take(&ledger.lock);
	while (spares->count > LEDGER_SPARES / 2) {
		uint32_t record = spares->record[--spares->count];

		set_field(&ledger_record(record)->handle, ledger.free_record);
		ledger.free_record = record + 1;
	}
	lock_give_back(&ledger.lock);
}

bool ledger_was_freed(enum record_class class, uint64_t handle, const void **by)
{
	uint64_t key = index_key(class, handle);
	const struct index_freed *place = index_freed_place(key);

	*by = (const void *)__atomic_load_n(&place->by, __ATOMIC_RELAXED);
	return __atomic_load_n(&place->key, __ATOMIC_RELAXED) == key;
}

/* ---- searches: never on the way of a call that succeeds ---- */

static uint32_t last_record(void)
{
	return __atomic_load_n(&ledger.header->record_count, __ATOMIC_ACQUIRE);
}

/* The record behind the position-th, private ones at the end; NULL when there are no more. */
static struct ledger_record *record_at(uint32_t position, uint32_t *record)
{
	uint32_t shared = last_record();

	if (position < shared)
		*record = position;
	else if (position - shared < ledger.private_count)
		*record = LEDGER_PRIVATE_FIRST + position - shared;
	else
		return NULL;
	return ledger_record(*record);
}

#define field_of(record, field) __atomic_load_n(&(record)->field, __ATOMIC_RELAXED)

/* A record in which an address lies may be freed meanwhile: it is what stands in the index. */
bool ledger_contains(uint64_t address, struct ledger_record *copy)
{
	struct ledger_record *r;
	uint32_t record;

	for (uint32_t i = 0; (r = record_at(i, &record)) != NULL; i++) {
		if (field_of(r, state) == RECORD_LIVE && field_of(r, class) == CLASS_MEMORY &&
			address - field_of(r, handle) < field_of(r, bytes) &&
			index_find(CLASS_MEMORY, field_of(r, handle), copy) &&
			address - copy->handle < copy->bytes)
			return true;
	}
	return false;
}

uint64_t ledger_next_unsized(uint32_t *position)
{
	struct ledger_record *r;
	uint32_t record;

	while ((r = record_at((*position)++, &record)) != NULL) {
		uint64_t handle = field_of(r, handle);

		if (handle && field_of(r, state) == RECORD_LIVE && field_of(r, flags) & RECORD_UNSIZED)
			return handle;
	}
	return 0;
}

/* What a search for records to claim is after. */
struct wanted {
	bool (*fits)(const struct ledger_record *r, const struct wanted *wanted);
	uint64_t context;
	uint32_t epoch;
	enum record_class class;
	uint8_t kind;
	uint64_t start, bytes;
};

static bool is_owned(const struct ledger_record *r, const struct wanted *wanted)
{
	/* Without the flag `context` may be something else, and change. */
	return (field_of(r, flags) & RECORD_CONTEXT_OWNED) &&
		field_of(r, context) == wanted->context &&
		(int32_t)(field_of(r, epoch) - wanted->epoch) < 0;
}

static bool is_within(const struct ledger_record *r, const struct wanted *wanted)
{
	return field_of(r, class) == wanted->class && field_of(r, kind) == wanted->kind &&
		field_of(r, handle) - wanted->start < wanted->bytes;
}

/*
 * A record that looks right may be freed and used for something else meanwhile: only while it is in
 * the index, whose lock is held, does it stay what it is.
 */
static bool claim(uint32_t record, const struct wanted *wanted)
{
	struct ledger_record *r = ledger_record(record);
	uint64_t key = index_key(field_of(r, class), field_of(r, handle));
	struct index_shard *shard = index_shard(index_tag(key));
	bool ours;

	lock_take(&shard->lock);
	ours = index_holds(shard, key, record) && wanted->fits(r, wanted);
	if (ours)
		index_take(shard, key);
	lock_give_back(&shard->lock);
	if (ours)
		ledger_set_state(r, RECORD_FREEING);
	return ours;
}

static uint32_t claim_next(const struct wanted *wanted, uint32_t *position)
{
	struct ledger_record *r;
	uint32_t record;

	while ((r = record_at((*position)++, &record)) != NULL) {
		if (field_of(r, state) == RECORD_LIVE && wanted->fits(r, wanted) &&
		    claim(record, wanted))
			return record;
	}
	return LEDGER_NO_RECORD;
}

uint32_t ledger_claim_owned(uint64_t context, uint32_t epoch, uint32_t *position)
{
	return claim_next(&(struct wanted){ .fits = is_owned, .context = context, .epoch = epoch },
		position);
}

bool ledger_claim_if_owned(uint32_t record, uint64_t context, uint32_t epoch)
{
	return claim(record, &(struct wanted){ .fits = is_owned, .context = context, .epoch = epoch });
}

uint32_t ledger_claim_within(enum record_class class, uint8_t kind, uint64_t start, uint64_t bytes,
	uint32_t *position)
{
	return claim_next(&(struct wanted){
		.fits = is_within, .class = class, .kind = kind, .start = start, .bytes = bytes,
	}, position);
}

/* ---- call sites ---- */

static bool room_for_site(uint32_t bytes)
{
	if (ledger.header->sites_bytes + bytes > ledger.sites_allocated &&
	    ledger.sites_allocated + LEDGER_GROW_BYTES <= LEDGER_SITES_BYTES_MAX &&
	    grow(LEDGER_SITES_OFFSET + ledger.sites_allocated, LEDGER_GROW_BYTES))
		ledger.sites_allocated += LEDGER_GROW_BYTES;
	return ledger.header->sites_bytes + bytes <= ledger.sites_allocated;
}

uint32_t ledger_add_site(struct ledger_site *entry, const struct ledger_part parts[2])
{
	size_t bytes = (sizeof(*entry) + parts[0].bytes + parts[1].bytes + 7) & ~7ul;
	uint32_t site = 0;

	lock_take(&ledger.lock);
	if (bytes < LEDGER_GROW_BYTES && room_for_site(bytes)) {
		uint32_t at = ledger.header->sites_bytes;
		char *to = ledger.base + LEDGER_SITES_OFFSET + at;

		entry->bytes = bytes;
		entry->site = site = at / 8 + 1;
		memcpy(to, entry, sizeof(*entry));
		to += sizeof(*entry);
		for (int i = 0; i < 2; to += parts[i++].bytes) {
			if (parts[i].bytes)
				memcpy(to, parts[i].at, parts[i].bytes);
		}
		ledger.header->site_count++;
		__atomic_store_n(&ledger.header->sites_bytes, at + bytes, __ATOMIC_RELEASE);
	} else {
		ledger.header->dropped_sites++;
	}
	lock_give_back(&ledger.lock);
	return site;
}

struct ledger_growth *ledger_growth(uint32_t number)
{
	const uint64_t bytes = sizeof(struct ledger_growth);
	const uint32_t batch = LEDGER_GROW_BYTES / bytes;

	if (number >= LEDGER_GROWTH_MAX)
		return NULL;
	lock_take(&ledger.lock);
	if (number >= ledger.growth_allocated &&
	    grow(LEDGER_GROWTH_OFFSET + ledger.growth_allocated * bytes, LEDGER_GROW_BYTES)) {
		ledger.growth_allocated += batch;
		__atomic_store_n(&ledger.header->growth_count, ledger.growth_allocated, __ATOMIC_RELEASE);
	}
	lock_give_back(&ledger.lock);
	if (number >= ledger.growth_allocated)
		return NULL;
	return (struct ledger_growth *)(ledger.base + LEDGER_GROWTH_OFFSET) + number;
}

void ledger_view(struct ledger_view *view)
{
	*view = (struct ledger_view){
		.header = ledger.header,
		.threads = (struct ledger_thread *)(ledger.base + LEDGER_THREADS_OFFSET),
		.thread_count = ledger.header->thread_count,
		.sites = ledger.base + LEDGER_SITES_OFFSET,
		.sites_bytes = ledger.header->sites_bytes,
		.growth = (struct ledger_growth *)(ledger.base + LEDGER_GROWTH_OFFSET),
		.growth_count = ledger.header->growth_count,
		.records = ledger.records,
		.record_count = ledger.header->record_count,
		.how = ledger.header->ended,
		.status = ledger.header->status,
	};
}

void ledger_forget(void)
{
	kernel_unmap_in_child(ledger.base, ledger.mapped_bytes);
	memset(&ledger, 0, sizeof(ledger));
	index_forget();
}

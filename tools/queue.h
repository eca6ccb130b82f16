/*
 * queue.h - who waits for GPU memory, and who was let in: the places of `cuward run --wait`.
 *
 * A place is a small file in a folder where all who share GPUs meet: the administrator's, else the
 * user's own. There is no daemon: each one who waits looks for himself whether it is his turn. A place
 * counts while a process of the file's owner holds the lock on it, so the dead lose theirs at once.
 *
 *	NAME.wait   written once; that it came to be then, the kernel says (ctime)
 *	NAME.run    let in: what it asked for is promised as long as its run lives
 *
 * Files of others are hostile: size, form, numbers and texts are checked, and what is wrong is said. A
 * promise that cannot be read counts as the whole of every GPU, never as nothing.
 */
#ifndef QUEUE_H
#define QUEUE_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cuward/ledger.h"
#include "ledger_read.h"

/* A minute of waiting counts as much as one step of priority. */
#define QUEUE_STEP_NS 60000000000ll

#define QUEUE_FILE_BYTES 8192

/* Places of one user that count; who has so many gets no more. */
#define QUEUE_OF_USER 256u

/* What is asked for on one GPU, or promised. */
struct queue_ask {
	uint8_t uuid[16];
	uint64_t bytes;
};

struct queue_place {
	char name[64];     /* of its file */
	uint32_t uid;      /* of its file */
	bool admitted;     /* else it waits */
	bool stopped;      /* it waits, but does not look: nobody waits for it */
	uint64_t since_ns; /* CLOCK_REALTIME */
	int priority;      /* that counts: at most what its user may have */
	uint32_t pid, pid_ns;
	char job[128];
	char command[128];
	bool any; /* one of these GPUs; else all of them */
	unsigned count;
	struct queue_ask asks[SLOT_DEVICES];
	char problem[160]; /* it cannot be read: why; then nothing else is known of it */
};

struct queue {
	char folder[PATH_MAX];
	bool common; /* all users meet here */
	struct queue_place *places; /* those that wait first, in the order of their turns */
	size_t count;
	size_t waiting;
	size_t broken; /* the last ones of them */
};

/* The folder, there or not yet; and made if it is ours. False: it must not be used, why. */
bool queue_folder(struct queue *queue, char *why, size_t why_bytes);
bool queue_make_folder(struct queue *queue, char *why, size_t why_bytes);
/* Look who is there; again after queue_forget(). False: why not. */
bool queue_look(struct queue *queue, char *why, size_t why_bytes);
void queue_forget(struct queue *queue);

/* Is it a's turn before b's? For qsort: less than 0. */
int queue_order(const struct queue_place *a, const struct queue_place *b);
/* Would what one gets be missing to the other? */
bool queue_rivals(const struct queue_place *a, const struct queue_place *b);
const struct queue_ask *queue_asks_for(const struct queue_place *place, const uint8_t uuid[16]);

/* What stands in a file of so many bytes, whosever it is. False: place->problem says what is wrong. */
bool queue_parse(struct queue_place *place, const char *text, size_t bytes);
/* The other way round; to be freed. */
char *queue_text(const struct queue_place *place);

/* A GPU-... as its 16 bytes. */
bool queue_uuid(const char *text, uint8_t uuid[16]);
void queue_uuid_text(char text[48], const uint8_t uuid[16]);

/*
 * Take a place, under a name that begins as `place` is; the file stays locked while the returned
 * descriptor is open. -1: why not.
 */
int queue_take(const struct queue *queue, struct queue_place *place, char *why, size_t why_bytes);
void queue_leave(const struct queue *queue, const struct queue_place *place, int fd);

/* ---- who waits though he could go (queue_lazy.c) ---- */

struct queue_lazy {
	char name[64];
	uint64_t since_ns;
};

struct queue_lazies {
	struct queue_lazy *all;
	size_t count;
};

/* Is there room for him now, as far as one can tell? */
typedef bool queue_could_go(const void *of, const struct queue_place *place);

/* Now and then, so that it is known since when. */
void queue_note_lazy(struct queue_lazies *lazies, const struct queue *queue, queue_could_go *could_go,
	const void *of);
/* For so long that nobody waits for him any more. */
bool queue_is_lazy(const struct queue_lazies *lazies, const struct queue_place *place);
void queue_forget_lazy(struct queue_lazies *lazies);

#endif

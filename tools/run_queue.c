/*
 * run_queue.c - waiting until what is asked for is free, and choosing a GPU (--wait, --gpu auto).
 *
 * Who waits has a place in the queue (queue.h) and looks for himself: is anybody before me who wants the
 * same GPUs? Is there room? Then he promises it to himself, where all can see that, looks again, and
 * takes the promise back if somebody else did the same. The promise lasts as long as the run.
 */
#include "run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "format.h"
#include "ledger_read.h"
#include "limit.h"
#include "room.h"
#include "slots_read.h"

#define FIRST_LOOK_NS 20000000ull
#define LAST_LOOK_NS 1000000000ull /* memory comes free without a sign */
#define BEHIND_NS 3000000000ull    /* a change in the queue wakes us before */

struct waiting {
	struct run *run;
	struct room_view view;
	struct room rooms[SLOT_DEVICES];
	struct queue_place ticket;
	int ticket_fd, notify;
	uint64_t began_ns, look_ns, looked_ns;
	struct queue_lazies lazies;
	size_t place, said; /* 1 is the first */
	bool terminal, line; /* a line stands there that will be overwritten */
	bool waited;
};

static volatile sig_atomic_t signalled;

static void note_signal(int number)
{
	signalled = number;
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- what is asked for ---- */

static void name_command(char text[128], char *const *argv)
{
	size_t used = 0;

	for (; *argv && used < 126; argv++) {
		if (used)
			text[used++] = ' ';
		for (const char *at = *argv; *at && used < 127; at++)
			text[used++] = *at >= ' ' && *at <= '~' ? *at : '?';
	}
	text[used] = '\0';
}

static int find_asks(struct waiting *w)
{
	const struct run_value *value = run_setting_asks(w->run);
	struct limit_device devices[SLOT_DEVICES];
	uint64_t bytes[SLOT_DEVICES];
	struct limit limit;
	char why[300];

	for (unsigned i = 0; i < w->view.count; i++) {
		memcpy(devices[i].uuid, w->view.facts[i].uuid, sizeof(devices[i].uuid));
		devices[i].total_bytes = w->view.facts[i].total_bytes;
	}
	if (!limit_parse(&limit, value->text, why, sizeof(why)) ||
		!limit_resolve(&limit, devices, w->view.count, bytes, why, sizeof(why)))
		return run_fail("%s", why);
	if (limit.count && w->run->gpu_auto)
		return run_fail("--gpu auto: a limit of named GPUs (%s) does not tell what any one of them must "
			"have", value->text);
	for (unsigned i = 0; i < w->view.count; i++) {
		if (bytes[i] == BYTES_NONE || queue_asks_for(&w->ticket, w->view.facts[i].uuid))
			continue;
		memcpy(w->ticket.asks[w->ticket.count].uuid, w->view.facts[i].uuid, 16);
		w->ticket.asks[w->ticket.count++].bytes = bytes[i];
	}
	if (w->run->wait && !w->ticket.count)
		return run_fail("--wait: for how much? -m or --job-memory tells it");
	return 0;
}

/* ---- looking ---- */

static bool look(struct waiting *w, const char *mine, char *why, size_t why_bytes)
{
	room_view_close(&w->view);
	w->view.mine = mine;
	if (!room_view_open(&w->view, why, why_bytes))
		return false;
	room_find(&w->view, w->rooms);
	return true;
}

static void ask_driver(struct waiting *w)
{
	const struct run_value *gpu = &w->run->values[SETTING_gpu];
	char driver[PATH_MAX];

	w->view.count = gpus_ask_as(w->view.facts, run_environment_driver(w->run, driver) ? driver : NULL,
		w->run->gpu_auto ? NULL : gpu->text);
}

static const struct room *room_of(const struct waiting *w, const uint8_t uuid[16])
{
	for (unsigned i = 0; i < w->view.count; i++)
		if (memcmp(w->rooms[i].uuid, uuid, 16) == 0)
			return &w->rooms[i];
	return NULL;
}

static bool is_before_us(const struct waiting *w, const struct queue_place *place)
{
	return !place->stopped && !queue_is_lazy(&w->lazies, place) &&
		strcmp(place->name, w->ticket.name) != 0 && queue_order(place, &w->ticket) < 0;
}

/* Was it promised to a run that we are part of? Those who wait for that one's end come after us. */
static bool is_promised(const struct waiting *w, const uint8_t uuid[16])
{
	const struct queue_ask *ask = queue_asks_for(&w->ticket, uuid);

	for (size_t i = w->view.queue.waiting; i < w->view.queue.count; i++) {
		const struct queue_place *place = &w->view.queue.places[i];
		const struct queue_ask *held = place->problem[0] ? NULL : queue_asks_for(place, uuid);

		if (ask && held && place->admitted && room_is_ours(&w->view, place) &&
			strcmp(place->name, w->run->promise.place.name) != 0 && held->bytes >= ask->bytes)
			return true;
	}
	return false;
}

/* Does somebody before us want this GPU? With room for all of them and for us we are in nobody's way. */
static bool is_wanted(const struct waiting *w, const uint8_t uuid[16])
{
	const struct queue_ask *ask = queue_asks_for(&w->ticket, uuid);
	const struct room *room = room_of(w, uuid);
	uint64_t bytes = ask ? ask->bytes : 0;
	bool wanted = false;

	if (is_promised(w, uuid))
		return false;
	for (size_t i = 0; i < w->view.queue.waiting; i++) {
		const struct queue_place *place = &w->view.queue.places[i];

		ask = queue_asks_for(place, uuid);
		if (!ask || !is_before_us(w, place))
			continue;
		wanted = true;
		bytes = slots_add(bytes, ask->bytes);
	}
	return wanted && (!room || bytes > room->room_bytes);
}

static void find_place(struct waiting *w)
{
	w->place = 1;
	for (size_t i = 0; i < w->view.queue.waiting; i++) {
		const struct queue_place *place = &w->view.queue.places[i];

		/* When we came, and how much our priority counts, the file says. */
		if (strcmp(place->name, w->ticket.name) == 0) {
			w->ticket.since_ns = place->since_ns;
			w->ticket.priority = place->priority;
		}
	}
	for (size_t i = 0; i < w->view.queue.waiting; i++)
		w->place += is_before_us(w, &w->view.queue.places[i]) &&
			queue_rivals(&w->view.queue.places[i], &w->ticket);
}

static bool fits(const struct waiting *w, const struct queue_ask *ask)
{
	const struct room *room = room_of(w, ask->uuid);

	return room && ask->bytes <= room->room_bytes;
}

/* Is there room for him, as far as we can tell? */
static bool could_go(const void *of, const struct queue_place *place)
{
	unsigned good = 0;

	for (unsigned i = 0; i < place->count; i++)
		good += fits(of, &place->asks[i]);
	return good && (place->any || good == place->count);
}

/* The GPUs to promise: of any the one with most room, else all. False: not now. */
static bool choose(const struct waiting *w, struct queue_place *promise)
{
	const struct room *best = NULL;

	promise->count = 0;
	for (unsigned i = 0; i < w->ticket.count; i++) {
		const struct queue_ask *ask = &w->ticket.asks[i];
		const struct room *room = room_of(w, ask->uuid);
		bool good = room && fits(w, ask) && !is_wanted(w, ask->uuid);

		if (!good && !w->ticket.any)
			return false;
		if (!good || (w->ticket.any && best && best->room_bytes >= room->room_bytes))
			continue;
		best = room;
		promise->asks[w->ticket.any ? 0 : promise->count++] = *ask;
	}
	if (w->ticket.any)
		promise->count = best != NULL;
	return promise->count > 0;
}

/* ---- what can never be ---- */

static int drop_hopeless(struct waiting *w)
{
	struct queue_place *ticket = &w->ticket;
	unsigned kept = 0;

	for (unsigned i = 0; i < ticket->count; i++) {
		const struct room *room = room_of(w, ticket->asks[i].uuid);

		if (room && ticket->asks[i].bytes <= room->ever_bytes)
			ticket->asks[kept++] = ticket->asks[i];
		else if (!ticket->any || (!kept && i + 1 == ticket->count))
			return run_fail("--wait: %s will never be free on %s: at most %s of it can be yours",
				format_bytes(ticket->asks[i].bytes), room ? room->name : "a GPU",
				format_bytes(room ? room->ever_bytes : 0));
	}
	ticket->count = kept;
	return 0;
}

/* ---- words ---- */

static void say_what(const struct waiting *w, char *text, size_t bytes)
{
	uint64_t most = 0;
	char name[48];

	for (unsigned i = 0; i < w->ticket.count; i++)
		most = w->ticket.asks[i].bytes > most ? w->ticket.asks[i].bytes : most;
	queue_uuid_text(name, w->ticket.asks[0].uuid);
	if (w->terminal)
		name[12] = '\0';
	if (w->ticket.count == 1)
		snprintf(text, bytes, "%s on %s", format_bytes(most), name);
	else
		snprintf(text, bytes, "%s on %s %u GPUs", format_bytes(most),
			w->ticket.any ? "one of" : "each of", w->ticket.count);
}

static void say_where(const struct waiting *w, char *text, size_t bytes)
{
	const struct room *room = room_of(w, w->ticket.asks[0].uuid);

	if (w->place > 1)
		snprintf(text, bytes, "place %zu in the queue", w->place);
	else if (w->ticket.count == 1 && room)
		snprintf(text, bytes, "first in the queue, %s free (bound by %s)",
			format_bytes(room->room_bytes), room->bound);
	else
		snprintf(text, bytes, "first in the queue");
}

/* Cut to its width: a line that is broken in two does not go away again. */
static void say_on_terminal(const struct waiting *w, const char *what, const char *where)
{
	struct winsize size = { 0 };
	char line[400];
	int columns = sizeof(line) - 1;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && size.ws_col < columns)
		columns = size.ws_col - 1;
	snprintf(line, sizeof(line), "cuward: waiting for %s: %s, %s", what, where,
		format_ns(clock_ns() - w->began_ns));
	dprintf(STDERR_FILENO, "\r\033[K%.*s", columns, line);
}

/* On a terminal one line that changes; else a line when the place does. */
static void say_place(struct waiting *w)
{
	char what[120], where[120];

	if (w->run->quiet || (!w->terminal && w->place == w->said))
		return;
	w->said = w->place;
	say_what(w, what, sizeof(what));
	say_where(w, where, sizeof(where));
	if (w->terminal)
		say_on_terminal(w, what, where);
	else
		run_say(w->run, "waiting for %s: %s", what, where);
	w->line = w->terminal;
}

static void clear_line(struct waiting *w)
{
	if (w->line)
		dprintf(STDERR_FILENO, "\r\033[K");
	w->line = false;
}

/* Somebody's promise cannot be read: it counts as all there is, so it must be told. */
static void say_broken(struct waiting *w)
{
	static bool said;

	for (size_t i = 0; i < w->view.queue.count && !said; i++) {
		const struct queue_place *place = &w->view.queue.places[i];

		if (!place->problem[0] || !place->admitted)
			continue;
		clear_line(w);
		said = true;
		run_say(w->run, "%s/%s of uid %u cannot be understood: %s; it counts as all memory of every GPU "
			"until it is gone", w->view.queue.folder, safe_text(place->name, 0), place->uid,
			place->problem);
	}
}

/* ---- getting in ---- */

/* Seen by all, and then looked at again: of those who do this at the same time the last one sees all. */
static bool promise(struct waiting *w, bool surely, char *why, size_t why_bytes)
{
	struct run_promise *held = &w->run->promise;
	bool fine;

	held->place.admitted = true;
	held->queue = w->view.queue;
	held->queue.places = NULL;
	held->fd = queue_take(&held->queue, &held->place, why, why_bytes);
	if (held->fd < 0 || surely)
		return held->fd >= 0;
	fine = look(w, held->place.name, why, why_bytes);
	for (unsigned i = 0; i < held->place.count && fine; i++)
		fine = fits(w, &held->place.asks[i]) && !is_wanted(w, held->place.asks[i].uuid);
	if (!fine)
		run_queue_leave(w->run);
	return fine;
}

/* Most who wait are behind somebody, and need not look further than that. */
static bool is_turn(const struct waiting *w)
{
	for (unsigned i = 0; i < w->ticket.count; i++)
		if (!is_wanted(w, w->ticket.asks[i].uuid))
			return true;
	return false;
}

/* 1 in, 0 not yet, -1 it cannot be: why. */
static int try(struct waiting *w, char *why, size_t why_bytes)
{
	why[0] = '\0';
	queue_forget(&w->view.queue);
	if (!queue_look(&w->view.queue, why, why_bytes))
		return -1;
	find_place(w);
	say_broken(w);
	if (!is_turn(w) && clock_ns() - w->looked_ns < BEHIND_NS)
		return 0;
	/* What NVML tells changes; sizes and names do not. */
	gpus_ask_used(w->view.facts, w->view.count);
	if (!look(w, NULL, why, why_bytes))
		return -1;
	w->looked_ns = clock_ns();
	queue_note_lazy(&w->lazies, &w->view.queue, could_go, w);
	w->run->promise.place = w->ticket;
	w->run->promise.place.any = false;
	if (!choose(w, &w->run->promise.place))
		return 0;
	if (promise(w, false, why, why_bytes))
		return 1;
	if (why[0])
		return -1;
	/* Somebody did the same: not again at the same time. */
	nanosleep(&(struct timespec){ .tv_nsec = 5000000 + (getpid() % 37) * 1000000 }, NULL);
	return 0;
}

static void nap(struct waiting *w, uint64_t left_ns)
{
	struct pollfd change = { .fd = w->notify, .events = POLLIN };
	uint64_t ns = w->place == 1 ? w->look_ns : w->terminal ? LAST_LOOK_NS : BEHIND_NS;
	struct timespec time;
	char events[4096];
	sigset_t none;

	if (ns > left_ns)
		ns = left_ns;
	time = (struct timespec){ .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };
	sigprocmask(SIG_SETMASK, NULL, &none);
	sigdelset(&none, SIGINT);
	sigdelset(&none, SIGTERM);
	sigdelset(&none, SIGHUP);
	sigdelset(&none, SIGQUIT);
	w->look_ns = w->look_ns * 2 < LAST_LOOK_NS ? w->look_ns * 2 : LAST_LOOK_NS;
	w->waited = true;
	if (ppoll(&change, 1, &time, &none) <= 0)
		return;
	/* Changes come in bunches, and everybody who waits looks at each. */
	nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	if (read(w->notify, events, sizeof(events)) > 0)
		w->look_ns = FIRST_LOOK_NS;
}

static int wait_for_turn(struct waiting *w)
{
	char why[PATH_MAX + 300];

	for (;;) {
		uint64_t waited = clock_ns() - w->began_ns;
		int got = signalled ? 0 : try(w, why, sizeof(why));

		if (got > 0)
			return 0;
		if (got < 0)
			return clear_line(w), run_fail("--wait: %s", why);
		if (signalled)
			return 128 + signalled;
		if (waited >= w->run->wait_ns) {
			clear_line(w);
			run_say(w->run, "waited %s in vain; place %zu in the queue; `cuward queue` shows who else "
				"waits", format_ns(waited), w->place);
			return EXIT_WAITED;
		}
		say_place(w);
		nap(w, w->run->wait_ns - waited);
	}
}

/* ---- signals while we wait ---- */

static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
static struct sigaction before[sizeof(ends) / sizeof(ends[0])];
static sigset_t mask_before;

/* They wait until we look, in nap(); what is ignored stays so, but what shells ignore for `run &`. */
static void catch_signals(void)
{
	struct sigaction ours = { .sa_handler = note_signal };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		sigaction(ends[i], NULL, &before[i]);
		if (before[i].sa_handler != SIG_IGN || ends[i] == SIGINT)
			sigaction(ends[i], &ours, NULL);
		sigaddset(&set, ends[i]);
	}
	sigprocmask(SIG_BLOCK, &set, &mask_before);
}

static void release_signals(void)
{
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaction(ends[i], &before[i], NULL);
	sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

static int wait_in_queue(struct waiting *w)
{
	char why[PATH_MAX + 300];
	int status;

	catch_signals();
	w->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	inotify_add_watch(w->notify, w->view.queue.folder, IN_MOVED_TO | IN_DELETE | IN_CLOSE_WRITE);
	w->ticket_fd = queue_take(&w->view.queue, &w->ticket, why, sizeof(why));
	status = w->ticket_fd < 0 ? run_fail("--wait: %s", why) : wait_for_turn(w);
	queue_leave(&w->view.queue, &w->ticket, w->ticket_fd);
	queue_forget_lazy(&w->lazies);
	clear_line(w);
	if (w->notify >= 0)
		close(w->notify);
	release_signals();
	/* As a shell expects it of whoever is interrupted. */
	if (signalled && status == 128 + signalled)
		raise(signalled);
	if (status == 0 && w->waited)
		run_say(w->run, "its turn after %s", format_ns(clock_ns() - w->began_ns));
	return status;
}

/* ---- without waiting ---- */

static int take_best(struct waiting *w)
{
	const struct room *best = &w->rooms[0];
	char why[PATH_MAX + 300];

	for (unsigned i = 1; i < w->view.count; i++)
		if (w->rooms[i].room_bytes > best->room_bytes)
			best = &w->rooms[i];
	w->run->promise.place = w->ticket;
	w->run->promise.place.any = false;
	w->run->promise.place.count = 1;
	memcpy(w->run->promise.place.asks[0].uuid, best->uuid, 16);
	for (unsigned i = 0; i < w->ticket.count; i++)
		if (memcmp(w->ticket.asks[i].uuid, best->uuid, 16) == 0)
			w->run->promise.place.asks[0] = w->ticket.asks[i];
	/* So that the next one who looks for room knows of us. Without a size there is nothing to tell. */
	if (w->ticket.count && !promise(w, true, why, sizeof(why)))
		run_say(w->run, "--gpu auto: others will not know of it: %s", why);
	return 0;
}

static int enter(struct waiting *w)
{
	const char *option = w->run->wait ? "--wait" : "--gpu auto";
	char why[PATH_MAX + 300];
	bool fine;
	int status;

	ask_driver(w);
	if (!w->view.count)
		return run_fail("%s: no CUDA driver or no GPU is found here", option);
	status = find_asks(w);
	if (status)
		return status;
	/* To choose a GPU does not need it. */
	fine = queue_make_folder(&w->view.queue, why, sizeof(why)) || !w->run->wait;
	if (!fine || !room_view_open(&w->view, why, sizeof(why)))
		return run_fail("%s: %s", option, why);
	room_find(&w->view, w->rooms);
	if (!w->run->wait)
		return take_best(w);
	status = drop_hopeless(w);
	return status ? status : wait_in_queue(w);
}

int run_queue_enter(struct run *run)
{
	static struct waiting w;
	char name[48];
	int status;

	run->promise.fd = -1;
	if (!run->wait && !run->gpu_auto)
		return 0;
	w = (struct waiting){ .run = run, .ticket_fd = -1, .notify = -1, .began_ns = clock_ns(),
		.look_ns = FIRST_LOOK_NS, .terminal = isatty(STDERR_FILENO) };
	w.view.uid = geteuid();
	w.view.job = run->job;
	for (unsigned i = 0; i < SLOT_DEVICES; i++)
		w.view.asked[i] = BYTES_NONE;
	w.ticket.any = run->gpu_auto;
	w.ticket.since_ns = INT64_MAX / 2; /* until its file tells */
	w.ticket.pid = (uint32_t)getpid();
	w.ticket.pid_ns = ledger_own_pid_ns();
	w.ticket.priority = atoi(run->values[SETTING_priority].text);
	snprintf(w.ticket.job, sizeof(w.ticket.job), "%s", run->job);
	name_command(w.ticket.command, run->argv);
	status = enter(&w);
	room_view_close(&w.view);
	if (status)
		return status;
	if (run->gpu_auto) {
		gpus_name(w.view.facts, w.view.count, run->promise.place.asks[0].uuid, name);
		run_environment_choose_gpu(name);
	}
	run->waited_ns = clock_ns() - w.began_ns;
	run->start_ns = run_now_ns();
	return 0;
}

void run_queue_leave(struct run *run)
{
	queue_leave(&run->promise.queue, &run->promise.place, run->promise.fd);
	run->promise.fd = -1;
}

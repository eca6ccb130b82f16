/*
 * gputime.c - pools of event pairs, the tie between two clocks, and reading both without waiting.
 */
#include "gputime.h"

#include <string.h>

#include "capture.h"
#include "share.h"
#include "trace.h"

#define CONTEXTS 32
#define PAIRS 4096
#define ANCHOR_EVERY_NS 100000000ull
#define ANCHOR_SOON_NS 10000000ull /* while they are not good enough */
#define ANCHOR_TRIES 200
#define ANCHOR_ROUNDS 4
#define RATE_UNKNOWN 100e-6 /* clocks drift by up to that */
#define RATE_KNOWN 5e-6
#define RATE_WANDERS 1e-6
#define RATE_OVER_NS 100000000ll /* two anchors this far apart tell the rate */
#define RATE_AGAIN_NS 1000000000ll
#define RESOLUTION_NS 500 /* of cuEventElapsedTime (driver manual) */
#define LOOK_AT_MOST 8
#define WRONG_NS 10000000 /* so far off, beyond its error, is no error */
#define NEVER_NS 1e18     /* what a clock cannot say */

struct pair {
	CUevent begin, end;
	uint32_t correlation;
	uint64_t opened_ns;   /* the begin had not been recorded yet */
	uint64_t returned_ns; /* from the call that gave the work to the GPU */
	uint64_t closed_ns;   /* the end had been recorded */
};

/* The GPU's clock read ours at that moment. */
struct anchor {
	CUevent event;
	uint64_t cpu_ns;
	uint32_t error_ns;
};

struct gpu_context {
	CUcontext context; /* NULL: of nobody */
	CUstream stream; /* ours, idle but for anchors */
	uint32_t life;   /* contexts that had this entry */
	uint32_t lock;   /* of the two lists */
	uint32_t busy;   /* somebody anchors or reads; others pass by */
	uint64_t next_anchor_ns;
	struct anchor now, base, spare, trial;
	uint32_t sharpest_ns; /* error of the best anchor so far */
	double rate; /* our nanoseconds in one of the GPU's */
	double rate_error;
	uint16_t free_count;
	uint16_t first, pending_count; /* of the ring of pending pairs */
	uint16_t free[PAIRS];
	uint16_t pending[PAIRS];
	struct pair pairs[PAIRS];
};

static struct {
	PAGE_COLOUR(9);
	uint32_t lock;
	uint64_t asked; /* work that could have been timed: every Nth is */
	struct gpu_context *contexts[CONTEXTS];
} WHOLE_PAGES gpu;

/* ---- contexts ---- */

static struct gpu_context *find(CUcontext context)
{
	for (unsigned i = 0; i < CONTEXTS; i++) {
		struct gpu_context *known = __atomic_load_n(&gpu.contexts[i], __ATOMIC_ACQUIRE);

		if (known && __atomic_load_n(&known->context, __ATOMIC_ACQUIRE) == context)
			return known;
	}
	return NULL;
}

/* An entry of nobody, its lock `busy` held; those of contexts that are gone are used again. */
static struct gpu_context *vacant(void)
{
	for (unsigned i = 0; i < CONTEXTS; i++) {
		struct gpu_context *entry = gpu.contexts[i];

		if (!entry && (entry = share_private(sizeof(*entry))))
			__atomic_store_n(&gpu.contexts[i], entry, __ATOMIC_RELEASE);
		if (!entry)
			return NULL;
		if (!__atomic_load_n(&entry->context, __ATOMIC_RELAXED) && lock_try(&entry->busy))
			return entry;
	}
	return NULL;
}

/* As if it were new. Who still holds a pair of its former life does not bring that back. */
static void begin_life(struct gpu_context *entry, CUcontext context)
{
	lock_take(&entry->lock);
	entry->life++;
	entry->stream = NULL;
	entry->now = entry->base = entry->spare = entry->trial = (struct anchor){ 0 };
	entry->sharpest_ns = UINT32_MAX;
	entry->next_anchor_ns = 0;
	entry->rate = 1;
	entry->rate_error = RATE_UNKNOWN;
	entry->first = entry->pending_count = 0;
	memset(entry->pairs, 0, sizeof(entry->pairs));
	for (unsigned i = 0; i < PAIRS; i++)
		entry->free[i] = PAIRS - 1 - i;
	entry->free_count = PAIRS;
	lock_give_back(&entry->lock);
	__atomic_store_n(&entry->context, context, __ATOMIC_RELEASE);
}

/* Somebody else may make it just now. NULL: there are too many. */
static struct gpu_context *make(CUcontext context)
{
	struct gpu_context *fresh, *known;
	CUstream stream;

	share_wipe_on_fork(&gpu, sizeof(gpu));
	lock_take(&gpu.lock);
	known = find(context);
	fresh = known ? NULL : vacant();
	if (fresh)
		begin_life(fresh, context);
	lock_give_back(&gpu.lock);
	if (!fresh)
		return known;
	/* Without a stream it is known, and never timed. */
	if (real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
	    real.cuEventCreate(&fresh->now.event, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
	    real.cuEventCreate(&fresh->base.event, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
	    real.cuEventCreate(&fresh->spare.event, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
	    real.cuEventCreate(&fresh->trial.event, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
		__atomic_store_n(&fresh->stream, stream, __ATOMIC_RELEASE);
	lock_give_back(&fresh->busy);
	return fresh;
}

/* Events belong to the context that is current, and only to a whole one. NULL: `untimed` says why. */
static struct gpu_context *current(uint8_t *untimed)
{
	struct thread *thread = guest_thread();
	struct gpu_context *known;
	CUcontext owner;

	*untimed = UNTIMED_CAPTURE;
	if (__atomic_load_n(&guest.captures, __ATOMIC_RELAXED))
		return NULL;
	*untimed = UNTIMED_GREEN;
	if (guest_current_device(thread, &owner) < 0 || thread->owner != thread->context)
		return NULL;
	known = find(thread->context);
	if (!known)
		known = make(thread->context);
	*untimed = known ? UNTIMED_CLOCK : UNTIMED_CONTEXTS;
	return known && __atomic_load_n(&known->stream, __ATOMIC_ACQUIRE) ? known : NULL;
}

/* ---- clocks ---- */

static bool elapsed_ns(CUevent from, CUevent to, double *ns)
{
	float ms;
	CUresult result = driver_has(CALL_cuEventElapsedTime_v2) ?
		real.cuEventElapsedTime_v2(&ms, from, to) : real.cuEventElapsedTime(&ms, from, to);

	*ns = ms * 1e6;
	return result == CUDA_SUCCESS;
}

/*
 * An event on an idle stream is done as soon as it is recorded. It happened between the moments before
 * the call and after its first sight: half of that is the error.
 */
static bool anchor(struct gpu_context *context, struct anchor *to)
{
	uint64_t began = guest_clock_ns();
	uint64_t ended;

	if (real.cuEventRecord(to->event, context->stream) != CUDA_SUCCESS)
		return false;
	for (int i = 0; i < ANCHOR_TRIES; i++) {
		if (real.cuEventQuery(to->event) == CUDA_SUCCESS) {
			ended = guest_clock_ns();
			to->cpu_ns = began + (ended - began) / 2;
			to->error_ns = (ended - began) / 2;
			return true;
		}
	}
	return false;
}

static void swap(struct anchor *a, struct anchor *b)
{
	struct anchor kept = *a;

	*a = *b;
	*b = kept;
}

/* A thread that lost its processor in the middle of it knows little: then again, a few times. */
static bool anchor_sharp(struct gpu_context *context)
{
	bool some = false;

	for (int i = 0; i < ANCHOR_ROUNDS; i++) {
		if (!anchor(context, &context->trial))
			break;
		if (!some || context->trial.error_ns < context->spare.error_ns)
			swap(&context->trial, &context->spare);
		some = true;
		if (context->spare.error_ns < context->sharpest_ns)
			context->sharpest_ns = context->spare.error_ns;
		else if (context->spare.error_ns / 2 <= context->sharpest_ns)
			break;
	}
	return some;
}

/* Two anchors tell how fast the GPU's clock runs, the better the farther they are apart. */
static void learn_rate(struct gpu_context *context)
{
	const struct anchor *now = &context->now, *base = &context->base;
	int64_t apart = now->cpu_ns - base->cpu_ns;
	double gpu_ns, error;

	if (!base->cpu_ns) {
		swap(&context->base, &context->spare);
		return;
	}
	if (apart < RATE_OVER_NS || !elapsed_ns(base->event, now->event, &gpu_ns) ||
	    !(gpu_ns > apart / 2.0 && gpu_ns < apart * 2.0))
		return;
	error = (now->error_ns + base->error_ns + RESOLUTION_NS) / gpu_ns + RATE_WANDERS;
	if (error <= context->rate_error || (apart >= RATE_AGAIN_NS && error < RATE_UNKNOWN)) {
		context->rate = apart / gpu_ns;
		context->rate_error = error;
	}
	if (apart >= RATE_AGAIN_NS)
		swap(&context->base, &context->spare);
}

/* The lock `busy` is held. An anchor that says less than the one before still does is not taken. */
static void anchor_again(struct gpu_context *context, uint64_t now)
{
	double still;

	context->next_anchor_ns = now + ANCHOR_SOON_NS;
	if (!anchor_sharp(context))
		return;
	still = context->now.error_ns + (now - context->now.cpu_ns) * context->rate_error;
	if (context->now.cpu_ns && context->spare.error_ns > still)
		return;
	swap(&context->now, &context->spare); /* the spare one now is the one before */
	learn_rate(context);
	if (context->rate_error < RATE_KNOWN)
		context->next_anchor_ns = now + ANCHOR_EVERY_NS;
}

/* ---- reading ---- */

/*
 * On an idle stream both events happen when they are recorded, and a thread that loses its processor
 * between an event and the work leaves a gap that no kernel filled. On both sides of it: two gaps.
 */
static uint64_t gaps_ns(const struct pair *pair, const struct event_gpu *event)
{
	uint64_t before = 0, behind = 0;

	if (pair->returned_ns > event->begin_ns)
		before = pair->returned_ns - event->begin_ns;
	if (pair->closed_ns > event->end_ns)
		behind = pair->closed_ns - pair->returned_ns;
	return before + behind;
}

static void tell_untimed(uint32_t correlation, enum cuward_untimed why)
{
	struct event_untimed event = {
		.process = guest.key, .correlation = correlation, .reason = why,
	};

	trace_untimed(&event);
}

/*
 * How long it took, and when it began after the anchor: for work from before that
 * cuEventElapsedTime goes backwards as well. The length does not, but by rounding. Not a number is
 * neither.
 */
static bool read_pair(const struct gpu_context *context, const struct pair *pair, double *since,
	double *length)
{
	if (!elapsed_ns(pair->begin, pair->end, length) ||
	    !elapsed_ns(context->now.event, pair->begin, since))
		return false;
	if (*length < 0 && *length >= -RESOLUTION_NS)
		*length = 0;
	return *length >= 0 && *length < NEVER_NS && *since > -NEVER_NS && *since < NEVER_NS;
}

/* It began after it was given to the GPU, and had ended when we saw that. Some clocks jump. */
static bool can_be(const struct pair *pair, const struct event_gpu *event, uint64_t error_ns)
{
	int64_t early = (int64_t)(pair->opened_ns - event->begin_ns);
	int64_t late = (int64_t)(event->end_ns - guest_clock_ns());
	int64_t most = (int64_t)error_ns + WRONG_NS;

	return early <= most && late <= most;
}

static void tell(struct gpu_context *context, const struct pair *pair)
{
	struct event_gpu event = { .process = guest.key, .correlation = pair->correlation };
	double since, length;
	uint64_t error_ns;

	if (!read_pair(context, pair, &since, &length)) {
		tell_untimed(pair->correlation, UNTIMED_DRIVER);
		return;
	}
	event.begin_ns = context->now.cpu_ns + (int64_t)(since * context->rate);
	event.end_ns = event.begin_ns + (uint64_t)(length * context->rate);
	error_ns = context->now.error_ns + RESOLUTION_NS +
		(uint64_t)((since < 0 ? -since : since) * context->rate_error);
	if (!can_be(pair, &event, error_ns)) {
		tell_untimed(pair->correlation, UNTIMED_DRIVER);
		return;
	}
	error_ns += gaps_ns(pair, &event);
	event.error_ns = error_ns < UINT32_MAX ? error_ns : UINT32_MAX;
	trace_gpu(&event);
}

static bool take_pending(struct gpu_context *context, uint16_t *number)
{
	bool some;

	lock_take(&context->lock);
	some = context->pending_count > 0;
	if (some) {
		*number = context->pending[context->first];
		context->first = (context->first + 1) % PAIRS;
		context->pending_count--;
	}
	lock_give_back(&context->lock);
	return some;
}

static void put_pending(struct gpu_context *context, uint32_t life, uint16_t number)
{
	lock_take(&context->lock);
	if (context->life == life) {
		context->pending[(context->first + context->pending_count) % PAIRS] = number;
		context->pending_count++;
	}
	lock_give_back(&context->lock);
}

static void put_free(struct gpu_context *context, uint32_t life, uint16_t number)
{
	lock_take(&context->lock);
	if (context->life == life)
		context->free[context->free_count++] = number;
	lock_give_back(&context->lock);
}

/*
 * Streams are independent: one that is long at work must not hide the others behind it, so what is not
 * done goes to the end of the ring, and a whole round without success is the end of looking.
 */
static void read_some(struct gpu_context *context, unsigned at_most)
{
	unsigned misses = 0;
	uint16_t number;

	while (at_most-- > 0 && misses < LOOK_AT_MOST && take_pending(context, &number)) {
		CUresult result = real.cuEventQuery(context->pairs[number].end);

		if (result == CUDA_ERROR_NOT_READY) {
			put_pending(context, context->life, number);
			misses++;
			continue;
		}
		if (result == CUDA_SUCCESS)
			tell(context, &context->pairs[number]);
		else
			tell_untimed(context->pairs[number].correlation, UNTIMED_DRIVER);
		put_free(context, context->life, number);
	}
}

static void look_at(struct gpu_context *context, unsigned at_most, uint64_t now)
{
	if (__atomic_load_n(&guest.captures, __ATOMIC_RELAXED) || !lock_try(&context->busy))
		return;
	if (now >= context->next_anchor_ns)
		anchor_again(context, now);
	read_some(context, at_most);
	lock_give_back(&context->busy);
}

static void look(struct gpu_context *context, unsigned at_most)
{
	look_at(context, at_most, guest_clock_ns());
}

/* ---- around a call ---- */

static bool take_free(struct gpu_context *context, struct gputime *time)
{
	bool some;

	lock_take(&context->lock);
	some = context->free_count > 0;
	if (some)
		time->pair = context->free[--context->free_count];
	time->life = context->life;
	lock_give_back(&context->lock);
	return some;
}

static bool ready(struct pair *pair)
{
	return (pair->begin || real.cuEventCreate(&pair->begin, CU_EVENT_DEFAULT) == CUDA_SUCCESS) &&
		(pair->end || real.cuEventCreate(&pair->end, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
}

/* What a capturing stream is given does not run: no time of it is missing. */
static bool only_captured(uint64_t stream)
{
	return capture_is_active((CUstream)stream, false);
}

static struct gpu_context *open_context(struct gputime *time, uint64_t stream)
{
	struct gpu_context *context = current(&time->untimed);

	if (!context) {
		if (time->untimed == UNTIMED_CAPTURE && only_captured(stream))
			time->untimed = UNTIMED_COUNT;
		return NULL;
	}
	if (!context->now.cpu_ns)
		look(context, 0);
	return context->now.cpu_ns ? context : NULL;
}

void gputime_open_slow(struct gputime *time, uint64_t stream)
{
	uint64_t number = __atomic_fetch_add(&gpu.asked, 1, __ATOMIC_RELAXED);
	struct gpu_context *context;

	if (number % guest.policy.gpu_time || !(context = open_context(time, stream)))
		return;
	time->untimed = UNTIMED_PAIRS;
	if (!take_free(context, time)) {
		/* Nobody may ever wait for all this work: some of it can be over. */
		look(context, 2);
		if (!take_free(context, time))
			return;
	}
	context->pairs[time->pair].opened_ns = guest_clock_ns();
	if (!ready(&context->pairs[time->pair]) ||
	    real.cuEventRecord(context->pairs[time->pair].begin, (CUstream)stream) != CUDA_SUCCESS) {
		put_free(context, time->life, time->pair);
		time->untimed = UNTIMED_DRIVER;
		return;
	}
	time->context = context;
	time->stream = stream;
}

void gputime_close_slow(const struct gputime *time, uint32_t correlation, CUresult result,
	uint64_t returned_ns)
{
	struct gpu_context *context = time->context;
	struct pair *pair = context ? &context->pairs[time->pair] : NULL;

	if (!pair) {
		if (result == CUDA_SUCCESS)
			tell_untimed(correlation, time->untimed);
		return;
	}
	if (result != CUDA_SUCCESS ||
	    real.cuEventRecord(pair->end, (CUstream)time->stream) != CUDA_SUCCESS) {
		put_free(context, time->life, time->pair);
		if (result == CUDA_SUCCESS)
			tell_untimed(correlation, UNTIMED_DRIVER);
		return;
	}
	pair->correlation = correlation;
	pair->returned_ns = returned_ns;
	pair->closed_ns = guest_clock_ns();
	put_pending(context, time->life, time->pair);
	look_at(context, 4, pair->closed_ns);
}

void gputime_look(void)
{
	uint8_t untimed;
	struct gpu_context *context = trace_on && guest.policy.gpu_time ? current(&untimed) : NULL;

	if (context)
		look(context, PAIRS);
}

/* ---- the end of a context ---- */

void gputime_last_look(CUcontext context)
{
	struct gpu_context *known = guest.policy.gpu_time ? find(context) : NULL;
	CUcontext now = NULL;

	if (known && known->stream && real.cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == context)
		look(known, PAIRS);
}

/* Its memory stays, for another context: some thread may stand in the middle of it. */
void gputime_gone(CUcontext context)
{
	struct gpu_context *known = guest.policy.gpu_time ? find(context) : NULL;
	uint16_t number;

	if (!known)
		return;
	while (take_pending(known, &number))
		tell_untimed(known->pairs[number].correlation, UNTIMED_GONE);
	__atomic_store_n(&known->context, NULL, __ATOMIC_RELEASE);
}

void gputime_forget(void)
{
	memset(&gpu, 0, sizeof(gpu));
}

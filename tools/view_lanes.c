/*
 * view_lanes.c - the picture: process > GPU > stream, and memory against the limit, over time.
 */
#include "view.h"

#include <inttypes.h>
#include <string.h>

#include "format.h"
#include "need.h"

#define LABEL_COLUMNS 22
#define SHARE_COLUMNS 9
#define LANES_SHOWN 6
#define MEMORY_ROWS 4

enum color { COLOR_NONE, COLOR_BUSY = 32, COLOR_MEMORY = 36, COLOR_LIMIT = 33, COLOR_REFUSED = 31 };

struct picture {
	FILE *out;
	const struct model *model;
	const struct view_style *style;
	unsigned columns; /* of the lanes */
};

static uint64_t column_start(const struct picture *picture, unsigned column)
{
	uint64_t span_ns = picture->model->to_ns - picture->model->from_ns;

	return picture->model->from_ns +
		(uint64_t)((unsigned __int128)span_ns * column / picture->columns);
}

static void set_color(const struct picture *picture, enum color color)
{
	if (picture->style->color)
		fprintf(picture->out, "\033[%um", (unsigned)color);
}

static void put_label(const struct picture *picture, unsigned indent, const char *label)
{
	unsigned used;

	fprintf(picture->out, "%*s", (int)indent, "");
	used = indent + put_safe(picture->out, label, LABEL_COLUMNS - indent);
	fprintf(picture->out, "%*s ", (int)(LABEL_COLUMNS - used), "");
}

/* A cell filled by eighths, 0 to 8; blank only if nothing was there at all. */
static void put_cell(const struct picture *picture, unsigned eighths)
{
	static const char *const blocks[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const letters[] = { " ", ".", ".", ":", ":", "+", "+", "#", "#" };

	fputs(picture->style->unicode ? blocks[eighths] : letters[eighths], picture->out);
}

static unsigned eighths_of(uint64_t part, uint64_t whole)
{
	unsigned eighths;

	if (!part || !whole)
		return 0;
	if (part >= whole)
		return 8;
	eighths = (unsigned)(((unsigned __int128)part * 8 + whole / 2) / whole);
	return eighths ? eighths : 1;
}

/* ---- streams ---- */

static void put_lane(const struct picture *picture, const struct spans *spans, const char *label)
{
	put_label(picture, 4, label);
	set_color(picture, COLOR_BUSY);
	for (unsigned i = 0; i < picture->columns; i++) {
		uint64_t from = column_start(picture, i), to = column_start(picture, i + 1);
		struct strip_bucket sum = strip_sum(&spans->strip, from, to);
		unsigned eighths = eighths_of(sum.ns, to - from);

		put_cell(picture, eighths ? eighths : sum.count ? 1 : 0);
	}
	set_color(picture, COLOR_NONE);
	fprintf(picture->out, " %*s\n", SHARE_COLUMNS - 1,
		format_percent(spans->busy_ns, picture->model->to_ns - picture->model->from_ns));
}

static void lane_label(const struct model_lane *lane, char *text, size_t bytes)
{
	if (lane->stream == 0)
		snprintf(text, bytes, "no stream");
	else if (lane->stream == 1)
		snprintf(text, bytes, "legacy stream");
	else if (lane->stream == 2)
		snprintf(text, bytes, "thread %" PRIu32, lane->tid);
	else
		snprintf(text, bytes, "stream %" PRIx64, lane->stream);
}

static const struct spans *lane_spans(const struct picture *picture, const struct model_lane *lane)
{
	return picture->model->gpu_timing ? &lane->gpu : &lane->api;
}

static bool lane_is_shown(const struct picture *picture, const struct model_lane *lane)
{
	return lane_spans(picture, lane)->strip.buckets || lane->api.strip.buckets;
}

/* How many lanes of the same device are busier, or as busy and earlier. */
static unsigned lane_rank(const struct picture *picture, const struct model_process *process,
	size_t at)
{
	const struct model_lane *lane = &process->lanes[at];
	uint64_t busy_ns = lane_spans(picture, lane)->busy_ns;
	unsigned rank = 0;

	for (size_t i = 0; i < process->lane_count && rank < LANES_SHOWN; i++) {
		uint64_t other_ns = lane_spans(picture, &process->lanes[i])->busy_ns;

		rank += process->lanes[i].device == lane->device &&
			(other_ns > busy_ns || (other_ns == busy_ns && i < at));
	}
	return rank;
}

static void put_streams(const struct picture *picture, const struct model_process *process,
	unsigned device)
{
	unsigned left_out = 0;

	for (size_t i = 0; i < process->lane_count; i++) {
		const struct model_lane *lane = &process->lanes[i];
		char label[32];

		if (lane->device != device || !lane_is_shown(picture, lane))
			continue;
		if (!picture->style->all && lane_rank(picture, process, i) >= LANES_SHOWN) {
			left_out++;
			continue;
		}
		lane_label(lane, label, sizeof(label));
		put_lane(picture, lane_spans(picture, lane), label);
	}
	if (left_out)
		fprintf(picture->out, "    and %u more streams; --all shows them\n", left_out);
}

/* ---- memory ---- */

/* One row of the curve; row 0 is the lowest. The limit is a line in the cells above the curve. */
static void put_memory_row(const struct picture *picture, const struct model_device *device,
	unsigned row, uint64_t scale, const char *label)
{
	uint64_t floor = (uint64_t)((unsigned __int128)scale * row / MEMORY_ROWS);
	uint64_t ceiling = (uint64_t)((unsigned __int128)scale * (row + 1) / MEMORY_ROWS);
	bool has_limit = device->limit_bytes > floor && device->limit_bytes <= ceiling;
	enum color color = COLOR_MEMORY;

	put_label(picture, 4, label);
	set_color(picture, color);
	for (unsigned i = 0; i < picture->columns; i++) {
		uint64_t from = column_start(picture, i), to = column_start(picture, i + 1);
		uint64_t level = steps_highest(&device->memory, from, to > from ? to : from + 1);
		unsigned eighths = level > floor ? eighths_of(level - floor, ceiling - floor) : 0;
		enum color wanted = !eighths && has_limit ? COLOR_LIMIT : COLOR_MEMORY;

		if (wanted != color)
			set_color(picture, color = wanted);
		if (!eighths && has_limit)
			fputs(picture->style->unicode ? "▔" : "-", picture->out);
		else
			put_cell(picture, eighths);
	}
	set_color(picture, COLOR_NONE);
	fprintf(picture->out, "%s\n", has_limit ? " limit" : "");
}

static void put_refusals(const struct picture *picture, const struct model_device *device)
{
	if (!device->denied)
		return;
	put_label(picture, 4, "refused");
	set_color(picture, COLOR_REFUSED);
	for (unsigned i = 0; i < picture->columns; i++) {
		bool any = strip_sum(&device->refusals, column_start(picture, i),
			column_start(picture, i + 1)).count;

		fputs(!any ? " " : picture->style->unicode ? "×" : "x", picture->out);
	}
	set_color(picture, COLOR_NONE);
	fprintf(picture->out, " %*" PRIu64 "\n", SHARE_COLUMNS - 1, device->denied);
}

static void put_memory(const struct picture *picture, const struct model_device *device)
{
	uint64_t peak = device->memory.peak;
	bool limited = device->limit_bytes && device->limit_bytes != UINT64_MAX;
	uint64_t scale = limited && device->limit_bytes > peak ? device->limit_bytes : peak;
	char label[64];

	if (!peak && !device->denied && !device->allocs)
		return;
	for (unsigned row = MEMORY_ROWS; scale && row-- > 0;) {
		label[0] = '\0';
		if (row == MEMORY_ROWS - 1)
			snprintf(label, sizeof(label), "memory %s", format_bytes(scale));
		put_memory_row(picture, device, row, scale, label);
	}
	put_refusals(picture, device);
}

/* ---- all ---- */

static void put_axis(const struct picture *picture)
{
	const struct model *model = picture->model;
	const char *from = format_ns(model->from_ns - model->first_ns);
	uint64_t last_ns = model->to_ns > model->first_ns ? model->to_ns - 1 : model->first_ns;
	const char *to = format_ns(last_ns - model->first_ns);
	int blanks = (int)picture->columns - (int)strlen(from) - (int)strlen(to);

	put_label(picture, 0, "");
	fprintf(picture->out, "%s%*s%s\n", from, blanks > 0 ? blanks : 1, "", to);
}

static bool device_is_shown(const struct model_device *device)
{
	return device->api.strip.buckets || device->gpu.strip.buckets || device->memory.peak ||
		device->denied;
}

static void put_process(const struct picture *picture, size_t at)
{
	const struct model_process *process = picture->model->processes[at];

	fprintf(picture->out, "\n#%zu ", at + 1);
	if (process->defined)
		fprintf(picture->out, "pid %" PRIu32 " ", process->pid);
	put_safe(picture->out, process->defined ? process->command : "(not defined)", 40);
	fputc('\n', picture->out);
	for (unsigned i = 0; i < process->device_count; i++) {
		const struct model_device *device = &process->devices[i];

		if (!device_is_shown(device))
			continue;
		if (model_is_no_device(process, i))
			fputs("  no GPU", picture->out);
		else
			fprintf(picture->out, "  GPU %u%s", i, *device->name ? " " : "");
		put_safe(picture->out, device->name, 40);
		fputc('\n', picture->out);
		put_streams(picture, process, i);
		put_memory(picture, device);
	}
}

static bool process_is_shown(const struct model_process *process)
{
	bool shown = false;

	for (unsigned i = 0; i < process->device_count && !process->hidden; i++)
		shown |= device_is_shown(&process->devices[i]);
	return shown;
}

void view_lanes(FILE *out, const struct model *model, const struct view_style *style)
{
	unsigned columns = style->columns < LABEL_COLUMNS + SHARE_COLUMNS + 11
		? 10 : style->columns - LABEL_COLUMNS - SHARE_COLUMNS - 1;
	struct picture picture = { out, model, style, columns };
	bool any = false;

	for (size_t i = 0; i < model->process_count; i++) {
		if (!process_is_shown(model->processes[i]))
			continue;
		if (!any)
			fprintf(out, "\nTimeline, %s, %s a column\n", model->gpu_timing ? "work on the GPU"
				: "calls on the CPU", format_ns((model->to_ns - model->from_ns) / columns));
		any = true;
		put_process(&picture, i);
	}
	if (any)
		put_axis(&picture);
}

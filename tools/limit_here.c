/*
 * limit_here.c - the layers of limits for a process that would be started here: asked for and
 * allowed, GPU by GPU.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin.h"
#include "admin_name.h"
#include "cuward.h"
#include "format.h"
#include "limit_show.h"
#include "need.h"
#include "ps.h"
#include "queue.h"
#include "table.h"

struct row {
	const char *scope;
	const char *words;  /* as it was asked for, where no GPU tells what they mean */
	uint64_t bytes;
	const char *source;
	char uuid[48];      /* empty: of each */
	bool binds;
};

struct rows {
	struct row *all;
	size_t count, capacity;
	struct admin admin; /* sources are in there */
};

static void add_row(struct rows *rows, const struct row *row)
{
	if (!row->words && row->bytes == BYTES_NONE)
		return;
	rows->all = need_room(rows->all, rows->count, &rows->capacity, sizeof(*rows->all));
	rows->all[rows->count++] = *row;
}

static void add(struct rows *rows, const char *scope, uint64_t bytes, const char *source,
	const uint8_t uuid[16])
{
	struct row row = { .scope = scope, .bytes = bytes, .source = source };

	queue_uuid_text(row.uuid, uuid);
	add_row(rows, &row);
}

/* False: it is no limit on these GPUs, and that was said. */
static bool resolve(const struct limit_asked *asked, const struct limit_device *devices, unsigned count,
	uint64_t bytes[SLOT_DEVICES])
{
	struct limit limit;
	char why[300];

	if (limit_parse(&limit, asked->text ? asked->text : "none", why, sizeof(why)) &&
		limit_resolve(&limit, devices, count, bytes, why, sizeof(why)))
		return true;
	fprintf(stderr, "cuward: %s: ", asked->source);
	put_safe(stderr, why, 0);
	fputc('\n', stderr);
	return false;
}

static void add_allowed(struct rows *rows, unsigned i)
{
	static const char *const scopes[ADMIN_COUNT] = { "process", "job", "user", "gpu" };
	const struct admin *admin = &rows->admin;
	const uint8_t *uuid = admin->uuids[i];
	uint32_t uid = getuid();

	for (unsigned max = 0; max < ADMIN_COUNT; max++)
		add(rows, scopes[max], admin->max[max][i].bytes, admin->max[max][i].source, uuid);
	for (unsigned g = 0; g < admin->group_count; g++)
		add(rows, "group", admin->groups[g].max[i].bytes, admin->groups[g].max[i].source, uuid);
	for (unsigned r = 0; r < admin->reserve_count; r++) {
		const struct admin_reserve *reserve = &admin->reserves[r];
		bool ours = reserve->of_group ? admin_is_member(uid, reserve->id) : reserve->id == uid;

		if (!ours && reserve->bytes[i])
			add(rows, "reserve", reserve->bytes[i], reserve->source, uuid);
	}
}

/* The lowest of a process, a job and a user does; each group is another sum, as is each reserve. */
static void mark(struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		rows[i].binds = true;
		for (size_t j = 0; j < count && strchr("pju", rows[i].scope[0]); j++)
			if (rows[j].scope == rows[i].scope && (rows[j].bytes < rows[i].bytes ||
				(rows[j].bytes == rows[i].bytes && j < i)))
				rows[i].binds = false;
	}
}

static bool read_policy(struct rows *rows, const struct limit_device *devices, unsigned count)
{
	char why[300];
	bool fine = admin_read(&rows->admin, devices, count, getuid(), why, sizeof(why));

	if (!fine)
		fprintf(stderr, "cuward: %s; until that is mended CUDA is refused to all programs under "
			"cuward\n", why);
	else if (rows->admin.warning[0])
		fprintf(stderr, "cuward: %s\n", rows->admin.warning);
	return fine;
}

static bool find(struct rows *rows, const struct limit_asked asked[2],
	const struct limit_device *devices, unsigned count)
{
	uint64_t bytes[2][SLOT_DEVICES];
	bool fine = read_policy(rows, devices, count);

	for (unsigned i = 0; i < 2; i++) {
		if (!count && asked[i].text)
			add_row(rows, &(struct row){ .scope = asked[i].scope, .words = asked[i].text,
				.source = asked[i].source });
		fine = resolve(&asked[i], devices, count, bytes[i]) && fine;
	}
	for (unsigned i = 0; i < count && fine; i++) {
		size_t first = rows->count;

		add(rows, "process", bytes[0][i], asked[0].source, devices[i].uuid);
		add(rows, "job", bytes[1][i], asked[1].source, devices[i].uuid);
		add_allowed(rows, i);
		mark(rows->all + first, rows->count - first);
	}
	return fine;
}

static void print(FILE *out, const struct rows *rows)
{
	struct table table = { 0 };

	table_column(&table, "<GPU");
	table_column(&table, "<OF");
	table_column(&table, "LIMIT");
	table_column(&table, "<FROM");
	table_column(&table, "<BINDS");
	for (size_t i = 0; i < rows->count; i++) {
		const struct row *row = &rows->all[i];

		table_cell(&table, row->uuid[0] ? row->uuid : "each");
		table_cell(&table, row->scope);
		table_cell(&table, row->words ? row->words : format_bytes(row->bytes));
		table_cell(&table, row->source);
		table_cell(&table, row->binds ? "yes" : "");
	}
	table_print(&table, out, 0);
}

static void print_json(FILE *out, const struct rows *rows)
{
	json_t *all = json_array();

	for (size_t i = 0; i < rows->count; i++) {
		const struct row *row = &rows->all[i];

		json_array_append_new(all, json_pack("{s:s, s:s, s:o, s:s, s:s?, s:b}", "scope", row->scope,
			"text", row->words ? row->words : format_bytes(row->bytes),
			"bytes", row->words ? json_null() : ps_bytes(row->bytes), "source", row->source,
			"uuid", row->uuid[0] ? row->uuid : NULL, "binds", row->binds));
	}
	all = json_pack("{s:i, s:o}", "schema", 1, "limits", all);
	json_dumpf(all, out, JSON_INDENT(1));
	fputc('\n', out);
	json_decref(all);
}

bool limit_here(FILE *out, const struct limit_asked asked[2], const struct limit_device *devices,
	unsigned count, bool json)
{
	struct rows rows = { 0 };
	bool fine = find(&rows, asked, devices, count);

	if (json)
		print_json(out, &rows);
	else
		print(out, &rows);
	free(rows.all);
	return fine;
}

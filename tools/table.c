/*
 * table.c - rows of text under headings.
 */
#include "table.h"

#include "format.h"
#include "need.h"

#define CELL_COLUMNS 40
#define LAST_CELL_COLUMNS 80

void table_column(struct table *table, const char *heading)
{
	table->column[table->columns].left = heading[0] == '<';
	table->column[table->columns++].heading = heading + (heading[0] == '<');
}

void table_cell(struct table *table, const char *text)
{
	table->cells = need_room(table->cells, table->count, &table->capacity, sizeof(*table->cells));
	table->cells[table->count] = safe_text(text,
		(table->count + 1) % table->columns ? CELL_COLUMNS : LAST_CELL_COLUMNS);
	table->count++;
}

static unsigned column_width(const struct table *table, unsigned column)
{
	unsigned width = text_columns(table->column[column].heading);

	for (size_t i = column; i < table->count; i += table->columns) {
		unsigned cell = text_columns(table->cells[i]);

		if (cell > width)
			width = cell;
	}
	return width;
}

static void print_cell(FILE *out, const char *text, unsigned width, bool left, bool last)
{
	unsigned blanks = width - text_columns(text);

	fprintf(out, "%*s%s", left ? 0 : (int)blanks, "", text);
	if (last)
		fputc('\n', out);
	else
		fprintf(out, "%*s  ", left ? (int)blanks : 0, "");
}

void table_print(struct table *table, FILE *out, unsigned indent)
{
	unsigned widths[TABLE_COLUMNS];

	for (unsigned i = 0; i < table->columns; i++)
		widths[i] = column_width(table, i);
	fprintf(out, "%*s", (int)indent, "");
	for (unsigned i = 0; i < table->columns; i++)
		print_cell(out, table->column[i].heading, widths[i], table->column[i].left,
			i + 1 == table->columns);
	for (size_t i = 0; i < table->count; i++) {
		unsigned column = (unsigned)(i % table->columns);

		if (column == 0)
			fprintf(out, "%*s", (int)indent, "");
		print_cell(out, table->cells[i], widths[column], table->column[column].left,
			column + 1 == table->columns);
		free(table->cells[i]);
	}
	free(table->cells);
	*table = (struct table){ 0 };
}

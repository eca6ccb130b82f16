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

/* Blanks wait for the next text: none stands at the end of a line. */
static void print_cell(FILE *out, const char *text, unsigned width, bool left, unsigned *blanks)
{
	unsigned beside = width - text_columns(text);

	if (text[0]) {
		fprintf(out, "%*s%s", (int)(*blanks + (left ? 0 : beside)), "", text);
		*blanks = left ? beside : 0;
	} else {
		*blanks += beside;
	}
	*blanks += 2;
}

void table_print(struct table *table, FILE *out, unsigned indent)
{
	unsigned widths[TABLE_COLUMNS], blanks = indent;

	for (unsigned i = 0; i < table->columns; i++)
		widths[i] = column_width(table, i);
	for (unsigned i = 0; i < table->columns; i++)
		print_cell(out, table->column[i].heading, widths[i], table->column[i].left, &blanks);
	fputc('\n', out);
	for (size_t i = 0; i < table->count; i++) {
		unsigned column = (unsigned)(i % table->columns);

		if (column == 0)
			blanks = indent;
		print_cell(out, table->cells[i], widths[column], table->column[column].left, &blanks);
		if (column + 1 == table->columns)
			fputc('\n', out);
		free(table->cells[i]);
	}
	free(table->cells);
	*table = (struct table){ 0 };
}

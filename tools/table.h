/*
 * table.h - rows of text under headings, as wide as they need.
 */
#ifndef TABLE_H
#define TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS 16

struct table {
	unsigned columns;
	struct {
		const char *heading;
		bool left;           /* else aligned right */
	} column[TABLE_COLUMNS];
	char **cells;
	size_t count, capacity; /* of cells */
};

/* A column; "<NAME" is aligned left. */
void table_column(struct table *table, const char *heading);
/* The next cell; after the last of a row comes the first of the next. text is made safe. */
void table_cell(struct table *table, const char *text);
/* Print with indent blanks before each line, then forget everything. */
void table_print(struct table *table, FILE *out, unsigned indent);

#endif

/*
 * cmd_explain.c - `cuward explain CODE`: one page on anything that cuward says.
 */
#include <argp.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cuward.h"
#include "explain.h"
#include "format.h"
#include "need.h"

#define COLUMNS 78 /* and two before each line */

struct order {
	char *code; /* or a message, its words joined */
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;

	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	/* What follows is of the message, whatever it looks like. */
	order->code = need_copy(argument);
	for (; state->next < state->argc; state->next++) {
		char *before = order->code;

		if (asprintf(&order->code, "%s %s", before, state->argv[state->next]) < 0)
			order->code = need(NULL);
		free(before);
	}
	return 0;
}

/* In lines of at most COLUMNS, broken at blanks. */
static void print_paragraph(const char *text)
{
	while (*text && *text != '\n') {
		size_t length = strcspn(text, "\n");

		if (length > COLUMNS) {
			length = COLUMNS;
			while (length > 1 && text[length] != ' ')
				length--;
		}
		printf("  %.*s\n", (int)length, text);
		text += length + (text[length] == ' ');
	}
}

static void print_page(const struct explain_page *page)
{
	const char *advice = strchr(page->text, '\n');

	printf("%s (%s)\n\n", page->code, page->kind);
	print_paragraph(page->text);
	if (advice && advice[1]) {
		putchar('\n');
		print_paragraph(advice + 1);
	}
}

static bool is_part_of_word(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_';
}

/*
 * Does the message contain the code as a word? Numbers and plain words say too little in there, but for
 * "exit status 23".
 */
static bool mentions(const char *message, const struct explain_page *page)
{
	const char *code = page->code;
	size_t length = strlen(code);
	char status[32];

	if (strcmp(page->kind, "exit status") == 0) {
		length = (size_t)snprintf(status, sizeof(status), "exit status %s", code);
		code = status;
	} else if (!strchr(code, '-')) {
		return false;
	}
	for (const char *at = strcasestr(message, code); at; at = strcasestr(at + 1, code))
		if ((at == message || !is_part_of_word(at[-1])) && !is_part_of_word(at[length]))
			return true;
	return false;
}

static void list_codes(void)
{
	const char *kind = "";

	for (size_t i = 0; i < explain_count; i++) {
		if (strcmp(kind, explain_pages[i].kind) != 0)
			printf("%s%s:", i ? "\n" : "", explain_pages[i].kind);
		kind = explain_pages[i].kind;
		printf(" %s", explain_pages[i].code);
	}
	putchar('\n');
}

int cmd_explain(int argc, char **argv)
{
	static const struct argp parser = { .parser = parse_option, .args_doc = "[CODE|MESSAGE...]",
		.doc = "One page on a code: of a finding, a leak, `cuward why`, a limit, an exit status.\v"
			"Of a message the codes in it are explained. Without one: all codes.\n"
			"Exit status: 0, 1 there is no such code, 2 usage." };
	struct order order = { 0 };
	unsigned found = 0;

	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &order);
	if (!order.code) {
		list_codes();
		return EXIT_FINE;
	}
	for (size_t i = 0; i < explain_count; i++) {
		if (strcasecmp(explain_pages[i].code, order.code) != 0 &&
			!mentions(order.code, &explain_pages[i]))
			continue;
		if (found++)
			putchar('\n');
		print_page(&explain_pages[i]);
	}
	if (!found) {
		fprintf(stderr, "cuward: there is no page on '");
		put_safe(stderr, order.code, 60);
		fprintf(stderr, "'; `cuward explain` lists them\n");
	}
	free(order.code);
	return found ? EXIT_FINE : EXIT_FOUND;
}

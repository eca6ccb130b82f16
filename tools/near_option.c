/*
 * near_option.c - what an option that is none was probably meant to be, told behind argp's message.
 */
#include "near_option.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuward.h"

static struct {
	pid_t pid;
	const char *command;
	char **words;
} line;

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t near_distance(const char *a, const char *b)
{
	size_t row[32], length = strlen(b);

	if (length >= sizeof(row) / sizeof(row[0]))
		return SIZE_MAX;
	for (size_t j = 0; j <= length; j++)
		row[j] = j;
	for (size_t i = 0; a[i]; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 0; j < length; j++) {
			size_t replaced = diagonal + (a[i] != b[j]);

			diagonal = row[j + 1];
			row[j + 1] = smaller(replaced, smaller(diagonal, row[j]) + 1);
		}
	}
	return row[length];
}

/* The options are known to the command alone: its own help tells them. */
static FILE *open_help(void)
{
	char self[PATH_MAX] = "", command[PATH_MAX + 100];

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 || strchr(self, '\''))
		return NULL;
	snprintf(command, sizeof(command), "'%s' %s --help 2>/dev/null", self, line.command);
	return popen(command, "r");
}

/* False: it is an option, or the beginning of one. */
static bool find_near(const char *word, char best[64])
{
	char text[4096];
	FILE *help = open_help();
	/* Of short words most letters must be right; the dashes are none. */
	const size_t too_far = smaller(4, strlen(word) / 2);
	size_t nearest = too_far;
	bool unknown = help != NULL;

	while (unknown && fgets(text, sizeof(text), help)) {
		for (char *at = text; unknown && (at = strstr(at, "--")); ) {
			size_t length = 2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
			char option[64];

			snprintf(option, sizeof(option), "%.*s", (int)length, at);
			at += length;
			unknown = strncmp(option, word, strlen(word)) != 0;
			if (near_distance(word, option) >= nearest)
				continue;
			nearest = near_distance(word, option);
			memcpy(best, option, sizeof(option));
		}
	}
	if (help)
		pclose(help);
	return unknown && nearest < too_far;
}

/* What stands behind the command that `run` starts is that one's. */
static void tell(int status, void *nothing)
{
	(void)nothing;
	if ((status != EXIT_USAGE && status != EXIT_CUWARD) || getpid() != line.pid)
		return;
	for (char **at = line.words; *at && strcmp(*at, "--") != 0; at++) {
		bool option = (*at)[0] == '-';
		char word[64], best[64];

		if (!option && strcmp(line.command, "run") == 0 && (at == line.words || at[-1][0] != '-'))
			return;
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(*at, "="), *at);
		if (strncmp(word, "--", 2) == 0 && word[2] && find_near(word, best)) {
			fprintf(stderr, "cuward %s: did you mean '%s'?\n", line.command, best);
			return;
		}
	}
}

void near_option_watch(const char *command, char **words)
{
	line.pid = getpid();
	line.command = command;
	line.words = words;
	on_exit(tell, NULL);
}

/*
 * folder.h - a new folder to work in, as the fixture of a group of tests. Included behind cmocka.h.
 */
#ifndef CUWARD_TEST_FOLDER_H
#define CUWARD_TEST_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/cuward-test-XXXXXX";

static int enter_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? chdir(folder) : -1;
}

static int remove_folder(void **state)
{
	char command[100];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

#endif

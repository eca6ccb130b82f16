/*
 * pread_some.h - reading a file that others change while we do.
 */
#ifndef PREAD_SOME_H
#define PREAD_SOME_H

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

/* As much of [offset, offset + bytes) as the file has: bytes read, 0 also where nothing could be. */
static inline size_t pread_some(int fd, void *to, size_t bytes, uint64_t offset)
{
	size_t got = 0;

	while (got < bytes) {
		ssize_t part = pread(fd, (char *)to + got, bytes - got, (off_t)(offset + got));

		if (part < 0 && errno == EINTR)
			continue;
		if (part <= 0)
			break;
		got += (size_t)part;
	}
	return got;
}

#endif

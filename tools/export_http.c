/*
 * export_http.c - the metrics over HTTP, for localhost unless told otherwise. libmicrohttpd does the
 * protocol; it gets little memory, few connections and little time for each of them.
 */
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cuward.h"
#include "export.h"

#define CONNECTIONS_MAX 32u
#define CONNECTION_BYTES 8192
#define SECONDS_MAX 10u
#define STANDARD_PORT "9752"
/* Who asks more often gets the same again. */
#define FRESH_MS 500

static struct {
	char *text;
	size_t bytes;
	int64_t made_ms;
} cache;

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- one request ---- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
	const char *text, size_t bytes)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(bytes, (void *)text,
		MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, "Content-Type", type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, "Allow", "GET, HEAD");
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer_words(struct MHD_Connection *connection, unsigned status, const char *text)
{
	return answer(connection, status, "text/plain; charset=utf-8", text, strlen(text));
}

static enum MHD_Result answer_metrics(struct MHD_Connection *connection,
	const struct export_order *order)
{
	if (!cache.text || now_ms() - cache.made_ms > FRESH_MS) {
		free(cache.text);
		cache.text = export_metrics(order, &cache.bytes);
		cache.made_ms = now_ms();
	}
	return answer(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", cache.text,
		cache.bytes);
}

static enum MHD_Result take_request(void *order, struct MHD_Connection *connection, const char *path,
	const char *method, const char *version, const char *body, size_t *body_bytes, void **seen)
{
	static int once;

	(void)version;
	(void)body;
	/* The first call is after the header, and answers are not queued there. */
	if (!*seen) {
		*seen = &once;
		return MHD_YES;
	}
	/* Whatever body comes is not kept. */
	if (*body_bytes) {
		*body_bytes = 0;
		return MHD_YES;
	}
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return answer_words(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only\n");
	if (strcmp(path, "/metrics") == 0)
		return answer_metrics(connection, order);
	if (strcmp(path, "/") == 0)
		return answer_words(connection, MHD_HTTP_OK, "cuward export: the metrics are in /metrics\n");
	return answer_words(connection, MHD_HTTP_NOT_FOUND, "there is /metrics\n");
}

/* ---- the socket ---- */

/* "PORT", "HOST:PORT", "[::1]:PORT", "HOST"; localhost where no host is named. */
static void split(const char *address, char host[256], char port[32])
{
	const char *colon = strrchr(address, ':'), *end = colon;
	bool number = address[strspn(address, "0123456789")] == '\0';

	if (address[0] == '[' && (!colon || strchr(address, ']') > colon))
		colon = NULL;
	snprintf(port, 32, "%s", number && *address ? address : colon ? colon + 1 : STANDARD_PORT);
	end = number ? address : colon ? colon : address + strlen(address);
	if (address[0] == '[' && end > address + 1)
		snprintf(host, 256, "%.*s", (int)(strcspn(address, "]") - 1), address + 1);
	else
		snprintf(host, 256, "%.*s", (int)(end - address), address);
	/* Where it has two addresses, the first one may be that which nobody asks at. */
	if (!host[0] || strcmp(host, "localhost") == 0)
		snprintf(host, 256, "127.0.0.1");
}

static int open_socket(const char *host, const char *port, const char **why)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
	struct addrinfo *found = NULL;
	int error = EAI_SERVICE, fd = -1, on = 1;

	/* A number that is too large would be cut to one that is not. */
	if (*port && strspn(port, "0123456789") == strlen(port) && strtoul(port, NULL, 10) <= 65535)
		error = getaddrinfo(host, port, &hints, &found);
	*why = error ? gai_strerror(error) : "";
	if (error)
		return -1;
	fd = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
		bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 16) != 0) {
		*why = strerror(errno);
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(found);
	return fd;
}

/* Port 0 is any: which one it became is said. */
static void tell_address(int fd)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);
	char host[128] = "?", port[16] = "?";

	if (getsockname(fd, (struct sockaddr *)&address, &length) == 0)
		getnameinfo((struct sockaddr *)&address, length, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV);
	fprintf(stderr, address.ss_family == AF_INET6 ? "cuward: export: http://[%s]:%s/metrics\n" :
		"cuward: export: http://%s:%s/metrics\n", host, port);
}

static void serve(struct MHD_Daemon *daemon)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);

	while (!export_ended) {
		struct pollfd one = { .fd = info->epoll_fd, .events = POLLIN };
		MHD_UNSIGNED_LONG_LONG ms = 1000;

		if (MHD_get_timeout(daemon, &ms) != MHD_YES || ms > 1000)
			ms = 1000;
		poll(&one, 1, (int)ms);
		MHD_run(daemon);
	}
}

int export_serve(const struct export_order *order, const char *address)
{
	struct MHD_Daemon *daemon;
	char host[256], port[32];
	const char *why;
	int fd;

	split(address, host, port);
	fd = open_socket(host, port, &why);
	if (fd < 0) {
		fprintf(stderr, "cuward: export: cannot listen on %s, port %s: %s\n", host, port, why);
		return EXIT_UNAVAILABLE;
	}
	daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, take_request, (void *)order,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
		MHD_OPTION_CONNECTION_TIMEOUT, SECONDS_MAX, MHD_OPTION_END);
	if (!daemon) {
		fprintf(stderr, "cuward: export: cannot serve HTTP\n");
		close(fd);
		return EXIT_UNAVAILABLE;
	}
	tell_address(fd);
	serve(daemon);
	MHD_stop_daemon(daemon);
	free(cache.text);
	return EXIT_FINE;
}

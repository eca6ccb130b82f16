/*
 * report.h - what a ledger says, as JSON (schema 1) or as text for people.
 *
 * The same code runs in the guest's final handler, over its own live mapping, and in `cuward run`,
 * over a file it read; so no malloc, no stdio, no locks, and nothing in the ledger is trusted.
 */
#ifndef CUWARD_REPORT_H
#define CUWARD_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuward/ledger.h"

/* Output: bytes are collected in buffer and handed to flush when it is full, and at the end. */
struct report_out {
	bool (*flush)(struct report_out *, const char *bytes, size_t count); /* false: failed */
	void *user;
	size_t used;
	bool failed;
	bool quoted; /* within a string of JSON: text_clean() */
	char buffer[8192];
};

/* What is known of an address beyond what the loader says: outside the guest, from debug information. */
struct report_frame {
	const char *function; /* NULL unknown */
	const char *file;
	unsigned line; /* 0 unknown */
};

struct report_module {
	const char *path;
	const uint8_t *build_id;
	unsigned build_id_bytes;
};

#define REPORT_INLINED_MAX 16

struct report_symbols {
	/*
	 * Functions inlined there, innermost first, and the function itself; how many, 0 unknown. Texts
	 * live as long as the symbols. *note: why the source is not known, NULL.
	 */
	unsigned (*resolve)(const struct report_symbols *, const struct report_module *module,
		uint64_t offset, struct report_frame frames[REPORT_INLINED_MAX], const char **note);
};

/* A ledger in memory, its counts already checked against what is readable. */
struct ledger_view {
	const struct ledger_header *header;
	const struct ledger_thread *threads;
	unsigned thread_count;
	const char *sites;
	size_t sites_bytes;
	const struct ledger_growth *growth;
	size_t growth_count;
	const struct ledger_record *records;
	size_t record_count;
	/* What the reader knows better than the ledger; END_RUNNING: take the ledger's word. */
	enum cuward_end how;
	int status; /* exit status, 128+N after signal N */
	uint32_t outer_pid; /* its pid where the reader is; 0 unknown */
	bool leaks_off;        /* --leak off: what is live is held, not leaked */
	const struct suppressions *suppressions; /* NULL none */
	const struct report_symbols *symbols; /* NULL: what the loader knew */
	const char *trace_dir; /* NULL if not known to be traced */
	uint64_t trace_lost;   /* events, with trace_dir; BYTES_NONE unknown */
};

/* One element of `processes`. indent: tabs before each line but the first, which goes on. */
void report_process_json(struct report_out *out, const struct ledger_view *view, unsigned indent);

/* {"schema": 1, "processes": [ ... ]} for one process, as plain preload mode writes it. */
void report_document_json(struct report_out *out, const struct ledger_view *view);

/* At most `lines` lines for a tired person; nothing if nothing leaked. */
void report_leaks_text(struct report_out *out, const struct ledger_view *view, unsigned lines);

struct report_leaks {
	uint64_t bytes; /* verdicts leak and growth, nothing suppressed */
	uint64_t count;
};
struct report_leaks report_leak_sum(const struct ledger_view *view);

/* Flush what is left. False if any write failed. */
bool report_finish(struct report_out *out);

#endif

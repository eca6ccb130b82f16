/*
 * protobuf.h - protocol buffers, written by hand: numbers, texts, messages within messages.
 */
#ifndef PROTOBUF_H
#define PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

struct protobuf {
	uint8_t *bytes;
	size_t used, capacity;
};

void protobuf_number(struct protobuf *message, unsigned field, uint64_t value);
void protobuf_fixed(struct protobuf *message, unsigned field, uint64_t value);
void protobuf_text(struct protobuf *message, unsigned field, const char *text);
/* One message as a field of another; what is inside is empty afterwards. */
void protobuf_message(struct protobuf *message, unsigned field, struct protobuf *inside);
void protobuf_free(struct protobuf *message);

#endif

/*
 * protobuf.c - the wire format of protocol buffers.
 */
#include "protobuf.h"

#include "need.h"

enum { WIRE_NUMBER = 0, WIRE_FIXED = 1, WIRE_BYTES = 2 };

static uint8_t *room(struct protobuf *message, size_t bytes)
{
	while (message->capacity - message->used < bytes) {
		message->capacity = message->capacity ? 2 * message->capacity : 256;
		message->bytes = need(realloc(message->bytes, message->capacity));
	}
	message->used += bytes;
	return message->bytes + message->used - bytes;
}

static void put_varint(struct protobuf *message, uint64_t value)
{
	for (; value >= 128; value >>= 7)
		*room(message, 1) = (uint8_t)(value | 128);
	*room(message, 1) = (uint8_t)value;
}

static void put_bytes(struct protobuf *message, unsigned field, const void *bytes, size_t count)
{
	put_varint(message, field << 3 | WIRE_BYTES);
	put_varint(message, count);
	if (count)
		memcpy(room(message, count), bytes, count);
}

void protobuf_number(struct protobuf *message, unsigned field, uint64_t value)
{
	put_varint(message, field << 3 | WIRE_NUMBER);
	put_varint(message, value);
}

void protobuf_fixed(struct protobuf *message, unsigned field, uint64_t value)
{
	uint8_t *at;

	put_varint(message, field << 3 | WIRE_FIXED);
	at = room(message, 8);
	for (unsigned i = 0; i < 8; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

void protobuf_text(struct protobuf *message, unsigned field, const char *text)
{
	put_bytes(message, field, text, strlen(text));
}

void protobuf_message(struct protobuf *message, unsigned field, struct protobuf *inside)
{
	put_bytes(message, field, inside->bytes, inside->used);
	inside->used = 0;
}

void protobuf_free(struct protobuf *message)
{
	free(message->bytes);
	*message = (struct protobuf){ 0 };
}

/*
 * ctf_value.c - values of any TSDL type out of the bits of a packet.
 */
#include "ctf_value.h"

#include <string.h>

#define DEPTH_MAX 64

/* The structs that are being read, the innermost first. */
struct ctf_scope {
	const struct ctf_scope *up;
	const struct ctf_value *structure; /* its count says how far it got */
};

/* ---- bits ---- */

static uint64_t read_little(const uint8_t *bytes, uint64_t at, unsigned size)
{
	uint64_t value = 0;

	for (unsigned done = 0; done < size;) {
		unsigned offset = (unsigned)(at + done) % 8, take = 8 - offset;

		take = take < size - done ? take : size - done;
		value |= (uint64_t)(bytes[(at + done) / 8] >> offset & ((1u << take) - 1)) << done;
		done += take;
	}
	return value;
}

/* Here the first bit of a byte is its highest. */
static uint64_t read_big(const uint8_t *bytes, uint64_t at, unsigned size)
{
	uint64_t value = 0;

	for (unsigned done = 0; done < size;) {
		unsigned offset = (unsigned)(at + done) % 8, take = 8 - offset;

		take = take < size - done ? take : size - done;
		value = value << take |
			(bytes[(at + done) / 8] >> (8 - offset - take) & ((1u << take) - 1));
		done += take;
	}
	return value;
}

static bool align_to(struct ctf_decoder *decoder, unsigned align)
{
	uint64_t at = (decoder->at + align - 1) & ~(uint64_t)(align - 1);

	if (at > decoder->end)
		return false;
	decoder->at = at;
	return true;
}

static enum ctf_outcome read_bits(struct ctf_decoder *decoder, const struct tsdl_type *type,
	uint64_t *number)
{
	if (!align_to(decoder, type->align) || decoder->end - decoder->at < type->size)
		return CTF_SHORT;
	*number = type->big_endian ? read_big(decoder->bytes, decoder->at, type->size)
		: read_little(decoder->bytes, decoder->at, type->size);
	decoder->at += type->size;
	return CTF_FINE;
}

/* ---- what a path names ---- */

const struct ctf_value *ctf_member(const struct ctf_value *structure, const char *name)
{
	for (uint64_t i = 0; structure && i < structure->list.count; i++)
		if (strcmp(structure->list.items[i].name, name) == 0)
			return &structure->list.items[i];
	return NULL;
}

static const struct ctf_value *follow(const struct ctf_value *value, const char *const *path,
	unsigned count)
{
	for (unsigned i = 0; value && i < count; i++) {
		if (value->type->kind == TSDL_VARIANT && value->list.count)
			value = &value->list.items[0];
		value = value->type->kind == TSDL_STRUCT ? ctf_member(value, path[i]) : NULL;
	}
	return value;
}

static const struct ctf_value *find_absolute(const struct ctf_decoder *decoder,
	const struct tsdl_type *type)
{
	static const struct { const char *words[3]; unsigned count; } roots[CTF_PARTS] = {
		[CTF_PACKET_HEADER] = { { "trace", "packet", "header" }, 3 },
		[CTF_PACKET_CONTEXT] = { { "stream", "packet", "context" }, 3 },
		[CTF_EVENT_HEADER] = { { "stream", "event", "header" }, 3 },
		[CTF_STREAM_EVENT_CONTEXT] = { { "stream", "event", "context" }, 3 },
		[CTF_EVENT_CONTEXT] = { { "event", "context" }, 2 },
		[CTF_EVENT_FIELDS] = { { "event", "fields" }, 2 },
	};

	for (unsigned part = 0; part < CTF_PARTS; part++) {
		bool same = type->path_count > roots[part].count;

		for (unsigned i = 0; same && i < roots[part].count; i++)
			same = strcmp(type->path[i], roots[part].words[i]) == 0;
		if (same)
			return follow(decoder->parts[part], type->path + roots[part].count,
				type->path_count - roots[part].count);
	}
	return NULL;
}

/* Names are looked for in the struct at hand, in those around it, in the parts before. */
static const struct ctf_value *find(const struct ctf_decoder *decoder,
	const struct tsdl_type *type)
{
	const struct ctf_value *found = find_absolute(decoder, type);

	for (const struct ctf_scope *scope = decoder->scope; scope && !found; scope = scope->up)
		found = follow(scope->structure, type->path, type->path_count);
	for (unsigned part = CTF_PARTS; part-- > 0 && !found;)
		if (decoder->parts[part])
			found = follow(decoder->parts[part], type->path, type->path_count);
	return found;
}

/* ---- values ---- */

static enum ctf_outcome decode(struct ctf_decoder *decoder, const struct tsdl_type *type,
	struct ctf_value *value);

static enum ctf_outcome decode_number(struct ctf_decoder *decoder, const struct tsdl_type *type,
	struct ctf_value *value)
{
	enum ctf_outcome outcome = read_bits(decoder, type, &value->number);

	if (outcome != CTF_FINE)
		return outcome;
	if (type->clock)
		decoder->clock = ctf_clock_forward(decoder->clock, value->number, type->size);
	if (type->is_signed && type->size < 64 && value->number >> (type->size - 1) & 1)
		value->number |= UINT64_MAX << type->size;
	return CTF_FINE;
}

static enum ctf_outcome decode_float(struct ctf_decoder *decoder, const struct tsdl_type *type,
	struct ctf_value *value)
{
	uint64_t bits = 0;
	enum ctf_outcome outcome = read_bits(decoder, type, &bits);
	uint32_t half = (uint32_t)bits;
	float single;

	if (type->size == 64) {
		memcpy(&value->real, &bits, sizeof(bits));
	} else {
		memcpy(&single, &half, sizeof(single));
		value->real = single;
	}
	return outcome;
}

static enum ctf_outcome decode_string(struct ctf_decoder *decoder, struct ctf_value *value)
{
	const uint8_t *from, *zero;

	if (!align_to(decoder, 8))
		return CTF_SHORT;
	from = decoder->bytes + decoder->at / 8;
	zero = memchr(from, 0, decoder->end / 8 - decoder->at / 8);
	if (!zero)
		return CTF_SHORT;
	value->string.text = (const char *)from;
	value->string.length = (uint64_t)(zero - from);
	decoder->at += 8 * (value->string.length + 1);
	return CTF_FINE;
}

static struct ctf_value *take_values(struct ctf_decoder *decoder, uint64_t count)
{
	if (count > decoder->budget)
		return NULL;
	decoder->budget -= (unsigned)count;
	return arena_take(decoder->arena, (size_t)count * sizeof(struct ctf_value));
}

static enum ctf_outcome decode_struct(struct ctf_decoder *decoder, const struct tsdl_type *type,
	struct ctf_value *value)
{
	struct ctf_scope scope = { decoder->scope, value };
	enum ctf_outcome outcome = CTF_FINE;

	value->list.items = take_values(decoder, type->member_count);
	if (!value->list.items)
		return CTF_WRONG;
	if (!align_to(decoder, type->align))
		return CTF_SHORT;
	decoder->scope = &scope;
	for (size_t i = 0; i < type->member_count && outcome == CTF_FINE; i++) {
		value->list.items[i].name = type->members[i].name;
		outcome = decode(decoder, type->members[i].type, &value->list.items[i]);
		value->list.count += outcome == CTF_FINE;
	}
	decoder->scope = scope.up;
	return outcome;
}

/* Characters are a text, and end at the first zero. */
static bool is_text(const struct tsdl_type *element)
{
	return element->kind == TSDL_INTEGER && element->is_text && element->size == 8 &&
		element->align == 8;
}

static enum ctf_outcome decode_text(struct ctf_decoder *decoder, uint64_t count,
	struct ctf_value *value)
{
	if (!align_to(decoder, 8) || (decoder->end - decoder->at) / 8 < count)
		return CTF_SHORT;
	value->string.text = (const char *)decoder->bytes + decoder->at / 8;
	value->string.length = strnlen(value->string.text, (size_t)count);
	decoder->at += 8 * count;
	return CTF_FINE;
}

static enum ctf_outcome decode_list(struct ctf_decoder *decoder, const struct tsdl_type *type,
	uint64_t count, struct ctf_value *value)
{
	uint64_t bits = type->element->min_bits;
	enum ctf_outcome outcome = CTF_FINE;

	if (is_text(type->element))
		return decode_text(decoder, count, value);
	/* LTTng aligns a sequence even where it is empty. */
	if (!align_to(decoder, type->align))
		return CTF_SHORT;
	if (bits && count > (decoder->end - decoder->at) / bits)
		return CTF_SHORT;
	value->list.items = take_values(decoder, count);
	if (!value->list.items)
		return CTF_WRONG;
	for (uint64_t i = 0; i < count && outcome == CTF_FINE; i++) {
		outcome = decode(decoder, type->element, &value->list.items[i]);
		value->list.count += outcome == CTF_FINE;
	}
	return outcome;
}

static enum ctf_outcome decode_sequence(struct ctf_decoder *decoder,
	const struct tsdl_type *type, struct ctf_value *value)
{
	const struct ctf_value *length = find(decoder, type);

	if (!length || (length->type->kind != TSDL_INTEGER && length->type->kind != TSDL_ENUM))
		return CTF_WRONG;
	return decode_list(decoder, type, length->number, value);
}

static bool label_holds(const struct tsdl_type *type, const struct tsdl_label *label,
	uint64_t number)
{
	if (type->is_signed)
		return (int64_t)number >= (int64_t)label->from && (int64_t)number <= (int64_t)label->to;
	return number >= label->from && number <= label->to;
}

static const struct tsdl_member *option_of(const struct tsdl_type *variant,
	const struct ctf_value *tag)
{
	const struct tsdl_type *type = tag->type;

	for (size_t i = 0; i < type->label_count; i++) {
		if (!label_holds(type, &type->labels[i], tag->number))
			continue;
		for (size_t k = 0; k < variant->member_count; k++)
			if (strcmp(variant->members[k].raw, type->labels[i].name) == 0 ||
				strcmp(variant->members[k].name, type->labels[i].name) == 0)
				return &variant->members[k];
	}
	return NULL;
}

static enum ctf_outcome decode_variant(struct ctf_decoder *decoder, const struct tsdl_type *type,
	struct ctf_value *value)
{
	const struct ctf_value *tag = find(decoder, type);
	const struct tsdl_member *option =
		tag && tag->type->kind == TSDL_ENUM ? option_of(type, tag) : NULL;

	if (!option)
		return CTF_WRONG;
	value->list.items = take_values(decoder, 1);
	if (!value->list.items)
		return CTF_WRONG;
	value->list.count = 1;
	value->list.items[0].name = option->name;
	return decode(decoder, option->type, &value->list.items[0]);
}

static enum ctf_outcome decode_kind(struct ctf_decoder *decoder, const struct tsdl_type *type,
	struct ctf_value *value)
{
	switch (type->kind) {
	case TSDL_INTEGER:
	case TSDL_ENUM:
		return decode_number(decoder, type, value);
	case TSDL_FLOAT:
		return decode_float(decoder, type, value);
	case TSDL_STRING:
		return decode_string(decoder, value);
	case TSDL_STRUCT:
		return decode_struct(decoder, type, value);
	case TSDL_VARIANT:
		return decode_variant(decoder, type, value);
	case TSDL_ARRAY:
		return decode_list(decoder, type, type->length, value);
	case TSDL_SEQUENCE:
		return decode_sequence(decoder, type, value);
	}
	return CTF_WRONG;
}

static enum ctf_outcome decode(struct ctf_decoder *decoder, const struct tsdl_type *type,
	struct ctf_value *value)
{
	enum ctf_outcome outcome;

	value->type = type;
	if (decoder->depth == DEPTH_MAX)
		return CTF_WRONG;
	decoder->depth++;
	outcome = decode_kind(decoder, type, value);
	decoder->depth--;
	return outcome;
}

enum ctf_outcome ctf_decode(struct ctf_decoder *decoder, enum ctf_part part,
	const struct tsdl_type *type, struct ctf_value **value)
{
	*value = NULL;
	decoder->parts[part] = NULL;
	if (!type)
		return CTF_FINE;
	*value = decoder->parts[part] = arena_take(decoder->arena, sizeof(**value));
	return decode(decoder, type, *value);
}

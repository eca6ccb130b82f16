/*
 * ctf_print.c - values as babeltrace2 prints them, which the tests compare with.
 */
#include <inttypes.h>

#include "ctf_value.h"

static void print_number(FILE *out, const struct tsdl_type *type, uint64_t number)
{
	/* Whole digits: a negative number fills its first one. */
	unsigned octal_bits = (type->size + 2) / 3 * 3, hex_bits = (type->size + 3) / 4 * 4;

	switch (type->base) {
	case 2:
		fputs("0b", out);
		for (unsigned bit = type->size; bit-- > 0;)
			fputc('0' + (int)(number >> bit & 1), out);
		break;
	case 8:
		if (octal_bits < 64)
			number &= (1ull << octal_bits) - 1;
		fprintf(out, "0%" PRIo64, number);
		break;
	case 16:
		if (hex_bits < 64)
			number &= (1ull << hex_bits) - 1;
		fprintf(out, "0x%" PRIX64, number);
		break;
	default:
		if (type->is_signed)
			fprintf(out, "%" PRId64, (int64_t)number);
		else
			fprintf(out, "%" PRIu64, number);
	}
}

static void print_string(FILE *out, const char *text, uint64_t length)
{
	static const char letters[] = "abtnvfr";

	fputc('"', out);
	for (uint64_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c >= '\a' && c <= '\r')
			fprintf(out, "\\%c", letters[c - '\a']);
		else if (c == '\033')
			fputs("\\e", out);
		else if (c < ' ' || c == 127)
			fprintf(out, "\\x%02x", c);
		else if (c == '"' || c == '\'' || c == '\\' || c == '?')
			fprintf(out, "\\%c", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

static void print_enum(FILE *out, const struct ctf_value *value)
{
	const struct tsdl_type *type = value->type;
	unsigned count = 0;

	fputs("( ", out);
	for (size_t i = 0; i < type->label_count; i++) {
		const struct tsdl_label *label = &type->labels[i];

		if (type->is_signed ? (int64_t)value->number < (int64_t)label->from ||
			(int64_t)value->number > (int64_t)label->to
			: value->number < label->from || value->number > label->to)
			continue;
		fputs(count++ ? ", " : "", out);
		print_string(out, label->name, __builtin_strlen(label->name));
	}
	fputs(count ? "" : "<unknown>", out);
	fputs(" : container = ", out);
	print_number(out, type, value->number);
	fputs(" )", out);
}

static void print_struct(FILE *out, const struct ctf_value *value)
{
	fputs("{", out);
	for (uint64_t i = 0; i < value->list.count; i++) {
		fputs(i ? ", " : " ", out);
		ctf_print_member(out, &value->list.items[i]);
	}
	fputs(" }", out);
}

static void print_list(FILE *out, const struct ctf_value *value)
{
	const struct tsdl_type *element = value->type->element;

	if (element->kind == TSDL_INTEGER && element->is_text && element->size == 8 &&
		element->align == 8) {
		print_string(out, value->string.text, value->string.length);
		return;
	}
	fputs("[", out);
	for (uint64_t i = 0; i < value->list.count; i++) {
		fprintf(out, "%s[%" PRIu64 "] = ", i ? ", " : " ", i);
		ctf_print(out, &value->list.items[i]);
	}
	fputs(" ]", out);
}

void ctf_print(FILE *out, const struct ctf_value *value)
{
	switch (value->type->kind) {
	case TSDL_INTEGER:
		print_number(out, value->type, value->number);
		break;
	case TSDL_ENUM:
		print_enum(out, value);
		break;
	case TSDL_FLOAT:
		fprintf(out, "%g", value->real);
		break;
	case TSDL_STRING:
		print_string(out, value->string.text, value->string.length);
		break;
	case TSDL_STRUCT:
		print_struct(out, value);
		break;
	case TSDL_VARIANT:
		fputs("{ ", out);
		ctf_print(out, &value->list.items[0]);
		fputs(" }", out);
		break;
	case TSDL_ARRAY:
	case TSDL_SEQUENCE:
		print_list(out, value);
		break;
	}
}

void ctf_print_member(FILE *out, const struct ctf_value *value)
{
	fprintf(out, "%s = ", value->name);
	ctf_print(out, value);
}

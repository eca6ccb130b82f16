/*
 * limit.c - the text of a limit into bytes for each GPU.
 *
 * The text comes from whoever starts the process. Whatever it does not clearly mean is an error: a
 * limit that is read as something else, or as none, is worse than a program that does not start.
 */
#include "limit.h"

#include <string.h>

#define BYTES_MAX ((uint64_t)INT64_MAX)
#define UUID_TEXT 36        /* 8-4-4-4-12 */
#define PERCENT_DECIMALS 17 /* 100 and as many decimals fit 64 bits */
#define QUOTED_MAX 80u      /* of a value shown in an error */

/* ---- sentences ---- */

struct sentence {
	char *text;
	size_t used;
	size_t bytes;
};

static void say(struct sentence *s, const char *text)
{
	for (; *text && s->used + 1 < s->bytes; text++)
		s->text[s->used++] = *text;
	if (s->bytes > 0)
		s->text[s->used] = 0;
}

static void say_byte(struct sentence *s, unsigned char byte)
{
	static const char hex[] = "0123456789abcdef";
	char escaped[] = { '\\', 'x', hex[byte >> 4], hex[byte & 15], 0 };
	char plain[] = { (char)byte, 0 };

	say(s, byte < 0x20 || byte > 0x7e ? escaped : plain);
}

/* The value in quotes, printable whatever it holds and cut if it is endless. */
static void say_quoted(struct sentence *s, const char *text, size_t length)
{
	say(s, "'");
	for (size_t i = 0; i < length && i < QUOTED_MAX; i++)
		say_byte(s, (unsigned char)text[i]);
	say(s, length > QUOTED_MAX ? "...'" : "'");
}

static void say_number(struct sentence *s, unsigned number)
{
	if (number >= 10)
		say_number(s, number / 10);
	say_byte(s, '0' + number % 10);
}

/* ---- what is parsed ---- */

/* A part of the text, not ended by a 0 byte. */
struct span {
	const char *at;
	size_t length;
};

struct parser {
	struct span whole;
	struct sentence why;
};

/* "'VALUE': PROBLEM", and in a list "'ITEM' in 'VALUE': PROBLEM". */
static bool refuse(struct parser *p, struct span part, const char *problem)
{
	say_quoted(&p->why, part.at, part.length);
	if (part.length != p->whole.length) {
		say(&p->why, " in ");
		say_quoted(&p->why, p->whole.at, p->whole.length);
	}
	say(&p->why, ": ");
	say(&p->why, problem);
	return false;
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_hex(char c)
{
	return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f');
}

static struct span trimmed(const char *text)
{
	struct span s = { text, strlen(text) };

	while (s.length > 0 && is_blank(s.at[0])) {
		s.at++;
		s.length--;
	}
	while (s.length > 0 && is_blank(s.at[s.length - 1]))
		s.length--;
	return s;
}

static bool span_is(struct span s, const char *word)
{
	return s.length == strlen(word) && memcmp(s.at, word, s.length) == 0;
}

/* Cut off and return what stands before the first c; all of it where there is none. */
static struct span cut_before(struct span *s, char c)
{
	const char *found = memchr(s->at, c, s->length);
	struct span before = { s->at, found ? (size_t)(found - s->at) : s->length };

	s->at += before.length;
	s->length -= before.length;
	return before;
}

static void skip(struct span *s, size_t count)
{
	s->at += count;
	s->length -= count;
}

static struct span cut_digits(struct span *s)
{
	struct span digits = { s->at, 0 };

	while (digits.length < s->length && is_digit(s->at[digits.length]))
		digits.length++;
	skip(s, digits.length);
	return digits;
}

/* ---- amounts ---- */

struct number {
	struct span whole;
	struct span decimals; /* without zeros at their end */
};

/* digits ["." digits]; what follows stays in rest. */
static bool parse_number(struct parser *p, struct span amount, struct number *number,
	struct span *rest)
{
	*rest = amount;
	number->whole = cut_digits(rest);
	number->decimals = (struct span){ rest->at, 0 };
	if (number->whole.length == 0)
		return refuse(p, amount, amount.length && amount.at[0] == '-' ?
			"a limit is not negative" : "it does not begin with a digit, as 4G and 50% do");
	if (rest->length > 0 && rest->at[0] == '.') {
		skip(rest, 1);
		number->decimals = cut_digits(rest);
		if (number->decimals.length == 0)
			return refuse(p, amount, "digits are missing after the point");
	}
	while (number->decimals.length > 0 &&
		number->decimals.at[number->decimals.length - 1] == '0')
		number->decimals.length--;
	return true;
}

/* Bytes of a unit, 0 for a word that is none. K, Ki and KiB are binary; KB is decimal. */
static uint64_t unit_bytes(struct span unit)
{
	static const char prefixes[] = "kmgt";
	const char *prefix;
	uint64_t step = 1024, bytes = 1;

	if (unit.length == 0 || (unit.length == 1 && lower(unit.at[0]) == 'b'))
		return 1;
	prefix = memchr(prefixes, lower(unit.at[0]), sizeof(prefixes) - 1);
	if (!prefix || unit.length > 3)
		return 0;
	if (unit.length == 2 && lower(unit.at[1]) == 'b')
		step = 1000;
	else if (unit.length >= 2 && lower(unit.at[1]) != 'i')
		return 0;
	if (unit.length == 3 && lower(unit.at[2]) != 'b')
		return 0;
	for (size_t i = 0; i <= (size_t)(prefix - prefixes); i++)
		bytes *= step;
	return bytes;
}

/* *sum = *sum * 10 + each digit; false past 64 bits. */
static bool add_digits(uint64_t *sum, struct span digits)
{
	for (size_t i = 0; i < digits.length; i++)
		if (__builtin_mul_overflow(*sum, 10, sum) ||
			__builtin_add_overflow(*sum, (uint64_t)(digits.at[i] - '0'), sum))
			return false;
	return true;
}

/*
 * 0.DECIMALS * unit, from the last digit to the first. If the result is whole then so is every step
 * on the way, so any number of decimals is exact. False: a part of a byte is left.
 */
static bool scale_decimals(struct span decimals, uint64_t unit, uint64_t *bytes)
{
	*bytes = 0;
	for (size_t i = decimals.length; i-- > 0;) {
		*bytes += (uint64_t)(decimals.at[i] - '0') * unit;
		if (*bytes % 10)
			return false;
		*bytes /= 10;
	}
	return true;
}

static bool parse_bytes(struct parser *p, struct span text, struct number number, uint64_t unit,
	struct limit_amount *amount)
{
	uint64_t whole = 0, part;

	if (!scale_decimals(number.decimals, unit, &part))
		return refuse(p, text, "this is not a whole number of bytes");
	if (!add_digits(&whole, number.whole) || __builtin_mul_overflow(whole, unit, &whole) ||
		__builtin_add_overflow(whole, part, &whole) || whole > BYTES_MAX)
		return refuse(p, text, "more than 9223372036854775807 bytes");
	if (whole == 0)
		return refuse(p, text, "a limit of 0 bytes; say none for no limit");
	*amount = (struct limit_amount){ .unit = LIMIT_BYTES, .bytes = whole };
	return true;
}

static bool parse_percent(struct parser *p, struct span text, struct number number,
	struct limit_amount *amount)
{
	uint64_t digits = 0, hundred = 100;

	if (number.decimals.length > PERCENT_DECIMALS)
		return refuse(p, text, "more than 17 decimals");
	for (size_t i = 0; i < number.decimals.length; i++)
		hundred *= 10;
	if (!add_digits(&digits, number.whole) || !add_digits(&digits, number.decimals) ||
		digits > hundred)
		return refuse(p, text, "more than 100 %");
	if (digits == 0)
		return refuse(p, text, "a limit of 0 %; say none for no limit");
	*amount = (struct limit_amount){ .unit = LIMIT_PERCENT, .percent_digits = digits,
		.percent_decimals = (unsigned)number.decimals.length };
	return true;
}

static bool parse_amount(struct parser *p, struct span text, struct limit_amount *amount)
{
	struct number number;
	struct span rest;
	uint64_t unit;

	*amount = (struct limit_amount){ .unit = LIMIT_NONE };
	if (span_is(text, "none"))
		return true;
	if (!parse_number(p, text, &number, &rest))
		return false;
	if (span_is(rest, "%"))
		return parse_percent(p, text, number, amount);
	unit = unit_bytes(rest);
	if (unit == 0)
		return refuse(p, text, "unknown unit; units are B K M G T, KiB to TiB, KB to TB");
	return parse_bytes(p, text, number, unit, amount);
}

/* ---- items ---- */

static bool parse_index(struct parser *p, struct span gpu, struct limit_item *item)
{
	uint64_t index = 0;

	if (!add_digits(&index, gpu) || index >= SLOT_DEVICES)
		return refuse(p, gpu, "no GPU has this index");
	item->by = LIMIT_INDEX;
	item->index = (unsigned)index;
	return true;
}

static bool uuid_fits(struct span uuid)
{
	if (uuid.length == 0 || uuid.length > UUID_TEXT)
		return false;
	for (size_t i = 0; i < uuid.length; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? uuid.at[i] != '-' : !is_hex(uuid.at[i]))
			return false;
	}
	return true;
}

/* Has it the form GPU-... or MIG-... ? */
static bool uuid_begins(struct span gpu)
{
	char word[4] = "";

	for (size_t i = 0; i < sizeof(word) && i < gpu.length; i++)
		word[i] = lower(gpu.at[i]);
	return memcmp(word, "gpu-", 4) == 0 || memcmp(word, "mig-", 4) == 0;
}

static bool parse_gpu(struct parser *p, struct span gpu, struct limit_item *item)
{
	struct span rest = gpu;

	if (gpu.length > 0 && cut_digits(&rest).length == gpu.length)
		return parse_index(p, gpu, item);
	if (!uuid_begins(gpu))
		return refuse(p, gpu, "not a GPU: give its index, or its UUID, GPU-...");
	rest = gpu;
	skip(&rest, 4);
	if (!uuid_fits(rest))
		return refuse(p, gpu, "not a UUID, nor the beginning of one");
	item->by = LIMIT_UUID;
	for (size_t i = 0; i < rest.length; i++)
		item->uuid[i] = lower(rest.at[i]);
	return true;
}

static bool same_gpu(const struct limit_item *a, const struct limit_item *b)
{
	return a->by == b->by && a->index == b->index && strcmp(a->uuid, b->uuid) == 0;
}

static bool parse_item(struct parser *p, struct span text, struct limit *limit)
{
	struct limit_item item = { 0 };
	struct span rest = text, gpu = cut_before(&rest, '=');

	if (text.length == 0)
		return refuse(p, text, "an item of the list is empty");
	if (rest.length == 0)
		return refuse(p, text, "in a list each item is GPU=LIMIT");
	skip(&rest, 1);
	if (!parse_gpu(p, gpu, &item) || !parse_amount(p, rest, &item.amount))
		return false;
	for (unsigned i = 0; i < limit->count; i++)
		if (same_gpu(&limit->items[i], &item))
			return refuse(p, gpu, "this GPU is named twice");
	if (limit->count == sizeof(limit->items) / sizeof(limit->items[0]))
		return refuse(p, text, "more items than GPUs can be named");
	limit->items[limit->count++] = item;
	return true;
}

bool limit_parse(struct limit *limit, const char *text, char *why, size_t why_bytes)
{
	struct span rest = trimmed(text);
	struct parser p = { .whole = rest, .why = { why, 0, why_bytes } };

	*limit = (struct limit){ .all = { .unit = LIMIT_NONE } };
	say(&p.why, "");
	if (rest.length == 0)
		return refuse(&p, rest, "a limit is empty; say none for no limit");
	if (!memchr(rest.at, '=', rest.length) && !memchr(rest.at, ',', rest.length))
		return parse_amount(&p, rest, &limit->all);
	for (;;) {
		if (!parse_item(&p, cut_before(&rest, ','), limit))
			return false;
		if (rest.length == 0)
			return true;
		skip(&rest, 1);
	}
}

/* ---- resolve ---- */

/* Does the device's UUID begin with prefix? */
static bool uuid_matches(const uint8_t uuid[16], const char *prefix)
{
	static const char hex[] = "0123456789abcdef";
	char text[UUID_TEXT + 1];
	char *to = text;

	for (unsigned i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*to++ = '-';
		*to++ = hex[uuid[i] >> 4];
		*to++ = hex[uuid[i] & 15];
	}
	*to = 0;
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* How many devices the item names; *device is the last of them. */
static unsigned find_devices(const struct limit_item *item, const struct limit_device *devices,
	unsigned count, unsigned *device)
{
	unsigned found = 0;

	for (unsigned i = 0; i < count; i++) {
		bool named = item->by == LIMIT_INDEX ? item->index == i :
			uuid_matches(devices[i].uuid, item->uuid);

		if (named) {
			*device = i;
			found++;
		}
	}
	return found;
}

static void say_gpu(struct sentence *s, const struct limit_item *item)
{
	say(s, item->by == LIMIT_UUID ? "GPU-" : "GPU ");
	if (item->by == LIMIT_UUID)
		say(s, item->uuid);
	else
		say_number(s, item->index);
}

/* An amount in bytes of this device, rounded down; 0 is an error of the caller's to tell. */
static uint64_t amount_bytes(const struct limit_amount *amount, uint64_t total)
{
	unsigned __int128 hundred = 100;

	if (amount->unit == LIMIT_NONE)
		return BYTES_NONE;
	if (amount->unit == LIMIT_BYTES)
		return amount->bytes;
	for (unsigned i = 0; i < amount->percent_decimals; i++)
		hundred *= 10;
	return (uint64_t)((unsigned __int128)total * amount->percent_digits / hundred);
}

static bool resolve_item(const struct limit_item *item, const struct limit_device *devices,
	unsigned count, uint64_t *bytes, uint64_t *named, struct sentence *why)
{
	unsigned device = 0, found = find_devices(item, devices, count, &device);
	const char *problem = NULL;

	if (found == 0 && item->by == LIMIT_UUID)
		return true;
	if (found == 0)
		problem = " is not visible";
	else if (found > 1)
		problem = " is the beginning of more than one UUID";
	else if (*named & 1ull << device)
		problem = " is named twice, by index and by UUID or by two beginnings of its UUID";
	else if ((bytes[device] = amount_bytes(&item->amount, devices[device].total_bytes)) == 0)
		problem = " would have a limit of 0 bytes";
	*named |= 1ull << device;
	if (!problem)
		return true;
	say_gpu(why, item);
	say(why, problem);
	return false;
}

bool limit_resolve(const struct limit *limit, const struct limit_device *devices, unsigned count,
	uint64_t bytes[SLOT_DEVICES], char *why, size_t why_bytes)
{
	struct sentence sentence = { why, 0, why_bytes };
	uint64_t named = 0;

	say(&sentence, "");
	if (count > SLOT_DEVICES)
		count = SLOT_DEVICES;
	for (unsigned i = 0; i < SLOT_DEVICES; i++)
		bytes[i] = i >= count ? BYTES_NONE :
			amount_bytes(&limit->all, devices[i].total_bytes);
	for (unsigned i = 0; i < count; i++)
		if (bytes[i] == 0) {
			say(&sentence, "GPU ");
			say_number(&sentence, i);
			say(&sentence, " would have a limit of 0 bytes");
			return false;
		}
	for (unsigned i = 0; i < limit->count; i++)
		if (!resolve_item(&limit->items[i], devices, count, bytes, &named, &sentence))
			return false;
	return true;
}

unsigned limit_unused(const struct limit *limit, const struct limit_device *devices,
	unsigned count, char *text, size_t text_bytes)
{
	struct sentence list = { text, 0, text_bytes };
	unsigned unused = 0, device;

	say(&list, "");
	for (unsigned i = 0; i < limit->count; i++) {
		const struct limit_item *item = &limit->items[i];

		if (item->by == LIMIT_INDEX || find_devices(item, devices, count, &device) > 0)
			continue;
		say(&list, unused++ ? "," : "");
		say_gpu(&list, item);
	}
	return unused;
}

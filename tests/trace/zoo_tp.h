/*
 * zoo_tp.h - a provider of somebody else, with a field of every kind that LTTng-UST has.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER zoo

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./zoo_tp.h"

#if !defined(ZOO_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define ZOO_TP_H

#include <lttng/tracepoint.h>
#include <stdbool.h>

LTTNG_UST_TRACEPOINT_ENUM(zoo, mood, LTTNG_UST_TP_ENUM_VALUES(
	lttng_ust_field_enum_value("calm", 0)
	lttng_ust_field_enum_value("angry", 2)
	lttng_ust_field_enum_range("beyond words", 10, 20)))

LTTNG_UST_TRACEPOINT_EVENT(zoo, animal,
	LTTNG_UST_TP_ARGS(int, n, const char *, name, const int16_t *, list, size_t, length),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int8_t, i8, n)
		lttng_ust_field_integer(uint64_t, u64, (uint64_t)n << 40)
		lttng_ust_field_integer(int64_t, i64, -(int64_t)n << 33)
		lttng_ust_field_integer_hex(uint16_t, hex, n * 257)
		lttng_ust_field_integer_hex(int32_t, negative_hex, -n)
		lttng_ust_field_integer_network(uint32_t, network, n)
		lttng_ust_field_integer_network_hex(uint16_t, network_hex, n)
		lttng_ust_field_float(float, f, (float)n / 3)
		lttng_ust_field_float(double, d, (double)n / 7)
		lttng_ust_field_string(name, name)
		lttng_ust_field_array(int16_t, array, list, 3)
		lttng_ust_field_array_hex(int16_t, array_hex, list, 2)
		lttng_ust_field_array_network(int16_t, array_network, list, 2)
		lttng_ust_field_array_text(char, array_text, name, 4)
		lttng_ust_field_sequence(int16_t, sequence, list, size_t, length)
		lttng_ust_field_sequence_hex(int16_t, sequence_hex, list, uint8_t, length)
		lttng_ust_field_sequence_text(char, sequence_text, name, size_t, 4)
		lttng_ust_field_enum(zoo, mood, uint8_t, mood, n)))

LTTNG_UST_TRACEPOINT_ENUM(zoo, temper, LTTNG_UST_TP_ENUM_VALUES(
	lttng_ust_field_enum_value("cold", -100)
	lttng_ust_field_enum_range("cool", -5, -1)
	lttng_ust_field_enum_value("warm", 7)
	lttng_ust_field_enum_auto("hot")
	lttng_ust_field_enum_auto("very, \"hot\"")))

/* Every size and sign, both byte orders, what is empty (no text: babeltrace2 2.0.4 prints the one before), never written. */
LTTNG_UST_TRACEPOINT_EVENT(zoo, sizes,
	LTTNG_UST_TP_ARGS(int64_t, n, const char *, name, const uint64_t *, list, size_t, length),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint8_t, u8, n)
		lttng_ust_field_integer(int16_t, i16, n * 31)
		lttng_ust_field_integer(uint16_t, u16, n * 257)
		lttng_ust_field_integer(int32_t, i32, n * 65539)
		lttng_ust_field_integer(uint32_t, u32, n * 65539)
		lttng_ust_field_integer(char, letter, 'a' + n % 26)
		lttng_ust_field_integer(bool, truth, n & 1)
		lttng_ust_field_integer(int64_t, least, INT64_MIN + n)
		lttng_ust_field_integer(uint64_t, most, UINT64_MAX - (uint64_t)n)
		lttng_ust_field_integer_hex(int8_t, hex8, n)
		lttng_ust_field_integer_hex(uint64_t, hex64, (uint64_t)n << 56 | 5)
		lttng_ust_field_integer_network(int16_t, network16, n)
		lttng_ust_field_integer_network(uint64_t, network64, (uint64_t)n << 33)
		lttng_ust_field_integer_network_hex(int32_t, network_hex32, n)
		lttng_ust_field_integer_nowrite(int, unseen, n)
		lttng_ust_field_float(float, tiny, (float)n * 1e-40f)
		lttng_ust_field_float(double, huge, (double)n * 1e300)
		lttng_ust_field_float(double, odd, n % 3 ? (n % 3 == 1 ? 1 : -1) / (double)(n % 3 - (n % 3)) : -0.0)
		lttng_ust_field_string(last_name, name)
		lttng_ust_field_array(uint64_t, array64, list, 2)
		lttng_ust_field_array_network_hex(uint64_t, array_network_hex, list, 2)
		lttng_ust_field_sequence(uint64_t, sequence64, list, uint16_t, length)
		lttng_ust_field_sequence_network(uint64_t, sequence_network, list, uint32_t, length)
		lttng_ust_field_sequence_network_hex(uint64_t, sequence_network_hex, list, uint64_t, length)
		lttng_ust_field_sequence_text(char, sequence_text, name, uint8_t, 1 + length)
		lttng_ust_field_enum(zoo, temper, int16_t, temper, n % 12 - 4)))

LTTNG_UST_TRACEPOINT_EVENT(zoo, nothing, LTTNG_UST_TP_ARGS(int, n), LTTNG_UST_TP_FIELDS(
	lttng_ust_field_integer(int, n, n)))

#endif

#include <lttng/tracepoint-event.h>

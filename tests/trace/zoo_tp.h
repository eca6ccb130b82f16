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

LTTNG_UST_TRACEPOINT_EVENT(zoo, nothing, LTTNG_UST_TP_ARGS(int, n), LTTNG_UST_TP_FIELDS(
	lttng_ust_field_integer(int, n, n)))

#endif

#include <lttng/tracepoint-event.h>

/*
 * view_jansson.h - values into JSON objects.
 */
#ifndef VIEW_JANSSON_H
#define VIEW_JANSSON_H

#include <jansson.h>
#include <stdlib.h>

#include "format.h"
#include "model.h"

/* JSON here has no number above INT64_MAX; a larger one stops there. */
static inline void set_number(json_t *object, const char *key, uint64_t value)
{
	json_int_t number = value > INT64_MAX ? INT64_MAX : (json_int_t)value;

	json_object_set_new(object, key, json_integer(number));
}

/* Names come out of other programs: what is no UTF-8 is shown as \xHH. */
static inline void set_text(json_t *object, const char *key, const char *text)
{
	json_t *value = json_string(text);

	if (!value) {
		char *safe = safe_text(text, 0);

		value = json_string(safe);
		free(safe);
	}
	json_object_set_new(object, key, value ? value : json_null());
}

static inline void set_null(json_t *object, const char *key)
{
	json_object_set_new(object, key, json_null());
}

/* The `trace` of every document, in view_json.c. */
json_t *view_trace_json(const struct model *model, const struct trace_facts *facts);

/* The tables of `cuward stats`, in view_stats_json.c. */
void view_stats_tables(json_t *document, const struct model *model);

/* null where it is not known. */
static inline void set_known(json_t *object, const char *key, bool known, uint64_t value)
{
	if (known)
		set_number(object, key, value);
	else
		set_null(object, key);
}

#endif

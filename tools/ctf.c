/*
 * ctf.c - LTTng traces through libbabeltrace2; the only file that includes its headers.
 *
 * A sink of our own has one port for each stream of the trace, and merges them by time itself: so a
 * stream that breaks off takes no other with it, and what was read of it counts. Each trace has a
 * graph of its own, since one that does not open makes its graph useless.
 */
#include "ctf.h"

#include <babeltrace2/babeltrace.h>
#include <inttypes.h>

#include "format.h"
#include "map.h"
#include "need.h"

/* What an event class of a trace is to us. */
struct ctf_class {
	bool ours;
	enum cuward_event type;
	int member[EVENT_FIELDS_MAX]; /* of the payload, for each field of the schema; -1 missing */
};

struct ctf_port {
	struct ctf *ctf;
	size_t number;
	const bt_port_output *output;
	bt_message_iterator *iterator; /* NULL: ended */
	bt_message_array_const messages;
	uint64_t count, at;
	const bt_event *event; /* of messages[at], the next one of this stream */
	const bt_event_class *class;
	uint32_t class_index;
	uint64_t time_ns, last_ns; /* of the event, and of the one before */
	char cause[256]; /* why it will break off, empty if it will not */
	bool handed_out; /* that event; it must stay until the next one is asked for */
	char *host;
};

struct ctf {
	struct event_source source;
	bt_graph *graph;
	struct ctf_port **ports;
	size_t port_count, port_capacity;
	struct ctf_port **heap; /* ports with an event, earliest first */
	size_t heap_count;
	struct ctf_class *classes;
	size_t class_count, class_capacity;
	struct map class_of;
	char *name; /* of the trace, for messages */
	struct event *wanted; /* where the next event goes; NULL once it is there */
};

/* ---- complaints ---- */

/* The innermost cause says what is wrong; the others say who told whom. False: nothing is. */
static bool take_cause(char *cause, size_t bytes)
{
	const bt_error *error = bt_current_thread_take_error();

	if (!error)
		return false;
	snprintf(cause, bytes, "%s", bt_error_get_cause_count(error)
		? bt_error_cause_get_message(bt_error_borrow_cause_by_index(error, 0)) : "unknown error");
	bt_error_release(error);
	return true;
}

static void complain(struct ctf *ctf, const char *cause, uint64_t last_ns)
{
	event_source_say(&ctf->source, "%s: a stream breaks off after %s: %s", ctf->name,
		last_ns ? format_moment(last_ns) : "its beginning", cause);
	ctf->source.facts.damaged = true;
}

/* Errors that the library left lying about abort the program at its next call. */
static void settle(struct ctf *ctf)
{
	char cause[256];

	if (take_cause(cause, sizeof(cause)))
		complain(ctf, cause, 0);
}

/* ---- event classes ---- */

static int member_of(const bt_field_class *payload, const char *name)
{
	uint64_t count = payload ? bt_field_class_structure_get_member_count(payload) : 0;

	for (uint64_t i = 0; i < count; i++) {
		const bt_field_class_structure_member *member =
			bt_field_class_structure_borrow_member_by_index_const(payload, i);

		if (strcmp(bt_field_class_structure_member_get_name(member), name) == 0)
			return (int)i;
	}
	return -1;
}

static struct ctf_class describe(const bt_event_class *class)
{
	const char *name = bt_event_class_get_name(class);
	const bt_field_class *payload = bt_event_class_borrow_payload_field_class_const(class);
	struct ctf_class ours = { 0 };
	const struct event_schema *schema;

	if (!name || strncmp(name, "cuward:", 7) != 0)
		return ours;
	schema = event_schema_named(name + 7, &ours.type);
	ours.ours = schema != NULL;
	for (unsigned i = 0; schema && i < schema->count; i++)
		ours.member[i] = member_of(payload, schema->fields[i].name);
	return ours;
}

static const struct ctf_class *class_of(struct ctf_port *port, const bt_event *event)
{
	struct ctf *ctf = port->ctf;
	const bt_event_class *class = bt_event_borrow_class_const(event);

	if (class == port->class)
		return &ctf->classes[port->class_index];
	port->class = class;
	port->class_index = map_get(&ctf->class_of, (uintptr_t)class);
	if (port->class_index == MAP_NONE) {
		port->class_index = (uint32_t)ctf->class_count;
		ctf->classes = need_room(ctf->classes, ctf->class_count, &ctf->class_capacity,
			sizeof(*ctf->classes));
		ctf->classes[ctf->class_count++] = describe(class);
		map_set(&ctf->class_of, (uintptr_t)class, port->class_index);
	}
	return &ctf->classes[port->class_index];
}

/* ---- one event ---- */

static void decode_field(struct event *event, const struct event_field *field,
	const bt_field *value)
{
	bt_field_class_type type = bt_field_get_class_type(value);

	if (field->type == FIELD_str && type == BT_FIELD_CLASS_TYPE_STRING)
		event_set_string(event, field, bt_field_string_get_value(value));
	else if (field->type == FIELD_str)
		return;
	else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER))
		event_set_number(event, field, bt_field_integer_unsigned_get_value(value));
	else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER))
		event_set_number(event, field, (uint64_t)bt_field_integer_signed_get_value(value));
}

static void decode(struct ctf_port *port, const struct ctf_class *class, struct event *event)
{
	const struct event_schema *schema = event_schema(class->type);
	const bt_field *payload = bt_event_borrow_payload_field_const(port->event);

	*event = (struct event){ .type = class->type,
		.time_ns = port->time_ns, .host = port->host };
	for (unsigned i = 0; i < schema->count; i++) {
		if (schema->fields[i].type == FIELD_str)
			event_set_string(event, &schema->fields[i], "");
		if (class->member[i] >= 0 && payload)
			decode_field(event, &schema->fields[i],
				bt_field_structure_borrow_member_field_by_index_const(payload,
					(uint64_t)class->member[i]));
	}
}

/* ---- one stream ---- */

static void drop_messages(struct ctf_port *port)
{
	for (uint64_t i = port->at; i < port->count; i++)
		bt_message_put_ref(port->messages[i]);
	port->at = port->count = 0;
}

static void end_port(struct ctf_port *port)
{
	drop_messages(port);
	port->event = NULL;
	if (port->iterator)
		bt_message_iterator_put_ref(port->iterator);
	port->iterator = NULL;
}

/*
 * More messages of a stream. The reader may hand out the last good messages, or say that this is
 * the end, and leave its error lying about; unless it is taken, the next call aborts the program.
 */
static bool fetch_messages(struct ctf_port *port)
{
	bt_message_iterator_next_status status;

	do
		status = bt_message_iterator_next(port->iterator, &port->messages, &port->count);
	while (status == BT_MESSAGE_ITERATOR_NEXT_STATUS_AGAIN);
	port->at = 0;
	if (!take_cause(port->cause, sizeof(port->cause)) && status < 0 && !*port->cause)
		strcpy(port->cause, "unknown error");
	if (status == BT_MESSAGE_ITERATOR_NEXT_STATUS_OK)
		return true;
	if (*port->cause)
		complain(port->ctf, port->cause, port->last_ns);
	port->count = 0;
	end_port(port);
	return false;
}

static void count_discarded(struct ctf_port *port, const bt_message *message)
{
	struct trace_facts *facts = &port->ctf->source.facts;
	uint64_t count;

	if (bt_message_get_type(message) == BT_MESSAGE_TYPE_DISCARDED_PACKETS) {
		if (bt_message_discarded_packets_get_count(message, &count) !=
			BT_PROPERTY_AVAILABILITY_AVAILABLE)
			count = 1;
		facts->lost_packets += count;
	} else if (bt_message_discarded_events_get_count(message, &count) ==
		BT_PROPERTY_AVAILABILITY_AVAILABLE) {
		facts->discarded += count;
	} else {
		facts->discarded_unknown = true;
	}
}

static void learn_host(struct ctf_port *port, const bt_message *message)
{
	const bt_trace *trace =
		bt_stream_borrow_trace_const(bt_message_stream_beginning_borrow_stream_const(message));
	const bt_value *name =
		bt_trace_borrow_environment_entry_value_by_name_const(trace, "hostname");

	if (name && bt_value_is_string(name) && !port->host)
		port->host = need_copy(bt_value_string_get(name));
}

static bool take_event(struct ctf_port *port, const bt_message *message)
{
	const bt_clock_snapshot *clock;
	int64_t ns = 0;

	port->event = bt_message_event_borrow_event_const(message);
	if (!class_of(port, port->event)->ours) {
		port->ctf->source.facts.foreign++;
		return false;
	}
	clock = bt_message_event_borrow_default_clock_snapshot_const(message);
	if (bt_clock_snapshot_get_ns_from_origin(clock, &ns) != 0 || ns < 0)
		ns = 0;
	port->time_ns = (uint64_t)ns;
	return true;
}

/* Step to the next event of ours; false: there is none. The old one's message goes. */
static bool advance(struct ctf_port *port)
{
	if (port->event)
		bt_message_put_ref(port->messages[port->at++]);
	port->event = NULL;
	while (port->iterator) {
		const bt_message *message;
		bt_message_type type;

		if (port->at == port->count && !fetch_messages(port))
			return false;
		if (port->at == port->count)
			continue;
		message = port->messages[port->at];
		type = bt_message_get_type(message);
		if (type == BT_MESSAGE_TYPE_EVENT && take_event(port, message))
			return true;
		port->event = NULL;
		if (type == BT_MESSAGE_TYPE_STREAM_BEGINNING)
			learn_host(port, message);
		if (type == BT_MESSAGE_TYPE_DISCARDED_EVENTS || type == BT_MESSAGE_TYPE_DISCARDED_PACKETS)
			count_discarded(port, message);
		bt_message_put_ref(message);
		port->at++;
	}
	return false;
}

/* ---- all streams, by time ---- */

static bool earlier(const struct ctf_port *a, const struct ctf_port *b)
{
	return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->number < b->number);
}

static void sift_down(struct ctf *ctf, size_t at)
{
	for (;;) {
		size_t child = 2 * at + 1;
		struct ctf_port *port = ctf->heap[at];

		if (child >= ctf->heap_count)
			return;
		if (child + 1 < ctf->heap_count && earlier(ctf->heap[child + 1], ctf->heap[child]))
			child++;
		if (!earlier(ctf->heap[child], port))
			return;
		ctf->heap[at] = ctf->heap[child];
		ctf->heap[child] = port;
		at = child;
	}
}

static bt_component_class_sink_consume_method_status consume(bt_self_component_sink *self)
{
	struct ctf *ctf = bt_self_component_get_data(bt_self_component_sink_as_self_component(self));
	struct ctf_port *port;

	if (ctf->heap_count && ctf->heap[0]->handed_out) {
		port = ctf->heap[0];
		port->handed_out = false;
		port->last_ns = port->time_ns;
		if (!advance(port))
			ctf->heap[0] = ctf->heap[--ctf->heap_count];
		sift_down(ctf, 0);
	}
	settle(ctf);
	if (!ctf->heap_count)
		return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_END;
	port = ctf->heap[0];
	decode(port, class_of(port, port->event), ctf->wanted);
	port->handed_out = true;
	ctf->wanted = NULL;
	return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_OK;
}

/* ---- the graph ---- */

static bt_component_class_initialize_method_status initialize(bt_self_component_sink *self,
	bt_self_component_sink_configuration *configuration, const bt_value *params, void *data)
{
	struct ctf *ctf = data;

	(void)configuration;
	(void)params;
	bt_self_component_set_data(bt_self_component_sink_as_self_component(self), ctf);
	for (size_t i = 0; i < ctf->port_count; i++) {
		char name[32];

		snprintf(name, sizeof(name), "in%zu", i);
		if (bt_self_component_sink_add_input_port(self, name, ctf->ports[i], NULL) != 0)
			return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
	}
	return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

static bt_component_class_sink_graph_is_configured_method_status configured(
	bt_self_component_sink *self)
{
	struct ctf *ctf = bt_self_component_get_data(bt_self_component_sink_as_self_component(self));

	for (size_t i = 0; i < ctf->port_count; i++) {
		struct ctf_port *port = ctf->ports[i];

		if (bt_message_iterator_create_from_sink_component(self,
			bt_self_component_sink_borrow_input_port_by_index(self, i), &port->iterator) != 0) {
			take_cause(port->cause, sizeof(port->cause));
			complain(ctf, port->cause, 0);
		} else if (advance(port))
			ctf->heap[ctf->heap_count++] = port;
	}
	for (size_t i = ctf->heap_count / 2; i-- > 0;)
		sift_down(ctf, i);
	settle(ctf);
	return BT_COMPONENT_CLASS_SINK_GRAPH_IS_CONFIGURED_METHOD_STATUS_OK;
}

static bool add_sink(struct ctf *ctf)
{
	bt_component_class_sink *class = bt_component_class_sink_create("events", consume);
	const bt_component_sink *sink = NULL;
	bool added;

	if (!class)
		return false;
	bt_component_class_sink_set_initialize_method(class, initialize);
	bt_component_class_sink_set_graph_is_configured_method(class, configured);
	added = bt_graph_add_sink_component_with_initialize_method_data(ctf->graph, class, "events",
		NULL, ctf, BT_LOGGING_LEVEL_NONE, &sink) == 0;
	for (size_t i = 0; added && i < ctf->port_count; i++)
		added = bt_graph_connect_ports(ctf->graph, ctf->ports[i]->output,
			bt_component_sink_borrow_input_port_by_index_const(sink, i), NULL) == 0;
	bt_component_class_sink_put_ref(class);
	return added;
}

static void add_port(struct ctf *ctf, const bt_port_output *output)
{
	struct ctf_port *port = need_zeroed(1, sizeof(*port));

	port->ctf = ctf;
	port->number = ctf->port_count;
	port->output = output;
	ctf->ports = need_room(ctf->ports, ctf->port_count, &ctf->port_capacity, sizeof(*ctf->ports));
	ctf->ports[ctf->port_count++] = port;
}

static bool add_trace(struct ctf *ctf, const bt_component_class_source *class, const char *path)
{
	const bt_component_source *trace = NULL;
	bt_value *params = need(bt_value_map_create()), *inputs = NULL;
	bool added = bt_value_map_insert_empty_array_entry(params, "inputs", &inputs) == 0 &&
		bt_value_array_append_string_element(inputs, path) == 0 &&
		bt_graph_add_source_component(ctf->graph, class, "trace", params, BT_LOGGING_LEVEL_NONE,
			&trace) == 0;

	for (uint64_t i = 0; added && i < bt_component_source_get_output_port_count(trace); i++)
		add_port(ctf, bt_component_source_borrow_output_port_by_index_const(trace, i));
	bt_value_put_ref(params);
	return added;
}

static bool ctf_next(struct event_source *source, struct event *event)
{
	struct ctf *ctf = (struct ctf *)source;
	bt_graph_run_once_status status = BT_GRAPH_RUN_ONCE_STATUS_AGAIN;

	ctf->wanted = event;
	while (ctf->wanted && ctf->port_count && (status == BT_GRAPH_RUN_ONCE_STATUS_AGAIN ||
		status == BT_GRAPH_RUN_ONCE_STATUS_OK))
		status = bt_graph_run_once(ctf->graph);
	settle(ctf);
	if (status < 0 && !source->facts.damaged)
		complain(ctf, "unknown error", 0);
	source->facts.events += !ctf->wanted;
	return !ctf->wanted;
}

static void ctf_close(struct event_source *source)
{
	struct ctf *ctf = (struct ctf *)source;

	for (size_t i = 0; i < ctf->port_count; i++)
		end_port(ctf->ports[i]);
	bt_graph_put_ref(ctf->graph);
	for (size_t i = 0; i < ctf->port_count; i++) {
		free(ctf->ports[i]->host);
		free(ctf->ports[i]);
	}
	map_free(&ctf->class_of);
	free(ctf->ports);
	free(ctf->heap);
	free(ctf->classes);
	free(ctf->name);
	free(ctf);
}

static bool build_graph(struct ctf *ctf, const char *path)
{
	const bt_plugin *plugin = NULL;
	const bt_component_class_source *class = NULL;
	bool built;

	if (bt_plugin_find("ctf", BT_FALSE, BT_FALSE, BT_TRUE, BT_TRUE, BT_FALSE, &plugin) == 0)
		class = bt_plugin_borrow_source_component_class_by_name_const(plugin, "fs");
	built = class && add_trace(ctf, class, path) && (!ctf->port_count || add_sink(ctf));
	bt_plugin_put_ref(plugin);
	return built;
}

struct event_source *ctf_open(const char *path, const char *name, const struct trace_log *log,
	char *why, size_t why_bytes)
{
	struct ctf *ctf = need_zeroed(1, sizeof(*ctf));

	ctf->source = (struct event_source){ .next = ctf_next, .close = ctf_close, .log = log };
	ctf->name = need_copy(name);
	ctf->graph = need(bt_graph_create(0));
	if (!build_graph(ctf, path)) {
		take_cause(why, why_bytes);
		ctf_close(&ctf->source);
		return NULL;
	}
	ctf->heap = need_zeroed(ctf->port_count, sizeof(*ctf->heap));
	return &ctf->source;
}

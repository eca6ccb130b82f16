/*
 * python.c - the lines of Python that the calling thread is in, through CPython's public functions.
 *
 * Taking the interpreter's lock may wait for a thread that waits for a lock of the program which our
 * caller holds. So it is only taken for callers of which we know that they gave it up for this very
 * call and take it again straight after (ctypes, cffi): whatever could wait then waits now.
 *
 * A code object is known by its address as long as a weak reference says it lives. Frames are made
 * into objects when asked for since 3.11; no collection may run meanwhile, since a finalizer could
 * call CUDA from within our call.
 */
#include "python.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lock.h"
#include "lookup.h"
#include "share.h"
#include "site.h"

#define CODES 4096u /* powers of two; looked for in a few places, then the first is used anew */
#define LINES 16384u
#define PROBES 4u

/* X(field, type of result, parameters, names it may have, first is tried first) */
#define PYTHON_NEEDED(X) \
	X(is_initialized, int, (void), "Py_IsInitialized", NULL) \
	X(is_finalizing, int, (void), "Py_IsFinalizing", "_Py_IsFinalizing") \
	X(current, void *, (void), "PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet") \
	X(own, void *, (void), "PyGILState_GetThisThreadState", NULL) \
	X(ensure, int, (void), "PyGILState_Ensure", NULL) \
	X(release, void, (int), "PyGILState_Release", NULL) \
	X(version, const char *, (void), "Py_GetVersion", NULL) \
	X(frame, void *, (void), "PyEval_GetFrame", NULL) \
	X(line, int, (void *), "PyFrame_GetLineNumber", NULL) \
	X(attribute, void *, (void *, const char *), "PyObject_GetAttrString", NULL) \
	X(utf8, const char *, (void *, long *), "PyUnicode_AsUTF8AndSize", NULL) \
	X(keep, void, (void *), "Py_IncRef", NULL) \
	X(drop, void, (void *), "Py_DecRef", NULL) \
	X(fetch, void, (void **, void **, void **), "PyErr_Fetch", NULL) \
	X(restore, void, (void *, void *, void *), "PyErr_Restore", NULL) \
	X(clear, void, (void), "PyErr_Clear", NULL) \
	X(weak, void *, (void *, void *), "PyWeakref_NewRef", NULL) \
	X(strong, void *, (void *), "PyWeakref_GetObject", NULL) \
	X(at_exit, int, (void (*)(void)), "Py_AtExit", NULL)

/* What older versions lack. */
#define PYTHON_WANTED(X) \
	X(code, void *, (void *), "PyFrame_GetCode", NULL) \
	X(back, void *, (void *), "PyFrame_GetBack", NULL) \
	X(gc_disable, int, (void), "PyGC_Disable", NULL) \
	X(gc_enable, int, (void), "PyGC_Enable", NULL)

static struct {
#define X(field, type, params, name, older) type(*field) params;
	PYTHON_NEEDED(X)
	PYTHON_WANTED(X)
#undef X
} py;

struct code {
	void *object; /* NULL: empty */
	void *weak;
	uint32_t serial; /* no two code objects ever have the same */
};

struct line {
	uint64_t key; /* serial and line, 0: empty */
	uint32_t site;
};

/* Zero in a forked child. */
static struct {
	uint32_t busy; /* lock of the tables; nobody waits for it */
	uint32_t serial;
	bool failed;   /* not an interpreter that we know */
	bool found;
	bool at_exit;
	struct code *codes;
	struct line *lines;
} WHOLE_PAGES python;

void python_prepare(void)
{
	share_wipe_on_fork(&python, sizeof(python));
}

/* ---- the interpreter ---- */

static void *look_for(const struct lookup_module *module, const char *name, const char *older)
{
	void *found = lookup_in(module, name);

	return found || !older ? found : lookup_in(module, older);
}

static bool version_is_known(void)
{
	const char *text = py.version();
	int major = atoi(text), minor = strchr(text, '.') ? atoi(strchr(text, '.') + 1) : 0;

	/* From 3.11 on frames are made when asked for, and then collections must be held off. */
	return major == 3 && minor >= 8 && minor <= 14 &&
		(minor < 11 || (py.code && py.back && py.gc_disable && py.gc_enable));
}

static bool find(void)
{
	struct lookup_module module;
	bool complete = true;

	if (!lookup_module_with("PyEval_GetFrame", &module))
		return false;
#define X(field, type, params, name, older) \
	py.field = (type(*) params)look_for(&module, name, older); \
	complete = complete && py.field;
	PYTHON_NEEDED(X)
#undef X
#define X(field, type, params, name, older) \
	py.field = (type(*) params)look_for(&module, name, older);
	PYTHON_WANTED(X)
#undef X
	/* Without the one lock that it once had, objects change under our hands. */
	python.failed = !complete || lookup_in(&module, "PyUnstable_Module_SetGIL") ||
		!version_is_known();
	python.codes = share_private(CODES * sizeof(*python.codes));
	python.lines = share_private(LINES * sizeof(*python.lines));
	python.failed = python.failed || !python.codes || !python.lines;
	return !python.failed;
}

/* Weak references die with the interpreter, and another may be started in its place. */
static void forget_codes(void)
{
	if (python.codes)
		memset(python.codes, 0, CODES * sizeof(*python.codes));
	python.at_exit = false;
}

/* ---- one frame ---- */

static uint32_t mix(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15ull >> 40;
}

static uint32_t serial_of(void *object)
{
	uint32_t home = mix((uint64_t)object >> 4);
	struct code *code = NULL;

	for (uint32_t i = 0; i < PROBES; i++) {
		struct code *at = &python.codes[(home + i) % CODES];

		if (at->object == object && py.strong(at->weak) == object)
			return at->serial;
		if (!code && (!at->object || at->object == object))
			code = at;
	}
	if (!code)
		code = &python.codes[home % CODES];
	if (code->object)
		py.drop(code->weak);
	code->weak = py.weak(object, NULL);
	code->object = code->weak ? object : NULL;
	if (!code->weak)
		py.clear();
	return code->serial = ++python.serial;
}

static const char *text_of(void *code, const char *name, void **owner)
{
	const char *text = NULL;

	*owner = py.attribute(code, name);
	if (*owner)
		text = py.utf8(*owner, NULL);
	if (!text)
		py.clear();
	return text;
}

static uint32_t describe(void *code, unsigned line)
{
	void *owners[3] = { NULL, NULL, NULL };
	const char *file = text_of(code, "co_filename", &owners[0]);
	const char *function = text_of(code, "co_qualname", &owners[1]);
	uint32_t site;

	if (!function)
		function = text_of(code, "co_name", &owners[2]);
	site = site_add_python(file ? file : "?", function ? function : "?", line);
	for (int i = 0; i < 3; i++)
		if (owners[i])
			py.drop(owners[i]);
	return site;
}

static uint32_t line_site(void *code, unsigned line)
{
	uint64_t key = (uint64_t)serial_of(code) << 32 | line;
	uint32_t home = mix(key);
	struct line *place = NULL;

	for (uint32_t i = 0; i < PROBES; i++) {
		struct line *at = &python.lines[(home + i) % LINES];

		if (at->key == key)
			return at->site;
		if (!place && !at->key)
			place = at;
	}
	if (!place)
		place = &python.lines[home % LINES];
	place->site = describe(code, line);
	place->key = key;
	return place->site;
}

/* ---- all frames ---- */

static void *code_of(void *frame)
{
	void *code = py.code ? py.code(frame) : py.attribute(frame, "f_code");

	if (!code)
		py.clear();
	return code;
}

/* Before 3.9 the last frame's f_back is None, whose own attribute f_back there is not. */
static void *back_of(void *frame)
{
	void *back = py.back ? py.back(frame) : py.attribute(frame, "f_back");

	if (!back)
		py.clear();
	return back;
}

static unsigned walk(uint32_t lines[STACK_FRAMES])
{
	void *frame = py.frame();
	unsigned count = 0;

	if (frame)
		py.keep(frame);
	while (frame && count < STACK_FRAMES) {
		void *code = code_of(frame), *back;
		int line;

		if (!code)
			break;
		line = py.line(frame);
		lines[count] = line_site(code, line > 0 ? line : 0);
		count += lines[count] != 0;
		py.drop(code);
		back = back_of(frame);
		py.drop(frame);
		frame = back;
	}
	if (frame)
		py.drop(frame);
	return count;
}

static unsigned walk_locked(uint32_t lines[STACK_FRAMES])
{
	void *type, *value, *traceback;
	int collecting = 0;
	unsigned count;

	if (!python.at_exit)
		python.at_exit = py.at_exit(forget_codes) == 0;
	py.fetch(&type, &value, &traceback);
	if (py.gc_disable)
		collecting = py.gc_disable();
	count = walk(lines);
	if (collecting)
		py.gc_enable();
	py.restore(type, value, traceback);
	return count;
}

/* Only where interpreters with locks of their own run side by side can this be busy. */
static unsigned walk_alone(uint32_t lines[STACK_FRAMES])
{
	unsigned count;

	if (!lock_try(&python.busy))
		return 0;
	count = walk_locked(lines);
	lock_give_back(&python.busy);
	return count;
}

static unsigned walk_as_owner(uint32_t lines[STACK_FRAMES], bool may_take)
{
	void *own;
	int state;
	unsigned count;

	if (!py.is_initialized() || py.is_finalizing())
		return 0;
	own = py.own();
	if (!own)
		return 0;
	if (py.current() == own)
		return walk_alone(lines);
	if (!may_take)
		return 0;
	state = py.ensure();
	count = walk_alone(lines);
	py.release(state);
	return count;
}

bool python_look(void)
{
	bool found = false;

	if (python.found || python.failed || !lock_try(&python.busy))
		return false;
	if (!python.found && !python.failed && find())
		__atomic_store_n(&python.found, found = true, __ATOMIC_RELEASE);
	lock_give_back(&python.busy);
	return found;
}

unsigned python_walk(uint32_t lines[STACK_FRAMES], bool may_take)
{
	unsigned count;
	int saved = errno;

	if (!__atomic_load_n(&python.found, __ATOMIC_ACQUIRE))
		return 0;
	count = walk_as_owner(lines, may_take);
	errno = saved;
	return count;
}

void python_forget(void)
{
	memset(&python, 0, sizeof(python));
}

#!/usr/bin/env bats
# Lines of Python from every version: real ones where they are installed, and an interpreter that
# exports what 3.8 or 3.14 exports and nothing else (as seen in both).

load leaks

setup() {
	leaks_setup
	export LD_LIBRARY_PATH=$B/sim
}

teardown() { leaks_teardown; }

# an_interpreter FLAG...: three frames deep in Python it allocates, holding Python's lock.
an_interpreter() {
	cat >python.c <<-'END'
		#include <stdlib.h>
		#include <string.h>
		int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
		int cuMemAlloc_v2(unsigned long *, unsigned long), cuMemFree_v2(unsigned long);

		struct object { long refs; const char *text; struct object *code, *back, *file, *name, *to; int line; };
		static struct object none = { 1 };
		static struct object file = { 1, "train.py" }, names[] = { { 1, "allocate" }, { 1, "step" }, { 1, "<module>" } };
		static struct object codes[] = { { 1, .file = &file, .name = &names[0] },
			{ 1, .file = &file, .name = &names[1] }, { 1, .file = &file, .name = &names[2] } };
		static struct object frames[] = { { 1, .code = &codes[0], .back = &frames[1], .line = 7 },
			{ 1, .code = &codes[1], .back = &frames[2], .line = 11 }, { 1, .code = &codes[2], .line = 16 } };
		static struct object weak[16];
		static int weaks, error, disabled, collecting = 1, locked = 1;

		static struct object *new(struct object *o) { if (o) o->refs++; return o; }
		static struct object *raise(void) { error = 1; return NULL; }
		#define CHECK(what) do { if (!(what)) abort(); } while (0)

		const char *Py_GetVersion(void) { return VERSION; }
		int Py_IsInitialized(void) { return 1; }
		void *PyGILState_GetThisThreadState(void) { return &none; }
		int PyGILState_Ensure(void) { locked++; return 0; }
		void PyGILState_Release(int state) { (void)state; locked--; }
		void *PyEval_GetFrame(void) { return &frames[0]; }
		int PyFrame_GetLineNumber(struct object *o) { return o->line; }
		const char *PyUnicode_AsUTF8AndSize(struct object *o, long *size) { CHECK(o->text && !size); return o->text; }
		void Py_IncRef(struct object *o) { o->refs++; }
		void Py_DecRef(struct object *o) { o->refs--; }
		void PyErr_Fetch(void **a, void **b, void **c) { *a = error ? &none : NULL; *b = *c = NULL; error = 0; }
		void PyErr_Restore(void *a, void *b, void *c) { CHECK(!b && !c); error = a != NULL; }
		void PyErr_Clear(void) { error = 0; }
		void *PyWeakref_NewRef(struct object *o, void *f) { CHECK(!f && weaks < 16); weak[weaks].to = o; return &weak[weaks++]; }
		void *PyWeakref_GetObject(struct object *o) { return o->to; }
		int Py_AtExit(void (*f)(void)) { return f ? 0 : -1; }
		void *PyObject_GetAttrString(struct object *o, const char *name)
		{
			if (o->file && !strcmp(name, "co_filename")) return new(o->file);
			if (o->name && !strcmp(name, MINOR < 11 ? "co_name" : "co_qualname")) return new(o->name);
		#if MINOR == 8
			if (o->code && !strcmp(name, "f_code")) return new(o->code);
			if (o->code && !strcmp(name, "f_back")) return new(o->back ? o->back : &none);
		#endif
			return raise();
		}
		#if MINOR == 8
		int _Py_IsFinalizing(void) { return FINALIZING; }
		void *_PyThreadState_UncheckedGet(void) { return locked ? &none : NULL; }
		#else
		int Py_IsFinalizing(void) { return FINALIZING; }
		void *PyThreadState_GetUnchecked(void) { return locked ? &none : NULL; }
		void *PyFrame_GetCode(struct object *o) { CHECK(disabled); return new(o->code); }
		void *PyFrame_GetBack(struct object *o) { CHECK(disabled); return new(o->back); }
		int PyGC_Disable(void) { disabled++; return collecting; }
		#ifndef LACKING
		int PyGC_Enable(void) { disabled--; return 0; }
		#endif
		#endif

		int main(void)
		{
			unsigned long p;
			void *context;
			CHECK(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context));
			error = 1; /* somebody's exception is under way */
			for (int i = 0; i < 3; i++) CHECK(!cuMemAlloc_v2(&p, 4096));
			CHECK(error && !disabled && locked == 1 && none.refs == 1 && file.refs == 1);
			for (int i = 0; i < 3; i++) CHECK(frames[i].refs == 1 && codes[i].refs == 1 && names[i].refs == 1);
			CHECK(weaks == FOUND * 3);
			return 0;
		}
	END
	cc -g -w -rdynamic -o python python.c "$@" -L"$B/sim" -lcuda
	./python || [ $? -eq 134 ] # alone nobody looks, so it counts no weak references
}

# told FRAMES COMMAND...: what the leak's Python frames are.
told() {
	rm -f r.json
	LD_PRELOAD=$B/libcuward.so CUWARD_STACK=full CUWARD_REPORT=$PWD/r.json "${@:2}"
	said=$(jq -c '.processes[0].leaks | map([.count, (.python | map([(.file | split("/") | last), .line,
		(.function | split(".") | last)]))])' r.json)
	echo "${*:2}: $said"
	[ "$said" = "$1" ]
}

lines='[[3,[["train.py",7,"allocate"],["train.py",11,"step"],["train.py",16,"<module>"]]]]'

@test "what 3.8 exports, and what 3.14 exports, is enough" {
	an_interpreter -DMINOR=8 -DVERSION='"3.8.18 (default)"' -DFINALIZING=0 -DFOUND=1
	told "$lines" ./python
	an_interpreter -DMINOR=14 -DVERSION='"3.14.10 (main)"' -DFINALIZING=0 -DFOUND=1
	told "$lines" ./python
}

@test "no line of Python from an interpreter that ends, that is not whole, or that nobody knows" {
	for version in 8 14; do
		an_interpreter -DMINOR=$version -DVERSION="\"3.$version.1\"" -DFINALIZING=1 -DFOUND=0
		told '[[3,[]]]' ./python
	done
	an_interpreter -DMINOR=14 -DVERSION='"3.14.1"' -DFINALIZING=0 -DFOUND=0 -DLACKING
	told '[[3,[]]]' ./python
	for version in 3.7.16 3.15.0 2.7.18 4.0 '' python; do
		an_interpreter -DMINOR=14 -DVERSION="\"$version\"" -DFINALIZING=0 -DFOUND=0
		told '[[3,[]]]' ./python
	done
}

@test "every version that is here, with and without its lock" {
	cat >train.py <<-'END'
		import ctypes, sys
		driver = ctypes.CDLL("libcuda.so.1") if "hold" not in sys.argv else ctypes.PyDLL("libcuda.so.1")
		def check(result):
		    assert result == 0, result
		def allocate():
		    p = ctypes.c_uint64()
		    check(driver.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4096)))
		class Trainer:
		    def step(self):

		        allocate()
		context = ctypes.c_void_p()
		check(driver.cuInit(0))
		check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
		check(driver.cuCtxSetCurrent(context))
		for i in range(3): Trainer().step()
	END
	for python in python3{,.8,.9,.10,.11,.12,.13,.14} "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3; do
		"$python" -c 'import sys; sys.exit(not (3, 8) <= sys.version_info < (3, 15))' 2>/dev/null || continue
		told "$lines" "$python" train.py
		told "$lines" "$python" train.py hold
	done
	[ -n "$said" ]
}

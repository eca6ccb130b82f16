/* links: */
/*
 * test_sim_lookup.c - the simulated driver's cuGetProcAddress, by the rules measured on a real one.
 *
 * The libraries are found in $B, else in build. Each is opened on its own: their names are the
 * same.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

typedef int get_v1(const char *, void **, int, uint64_t);
typedef int get_v2(const char *, void **, int, uint64_t, int *);

static void *driver;
static get_v1 *v1;
static get_v2 *v2;

static void *untouched = &untouched;

static int open_driver(void **state)
{
	const char *build = getenv("B");
	char path[4096];

	snprintf(path, sizeof(path), "%s/sim/%s/libcuda.so.1", build ? build : "build",
		(const char *)*state);
	driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!driver)
		fprintf(stderr, "%s\n", dlerror());
	assert_non_null(driver);
	v1 = (get_v1 *)dlsym(driver, "cuGetProcAddress");
	v2 = (get_v2 *)dlsym(driver, "cuGetProcAddress_v2");
	return 0;
}

static int close_driver(void **state)
{
	(void)state;
	return dlclose(driver);
}

/* The answer must be this symbol; NULL: none, for the reason in status. */
static void expect(const char *name, int version, uint64_t flags, const char *symbol, int status)
{
	void *found = untouched;
	int seen = -1;

	if (v2) {
		assert_int_equal(v2(name, &found, version, flags, &seen), 0);
		assert_ptr_equal(found, symbol ? dlsym(driver, symbol) : NULL);
		assert_int_equal(seen, status);
	}
	found = untouched;
	assert_int_equal(v1(name, &found, version, flags), symbol ? 0 : 500);
	assert_ptr_equal(found, symbol ? dlsym(driver, symbol) : untouched);
}

static void newest_abi_not_newer(void **state)
{
	(void)state;
	expect("cuMemAlloc", 3019, 0, "cuMemAlloc", 0);
	expect("cuMemAlloc", 3020, 0, "cuMemAlloc_v2", 0);
	expect("cuMemAlloc", 99999, 1, "cuMemAlloc_v2", 0);
	expect("cuMemAlloc", -1, 0, "cuMemAlloc_v2", 0);
	expect("cuMemAlloc", 0, 0, NULL, 2);
	expect("cuMemAllocAsync", 11010, 0, NULL, 2);
	expect("cuCtxCreate", 11040, 0, "cuCtxCreate_v3", 0);
	expect("cuDevicePrimaryCtxRelease", 7000, 0, "cuDevicePrimaryCtxRelease", 0);
	expect("cuDevicePrimaryCtxRelease", 11000, 0, "cuDevicePrimaryCtxRelease_v2", 0);
	expect("cuGetProcAddress", 11030, 0, "cuGetProcAddress", 0);
	expect("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2", 0);
	expect("cuGraphInstantiate", 10000, 0, "cuGraphInstantiate", 0);
	expect("cuGraphInstantiate", 11000, 0, "cuGraphInstantiate_v2", 0);
}

static void twins(void **state)
{
	(void)state;
	expect("cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds", 0);
	expect("cuMemcpyHtoD", 7000, 3, "cuMemcpyHtoD_v2_ptds", 0);
	expect("cuMemcpyHtoD", 7000, 1, "cuMemcpyHtoD_v2", 0);
	expect("cuMemcpyHtoD", 2000, 2, NULL, 2);
	expect("cuLaunchKernel", 12000, 2, "cuLaunchKernel_ptsz", 0);
	expect("cuMemAlloc", 12000, 2, "cuMemAlloc_v2", 0);
	expect("cuStreamBeginCapture", 10000, 2, "cuStreamBeginCapture_ptsz", 0);
	expect("cuStreamBeginCapture", 10010, 2, "cuStreamBeginCapture_v2_ptsz", 0);
}

static void names_are_exact(void **state)
{
	(void)state;
	expect("", 0, 0, NULL, 1);
	expect("cuMemAlloc_v2", 12000, 0, NULL, 1);
	expect("cuLaunchKernel_ptsz", 12000, 0, NULL, 1);
	expect("cumemalloc", 12000, 0, NULL, 1);
	expect("cuMemAlloc ", 12000, 0, NULL, 1);
	expect("zz", 12000, 0, NULL, 1);
	expect("cuMemGetAttribute", -1, 0, NULL, 1); /* exported, but not to be had here */
}

static void bad_flags(void **state)
{
	void *found = untouched;
	int status = -1;

	(void)state;
	assert_int_equal(v2("cuInit", &found, 12000, 4, &status), 1);
	assert_ptr_equal(found, untouched);
	assert_int_equal(status, -1);
	assert_int_equal(v1("cuInit", &found, 12000, 1 << 20), 1);
	assert_int_equal(v2("cuInit", &found, 12000, 0, NULL), 0);
	assert_ptr_equal(found, dlsym(driver, "cuInit"));
}

static void newer_names_are_unknown(void **state)
{
	(void)state;
	expect("cuCtxCreate", 13000, 0, "cuCtxCreate_v3", 0);
	expect("cuMemcpyBatchAsync", 13000, 0, NULL, 1);
}

static void newer_names_are_known(void **state)
{
	(void)state;
	expect("cuCtxCreate", 13000, 0, "cuCtxCreate_v4", 0);
	expect("cuMemcpyBatchAsync", 12080, 0, "cuMemcpyBatchAsync", 0);
	expect("cuMemcpyBatchAsync", 13000, 0, "cuMemcpyBatchAsync_v2", 0);
}

/* Between the measured ones: what had been brought by then. */
static void known_at_11_8(void **state)
{
	(void)state;
	assert_null(v2);
	expect("cuGetProcAddress", 12000, 0, "cuGetProcAddress", 0);
	expect("cuCtxCreate", 13000, 0, "cuCtxCreate_v3", 0);
	expect("cuLaunchKernelEx", 11060, 2, "cuLaunchKernelEx_ptsz", 0);
	expect("cuLaunchKernelEx", 11050, 2, NULL, 2);
	expect("cuLibraryLoadData", 12000, 0, NULL, 1);
	expect("cuMemAlloc", -1, 2, "cuMemAlloc_v2", 0);
}

static void known_at_12_8(void **state)
{
	(void)state;
	expect("cuGetProcAddress", 13000, 0, "cuGetProcAddress_v2", 0);
	expect("cuCtxCreate", 12040, 0, "cuCtxCreate_v3", 0);
	expect("cuCtxCreate", 13000, 0, "cuCtxCreate_v4", 0);
	expect("cuMemcpyBatchAsync", 12070, 0, NULL, 2);
	expect("cuMemcpyBatchAsync", 13000, 2, "cuMemcpyBatchAsync_ptsz", 0);
	expect("cuLogsRegisterCallback", 13000, 0, NULL, 1);
}

static void old_driver_has_none(void **state)
{
	(void)state;
	assert_null(v1);
	assert_null(v2);
	assert_null(dlsym(driver, "cuMemAllocAsync"));
	assert_null(dlsym(driver, "cuMemCreate"));
	assert_null(dlsym(driver, "cuGraphLaunch"));
	assert_non_null(dlsym(driver, "cuMemAlloc_v2"));
}

/* The profile is the initial state of a test. */
#define ON(profile, test) \
	{ \
		profile " " #test, test, open_driver, close_driver, (void *)profile \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON("12.2", newest_abi_not_newer),
		ON("12.2", twins),
		ON("12.2", names_are_exact),
		ON("12.2", bad_flags),
		ON("12.2", newer_names_are_unknown),
		ON(".", newest_abi_not_newer),
		ON(".", twins),
		ON(".", bad_flags),
		ON(".", newer_names_are_known),
		ON("../drivers/11.8", known_at_11_8),
		ON("../drivers/12.8", known_at_12_8),
		ON("11.0", old_driver_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

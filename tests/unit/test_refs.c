/* links: shim/refs.c shim/ledger.c shim/index.c shim/share.c shim/identity.c shim/job.c shim/kernel.c */
/*
 * test_refs.c - records that are claimed, put back, counted and swept in the order of several threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "admin_dir.h"
#include "ledger.h"
#include "log.h"
#include "refs.h"
#include "settings.h"

/* No folder: the ledger lives in private memory. */
int admin_dir_open(const char *name)
{
	(void)name;
	return -1;
}

void log_hold_signals(struct held_signals *held)
{
	(void)held;
}

void log_release_signals(const struct held_signals *held)
{
	(void)held;
}

const char *settings_get(enum setting setting)
{
	(void)setting;
	return "/nowhere/at/all";
}

bool settings_is_set(enum setting setting)
{
	(void)setting;
	return true;
}

#define HANDLE 0x7000u
#define CONTEXT 0x5000u

static struct ledger_spares spares;

static int open_ledger(void **state)
{
	static const struct process_identity who = { .pid = 1 };
	char why[256];

	(void)state;
	return ledger_open(&who, why, sizeof(why)) ? 0 : -1;
}

/* Live under HANDLE, of CONTEXT, made at this epoch. */
static uint32_t made(enum cuward_kind kind, uint32_t epoch)
{
	uint32_t number = ledger_begin(&spares);
	struct ledger_record *record = ledger_record(number);

	memset(record, 0, sizeof(*record));
	record->bytes = 4096;
	record->context = CONTEXT;
	record->epoch = epoch;
	record->refs = 1;
	record->what = RECORD_WHAT(kind, CLASS_MEMORY, 0, RECORD_ALLOCATING, RECORD_CONTEXT_OWNED);
	ledger_commit(number, record, CLASS_MEMORY, HANDLE);
	return number;
}

static void done(uint32_t number)
{
	ledger_remove(&spares, number, ledger_record(number), NULL);
}

static void free_all(uint32_t number)
{
	assert_int_equal(ledger_claim(CLASS_MEMORY, HANDLE), number);
	done(number);
}

static bool close_begins(struct ref_change *change)
{
	return refs_open(change, CLASS_MEMORY, HANDLE, REF_HANDLE, false);
}

static void test_put_back(void **state)
{
	uint32_t number = made(KIND_DEVICE, 0);

	(void)state;
	assert_int_equal(ledger_claim(CLASS_MEMORY, HANDLE), number);
	assert_int_equal(index_lookup(CLASS_MEMORY, HANDLE), LEDGER_NO_RECORD);
	assert_int_equal(ledger_restore(number), LEDGER_NO_RECORD);
	assert_int_equal(ledger_record(number)->state, RECORD_LIVE);
	free_all(number);
}

static void test_put_back_where_another_stands(void **state)
{
	uint32_t old = made(KIND_DEVICE, 0), young;

	(void)state;
	assert_int_equal(ledger_claim(CLASS_MEMORY, HANDLE), old);
	young = made(KIND_DEVICE, 0);
	assert_int_equal(ledger_restore(old), young);
	assert_int_equal(ledger_record(old)->state, RECORD_FREEING);
	assert_int_equal(index_lookup(CLASS_MEMORY, HANDLE), young);
	done(old);
	free_all(young);
}

static void test_opened_again_while_a_close_fails(void **state)
{
	uint32_t old = made(KIND_IMPORTED, 0), young;
	struct ref_change change, again;

	(void)state;
	assert_true(close_begins(&change));
	young = made(KIND_IMPORTED, 0);
	assert_true(refs_close(&change, false)); /* nothing refers to the old record any more */
	assert_int_equal(change.moved, young);
	assert_int_equal(ledger_record(old)->state, RECORD_FREEING);
	assert_int_equal(ledger_record(young)->refs, 2);
	done(old);
	assert_true(close_begins(&again));
	assert_false(refs_close(&again, true));
	assert_true(close_begins(&again));
	assert_true(refs_close(&again, true));
	done(young);
}

static void test_other_memory_while_a_close_fails(void **state)
{
	uint32_t old = made(KIND_IMPORTED, 0), young;
	struct ref_change change;

	(void)state;
	assert_true(close_begins(&change));
	young = made(KIND_DEVICE, 0);
	assert_true(refs_close(&change, false));
	assert_int_equal(change.moved, LEDGER_NO_RECORD);
	assert_int_equal(ledger_record(young)->refs, 1);
	done(old);
	free_all(young);
}

/* Whoever is under way would change the count of what the record stands for next. */
static void test_swept_while_it_is_opened_again(void **state)
{
	uint32_t number = made(KIND_IMPORTED, 3), position = 0;
	struct ref_change change;

	(void)state;
	assert_true(refs_open(&change, CLASS_MEMORY, HANDLE, REF_HANDLE, true));
	assert_int_equal(ledger_claim_owned(CONTEXT, 4, &position), number);
	assert_false(refs_gone(number));
	assert_true(refs_close(&change, true));
	done(number);

	number = made(KIND_IMPORTED, 3);
	assert_true(close_begins(&change));
	position = 0;
	assert_int_equal(ledger_claim_owned(CONTEXT, 4, &position), LEDGER_NO_RECORD); /* it closes */
	assert_true(refs_close(&change, true));
	done(number);

	number = made(KIND_IMPORTED, 3);
	position = 0;
	assert_int_equal(ledger_claim_owned(CONTEXT, 4, &position), number);
	assert_true(refs_gone(number));
	done(number);
}

static void test_one_record_of_a_context_that_died(void **state)
{
	uint32_t number = made(KIND_DEVICE, 3);

	(void)state;
	assert_false(ledger_claim_if_owned(number, CONTEXT, 3)); /* of its heir */
	assert_false(ledger_claim_if_owned(number, CONTEXT + 1, 4));
	assert_true(ledger_claim_if_owned(number, CONTEXT, 4));
	assert_false(ledger_claim_if_owned(number, CONTEXT, 4));
	assert_int_equal(ledger_record(number)->state, RECORD_FREEING);
	done(number);
}

/* Memory of another context is none of this one's to count; our own is, and what is closed is no more. */
static void test_opened_again_somewhere(void **state)
{
	struct ref_change change;
	uint32_t number = made(KIND_IMPORTED, 0);

	(void)state;
	assert_false(refs_open_again(&change, CLASS_MEMORY, HANDLE, CONTEXT + 1));
	assert_int_equal(change.record, LEDGER_NO_RECORD);
	assert_int_equal(ledger_record(number)->refs, 1);
	assert_int_equal(ledger_record(number)->pending, 0);
	assert_true(refs_open_again(&change, CLASS_MEMORY, HANDLE, CONTEXT));
	assert_int_equal(change.record, number);
	assert_false(refs_close(&change, true));
	assert_int_equal(ledger_record(number)->refs, 2);
	free_all(number);
	assert_false(refs_open_again(&change, CLASS_MEMORY, HANDLE, CONTEXT));
	number = made(KIND_DEVICE, 0);
	assert_true(refs_open_again(&change, CLASS_MEMORY, HANDLE, CONTEXT + 1));
	assert_false(refs_close(&change, true));
	free_all(number);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_put_back),
		cmocka_unit_test(test_put_back_where_another_stands),
		cmocka_unit_test(test_opened_again_while_a_close_fails),
		cmocka_unit_test(test_other_memory_while_a_close_fails),
		cmocka_unit_test(test_swept_while_it_is_opened_again),
		cmocka_unit_test(test_one_record_of_a_context_that_died),
		cmocka_unit_test(test_opened_again_somewhere),
	};

	return cmocka_run_group_tests(tests, open_ledger, NULL);
}

/*
 * test.h - the C test runner: every test is a function in a process of its own, assertions print both values.
 *
 *	TEST(buf_refuses_past_its_maximum) { struct buf b = {.max = 4}; CHECK(!buf_add(&b, "12345", 5)); }
 *	TEST_MAIN()
 *
 * Names read as sentences. A failed assertion ends its test. A test that cannot run names the missing part with
 * TEST_SKIP("no user namespaces: …") and is counted. A test that runs longer than TEST_SECONDS prints its last check
 * and its stack, and fails; the next test runs. Every test starts with the default action for every signal. Run one
 * test by naming a part of its name as argument. The last line is "N passed, N failed, N skipped".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TEST_SECONDS = 60 };

struct test_case {
	const char *name;
	void (*run)(void);
	struct test_case *next;
};

void test_register(struct test_case *c);
int test_main(int argc, char **argv);
void test_at(const char *file, int line); /* each check is noted before it is made */
unsigned test_seed(void);		  /* $ATOLL_SEED, else the time; printed, so that a failure can be repeated */
void test_print_hang(void);		  /* for a rig with an alarm handler of its own */
_Noreturn void test_fail(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
_Noreturn void test_skip(const char *why);

#define TEST(id)                                                                                                       \
	static void test_##id(void);                                                                                   \
	static struct test_case case_##id = {.name = #id, .run = test_##id};                                           \
	__attribute__((constructor)) static void register_##id(void)                                                   \
	{                                                                                                              \
		test_register(&case_##id);                                                                             \
	}                                                                                                              \
	static void test_##id(void)

#define TEST_MAIN()                                                                                                    \
	int main(int argc, char **argv)                                                                                \
	{                                                                                                              \
		return test_main(argc, argv);                                                                          \
	}

#define TEST_SKIP(why) test_skip(why)

#define CHECK(cond)                                                                                                    \
	(test_at(__FILE__, __LINE__), (cond) ? (void)0 : test_fail(__FILE__, __LINE__, "%s does not hold", #cond))

#define CHECK_INT(got, want)                                                                                           \
	do {                                                                                                           \
		test_at(__FILE__, __LINE__);                                                                           \
		long long got_ = (long long)(got), want_ = (long long)(want);                                          \
		if (got_ != want_)                                                                                     \
			test_fail(__FILE__, __LINE__, "%s is %lld, expected %s = %lld", #got, got_, #want, want_);     \
	} while (0)

#define CHECK_MEM(got, got_n, want, want_n)                                                                            \
	do {                                                                                                           \
		test_at(__FILE__, __LINE__);                                                                           \
		size_t gn_ = (got_n), wn_ = (want_n);                                                                  \
		const char *g_ = (got), *w_ = (want);                                                                  \
		if (gn_ != wn_ || (gn_ && memcmp(g_, w_, gn_) != 0))                                                   \
			test_fail(__FILE__, __LINE__, "%s is (%zu) '%.*s', expected (%zu) '%.*s'", #got, gn_,          \
				(int)gn_, gn_ ? g_ : "", wn_, (int)wn_, wn_ ? w_ : "");                                \
	} while (0)

#define CHECK_CSTR(got, want)                                                                                          \
	do {                                                                                                           \
		const char *cg_ = (got), *cw_ = (want);                                                                \
		CHECK_MEM(cg_, strlen(cg_), cw_, strlen(cw_));                                                         \
	} while (0)

#define CHECK_STR(got, want_lit)                                                                                       \
	do {                                                                                                           \
		struct str sg_ = (got);                                                                                \
		CHECK_MEM(sg_.p, sg_.n, want_lit, strlen(want_lit));                                                   \
	} while (0)

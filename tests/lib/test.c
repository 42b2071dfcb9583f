#include "test.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_SKIPPED = 77 };

static struct test_case *first, **last = &first;

void test_register(struct test_case *c)
{
	*last = c;
	last = &c->next;
}

_Noreturn void test_fail(const char *file, int line, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fprintf(stderr, "  %s:%d: ", file, line);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

_Noreturn void test_skip(const char *why)
{
	printf("  skipped: %s\n", why);
	exit(EXIT_SKIPPED);
}

/* In a process group of its own, so that whatever the test left behind ends with it. */
static int run_one(const struct test_case *c)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		alarm(TEST_SECONDS);
		c->run();
		exit(0);
	}
	int status;
	waitpid(pid, &status, 0);
	kill(-pid, SIGKILL);
	if (WIFSIGNALED(status))
		fprintf(stderr, "  killed by %s\n", strsignal(WTERMSIG(status)));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int test_main(int argc, char **argv)
{
	int passed = 0, failed = 0, skipped = 0;
	for (struct test_case *c = first; c; c = c->next) {
		if (argc > 1 && !strstr(c->name, argv[1]))
			continue;
		int r = run_one(c);
		const char *word = r == 0 ? "ok" : r == EXIT_SKIPPED ? "skip" : "FAIL";
		printf("%-4s %s\n", word, c->name);
		passed += r == 0;
		skipped += r == EXIT_SKIPPED;
		failed += r != 0 && r != EXIT_SKIPPED;
	}
	printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
	return failed != 0;
}

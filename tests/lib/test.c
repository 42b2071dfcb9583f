#include "test.h"

#include <execinfo.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_SKIPPED = 77, GRACE_SECONDS = 10 };

static struct test_case *first, **last = &first;
static const char *at_file = "(no check yet)";
static int at_line;

void test_register(struct test_case *c)
{
	*last = c;
	last = &c->next;
}

void test_at(const char *file, int line)
{
	at_file = file;
	at_line = line;
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

unsigned test_seed(void)
{
	const char *given = getenv("ATOLL_SEED");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
	printf("  ATOLL_SEED=%u repeats this\n", seed);
	fflush(stdout);
	return seed;
}

_Noreturn void test_skip(const char *why)
{
	printf("  skipped: %s\n", why);
	exit(EXIT_SKIPPED);
}

void test_print_hang(void)
{
	void *frames[32];
	dprintf(STDERR_FILENO, "  still runs after %d s; its last check was %s:%d; its stack:\n", TEST_SECONDS, at_file,
		at_line);
	backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
}

static void on_alarm(int signo)
{
	test_print_hang();
	signal(signo, SIG_DFL);
	raise(signo);
}

/* A shell starts background jobs with SIGINT and SIGQUIT ignored, nohup ignores SIGHUP, and programs inherit that. */
static void reset_signals(void)
{
	sigset_t none;
	for (int signo = 1; signo < NSIG; signo++)
		signal(signo, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void run_child(const struct test_case *c)
{
	void *frame;
	setpgid(0, 0);
	reset_signals();
	backtrace(&frame, 1); /* the first call loads a library, which a signal handler must not */
	signal(SIGALRM, on_alarm);
	alarm(TEST_SECONDS);
	c->run();
	exit(0);
}

/* The alarm ends a test that hangs. A test that has taken the alarm away, or blocked it, ends here. */
static int wait_child(pid_t pid)
{
	int status, fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd end = {.fd = fd, .events = POLLIN};
	if (fd >= 0 && poll(&end, 1, (TEST_SECONDS + GRACE_SECONDS) * 1000) == 0) {
		fprintf(stderr, "  still runs after %d s\n", TEST_SECONDS + GRACE_SECONDS);
		kill(pid, SIGKILL);
	}
	waitpid(pid, &status, 0);
	close(fd);
	return status;
}

/* In a process group of its own, so that whatever the test left behind ends with it. */
static int run_one(const struct test_case *c)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		run_child(c);
	if (pid < 0)
		return 1;
	int status = wait_child(pid);
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

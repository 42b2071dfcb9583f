#include "escape/escape.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* For a check that hangs. Filling a disk takes seconds, and a minute and more on a host with other work. */
enum { CHECK_TIMEOUT_MS = 540000 };
enum { EXIT_REFUSED = 0, EXIT_ESCAPED = 1, EXIT_ERROR = 2, EXIT_SKIPPED = 3, EXIT_USAGE = 64 };

static const struct check_group *const groups[] = {&group_fds, &group_identity, &group_procfs, &group_mounts,
	&group_namespaces, &group_syscalls, &group_network, &group_neighbour, &group_processes, &group_tty,
	&group_resources, &group_disk, &group_budgets, &group_global, &group_sockets, &group_netlink, &group_layer};

static const char *const verdict_names[] = {"error", "skipped", "refused", "error", "escaped"};
static const int verdict_exits[] = {EXIT_ERROR, EXIT_SKIPPED, EXIT_REFUSED, EXIT_ERROR, EXIT_ESCAPED};

static char **args; /* KEY=VALUE …, ended by NULL */

const char *arg_get(const char *key)
{
	size_t n = strlen(key);
	for (char **a = args; a && *a; a++)
		if (strncmp(*a, key, n) == 0 && (*a)[n] == '=')
			return *a + n + 1;
	return NULL;
}

long arg_number(const char *key)
{
	const char *text = arg_get(key);
	char *end = NULL;
	long v = text ? strtol(text, &end, 10) : -1;
	return text && end != text && *end == 0 && v >= 0 ? v : -1;
}

/* Bytes of the UTF-8 character here; 0 when there is none. Files of the kernel may hold any bytes. */
static int utf8_length(const unsigned char *c)
{
	int n = *c < 0x80 ? 1 : *c >= 0xc2 && *c < 0xe0 ? 2 : *c >= 0xe0 && *c < 0xf0 ? 3 : 0;
	for (int i = 1; i < n; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

static void put_json(const char *text)
{
	putchar('"');
	for (const unsigned char *c = (const unsigned char *)text; *c;) {
		int n = utf8_length(c);
		if (*c == '"' || *c == '\\')
			printf("\\%c", *c);
		else if (*c < 0x20 || *c == 0x7f || n == 0)
			printf("\\u%04x", *c);
		else
			fwrite(c, 1, (size_t)n, stdout);
		c += n ? n : 1;
	}
	putchar('"');
}

static void put_member(const char *before, const char *key, const char *value)
{
	printf("%s\"%s\":", before, key);
	put_json(value);
}

static void put_needs(unsigned flags)
{
	static const struct {
		unsigned flag;
		const char *name;
	} names[] = {{CHECK_HOST, "host"}, {CHECK_NEIGHBOUR, "neighbour"}, {CHECK_OWN_BOX, "own-box"},
		{CHECK_RESTART, "restart"}, {CHECK_SMALL_DISK, "small-disk"}, {CHECK_DEMO, "demo"}};
	const char *comma = "";
	printf(",\"needs\":[");
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (flags & names[i].flag) {
			printf("%s\"%s\"", comma, names[i].name);
			comma = ",";
		}
	putchar(']');
}

static int list(bool json)
{
	for (size_t g = 0; g < ARRAY_LEN(groups); g++)
		for (size_t i = 0; i < groups[g]->count; i++) {
			const struct check *c = &groups[g]->checks[i];
			if (!json) {
				printf("%-28s %s\n", c->name, c->idea);
				continue;
			}
			put_member("{", "name", c->name);
			put_member(",", "group", groups[g]->name);
			put_member(",", "idea", c->idea);
			put_member(",", "layer", c->layer);
			put_needs(c->flags);
			printf("}\n");
		}
	return 0;
}

const struct check *check_find(const char *name)
{
	for (size_t g = 0; g < ARRAY_LEN(groups); g++)
		for (size_t i = 0; i < groups[g]->count; i++)
			if (strcmp(groups[g]->checks[i].name, name) == 0)
				return &groups[g]->checks[i];
	return NULL;
}

static void wait_for(pid_t pid, struct outcome *o)
{
	int status = 0;
	auto_fd int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	if (pidfd >= 0 && poll(&p, 1, CHECK_TIMEOUT_MS) == 0) {
		kill(pid, SIGKILL);
		errored(o, "did not end within %d s", CHECK_TIMEOUT_MS / 1000);
	}
	if (waitpid(pid, &status, 0) != pid)
		errored(o, "waitpid: %s", errno_name(errno));
	else if (WIFSIGNALED(status))
		errored(o, "the check was killed by signal %d", WTERMSIG(status));
	else if (o->verdict == VERDICT_NONE)
		errored(o, "the check ended without a result");
}

static int run(const struct check *c)
{
	struct outcome *o = mmap(NULL, sizeof(*o), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (o == MAP_FAILED)
		return EXIT_ERROR;
	scratch_name();
	signal(SIGTERM, SIG_IGN); /* kill-all must leave this process to report */
	pid_t pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		c->run(c, o);
		_exit(0);
	}
	if (pid < 0)
		errored(o, "fork: %s", errno_name(errno));
	else
		wait_for(pid, o);
	scratch_remove();
	put_member("{", "name", c->name);
	put_member(",", "result", verdict_names[o->verdict]);
	put_member(",", "how", o->how);
	put_member(",", "expected", o->expected);
	printf("}\n");
	return verdict_exits[o->verdict];
}

static int usage(void)
{
	fprintf(stderr, "usage: atoll-escape list [--json] | run NAME [KEY=VALUE...] | neighbour | pong\n");
	return EXIT_USAGE;
}

/* For checks that exec a copy of this program: prints ids and effective capabilities of the new process. */
static int whoami(void)
{
	char status[4096];
	const char *caps = slurp("/proc/self/status", status, sizeof(status)) > 0 ? strstr(status, "CapEff:\t") : NULL;
	printf("%u %u %.16s\n", geteuid(), getegid(), caps ? caps + 8 : "?");
	return 0;
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (argc >= 2 && strcmp(argv[1], "list") == 0)
		return list(argc == 3 && strcmp(argv[2], "--json") == 0);
	if (argc == 2 && strcmp(argv[1], "whoami") == 0)
		return whoami();
	if (argc == 2 && strcmp(argv[1], "neighbour") == 0)
		return neighbour_main();
	if (argc == 2 && strcmp(argv[1], "pong") == 0)
		return pong_main();
	if (argc < 3 || strcmp(argv[1], "run") != 0)
		return usage();
	const struct check *c = check_find(argv[2]);
	if (!c) {
		fprintf(stderr, "atoll-escape: no check '%s' (see: atoll-escape list)\n", argv[2]);
		return EXIT_USAGE;
	}
	args = argv + 3;
	return run(c);
}

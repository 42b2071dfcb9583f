/*
 * Whether the process that fetches is confined. Each attempt must succeed without the confinement and fail with it;
 * otherwise it would show nothing.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "images/fetch.h"
#include "test.h"

static char place[40]; /* a directory with "file" and "socket" */

static const char *in_place(const char *name)
{
	static char path[100];
	snprintf(path, sizeof path, "%s/%s", place, name);
	return path;
}

static bool opens(const char *path, int flags)
{
	auto_fd int fd = open(path, flags | O_CLOEXEC, 0600);
	return fd >= 0;
}

static bool read_file(void)
{
	return opens(in_place("file"), O_RDONLY);
}

static bool read_directory(void)
{
	return opens(place, O_RDONLY | O_DIRECTORY);
}

static bool write_file(void)
{
	return opens(in_place("file"), O_WRONLY);
}

static bool make_file(void)
{
	return opens(in_place("new"), O_WRONLY | O_CREAT);
}

static bool remove_file(void)
{
	return unlink(in_place("victim")) == 0;
}

static bool connect_unix(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	snprintf(at.sun_path, sizeof at.sun_path, "%s", in_place("socket"));
	auto_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	return fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
}

static bool signal_others(void)
{
	return kill(getppid(), 0) == 0;
}

static bool make_process(void)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	return pid > 0 && waitpid(pid, &(int){0}, 0) == pid;
}

/* Of a program that is not there: the kernel looks for it, or refuses to. */
static bool execute(void)
{
	char *argv[] = {"nothing", NULL};
	execv(in_place("nothing"), argv);
	return errno == ENOENT;
}

static bool listen_tcp(void)
{
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd >= 0 && listen(fd, 1) == 0;
}

static bool trace_itself(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}

struct attempt {
	const char *name;
	bool (*succeeds)(void);
};

static const struct attempt refused[] = {{"read a file", read_file}, {"read a directory", read_directory},
	{"write a file", write_file}, {"make a file", make_file}, {"remove a file", remove_file},
	{"connect to a Unix socket", connect_unix}, {"signal another process", signal_others},
	{"make a process", make_process}, {"execute a program", execute}, {"listen", listen_tcp},
	{"be traced", trace_itself}};

static void make_place(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	snprintf(place, sizeof place, "/tmp/atoll-confine-XXXXXX");
	CHECK(mkdtemp(place));
	CHECK(opens(in_place("file"), O_WRONLY | O_CREAT) && opens(in_place("victim"), O_WRONLY | O_CREAT));
	snprintf(at.sun_path, sizeof at.sun_path, "%s", in_place("socket"));
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 8) == 0);
}

static void remove_place(void)
{
	static const char *const names[] = {"file", "victim", "socket", "new"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		unlink(in_place(names[i]));
	rmdir(place);
}

/* The exit code of a child: 0, or 1 + the number of the first attempt with another outcome. 100: not confined. */
static int try_all(bool confined)
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) {
		struct err e;
		if (confined && fetch_confine(&e) < 0)
			_exit(100);
		for (size_t i = 0; i < ARRAY_LEN(refused); i++)
			if (refused[i].succeeds() == confined)
				_exit((int)i + 1);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

static const char *name_of(int code)
{
	return code > 0 && (size_t)code <= ARRAY_LEN(refused) ? refused[code - 1].name : "";
}

TEST(what_is_refused_would_succeed_otherwise)
{
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 0)
		TEST_SKIP("this kernel has no Landlock");
	make_place();
	int free = try_all(false);
	CHECK(opens(in_place("victim"), O_WRONLY | O_CREAT));
	int confined = try_all(true);
	remove_place();
	CHECK_STR(str_of(name_of(free)), "");
	CHECK_STR(str_of(name_of(confined)), "");
	CHECK_INT(free, 0);
	CHECK_INT(confined, 0);
}

static void *run_thread(void *arg)
{
	*(bool *)arg = true;
	return NULL;
}

static bool look_up(void)
{
	struct addrinfo *found = NULL;
	bool ok = getaddrinfo("localhost", "80", NULL, &found) == 0;
	if (found)
		freeaddrinfo(found);
	return ok;
}

/* 0, or the line of what is needed and does not work. */
static int use_what_is_left(int listener, int file)
{
	struct sockaddr_in at;
	socklen_t n = sizeof at;
	pthread_t thread;
	bool ran = false;
	struct err e;
	if (getsockname(listener, (struct sockaddr *)&at, &n) < 0 || fetch_confine(&e) < 0)
		return __LINE__;
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) < 0)
		return __LINE__;
	if (pthread_create(&thread, NULL, run_thread, &ran) != 0 || pthread_join(thread, NULL) != 0 || !ran)
		return __LINE__;
	if (pwrite(file, "x", 1, 0) != 1 || ftruncate(file, 0) < 0)
		return __LINE__;
	if (!opens("/etc/hosts", O_RDONLY) || !look_up())
		return __LINE__;
	return 0;
}

TEST(what_fetching_needs_is_left)
{
	const struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char name[] = "/tmp/atoll-confine-XXXXXX";
	int status = 0, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), file = mkstemp(name);
	unlink(name);
	CHECK(listener >= 0 && bind(listener, (const struct sockaddr *)&at, sizeof at) == 0 &&
		listen(listener, 1) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		int line = use_what_is_left(listener, file);
		if (line)
			fprintf(stderr, "line %d\n", line);
		_exit(line != 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
}

TEST_MAIN()

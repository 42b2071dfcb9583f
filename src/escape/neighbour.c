/*
 * From one box to another. `atoll-escape neighbour` is the victim: it holds everything that a box could leave open to
 * others, prints where, and tells at the end whether an attacker came. The attacker gets those names as arguments.
 *
 * The victim's names are fixed, so the attacker needs nothing but knowledge: a System V key, an abstract name, a port,
 * a message queue, a process number.
 */
#include "escape/escape.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>

enum { VICTIM_KEY = 0x41544f4c, VICTIM_PORT = 47113 };
#define VICTIM_ABSTRACT "atoll-escape-neighbour"
#define VICTIM_QUEUE	"/atoll-escape-neighbour"
#define VICTIM_SHM	"/dev/shm/atoll-escape-neighbour"
#define VICTIM_FILE	"/var/tmp/atoll-escape-neighbour"

static socklen_t abstract_address(struct sockaddr_un *a)
{
	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	memcpy(a->sun_path + 1, VICTIM_ABSTRACT, strlen(VICTIM_ABSTRACT));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(VICTIM_ABSTRACT));
}

static int open_all(void)
{
	struct sockaddr_un un;
	socklen_t n = abstract_address(&un);
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(VICTIM_PORT), .sin_addr.s_addr = htonl(INADDR_ANY)};
	int u = socket(AF_UNIX, SOCK_STREAM, 0), t = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	setsockopt(t, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(u, (struct sockaddr *)&un, n) < 0 || listen(u, 8) < 0)
		return -errno;
	if (bind(t, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(t, 8) < 0)
		return -errno;
	if (shmget(VICTIM_KEY, 4096, IPC_CREAT | 0666) < 0 || semget(VICTIM_KEY, 1, IPC_CREAT | 0666) < 0)
		return -errno;
	int shm = open(VICTIM_SHM, O_RDWR | O_CREAT, 0666), file = open(VICTIM_FILE, O_RDWR | O_CREAT, 0666);
	return shm < 0 || file < 0 ? -errno : 0;
}

/* Stays until it is killed. Prints one line when everything is open. */
int neighbour_main(void)
{
	int rc = open_all();
	mqd_t q = mq_open(VICTIM_QUEUE, O_RDWR | O_CREAT, 0666, NULL);
	if (rc < 0) {
		printf("error: %s\n", errno_name(-rc));
		return 1;
	}
	printf("ready pid=%d mq=%d\n", getpid(), q != (mqd_t)-1);
	fflush(stdout);
	for (;;)
		pause();
}

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

/* Resources that the kernel counts per user. */
static const char *budgets(int watch)
{
	timer_t timer;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (sigqueue(getpid(), SIGRTMIN, (union sigval){0}) < 0)
		return "queued signal";
	if (timer_create(CLOCK_MONOTONIC, NULL, &timer) < 0)
		return "timer";
	mqd_t queue = mq_open(VICTIM_QUEUE "-pong", O_CREAT | O_RDWR, 0600, NULL);
	if (queue == (mqd_t)-1)
		return "message queue";
	mq_close(queue);
	mq_unlink(VICTIM_QUEUE "-pong");
	return inotify_add_watch(watch, "/", IN_CREATE) < 0 ? "inotify watch" : NULL;
}

/* A datagram to oneself, and back. */
static bool echo(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	char byte = 0;
	struct timeval limit = {.tv_sec = 5}; /* a busy kernel delivers it some time after the call */
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	return fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0 && getsockname(fd, (struct sockaddr *)&a, &n) == 0 &&
	       sendto(fd, "p", 1, 0, (struct sockaddr *)&a, n) == 1 && recv(fd, &byte, 1, 0) == 1;
}

int pong_main(void)
{
	const char *missing = NULL;
	char *memory = mmap(NULL, 16u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	auto_fd int file = open(VICTIM_FILE ".pong", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	auto_fd int tty = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	auto_fd int watch = inotify_init1(IN_CLOEXEC);
	auto_fd int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (memory == MAP_FAILED)
		missing = "memory";
	else if (file < 0)
		missing = "file";
	else if (tty < 0)
		missing = "terminal";
	else if (watch < 0)
		missing = "inotify instance";
	else if (sock < 0)
		missing = "socket";
	else if (!echo())
		missing = "datagram";
	else if (in_child(nothing, NULL) != 0)
		missing = "process";
	else
		missing = budgets(watch);
	if (!missing)
		memset(memory, 1, 16u << 20);
	if (missing)
		printf("no %s: %s\n", missing, errno_name(errno));
	else
		printf("pong\n");
	unlink(VICTIM_FILE ".pong");
	return missing != NULL;
}

static void abstract_socket(const struct check *c, struct outcome *o)
{
	(void)c;
	struct sockaddr_un to;
	socklen_t n = abstract_address(&to);
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	TRY(o, "connect to the neighbour's abstract socket", connect(fd, (struct sockaddr *)&to, n), ECONNREFUSED);
	/* The name must be free here: taking it would shadow a host-wide one. */
	auto_fd int mine = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(mine, (struct sockaddr *)&to, n) < 0)
		escaped(o, "the neighbour's abstract name is taken here: %s", errno_name(errno));
}

static void network(const struct check *c, struct outcome *o)
{
	(void)c;
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(VICTIM_PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	TRY(o, "connect to the neighbour's port", connect(fd, (struct sockaddr *)&to, sizeof(to)), ECONNREFUSED);
}

static void ipc(const struct check *c, struct outcome *o)
{
	(void)c;
	TRY(o, "shmget", shmget(VICTIM_KEY, 0, 0), ENOENT);
	TRY(o, "semget", semget(VICTIM_KEY, 0, 0), ENOENT);
	TRY(o, "mq_open", (long)(int)mq_open(VICTIM_QUEUE, O_RDONLY), ENOENT, ENOSYS, EPERM);
}

static void files(const struct check *c, struct outcome *o)
{
	(void)c;
	TRY(o, "open " VICTIM_SHM, open(VICTIM_SHM, O_RDONLY | O_CLOEXEC), ENOENT);
	TRY(o, "open " VICTIM_FILE, open(VICTIM_FILE, O_RDONLY | O_CLOEXEC), ENOENT);
}

/* neighbour_pid: the number of a neighbour's process as the host counts, the most an attacker could hope to know. The
 * caller takes one that is beyond the few numbers in use here. */
static void processes(const struct check *c, struct outcome *o)
{
	(void)c;
	long pid;
	char byte, path[64];
	struct iovec local = {&byte, 1}, remote = {(void *)&byte, 1};
	if (!arg_need(o, "neighbour_pid", &pid))
		return;
	snprintf(path, sizeof(path), "/proc/%ld/root", pid);
	TRY(o, "kill", kill((pid_t)pid, 0), ESRCH);
	TRY(o, "ptrace", ptrace(PTRACE_SEIZE, (pid_t)pid, 0, 0), ESRCH, EPERM);
	TRY(o, "process_vm_readv", syscall(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0), ESRCH, EPERM);
	TRY(o, "process_vm_writev", syscall(SYS_process_vm_writev, pid, &local, 1, &remote, 1, 0), ESRCH, EPERM);
	TRY(o, "pidfd_open", syscall(SYS_pidfd_open, pid, 0), ESRCH);
	TRY(o, "prlimit", syscall(SYS_prlimit64, pid, 7, 0, &(char[16]){0}), ESRCH);
	TRY(o, "sched_getaffinity", syscall(SYS_sched_getaffinity, pid, 8, &(char[8]){0}), ESRCH);
	TRY(o, path, open(path, O_PATH | O_CLOEXEC), ENOENT);
}

static const struct check checks[] = {
	{"neighbour-abstract", "CVE-2020-15257: another box's abstract unix socket", "network namespace",
		abstract_socket, NULL, CHECK_NEIGHBOUR},
	{"neighbour-network", "another box's listening port", "network namespace", network, NULL, CHECK_NEIGHBOUR},
	{"neighbour-ipc", "another box's System V segments, semaphores and message queues", "ipc namespace", ipc, NULL,
		CHECK_NEIGHBOUR},
	{"neighbour-files", "another box's files and shared memory", "mount namespace", files, NULL, CHECK_NEIGHBOUR},
	{"neighbour-processes", "signal, trace, read and limit another box's process", "pid namespace", processes, NULL,
		CHECK_NEIGHBOUR | CHECK_HOST},
};
const struct check_group group_neighbour = {"neighbour", checks, ARRAY_LEN(checks)};

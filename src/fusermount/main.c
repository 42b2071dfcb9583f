/*
 * fusermount3, fusermount - mounts and unmounts FUSE file systems of this box, for libfuse and by hand.
 *
 * Theory of operation. libfuse opens /dev/fuse, is refused the mount, and runs this program with a socket in
 * _FUSE_COMMFD. We send what it wants to the agent of the box, wait for the descriptor of a mounted /dev/fuse, and pass
 * it to libfuse over that socket. With auto_unmount a copy of us stays, waits for the end of the socket and unmounts.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fusermount/options.h"

static const char *program = "fusermount3";
static bool quiet;

static const char usage[] = "%s: [options] mountpoint\n"
			    "Options:\n"
			    " -h\t\t    print help\n"
			    " -V\t\t    print version\n"
			    " -o opt[,opt...]    mount options\n"
			    " -u\t\t    unmount\n"
			    " -q\t\t    quiet\n"
			    " -z\t\t    lazy unmount\n";

static int complain(const char *what, const char *about, const char *why)
{
	if (!quiet)
		fprintf(stderr, "%s: %s%s%s%s\n", program, what, about, *why ? ": " : "", why);
	return 1;
}

/* The words of the GNU library, which scripts look for; musl has others. */
static const char *words(const struct fuse_reply *r, int os)
{
	return *r->said ? r->said : os == EBUSY ? "Device or resource busy" : strerror(os);
}

/* The directory is resolved, the last name is not: a mount point whose file system hangs must not be looked at. */
static bool absolute(const char *path, char ret[FUSE_PATH])
{
	char copy[PATH_MAX], parent[PATH_MAX];
	size_t n = strlen(path);
	while (n > 1 && path[n - 1] == '/')
		n--;
	if (!n || n >= sizeof copy) {
		errno = n ? ENAMETOOLONG : ENOENT;
		return false;
	}
	memcpy(copy, path, n);
	copy[n] = 0;
	char *slash = strrchr(copy, '/');
	const char *name = slash ? slash + 1 : copy;
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || !*name) {
		if (!realpath(copy, parent) || strlen(parent) >= FUSE_PATH)
			return false;
		memcpy(ret, parent, strlen(parent) + 1);
		return true;
	}
	if (slash)
		*slash = 0;
	if (!realpath(!slash ? "." : *copy ? copy : "/", parent))
		return false;
	int written = snprintf(ret, FUSE_PATH, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, name);
	if (written < FUSE_PATH)
		return true;
	errno = ENAMETOOLONG;
	return false;
}

static int connect_agent(void)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	memcpy(sa.sun_path, FUSE_SOCKET, sizeof FUSE_SOCKET - 1);
	socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof FUSE_SOCKET - 1);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, n) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* The reply of the agent; *ret_fd is -1 without a descriptor. */
static bool receive(int sock, struct fuse_reply *reply, int *ret_fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {reply, sizeof *reply};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	ssize_t n;
	do
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	*ret_fd = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
	if (n != (ssize_t)sizeof *reply || reply->magic != FUSE_MAGIC) {
		if (n >= 0)
			errno = EPROTO;
		return false;
	}
	reply->said[sizeof reply->said - 1] = 0;
	return true;
}

static bool pass_on(int sock, int fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	char byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
	ssize_t n;
	do
		n = sendmsg(sock, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == 1;
}

/* 0, or an errno; *ret_fd is the descriptor of a mount. */
static int ask_agent(const struct fuse_ask *ask, struct fuse_reply *reply, int *ret_fd)
{
	*ret_fd = -1;
	memset(reply, 0, sizeof *reply);
	int sock = connect_agent();
	if (sock < 0) {
		snprintf(reply->said, sizeof reply->said, "the agent of this sandbox does not answer");
		return errno;
	}
	bool ok = send(sock, ask, sizeof *ask, MSG_NOSIGNAL) == (ssize_t)sizeof *ask && receive(sock, reply, ret_fd);
	int os = ok ? reply->error : errno;
	close(sock);
	return os;
}

static int unmount(struct fuse_ask *ask)
{
	struct fuse_reply reply;
	int fd;
	ask->op = FUSE_UNMOUNT;
	int os = ask_agent(ask, &reply, &fd);
	if (!os)
		return 0;
	char what[FUSE_PATH + 64];
	snprintf(what, sizeof what, "failed to unmount %s", ask->path);
	return complain(what, "", words(&reply, os));
}

/* Stays until the FUSE program has closed its end of the socket, then takes a mount away that it has left. */
static void stay(int comm, struct fuse_ask *ask)
{
	char byte;
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	setsid();
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; null >= 0 && i < 3; i++)
		if (i != comm)
			dup2(null, i);
	if (chdir("/") < 0)
		return;
	while (recv(comm, &byte, 1, 0) < 0 && errno == EINTR)
		;
	quiet = true;
	ask->flags = FUSE_LAZY;
	unmount(ask);
}

static int comm_socket(void)
{
	const char *text = getenv("_FUSE_COMMFD");
	char *end;
	long fd = text ? strtol(text, &end, 10) : -1;
	return text && *text && !*end && fd >= 0 && fd <= INT_MAX ? (int)fd : -1;
}

static int mount(struct fuse_ask *ask, bool auto_unmount)
{
	struct fuse_reply reply;
	int fd, comm = comm_socket();
	if (comm < 0)
		return complain("old style mounting not supported (_FUSE_COMMFD is not set)", "", "");
	ask->op = FUSE_MOUNT;
	int os = ask_agent(ask, &reply, &fd);
	if (!os && fd < 0)
		os = EPROTO;
	if (os)
		return complain("mount failed", "", words(&reply, os));
	if (!pass_on(comm, fd)) {
		os = errno;
		close(fd);
		quiet = true;
		ask->flags = FUSE_LAZY;
		unmount(ask);
		quiet = false;
		return complain("sending file descriptor", "", strerror(os));
	}
	close(fd);
	if (auto_unmount && fork() == 0)
		stay(comm, ask);
	return 0;
}

static int run(int argc, char **argv, bool is_unmount, bool lazy, struct fuse_ask *ask)
{
	if (optind >= argc)
		return complain("missing mountpoint argument", "", "");
	if (optind + 1 < argc)
		return complain("extra arguments after the mountpoint", "", "");
	if (lazy && !is_unmount)
		return complain("-z can only be used with -u", "", "");
	if (!absolute(argv[optind], ask->path))
		return complain("bad mount point ", argv[optind], strerror(errno));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"unmount", no_argument, NULL, 'u'}, {"lazy", no_argument, NULL, 'z'},
		{"quiet", no_argument, NULL, 'q'}, {"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'}, {"options", required_argument, NULL, 'o'},
		{"auto-unmount", no_argument, NULL, 'U'}, {NULL, 0, NULL, 0}};
	static struct fuse_ask ask = {.magic = FUSE_MAGIC};
	bool is_unmount = false, lazy = false, auto_unmount = false;
	char bad[256];
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	program = slash ? slash + 1 : argc > 0 ? argv[0] : program;
	for (int c; (c = getopt_long(argc, argv, "hVo:uzqU", longs, NULL)) != -1;) {
		if (c == 'h' || c == 'V') {
			printf(c == 'h' ? usage : "%s version: 3.14.0 (Atoll " ATOLL_VERSION ")\n", program);
			return 0;
		}
		if (c == '?')
			return 1;
		is_unmount |= c == 'u';
		lazy |= c == 'z';
		quiet |= c == 'q';
		auto_unmount |= c == 'U';
		if (c == 'o' && !options_take(optarg, &ask, &auto_unmount, bad, sizeof bad))
			return complain("unknown option ", bad, "");
	}
	if (run(argc, argv, is_unmount, lazy, &ask))
		return 1;
	if (is_unmount) {
		ask.flags = lazy ? FUSE_LAZY : 0;
		return unmount(&ask);
	}
	return mount(&ask, auto_unmount);
}

#include "base/fd.h"
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char dir[] = "/tmp/atoll-fd-test-XXXXXX";
static int dir_fd = -1;

static void remove_dir(void)
{
	static const char *const names[] = {"file", "file.tmp", "link", "sock"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		unlinkat(dir_fd, names[i], 0);
	rmdir(dir);
}

/* Goes with the test, also when it fails: a failed CHECK ends in exit(). */
static void make_dir(void)
{
	CHECK(mkdtemp(dir));
	dir_fd = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	CHECK(dir_fd >= 0);
	atexit(remove_dir);
}

static void put_file(const char *name, size_t n)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	for (size_t i = 0; i < n; i++)
		CHECK_INT(write(fd, "x", 1), 1);
	close(fd);
}

TEST(fd_read_file_takes_the_maximum_and_no_more)
{
	make_dir();
	const size_t sizes[] = {0, 1, 4095, 4096, 4097};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		put_file("file", sizes[i]);
		auto_buf struct buf b = {0};
		buf_add_c(&b, "before");
		CHECK_INT(fd_read_file(dir_fd, "file", sizes[i], &b), 0);
		CHECK_INT(buf_size(&b), 6 + sizes[i]);
		if (sizes[i])
			CHECK_INT(fd_read_file(dir_fd, "file", sizes[i] - 1, &b), -EFBIG);
		CHECK_INT(buf_size(&b), 6 + sizes[i]);
		CHECK(!b.failed);
	}
	auto_buf struct buf b = {0};
	CHECK_INT(fd_read_file(dir_fd, "nothing", 10, &b), -ENOENT);
	CHECK_INT(fd_read_file(dir_fd, ".", 10, &b), -EISDIR);
	CHECK_INT(fd_read_file(AT_FDCWD, "/proc/self/status", 1 << 20, &b), 0);
	CHECK(buf_size(&b) > 100);
}

TEST(fd_write_file_writes_to_what_exists)
{
	make_dir();
	CHECK_INT(fd_write_file(dir_fd, "file", STR("x")), -ENOENT);
	put_file("file", 3);
	CHECK_INT(fd_write_file(dir_fd, "file", STR("ab")), 0);
	auto_buf struct buf b = {0};
	CHECK_INT(fd_read_file(dir_fd, "file", 10, &b), 0);
	CHECK_STR(buf_str(&b), "abx");
}

TEST(fd_replace_file_sets_content_and_mode)
{
	make_dir();
	umask(077);
	CHECK_INT(fd_replace_file(dir_fd, "file", STR("one"), 0644), 0);
	struct stat st;
	CHECK_INT(fstatat(dir_fd, "file", &st, 0), 0);
	CHECK_INT(st.st_mode & 07777, 0644);
	CHECK_INT(fd_replace_file(dir_fd, "file", STR("second"), 0600), 0);
	auto_buf struct buf b = {0};
	CHECK_INT(fd_read_file(dir_fd, "file", 10, &b), 0);
	CHECK_STR(buf_str(&b), "second");
	CHECK_INT(fstatat(dir_fd, "file", &st, 0), 0);
	CHECK_INT(st.st_mode & 07777, 0600);
	CHECK_INT(fstatat(dir_fd, "file.tmp", &st, 0), -1);
}

/* Whoever prepared the temporary file must not get the content, nor may a link lead elsewhere. */
TEST(fd_replace_file_does_not_use_a_temporary_file_that_is_there)
{
	make_dir();
	put_file("file.tmp", 1);
	int old = openat(dir_fd, "file.tmp", O_RDONLY | O_CLOEXEC);
	CHECK_INT(fd_replace_file(dir_fd, "file", STR("secret"), 0600), 0);
	char c[8];
	CHECK_INT(read(old, c, sizeof c), 1);
	close(old);
	CHECK_INT(symlinkat("link", dir_fd, "file.tmp"), 0);
	CHECK_INT(fd_replace_file(dir_fd, "file", STR("again"), 0600), 0);
	struct stat st;
	CHECK_INT(fstatat(dir_fd, "link", &st, AT_SYMLINK_NOFOLLOW), -1);
	CHECK_INT(fstatat(dir_fd, "file", &st, AT_SYMLINK_NOFOLLOW), 0);
	CHECK(S_ISREG(st.st_mode));
}

TEST(fd_replace_file_leaves_nothing_behind_when_it_fails)
{
	make_dir();
	CHECK_INT(mkdirat(dir_fd, "file", 0700), 0);
	CHECK_INT(fd_replace_file(dir_fd, "file", STR("x"), 0600), -EISDIR);
	struct stat st;
	CHECK_INT(fstatat(dir_fd, "file.tmp", &st, AT_SYMLINK_NOFOLLOW), -1);
	CHECK_INT(unlinkat(dir_fd, "file", AT_REMOVEDIR), 0);
	char name[600];
	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = 0;
	CHECK_INT(fd_replace_file(dir_fd, name, STR("x"), 0600), -ENAMETOOLONG);
}

static void nothing(int signo)
{
	(void)signo;
}

struct transfer {
	int fd;
	pthread_t reader;
	ssize_t got;
	char *data;
};
enum { TRANSFER = 1 << 20 };

static void *read_all(void *arg)
{
	struct transfer *t = arg;
	t->got = fd_read_full(t->fd, t->data, TRANSFER + 1);
	return NULL;
}

/* Both ends block and are interrupted all the time. */
TEST(fd_full_transfers_go_on_after_signals_and_short_reads)
{
	struct sigaction sa = {.sa_handler = nothing}; /* no SA_RESTART */
	sigaction(SIGUSR1, &sa, NULL);
	int fds[2];
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	auto_free char *sent = xmalloc(TRANSFER);
	for (size_t i = 0; i < TRANSFER; i++)
		sent[i] = (char)(i * 31);
	struct transfer t = {.fd = fds[0], .data = xmalloc(TRANSFER + 1)};
	CHECK_INT(pthread_create(&t.reader, NULL, read_all, &t), 0);
	for (size_t at = 0; at < TRANSFER; at += TRANSFER / 64) {
		pthread_kill(t.reader, SIGUSR1);
		CHECK_INT(fd_write_full(fds[1], sent + at, TRANSFER / 64), 0);
	}
	close(fds[1]);
	pthread_join(t.reader, NULL);
	CHECK_INT(t.got, TRANSFER);
	CHECK(memcmp(t.data, sent, TRANSFER) == 0);
	free(t.data);
	close(fds[0]);
	signal(SIGPIPE, SIG_IGN);
	CHECK_INT(fd_read_full(-1, sent, 1), -EBADF);
	CHECK_INT(fd_write_full(-1, sent, 1), -EBADF);
}

TEST(fd_unix_sockets_listen_with_the_mode_and_connect)
{
	make_dir();
	char path[64];
	snprintf(path, sizeof path, "%s/sock", dir);
	umask(077);
	CHECK_INT(fd_unix_connect(path, SOCK_STREAM), -ENOENT);
	int first = fd_unix_listen(path, SOCK_STREAM, 0660, 1);
	CHECK(first >= 0);
	struct stat st;
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_mode & 07777, 0660);
	CHECK(S_ISSOCK(st.st_mode));
	CHECK(fcntl(first, F_GETFL) & O_NONBLOCK);
	CHECK(fcntl(first, F_GETFD) & FD_CLOEXEC);
	int c = fd_unix_connect(path, SOCK_STREAM);
	CHECK(c >= 0);
	CHECK(fcntl(c, F_GETFL) & O_NONBLOCK);
	CHECK_INT(fd_set_nonblock(c, false), 0);
	CHECK(!(fcntl(c, F_GETFL) & O_NONBLOCK));
	CHECK_INT(fd_set_nonblock(c, true), 0);
	CHECK(fcntl(c, F_GETFL) & O_NONBLOCK);
	CHECK_INT(fd_set_nonblock(-1, true), -EBADF);
	close(c);
	close(first);
	CHECK_INT(fd_unix_connect(path, SOCK_STREAM), -ECONNREFUSED);
	int second = fd_unix_listen(path, SOCK_SEQPACKET, 0600, 1); /* over what the first left */
	CHECK(second >= 0);
	CHECK_INT(fd_unix_connect(path, SOCK_STREAM), -EPROTOTYPE);
	close(second);
}

TEST(fd_unix_connect_says_when_the_backlog_is_full)
{
	make_dir();
	char path[64];
	snprintf(path, sizeof path, "%s/sock", dir);
	int s = fd_unix_listen(path, SOCK_STREAM, 0600, 1), r = 0, clients[8], n = 0;
	while (n < 8 && (r = fd_unix_connect(path, SOCK_STREAM)) >= 0)
		clients[n++] = r;
	CHECK_INT(r, -EAGAIN);
	while (n > 0)
		close(clients[--n]);
	close(s);
}

TEST(fd_unix_paths_that_do_not_fit_are_refused)
{
	char path[sizeof(struct sockaddr_un)];
	memset(path, 'x', sizeof path);
	path[sizeof((struct sockaddr_un *)0)->sun_path] = 0;
	CHECK_INT(fd_unix_listen(path, SOCK_STREAM, 0600, 1), -ENAMETOOLONG);
	CHECK_INT(fd_unix_connect(path, SOCK_STREAM), -ENAMETOOLONG);
	path[sizeof((struct sockaddr_un *)0)->sun_path - 1] = 0;
	CHECK_INT(fd_unix_connect(path, SOCK_STREAM), -ENOENT);
	CHECK_INT(fd_unix_listen("", SOCK_STREAM, 0600, 1), -EINVAL);
	CHECK_INT(fd_unix_connect("", SOCK_STREAM), -EINVAL);
}

TEST_MAIN()

#include "base/fd_pass.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static int pair[2];

static void make_pair(void)
{
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

static int lowest_free(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	close(fd);
	return fd;
}

TEST(a_record_arrives_with_its_descriptors)
{
	make_pair();
	int p[2], got[2];
	CHECK_INT(pipe2(p, O_CLOEXEC), 0);
	CHECK_INT(fd_send(pair[0], "abc", 3, p, 2, 0), 3);
	char data[8];
	struct fd_record r = {.data = data, .size = sizeof data, .fds = got, .fds_max = 2};
	CHECK_INT(fd_recv(pair[1], &r, 0), 3);
	CHECK_MEM(data, 3, "abc", 3);
	CHECK_INT(r.fds_n, 2);
	CHECK_INT(r.pid, 0);
	CHECK(fcntl(got[0], F_GETFD) & FD_CLOEXEC);
	CHECK_INT(write(got[1], "x", 1), 1);
	CHECK_INT(read(p[0], data, sizeof data), 1);
	fd_record_close(&r);
	CHECK_INT(r.fds_n, 0);
	CHECK_INT(fcntl(got[0], F_GETFD), -1);
}

TEST(a_record_with_more_descriptors_than_wanted_is_refused_and_leaves_none_open)
{
	make_pair();
	int many[FD_PASS_MAX], got[FD_PASS_MAX];
	for (size_t i = 0; i < FD_PASS_MAX; i++)
		many[i] = pair[0];
	int free_before = lowest_free();
	char data[8];
	const size_t wanted[] = {0, 1, FD_PASS_MAX - 1, FD_PASS_MAX};
	for (size_t i = 0; i < 4; i++) {
		struct fd_record r = {.data = data, .size = sizeof data, .fds = got, .fds_max = wanted[i]};
		CHECK_INT(fd_send(pair[0], "a", 1, many, FD_PASS_MAX, 0), 1);
		CHECK_INT(fd_recv(pair[1], &r, 0), wanted[i] == FD_PASS_MAX ? 1 : -EPROTO);
		CHECK_INT(r.fds_n, wanted[i] == FD_PASS_MAX ? FD_PASS_MAX : 0);
		fd_record_close(&r);
		CHECK_INT(lowest_free(), free_before);
	}
}

TEST(a_cut_record_tells_its_real_length)
{
	make_pair();
	char data[4];
	struct fd_record r = {.data = data, .size = sizeof data};
	CHECK_INT(fd_send(pair[0], "12345678", 8, NULL, 0, 0), 8);
	CHECK_INT(fd_recv(pair[1], &r, 0), 8);
	CHECK_INT(fd_recv(pair[1], &r, MSG_DONTWAIT), -EAGAIN);
	close(pair[0]);
	CHECK_INT(fd_recv(pair[1], &r, 0), 0);
	CHECK_INT(fd_send(pair[1], "a", 1, NULL, 0, 0), -EPIPE);
}

TEST(the_sender_is_named_where_the_socket_asks_for_it)
{
	make_pair();
	CHECK_INT(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)), 0);
	char data[4];
	int got;
	struct fd_record r = {.data = data, .size = sizeof data, .fds = &got, .fds_max = 1};
	CHECK_INT(fd_send(pair[0], "a", 1, &pair[0], 1, 0), 1);
	CHECK_INT(fd_recv(pair[1], &r, 0), 1);
	CHECK_INT(r.pid, getpid());
	CHECK_INT(r.fds_n, 1);
}

TEST_MAIN()

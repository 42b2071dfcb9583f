/* What the kernel's texts say about the memory of TCP; windows by number; which connections stand still. */
#include "base/tcp_mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "test.h"

enum { FEW = 16, MIN = 64 * KIB };

TEST(the_low_mark_is_the_first_number_or_three_in_64_pages_of_the_memory)
{
	CHECK_INT(tcp_low_mark(STR("93342\t124456\t186684\n"), 1), 93342);
	CHECK_INT(tcp_low_mark(STR("7"), 1), 7);
	CHECK_INT(tcp_low_mark(STR(""), 6400), 300);
	CHECK_INT(tcp_low_mark(STR("\t5"), 6400), 300);
	CHECK_INT(tcp_low_mark(STR("99999999999 1 2"), 6400), 300);
}

TEST(the_pages_of_tcp_are_those_of_its_own_line)
{
	CHECK_INT(tcp_pages(STR(
			  "sockets: used 290\nTCP: inuse 44 orphan 0 tw 9 alloc 51 mem 1234\nUDP: inuse 3 mem 5\n")),
		1234);
	CHECK_INT(tcp_pages(STR("UDP: inuse 3 mem 5\nTCP: inuse 0 mem 6")), 6);
	CHECK_INT(tcp_pages(STR("UDP: inuse 3 mem 5\nUDPLITE: inuse 0\nTCP: inuse 44\n")), 0);
	CHECK_INT(tcp_pages(STR("TCP6: inuse 1 mem 9\n")), 0);
	CHECK_INT(tcp_pages(STR("")), 0);
}

static uint32_t window(size_t n, uint32_t now)
{
	return tcp_window_for(n, FEW, MIN, now);
}

TEST(windows_are_smaller_from_16_64_and_128_connections_on)
{
	CHECK_INT(window(16, 0), 0);
	CHECK_INT(window(17, 0), 4 * MIN);
	CHECK_INT(window(64, 4 * MIN), 4 * MIN);
	CHECK_INT(window(65, 4 * MIN), 2 * MIN);
	CHECK_INT(window(128, 2 * MIN), 2 * MIN);
	CHECK_INT(window(129, 2 * MIN), MIN);
	CHECK_INT(window(5000, 0), MIN);
}

TEST(windows_grow_again_at_half_of_that)
{
	CHECK_INT(window(65, MIN), MIN);
	CHECK_INT(window(64, MIN), 2 * MIN);
	CHECK_INT(window(33, 2 * MIN), 2 * MIN);
	CHECK_INT(window(32, 2 * MIN), 4 * MIN);
	CHECK_INT(window(9, 4 * MIN), 4 * MIN);
	CHECK_INT(window(8, 4 * MIN), 0);
	CHECK_INT(window(8, MIN), 0);
}

TEST(a_direction_stands_still_when_less_than_its_least_moves_while_bytes_wait)
{
	struct tcp_way w = {0};
	tcp_way_look(&w, 1000, true, 0);
	tcp_way_look(&w, 10999, true, TCP_WAY_MOVES - 1);
	CHECK(!tcp_way_is_stuck(&w, 10999, TCP_WAY_SPAN));
	tcp_way_look(&w, 11000, true, TCP_WAY_MOVES - 1);
	CHECK(tcp_way_is_stuck(&w, 11000, TCP_WAY_SPAN));
	tcp_way_look(&w, 12000, true, TCP_WAY_MOVES); /* it has moved after all */
	CHECK(!tcp_way_is_stuck(&w, 12000, 0));
	tcp_way_look(&w, 30000, true, TCP_WAY_MOVES + 10);
	CHECK(tcp_way_is_stuck(&w, 30000, TCP_WAY_SPAN));
	tcp_way_look(&w, 30001, false, 0); /* nothing waits */
	CHECK(!tcp_way_is_stuck(&w, 90000, TCP_WAY_SPAN));
}

TEST(with_less_patience_it_must_move_as_fast)
{
	struct tcp_way w = {0};
	tcp_way_look(&w, 1000, true, 100);
	tcp_way_look(&w, 3000, true, 101 + TCP_WAY_MOVES / 5);
	CHECK(!tcp_way_is_stuck(&w, 3000, 2000));
	tcp_way_look(&w, 3001, true, 101 + TCP_WAY_MOVES / 5);
	CHECK(tcp_way_is_stuck(&w, 3001, 2000));
}

TEST(what_sockets_hold_is_what_was_not_read)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof at;
	static char bytes[1 << 20];
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), a = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(l, (struct sockaddr *)&at, n) == 0 && listen(l, 1) == 0);
	CHECK(getsockname(l, (struct sockaddr *)&at, &n) == 0 && connect(a, (struct sockaddr *)&at, n) == 0);
	int b = accept(l, NULL, NULL);
	tcp_window_set(b, MIN);
	CHECK_INT(tcp_held(a) + tcp_held(b), 0);
	ssize_t sent, all = 0;
	while ((sent = send(a, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
		all += sent;
	CHECK(errno == EAGAIN);
	CHECK(tcp_held(a) + tcp_held(b) >= (size_t)all);
	CHECK(tcp_unsent(a) > 0 && tcp_unsent(b) == 0);
	CHECK(tcp_taken(a) > 0 && tcp_taken(a) < (uint64_t)all);
	CHECK_INT(tcp_taken(b), 0);
	CHECK_INT(tcp_held(-1), 0);
	CHECK(tcp_cookie(a) && tcp_cookie(b) && tcp_cookie(a) != tcp_cookie(b) && !tcp_cookie(-1));
	close(a);
	close(b);
	close(l);
}

TEST_MAIN()

/*
 * The daemon's end of the connection to the warden, against a peer that is late, silent, wrong or gone. The records of
 * a warden that works are tested with the real one (tests/integration).
 */
#include "daemon/warden_client.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "proto/limits.h"
#include "test.h"

static struct {
	char dir[64], path[96];
	struct loop *loop;
	struct warden_client *warden;
	int listen_fd, fd;
	int ups, downs, died;
	size_t boxes;
} t;

static void on_up(void *arg, const struct box_info *boxes, size_t n)
{
	(void)arg;
	t.ups++;
	t.boxes = n;
	for (size_t i = 0; i < n; i++)
		CHECK(boxes[i].id[0]);
}

static void on_down(void *arg)
{
	(void)arg;
	t.downs++;
}

static void on_died(void *arg, const struct box_info *info)
{
	(void)arg;
	CHECK_CSTR(info->id, "gone");
	t.died++;
}

static const struct warden_ops ops = {on_up, on_down, on_died};

static void clean(void)
{
	unlink(t.path);
	rmdir(t.dir);
}

static void listen_again(void)
{
	t.listen_fd = fd_unix_listen(t.path, SOCK_SEQPACKET, 0600, 4);
	CHECK(t.listen_fd >= 0);
}

static void begin(void)
{
	snprintf(t.dir, sizeof t.dir, "/tmp/atoll-warden-XXXXXX");
	CHECK(mkdtemp(t.dir));
	atexit(clean);
	snprintf(t.path, sizeof t.path, "%s/s", t.dir);
	t.fd = -1;
	t.loop = loop_new();
	listen_again();
	t.warden = warden_client_new(t.loop, t.path, &ops, NULL);
}

static bool readable(int fd)
{
	return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1;
}

static void peer_accept(void)
{
	while (!readable(t.listen_fd))
		loop_turn(t.loop, 10);
	fd_close(&t.fd);
	t.fd = accept4(t.listen_fd, NULL, NULL, SOCK_CLOEXEC);
	CHECK(t.fd >= 0);
}

static struct warden_request peer_take(uint32_t op)
{
	struct warden_request r;
	while (!readable(t.fd))
		loop_turn(t.loop, 10);
	CHECK_INT(recv(t.fd, &r, sizeof r, 0), sizeof r);
	CHECK_INT(r.magic, WARDEN_MAGIC);
	CHECK_INT(r.op, op);
	return r;
}

static struct warden_reply reply_to(const struct warden_request *r)
{
	return (struct warden_reply){.magic = WARDEN_MAGIC, .op = r->op, .seq = r->seq};
}

static void peer_send(const struct warden_reply *r)
{
	CHECK_INT(send(t.fd, r, sizeof *r, 0), sizeof *r);
}

static void peer_list(const char *id, const struct warden_request *asked)
{
	struct warden_reply r = reply_to(asked);
	r.has_info = r.more = id != NULL;
	if (id)
		snprintf(r.info.id, sizeof r.info.id, "%s", id);
	peer_send(&r);
}

static void peer_greet(void)
{
	peer_accept();
	struct warden_request hello = peer_take(WARDEN_HELLO);
	struct warden_reply r = reply_to(&hello);
	r.host.mem_total = 12345;
	peer_send(&r);
	struct warden_request list = peer_take(WARDEN_LIST);
	int ups = t.ups;
	peer_list("one", &list);
	peer_list("two", &list);
	peer_list(NULL, &list);
	while (t.ups == ups)
		loop_turn(t.loop, -1);
}

struct got {
	int n, lost, failed;
	char id[BOX_ID_MAX + 1];
};

static void on_answer(void *arg, const struct warden_answer *a)
{
	struct got *g = arg;
	g->n++;
	g->lost += a->lost;
	g->failed += a->err != NULL;
	if (a->info)
		memcpy(g->id, a->info->id, sizeof g->id);
}

static void ask(const char *id, struct got *g)
{
	struct warden_request r = {.op = WARDEN_INSPECT};
	snprintf(r.id, sizeof r.id, "%s", id);
	warden_client_call(t.warden, &r, on_answer, g);
	CHECK_INT(g->n, 0);
}

TEST(it_is_up_when_host_and_boxes_are_known)
{
	begin();
	CHECK(!warden_client_is_up(t.warden) && !warden_host(t.warden));
	peer_greet();
	CHECK(warden_client_is_up(t.warden));
	CHECK_INT(warden_host(t.warden)->mem_total, 12345);
	CHECK_INT(t.boxes, 2);
	warden_client_free(t.warden);
}

TEST(answers_may_come_in_any_order)
{
	begin();
	peer_greet();
	struct got a = {0}, b = {0};
	ask("a", &a);
	ask("b", &b);
	struct warden_request first = peer_take(WARDEN_INSPECT), second = peer_take(WARDEN_INSPECT);
	struct warden_reply r = reply_to(&second);
	r.has_info = 1;
	snprintf(r.info.id, sizeof r.info.id, "second");
	peer_send(&r);
	r = reply_to(&first);
	err_set(&r.err, ERRC_SANDBOX_NOT_FOUND, "no");
	peer_send(&r);
	while (!a.n || !b.n)
		loop_turn(t.loop, -1);
	CHECK_CSTR(b.id, "second");
	CHECK_INT(b.failed, 0);
	CHECK_INT(a.failed, 1);
	CHECK_INT(a.lost, 0);
}

TEST(an_answer_that_nobody_asked_for_is_skipped)
{
	begin();
	peer_greet();
	struct got a = {0};
	ask("a", &a);
	struct warden_request q = peer_take(WARDEN_INSPECT);
	struct warden_reply r = reply_to(&q);
	r.seq += 1000;
	peer_send(&r);
	r = (struct warden_reply){.magic = WARDEN_MAGIC, .op = WARDEN_BOX_DIED, .has_info = 1};
	snprintf(r.info.id, sizeof r.info.id, "gone");
	peer_send(&r);
	r = reply_to(&q);
	peer_send(&r);
	while (!a.n)
		loop_turn(t.loop, -1);
	CHECK_INT(t.died, 1);
	CHECK_INT(t.downs, 0);
}

TEST(what_was_asked_of_a_warden_that_dies_is_lost_and_the_next_one_is_found)
{
	begin();
	peer_greet();
	struct got a = {0}, b = {0};
	ask("a", &a);
	ask("b", &b);
	fd_close(&t.fd);
	while (!t.downs)
		loop_turn(t.loop, -1);
	CHECK_INT(a.lost + b.lost, 2);
	CHECK(!warden_client_is_up(t.warden));
	peer_greet();
	CHECK_INT(t.ups, 2);
	CHECK_INT(warden_stats(t.warden).connects, 2);
}

TEST(a_warden_that_comes_late_is_found)
{
	begin();
	fd_close(&t.listen_fd);
	unlink(t.path);
	for (int i = 0; i < 5; i++)
		loop_turn(t.loop, 5);
	listen_again();
	peer_greet();
	CHECK_INT(t.ups, 1);
}

static void expect_left(const void *bytes, size_t n)
{
	begin();
	peer_accept();
	peer_take(WARDEN_HELLO);
	CHECK_INT(send(t.fd, bytes, n, 0), n);
	/* It goes away and comes again. */
	peer_greet();
	CHECK_INT(t.ups, 1);
}

TEST(a_record_of_another_size_ends_the_connection)
{
	char bytes[sizeof(struct warden_reply) + 8] = {0};
	struct warden_reply r = {.magic = WARDEN_MAGIC, .op = WARDEN_HELLO, .seq = 1};
	memcpy(bytes, &r, sizeof r);
	expect_left(bytes, sizeof bytes);
}

TEST(a_short_record_ends_the_connection)
{
	struct warden_reply r = {.magic = WARDEN_MAGIC, .op = WARDEN_HELLO, .seq = 1};
	expect_left(&r, sizeof r - 1);
}

TEST(another_version_ends_the_connection)
{
	struct warden_reply r = {.magic = WARDEN_MAGIC + 1, .op = WARDEN_HELLO, .seq = 1};
	expect_left(&r, sizeof r);
}

TEST(a_refused_hello_ends_the_connection)
{
	struct warden_reply r = {.magic = WARDEN_MAGIC, .op = WARDEN_HELLO, .seq = 1};
	err_set(&r.err, ERRC_FORBIDDEN, "not you");
	expect_left(&r, sizeof r);
}

TEST_MAIN()

/* Questions to workerd: what atolld tells of it, and answers that come whole, in pieces, or are none. */
#include "gate/worker.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "gate/gate.h"
#include "test.h"

enum { PATIENCE = 60000 };

/* ---- what atolld tells ---- */

static int read_worker(const char *text, struct worker **ret, struct err *e)
{
	struct json_doc *doc = json_parse(str_of(text), e);
	int r = worker_read(doc ? json_root(doc) : NULL, ret, e);
	json_free(doc);
	return r;
}

TEST(a_worker_is_read)
{
	struct worker *w = NULL;
	struct err e = {0};
	CHECK_INT(read_worker("{}", &w, &e), 0);
	CHECK(!w && !worker_names(w, "a.example"));
	CHECK_INT(read_worker("{\"port\":0,\"uid\":5}", &w, &e), 0);
	CHECK(!w);
	CHECK_INT(read_worker("{\"port\":65535,\"uid\":4294967295}", &w, &e), 0);
	CHECK(w && w->port == 65535 && w->uid == UINT32_MAX && !w->internet && !worker_names(w, "a.example"));
	worker_free(w);
	CHECK_INT(read_worker("{\"port\":1,\"internet\":true,\"http\":[\"a.example\"]}", &w, &e), 0);
	CHECK(w && w->internet && worker_names(w, "a.example") && !worker_names(w, "b.example"));
	worker_free(w);
	CHECK_INT(read_worker("{\"port\":1,\"internet\":1,\"http\":[\"*\"]}", &w, &e), 0);
	CHECK(w && !w->internet && worker_names(w, "b.example"));
	worker_free(w);
}

TEST(bad_workers_are_refused)
{
	static const char *const bad[] = {"{\"port\":65536}", "{\"port\":-1}", "{\"port\":\"80\"}", "{\"port\":1.5}",
		"{\"port\":1,\"uid\":4294967296}", "{\"port\":1,\"uid\":-1}", "{\"port\":1,\"uid\":\"root\"}",
		"{\"port\":1,\"http\":\"a\"}", "{\"port\":1,\"http\":[1]}"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct worker *w = (struct worker *)&bad;
		struct err e = {0};
		if (read_worker(bad[i], &w, &e) == 0)
			test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
		CHECK(!w && e.msg[0]);
	}
}

/* ---- one question ---- */

struct server {
	int fd;
	uint16_t port;
	pid_t pid;
	int asked; /* the question comes through here */
};

static void listen_on_loopback(struct server *s)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof at;
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_INT(bind(s->fd, (struct sockaddr *)&at, n), 0);
	CHECK_INT(listen(s->fd, 5), 0);
	CHECK_INT(getsockname(s->fd, (struct sockaddr *)&at, &n), 0);
	s->port = ntohs(at.sin_port);
}

/* The child: takes the question, then answers in pieces, each a message of its own. */
static void serve(const struct server *s, int out, struct str answer, size_t piece)
{
	char question[2048];
	size_t n = 0;
	int c = accept(s->fd, NULL, NULL);
	while (n < sizeof question && (n < 4 || memcmp(question + n - 4, "\r\n\r\n", 4) != 0)) {
		ssize_t r = read(c, question + n, sizeof question - n);
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	(void)!write(out, question, n);
	close(out);
	while (answer.n) {
		size_t part = piece < answer.n ? piece : answer.n;
		if (send(c, answer.p, part, MSG_NOSIGNAL) < 0)
			break;
		answer = str_skip(answer, part);
		if (answer.n)
			poll(NULL, 0, 1); /* so that it arrives by itself */
	}
	close(c);
	_exit(0);
}

static struct server server_start(struct str answer, size_t piece)
{
	struct server s;
	int ends[2];
	listen_on_loopback(&s);
	CHECK_INT(pipe(ends), 0);
	s.pid = fork();
	if (s.pid == 0) {
		close(ends[0]);
		serve(&s, ends[1], answer, piece);
	}
	close(ends[1]);
	s.asked = ends[0];
	return s;
}

/* `served`: it has been asked, and ends by itself when its answer is sent. */
static void server_end(struct server *s, bool served)
{
	if (!served)
		kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	close(s->fd);
	close(s->asked);
}

struct asked {
	struct loop *loop;
	int times, status, fd;
};

static void on_done(void *arg, int status, int fd)
{
	struct asked *a = arg;
	a->times++;
	a->status = status;
	a->fd = fd;
	loop_stop(a->loop);
}

static void on_late(struct loop_timer *t)
{
	test_fail(__FILE__, __LINE__, "no answer after %d ms", PATIENCE);
	loop_stop(t->loop);
}

static struct asked ask(uint16_t port, uint32_t uid, const struct worker_to *to)
{
	struct loop *loop = loop_new();
	struct gate gate = {.loop = loop};
	struct worker w = {.port = port, .uid = uid};
	struct asked a = {.loop = loop, .fd = -1};
	struct loop_timer late = {0};
	loop_timer_set(loop, &late, PATIENCE, on_late);
	(void)worker_ask_start(&gate, &w, to, on_done, &a);
	loop_run(loop);
	loop_timer_stop(&late);
	loop_free(loop);
	CHECK_INT(a.times, 1);
	return a;
}

static struct asked ask_plainly(struct str answer, size_t piece)
{
	struct ip ip = ip_v4(0x01020304);
	struct worker_to to = {.ip = &ip, .port = 443};
	struct server s = server_start(answer, piece);
	struct asked a = ask(s.port, getuid(), &to);
	server_end(&s, true);
	return a;
}

TEST(a_tunnel_begins_behind_the_head_of_the_answer)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nX-One: 1\r\n\r\nfirst bytes\r\n\r\n of the tunnel";
	for (size_t piece = 1; piece <= sizeof answer; piece *= 5) {
		struct asked a = ask_plainly(str_of(answer), piece);
		char text[64];
		size_t n = 0;
		CHECK_INT(a.status, 200);
		for (ssize_t r; a.fd >= 0 && n < sizeof text;) {
			struct pollfd p = {.fd = a.fd, .events = POLLIN};
			poll(&p, 1, PATIENCE);
			if ((r = read(a.fd, text + n, sizeof text - n)) <= 0)
				break;
			n += (size_t)r;
		}
		CHECK_STR(str_n(text, n), "first bytes\r\n\r\n of the tunnel");
		close(a.fd);
	}
}

TEST(the_status_decides_whether_there_is_a_tunnel)
{
	static const struct {
		const char *answer;
		int status;
	} all[] = {{"HTTP/1.1 202 Accepted\r\n\r\n", 202}, {"HTTP/1.0 200\r\n\r\n", 200},
		{"HTTP/1.1 400 No\r\n\r\n", 400}, {"HTTP/1.1 520 \r\n\r\n", 520}, {"HTTP/2 200 OK\r\n\r\n", 0},
		{"HTTP/1.1 abc\r\n\r\n", 0}, {"HTTP/1.1 -20\r\n\r\n", 0}, {"SSH-2.0-x\r\n\r\n", 0}, {"\r\n\r\n", 0},
		{"HTTP/1.1 200 OK\r\n", 0}, {"", 0}};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct asked a = ask_plainly(str_of(all[i].answer), 1000);
		if (a.status != all[i].status)
			test_fail(__FILE__, __LINE__, "'%s' is %d", all[i].answer, a.status);
		CHECK((a.fd >= 0) == (a.status == 200 || a.status == 202));
		if (a.fd >= 0)
			close(a.fd);
	}
}

TEST(an_answer_has_a_longest_head)
{
	static char text[GATE_WORKER_HEAD_MAX + 1];
	for (size_t over = 0; over < 2; over++) {
		size_t n = GATE_WORKER_HEAD_MAX + over;
		memset(text, 'x', sizeof text);
		memcpy(text, "HTTP/1.1 202 OK\r\nX: ", 20);
		memcpy(text + n - 4, "\r\n\r\n", 4);
		struct asked a = ask_plainly(str_n(text, n), 1024);
		CHECK_INT(a.status, over ? 0 : 202);
		if (a.fd >= 0)
			close(a.fd);
	}
}

/* The same each time. */
static unsigned next_random(void)
{
	static uint32_t state = 12345;
	state = state * 1664525u + 1013904223u;
	return state >> 16;
}

TEST(any_bytes_have_one_end)
{
	static const char letters[] = "HTP/1.20 \r\n\r\n\r\n:x";
	for (int round = 0; round < 60; round++) {
		char text[80];
		size_t n = next_random() % sizeof text;
		for (size_t i = 0; i < n; i++)
			text[i] =
				next_random() % 8 ? letters[next_random() % (sizeof letters - 1)] : (char)next_random();
		struct asked a = ask_plainly(str_n(text, n), 1 + next_random() % 40);
		CHECK((a.fd >= 0) == (a.status == 200 || a.status == 202));
		if (a.fd >= 0)
			close(a.fd);
	}
}

TEST(the_question_names_the_destination)
{
	struct ip ip;
	char text[2048];
	CHECK(ip_parse(STR("2001:db8::1"), &ip));
	struct worker_to to = {.ip = &ip, .port = 8443, .hostname = "a.example", .sni = "b.example"};
	struct server s = server_start(STR("HTTP/1.1 400 No\r\n\r\n"), 1000);
	struct asked a = ask(s.port, getuid(), &to);
	ssize_t n = read(s.asked, text, sizeof text);
	server_end(&s, false);
	CHECK_INT(a.status, 400);
	CHECK_STR(str_n(text, n > 0 ? (size_t)n : 0), "CONNECT [2001:db8::1]:8443 HTTP/1.1\r\nHost: "
						      "[2001:db8::1]:8443\r\nConnection: close\r\nX-Proto: tcp\r\n"
						      "X-Hostname: a.example\r\nX-Tls-Sni: b.example\r\n\r\n");
}

TEST(nobody_else_is_asked)
{
	struct ip ip = ip_v4(0x01020304);
	struct worker_to to = {.ip = &ip, .port = 80};
	struct server s = server_start(STR("HTTP/1.1 200 OK\r\n\r\n"), 1000);
	CHECK_INT(ask(s.port, getuid() + 1, &to).status, 0);
	server_end(&s, false);
	CHECK_INT(ask(s.port, getuid(), &to).status, 0); /* nobody listens any more */
}

TEST(a_question_that_is_taken_back_calls_nobody)
{
	struct loop *loop = loop_new();
	struct gate gate = {.loop = loop};
	struct server s = server_start(STR("HTTP/1.1 200 OK\r\n\r\n"), 1000);
	struct worker w = {.port = s.port, .uid = getuid()}, none = {.port = s.port, .uid = getuid() + 1};
	struct ip ip = ip_v4(0x01020304);
	struct worker_to to = {.ip = &ip, .port = 80};
	struct asked a = {.loop = loop, .fd = -1};
	worker_ask_cancel(NULL);
	worker_ask_cancel(worker_ask_start(&gate, &w, &to, on_done, &a));
	worker_ask_cancel(worker_ask_start(&gate, &none, &to, on_done, &a));
	/* Another one that is answered shows that the loop has turned. */
	(void)worker_ask_start(&gate, &none, &to, on_done, &a);
	loop_run(loop);
	CHECK_INT(a.times, 1);
	loop_free(loop);
	server_end(&s, false);
}

TEST_MAIN()

#include "gate/windows.h"

#include <fcntl.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "gate/gate.h"

#define END "too many bytes wait for their readers in this sandbox"

/* ---- the host ---- */

/* The kernel's own default where the setting is not shown: in network namespaces. */
static uint64_t low_mark(void)
{
	char text[64];
	uint64_t pages;
	struct sysinfo i;
	auto_fd int fd = open("/proc/sys/net/ipv4/tcp_mem", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	size_t digits = 0;
	while (n > 0 && digits < (size_t)n && text[digits] >= '0' && text[digits] <= '9')
		digits++;
	if (digits && str_to_u64(str_n(text, digits), UINT32_MAX, &pages))
		return pages;
	return sysinfo(&i) == 0 ? (uint64_t)i.totalram * i.mem_unit / 4096 * 3 / 64 : UINT32_MAX;
}

/* Pages of the whole host, or 0. */
static uint64_t pages_now(int fd)
{
	char text[1024];
	uint64_t pages = 0;
	ssize_t n = fd < 0 || lseek(fd, 0, SEEK_SET) < 0 ? -1 : read(fd, text, sizeof text);
	const char *tcp = n > 0 ? memmem(text, (size_t)n, "\nTCP: ", 6) : NULL;
	if (!tcp)
		return 0;
	struct str rest, line = str_split(str_n(tcp + 1, (size_t)(text + n - tcp - 1)), '\n', &rest);
	const char *mem = memmem(line.p, line.n, " mem ", 5);
	return mem && str_to_u64(str_skip(line, (size_t)(mem + 5 - line.p)), UINT32_MAX, &pages) ? pages : 0;
}

/* ---- windows ---- */

/* 0: the kernel's own. One that has become small stays so until the box has half as many connections. */
static uint32_t window_for(const struct gate_box *b)
{
	static const struct {
		size_t conns;
		uint32_t window;
	} steps[] = {{GATE_WINDOW_FEW * 8, GATE_WINDOW_MIN}, {GATE_WINDOW_FEW * 4, GATE_WINDOW_MIN * 2},
		{GATE_WINDOW_FEW, GATE_WINDOW_MIN * 4}};
	if (b->gate->windows.pressed)
		return GATE_WINDOW_MIN;
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		bool has_it = b->window && b->window <= steps[i].window;
		if (b->conns_n > (has_it ? steps[i].conns / 2 : steps[i].conns))
			return steps[i].window;
	}
	return 0;
}

/* A size that was set ends the kernel's own growth, until its lock is taken off again. */
static void set_fd(int fd, uint32_t window)
{
	const int free_again = 0, bytes = (int)window;
	if (fd < 0)
		return;
	if (!window) {
		setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &free_again, sizeof free_again);
		return;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

void windows_set(const struct gate_box *b, int fd)
{
	if (b->window)
		set_fd(fd, b->window);
}

void windows_changed(struct gate_box *b)
{
	uint32_t window = window_for(b);
	if (window == b->window)
		return;
	b->window = window;
	list_each(it, &b->conns)
	{
		const struct passage *c = list_entry(it, struct passage, node);
		set_fd(c->client, window);
		if (!c->web)
			set_fd(c->server, window);
	}
}

/* ---- what waits ---- */

static size_t memory_of(int fd)
{
	uint32_t m[SK_MEMINFO_VARS] = {0};
	socklen_t n = sizeof m;
	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_MEMINFO, m, &n) < 0)
		return 0;
	return (size_t)m[SK_MEMINFO_RMEM_ALLOC] + m[SK_MEMINFO_WMEM_QUEUED];
}

static bool is_stuck(const struct passage *c)
{
	return c->state == PASSAGE_MOVING && relay_is_stuck(&c->relay);
}

static size_t waiting_for(const struct passage *c)
{
	return is_stuck(c) ? memory_of(c->client) + memory_of(c->server) : 0;
}

/* The longest idle come first. */
static void bound(struct gate_box *b)
{
	const struct gate *g = b->gate;
	size_t all = 0, most = g->windows.pressed ? GATE_UNREAD_PRESSED : GATE_UNREAD_MAX;
	uint64_t patience = g->windows.pressed ? GATE_STUCK_PRESSED : GATE_STUCK;
	list_each(it, &b->conns) all += waiting_for(list_entry(it, struct passage, node));
	list_each(it, &b->conns)
	{
		struct passage *c = list_entry(it, struct passage, node);
		if (all <= most)
			return;
		size_t waiting = waiting_for(c);
		if (!waiting || loop_now(g->loop) - c->relay.moved < patience)
			continue;
		log_limited(LOG_WARN, "a connection whose reader has stopped is reset", "id=%s bytes=%zu",
			LOG_Q(box_id(b)), all);
		all -= waiting < all ? waiting : all;
		passage_shed(c, END);
	}
}

static void on_look(struct loop_timer *t)
{
	struct gate *g = container_of(t, struct gate, windows.look);
	size_t it = 0;
	void *v;
	bool pressed = pages_now(g->windows.sockstat) >= g->windows.mark, changed = pressed != g->windows.pressed;
	g->windows.pressed = pressed;
	if (changed)
		log_limited(LOG_INFO, "the host's memory for TCP", "short=%d", pressed);
	while (map_next(&g->boxes, &it, &(struct str){0}, &v)) {
		struct gate_box *b = v;
		if (changed)
			windows_changed(b);
		if (b->conns_n)
			bound(b);
	}
	loop_timer_set(g->loop, t, GATE_WINDOWS_LOOK, on_look);
}

void windows_open(struct gate *g)
{
	g->windows.sockstat = open("/proc/net/sockstat", O_RDONLY | O_CLOEXEC);
	g->windows.mark = low_mark() / GATE_TCP_SHARE;
	loop_timer_set(g->loop, &g->windows.look, GATE_WINDOWS_LOOK, on_look);
}

#include "base/tcp_mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/base.h"
#include "base/fd.h"
#include "base/limits.h"

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72 /* musl has no name for it */
#endif

/* ---- the host ---- */

uint64_t tcp_low_mark(struct str tcp_mem, uint64_t pages)
{
	uint64_t low;
	size_t digits = 0;
	while (digits < tcp_mem.n && tcp_mem.p[digits] >= '0' && tcp_mem.p[digits] <= '9')
		digits++;
	if (digits && str_to_u64(str_n(tcp_mem.p, digits), UINT32_MAX, &low))
		return low;
	return pages / 64 * 3;
}

uint64_t tcp_pages(struct str sockstat)
{
	uint64_t pages = 0;
	while (sockstat.n) {
		struct str rest, line = str_split(sockstat, '\n', &sockstat);
		if (!str_eq_c(str_split(line, ' ', &rest), "TCP:"))
			continue;
		while (rest.n && !str_eq_c(str_split(rest, ' ', &rest), "mem"))
			;
		return str_to_u64(str_split(rest, ' ', &rest), UINT32_MAX, &pages) ? pages : 0;
	}
	return 0;
}

void tcp_host_open(struct tcp_host *h, uint32_t share)
{
	char text[64];
	struct sysinfo i = {0};
	auto_fd int fd = open("/proc/sys/net/ipv4/tcp_mem", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text);
	uint64_t pages = sysinfo(&i) == 0 ? (uint64_t)i.totalram * i.mem_unit / 4096 : UINT32_MAX;
	*h = (struct tcp_host){.sockstat = open("/proc/net/sockstat", O_RDONLY | O_CLOEXEC),
		.mark = tcp_low_mark(str_n(text, n > 0 ? (size_t)n : 0), pages) / share};
}

bool tcp_host_look(struct tcp_host *h)
{
	char text[1024];
	/* Not pread(): the gate may not call it. */
	ssize_t n = h->sockstat < 0 || lseek(h->sockstat, 0, SEEK_SET) < 0 ? 0 : read(h->sockstat, text, sizeof text);
	uint64_t pages = tcp_pages(str_n(text, n > 0 ? (size_t)n : 0));
	bool was = h->is_short;
	h->is_short = pages >= h->mark;
	h->looks = h->is_short ? h->looks + 1 : 0;
	h->over = h->is_short ? (pages - h->mark) * 4096 : 0;
	return h->is_short != was;
}

/* ---- one socket ---- */

static bool meminfo(int fd, uint32_t m[SK_MEMINFO_VARS])
{
	socklen_t n = SK_MEMINFO_VARS * sizeof *m;
	memset(m, 0, n);
	return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_MEMINFO, m, &n) == 0;
}

size_t tcp_held(int fd)
{
	uint32_t m[SK_MEMINFO_VARS];
	return meminfo(fd, m) ? (size_t)m[SK_MEMINFO_RMEM_ALLOC] + m[SK_MEMINFO_WMEM_QUEUED] : 0;
}

size_t tcp_unsent(int fd)
{
	uint32_t m[SK_MEMINFO_VARS];
	return meminfo(fd, m) ? m[SK_MEMINFO_WMEM_QUEUED] : 0;
}

uint64_t tcp_taken(int fd)
{
	struct tcp_info i = {0};
	socklen_t n = sizeof i;
	return fd >= 0 && getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &n) == 0 ? i.tcpi_bytes_acked : 0;
}

uint64_t tcp_cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t n = sizeof cookie;
	return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &n) == 0 ? cookie : 0;
}

/* ---- windows ---- */

uint32_t tcp_window_for(size_t n, size_t few, uint32_t min, uint32_t now)
{
	for (uint32_t times = 1; times <= 4; times *= 2) {
		size_t conns = few * (times == 1 ? 8 : times == 2 ? 4 : 1);
		bool has_it = now && now <= min * times;
		if (n > (has_it ? conns / 2 : conns))
			return min * times;
	}
	return 0;
}

/* A size that was set ends the kernel's own growth, until its lock is taken off again. */
void tcp_window_set(int fd, uint32_t window)
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

/* ---- one direction ---- */

void tcp_way_look(struct tcp_way *w, uint64_t now, bool waits, uint64_t moved)
{
	w->moved = moved;
	if (!waits) {
		w->since = 0;
	} else if (!w->since || moved < w->mark || moved - w->mark >= TCP_WAY_MOVES) {
		w->since = now;
		w->mark = moved;
	}
}

bool tcp_way_is_stuck(const struct tcp_way *w, uint64_t now, uint64_t patience)
{
	uint64_t ms = w->since ? now - w->since : 0;
	return w->since && ms >= patience && (w->moved - w->mark) * TCP_WAY_SPAN < TCP_WAY_MOVES * ms;
}

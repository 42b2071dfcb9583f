#include "warden/locks_look.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "base/fd.h"
#include "base/map.h"
#include "cage/caps.h"
#include "warden/limits.h"

enum { LOOK_BURST_US = 2000, LOOK_REST = 9, LOOK_NICE = 5 };

/* A lock, and the process that holds it. The list grows at its head between two reads, so one lock can be read several
 * times; `what` tells locks of one process apart. */
struct lock {
	uint64_t pid, what;
};

struct locks {
	uint64_t secret[2]; /* of map_hash(): a box must not find two locks that look like one */
	struct lock *list;
	size_t n, room;
};

struct held {
	uint32_t slot, locks;
};

struct look {
	int sock;
	const char *name;
	uint64_t burst_us; /* processor time at which the next rest comes */
	struct locks locks;
};

static void add(struct locks *l, uint64_t pid, struct str what)
{
	if (l->n == l->room) {
		l->room = l->room ? 2 * l->room : 64;
		l->list = xrealloc(l->list, l->room * sizeof *l->list);
	}
	l->list[l->n++] = (struct lock){pid, map_hash(l->secret, what)};
}

/* "12: POSIX  ADVISORY  WRITE 7668 fe:00:1095 0 EOF"; a lock that waits has "->" before its kind. */
static void read_line(struct locks *l, struct str line)
{
	struct str words[5];
	size_t n = 0;
	while (line.n && n < ARRAY_LEN(words)) {
		struct str word = str_split(line, ' ', &line);
		if (word.n && !str_eq(word, STR("->")))
			words[n++] = word;
	}
	uint64_t pid;
	if (n == ARRAY_LEN(words) && str_to_u64(words[4], INT32_MAX, &pid) && pid)
		add(l, pid, line);
}

static int compare_locks(const void *a, const void *b)
{
	const struct lock *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->what < y->what ? -1 : x->what > y->what;
}

/* Sorts the list; each lock is in it once afterwards. */
static void sort_locks(struct locks *l)
{
	size_t n = 0;
	if (!l->n)
		return;
	qsort(l->list, l->n, sizeof *l->list, compare_locks);
	for (size_t i = 1; i < l->n; i++)
		if (compare_locks(&l->list[i], &l->list[n]) != 0)
			l->list[++n] = l->list[i];
	l->n = n + 1;
}

/* ---- time ---- */

static uint64_t own_time_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Ends with the warden. */
static void pause_ms(const struct look *k, int ms)
{
	if (poll(&(struct pollfd){.fd = k->sock, .events = POLLIN}, 1, ms) > 0)
		_exit(0);
}

static void rest(struct look *k)
{
	uint64_t now = own_time_us();
	if (now < k->burst_us)
		return;
	pause_ms(k, (int)((now - k->burst_us + LOOK_BURST_US) * LOOK_REST / 1000));
	k->burst_us = own_time_us() + LOOK_BURST_US;
}

/* ---- whose ---- */

/* The slot of a process, from a line such as "0::/atoll-1a2b3c4d/17/commands"; UINT32_MAX: it is in none of ours. */
static uint32_t slot_of(const struct look *k, uint64_t pid)
{
	char path[48], mark[64];
	auto_buf struct buf text = {0};
	uint64_t slot;
	snprintf(path, sizeof path, "/proc/%llu/cgroup", (unsigned long long)pid);
	int n = snprintf(mark, sizeof mark, "/%s/", k->name);
	if (fd_read_file(AT_FDCWD, path, 16384, &text) < 0)
		return UINT32_MAX;
	const char *at = memmem(text.p, text.len, mark, (size_t)n);
	if (!at)
		return UINT32_MAX;
	struct str rest_of = str_n(at + n, (size_t)((const char *)text.p + text.len - at) - (size_t)n);
	size_t digits = 0;
	while (digits < rest_of.n && rest_of.p[digits] >= '0' && rest_of.p[digits] <= '9')
		digits++;
	return str_to_u64(str_n(rest_of.p, digits), UINT32_MAX - 1, &slot) ? (uint32_t)slot : UINT32_MAX;
}

static int compare_held(const void *a, const void *b)
{
	const struct held *x = a, *y = b;
	return x->slot < y->slot ? -1 : x->slot > y->slot;
}

/* How many locks each process holds, with its slot; sorted by slot. */
static size_t count_held(struct look *k, struct held *ret)
{
	size_t n = 0;
	const struct locks *l = &k->locks;
	for (size_t i = 0, end; i < l->n; i = end) {
		for (end = i + 1; end < l->n && l->list[end].pid == l->list[i].pid;)
			end++;
		uint32_t slot = slot_of(k, l->list[i].pid);
		if (slot != UINT32_MAX)
			ret[n++] = (struct held){slot, (uint32_t)(end - i)};
		rest(k);
	}
	qsort(ret, n, sizeof *ret, compare_held);
	return n;
}

static void report(const struct look *k, const struct held *h, bool all)
{
	const struct locks_report r = {h->slot, h->locks, all};
	send(k->sock, &r, sizeof r, MSG_NOSIGNAL);
}

/* Whether what was read so far ends a box. */
static bool judge(struct look *k)
{
	sort_locks(&k->locks);
	struct held *held = xcalloc(k->locks.n + 1, sizeof *held), most = {0};
	size_t n = count_held(k, held);
	uint64_t total = 0;
	bool found = false;
	for (size_t i = 0, end; i < n; i = end) {
		struct held box = held[i];
		for (end = i + 1; end < n && held[end].slot == box.slot; end++)
			box.locks += held[end].locks;
		total += box.locks;
		most = box.locks > most.locks ? box : most;
		if (box.locks > LOCKS_MAX)
			report(k, &box, false);
		found |= box.locks > LOCKS_MAX;
	}
	free(held);
	if (!found && total > LOCKS_ALL)
		report(k, &most, true);
	return found || total > LOCKS_ALL;
}

/* ---- a look ---- */

/* Reads /proc/locks piece by piece and keeps the line that a piece cuts. Judges each time that the list has doubled. */
static void look(struct look *k)
{
	static char piece[64 * KIB];
	size_t kept = 0, judge_at = LOCKS_MAX + 1, judged = 0;
	auto_fd int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
	k->burst_us = own_time_us() + LOOK_BURST_US;
	while (fd >= 0 && k->locks.n < LOCKS_READ_MAX) {
		ssize_t n = read(fd, piece + kept, sizeof piece - kept);
		if (n <= 0)
			break;
		struct str text = str_n(piece, kept + (size_t)n);
		while (memchr(text.p, '\n', text.n))
			read_line(&k->locks, str_split(text, '\n', &text));
		kept = text.n < sizeof piece ? text.n : 0;
		memmove(piece, text.p, kept);
		rest(k);
		if (k->locks.n < judge_at)
			continue;
		if (judge(k))
			return;
		judged = k->locks.n;
		judge_at = 2 * judged > LOCKS_MAX ? 2 * judged : LOCKS_MAX + 1;
	}
	if (k->locks.n > LOCKS_MAX && k->locks.n > judged)
		judge(k);
}

_Noreturn void locks_look_life(int sock, const char *name)
{
	struct err e;
	struct look k = {.sock = sock, .name = name};
	prctl(PR_SET_NAME, "atoll-locks");
	setpriority(PRIO_PROCESS, 0, LOOK_NICE);
	if (caps_bound(0, &e) < 0 || caps_limit(0, &e) < 0)
		_exit(1);
	for (;;) {
		k.locks.n = 0;
		if (getrandom(k.locks.secret, sizeof k.locks.secret, 0) == sizeof k.locks.secret)
			look(&k);
		pause_ms(&k, LOCKS_LOOK);
	}
}

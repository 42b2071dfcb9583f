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
#include "warden/locks_devs.h"

enum { LOOK_BURST_US = 2000, LOOK_REST = 9, LOOK_NICE = 5, NO_BOX = -1, UNKNOWN = -2, GONE = -3 };

/* A lock. The list grows at its head between two reads, so one lock can be read several times; `what` tells locks of one
 * process apart. */
struct lock {
	uint64_t pid, what, dev;
	uint64_t serial; /* of `box` */
	int32_t box;	 /* index in the table; NO_BOX */
	bool placed;	 /* `box` is known */
	bool gone;	 /* no box is known, and its process has ended */
};

struct locks {
	struct lock *list;
	size_t n, room;
};

struct look {
	int sock;
	const char *name;
	const struct locks_table *table;
	uint64_t burst_us;	    /* processor time at which the next rest comes */
	uint64_t secret[2];	    /* of map_hash(): a box must not find two locks that look like one */
	struct locks locks, before; /* of this look; of earlier ones, sorted */
	struct locks_devs devs;
};

static void add(struct locks *l, const struct lock *lock)
{
	if (l->n == l->room) {
		l->room = l->room ? 2 * l->room : 64;
		l->list = xrealloc(l->list, l->room * sizeof *l->list);
	}
	l->list[l->n++] = *lock;
}

/* "12: POSIX  ADVISORY  WRITE 7668 fe:00:1095 0 EOF"; a lock that waits has "->" before its kind. */
static void read_line(struct look *k, struct str line)
{
	struct str words[5];
	size_t n = 0;
	while (line.n && n < ARRAY_LEN(words)) {
		struct str word = str_split(line, ' ', &line);
		if (word.n && !str_eq(word, STR("->")))
			words[n++] = word;
	}
	struct lock lock = {.what = map_hash(k->secret, line), .box = NO_BOX};
	ssize_t minor = str_index(line, ':'), end = minor < 0 ? -1 : str_index(str_skip(line, (size_t)minor + 1), ':');
	lock.dev = end < 0 ? UINT64_MAX : locks_dev_parse(str_n(line.p, (size_t)(minor + 1 + end)));
	if (n == ARRAY_LEN(words) && str_to_u64(words[4], INT32_MAX, &lock.pid) && lock.pid)
		add(&k->locks, &lock);
}

static int compare_locks(const void *a, const void *b)
{
	const struct lock *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->what < y->what ? -1 : x->what > y->what;
}

/* Sorts the list; each lock is in it once afterwards, and keeps its box. */
static void sort_locks(struct locks *l)
{
	size_t n = 0;
	if (!l->n)
		return;
	qsort(l->list, l->n, sizeof *l->list, compare_locks);
	for (size_t i = 1; i < l->n; i++)
		if (compare_locks(&l->list[i], &l->list[n]) != 0)
			l->list[++n] = l->list[i];
		else if (l->list[i].placed)
			l->list[n] = l->list[i];
	l->n = n + 1;
}

static struct lock *find_lock(const struct locks *l, const struct lock *key)
{
	return l->n ? bsearch(key, l->list, l->n, sizeof *key, compare_locks) : NULL;
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

static void rest(void *arg)
{
	struct look *k = arg;
	uint64_t now = own_time_us();
	if (now < k->burst_us)
		return;
	pause_ms(k, (int)((now - k->burst_us + LOOK_BURST_US) * LOOK_REST / 1000));
	k->burst_us = own_time_us() + LOOK_BURST_US;
}

/* ---- whose ---- */

/* The box of a process, from a line such as "0::/atoll-1a2b3c4d/17/commands". UNKNOWN: its box is not in the table yet;
 * GONE: there is no such process. */
static int box_of(struct look *k, uint64_t pid)
{
	char path[48], mark[64];
	auto_buf struct buf text = {0};
	uint64_t slot;
	snprintf(path, sizeof path, "/proc/%llu/cgroup", (unsigned long long)pid);
	int n = snprintf(mark, sizeof mark, "/%s/", k->name);
	if (fd_read_file(AT_FDCWD, path, 16384, &text) < 0)
		return GONE;
	const char *at = memmem(text.p, text.len, mark, (size_t)n);
	if (!at)
		return NO_BOX;
	struct str rest_of = str_n(at + n, (size_t)((const char *)text.p + text.len - at) - (size_t)n);
	size_t digits = 0;
	while (digits < rest_of.n && rest_of.p[digits] >= '0' && rest_of.p[digits] <= '9')
		digits++;
	if (!str_to_u64(str_n(rest_of.p, digits), UINT32_MAX - 1, &slot))
		return NO_BOX;
	for (int i = 0; i < (int)WARDEN_BOXES_MAX; i++)
		if (k->table->boxes[i].slot == slot && atomic_load(&k->table->boxes[i].serial))
			return i;
	return UNKNOWN;
}

static void place_at(struct look *k, struct lock *l, int box)
{
	l->placed = box != UNKNOWN;
	l->gone = box == GONE;
	l->box = box < 0 ? NO_BOX : box;
	l->serial = box < 0 ? 0 : atomic_load(&k->table->boxes[box].serial);
}

/* Says of each lock whose it is. The list is sorted: locks of one process follow each other. */
static void place_locks(struct look *k)
{
	uint64_t pid = 0;
	int box = NO_BOX;
	for (size_t i = 0; i < k->locks.n; i++) {
		struct lock *l = &k->locks.list[i];
		if (l->placed)
			continue;
		int own = locks_devs_find(&k->devs, l->dev);
		const struct lock *was = own < 0 ? find_lock(&k->before, l) : NULL;
		if (was && was->placed) {
			*l = *was;
			continue;
		}
		if (own < 0 && l->pid != pid) {
			box = box_of(k, l->pid);
			pid = l->pid;
			rest(k);
		}
		place_at(k, l, own < 0 ? box : own);
	}
}

/* FUSE mounts come after the start of a box: many locks without a box may be on one. */
static bool many_are_gone(const struct locks *l)
{
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++)
		n += l->list[i].gone;
	return n > LOCKS_MAX;
}

static void report(const struct look *k, uint32_t box, uint32_t locks, bool all)
{
	const struct locks_report r = {k->table->boxes[box].slot, locks, all};
	send(k->sock, &r, sizeof r, MSG_NOSIGNAL);
}

/* Whether the locks that were read so far end a box. */
static bool judge(struct look *k)
{
	static uint32_t held[WARDEN_BOXES_MAX];
	uint32_t most = 0, total = 0;
	bool found = false;
	sort_locks(&k->locks);
	place_locks(k);
	memset(held, 0, sizeof held);
	for (size_t i = 0; i < k->locks.n; i++) {
		const struct lock *l = &k->locks.list[i];
		if (l->box == NO_BOX || l->serial != atomic_load(&k->table->boxes[l->box].serial))
			continue;
		held[l->box]++;
		total++;
	}
	for (uint32_t i = 0; i < WARDEN_BOXES_MAX; i++) {
		most = held[i] > held[most] ? i : most;
		if (held[i] > LOCKS_MAX)
			report(k, i, held[i], false);
		found |= held[i] > LOCKS_MAX;
	}
	if (!found && total > LOCKS_ALL)
		report(k, most, held[most], true);
	return found || total > LOCKS_ALL;
}

/* ---- a look ---- */

/* Reads /proc/locks piece by piece and keeps the line that a piece cuts. Judges each time that the list has doubled.
 * Returns whether it read all locks. */
static bool look(struct look *k)
{
	static char piece[64 * KIB];
	size_t kept = 0, judge_at = LOCKS_MAX + 1;
	auto_fd int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;
	while (fd >= 0 && k->locks.n < LOCKS_READ_MAX) {
		n = read(fd, piece + kept, sizeof piece - kept);
		if (n <= 0)
			break;
		struct str text = str_n(piece, kept + (size_t)n);
		while (memchr(text.p, '\n', text.n))
			read_line(k, str_split(text, '\n', &text));
		kept = text.n < sizeof piece ? text.n : 0;
		memmove(piece, text.p, kept);
		rest(k);
		if (k->locks.n < judge_at)
			continue;
		if (judge(k))
			return false;
		judge_at = 2 * k->locks.n > LOCKS_MAX ? 2 * k->locks.n : LOCKS_MAX + 1;
	}
	return !judge(k) && n == 0;
}

/* Keeps whose the locks are for the next look. Locks that were not read keep what was known. */
static void remember(struct look *k, bool whole)
{
	size_t n = k->locks.n;
	struct locks old = k->before;
	sort_locks(&k->locks);
	for (size_t i = 0; !whole && i < old.n && k->locks.n < 2 * LOCKS_READ_MAX; i++) {
		struct locks now = {.list = k->locks.list, .n = n};
		if (!find_lock(&now, &old.list[i]))
			add(&k->locks, &old.list[i]);
	}
	sort_locks(&k->locks);
	k->before = k->locks;
	k->locks = old;
	k->locks.n = 0;
}

_Noreturn void locks_look_life(int sock, const char *name, const struct locks_table *table)
{
	struct err e;
	static struct look k;
	k = (struct look){.sock = sock, .name = name, .table = table, .devs.table = table};
	prctl(PR_SET_NAME, "atoll-locks");
	setpriority(PRIO_PROCESS, 0, LOOK_NICE);
	if (caps_bound(0, &e) < 0 || caps_limit(0, &e) < 0)
		_exit(1);
	while (getrandom(k.secret, sizeof k.secret, 0) != sizeof k.secret)
		pause_ms(&k, LOCKS_LOOK);
	for (;;) {
		k.burst_us = own_time_us() + LOOK_BURST_US;
		locks_devs_refresh(&k.devs, rest, &k);
		remember(&k, look(&k));
		if (many_are_gone(&k.before))
			locks_devs_forget(&k.devs);
		pause_ms(&k, LOCKS_LOOK);
	}
}

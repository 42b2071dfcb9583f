#include "warden/locks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "warden/warden.h"

/* A lock, and the process that holds it. The kernel begins each read() at a position in a list that grows at its head,
 * so one lock can be read several times; `what` tells locks of one process apart. */
struct lock {
	uint64_t pid, what;
};

struct locks {
	uint64_t secret[2]; /* of map_hash(): a box must not find two locks that look like one */
	struct lock *list;
	size_t n, room;
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
	if (n == ARRAY_LEN(words) && str_to_u64(words[4], INT32_MAX, &pid))
		add(l, pid, line);
}

/* Reads /proc/locks piece by piece and keeps the line that a piece cuts. */
static void read_locks(struct locks *l)
{
	static char piece[64 * KIB];
	size_t kept = 0;
	auto_fd int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
	for (uint64_t total = 0; fd >= 0 && total < LOCKS_READ_MAX;) {
		ssize_t n = read(fd, piece + kept, sizeof piece - kept);
		if (n <= 0)
			return;
		total += (uint64_t)n;
		struct str text = str_n(piece, kept + (size_t)n);
		while (memchr(text.p, '\n', text.n))
			read_line(l, str_split(text, '\n', &text));
		kept = text.n < sizeof piece ? text.n : 0;
		memmove(piece, text.p, kept);
	}
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
	qsort(l->list, l->n, sizeof *l->list, compare_locks);
	for (size_t i = 1; i < l->n; i++)
		if (compare_locks(&l->list[i], &l->list[n]) != 0)
			l->list[++n] = l->list[i];
	l->n = n + 1;
}

struct box_sum {
	const struct locks *l;
	uint64_t locks;
};

static void add_process(void *arg, pid_t pid)
{
	struct box_sum *sum = arg;
	size_t low = 0, high = sum->l->n;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (sum->l->list[middle].pid < (uint64_t)pid)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < sum->l->n && sum->l->list[low].pid == (uint64_t)pid; low++)
		sum->locks++;
}

static void look_at(const struct box *b, const struct locks *l)
{
	struct box_sum sum = {.l = l};
	if (!b->place)
		return;
	cgroup_each_pid(&b->w->cgroups, b->info.slot, add_process, &sum);
	if (sum.locks <= LOCKS_MAX)
		return;
	log_event(LOG_WARN, "sandbox ended: it holds too many file locks", "id=%s locks=%llu max=%u", b->info.id,
		(unsigned long long)sum.locks, LOCKS_MAX);
	cgroup_kill(&b->w->cgroups, b->info.slot);
}

static void on_look(struct loop_timer *t)
{
	struct warden *w = container_of(t, struct lock_watch, timer)->w;
	struct locks l = {0};
	loop_timer_set(w->loop, t, LOCKS_LOOK, on_look);
	if (list_empty(&w->all) || getrandom(l.secret, sizeof l.secret, 0) != sizeof l.secret)
		return;
	read_locks(&l);
	if (l.n > LOCKS_MAX) {
		sort_locks(&l);
		list_each(it, &w->all) look_at(list_entry(it, struct box, all), &l);
	}
	free(l.list);
}

void locks_watch(struct warden *w)
{
	w->locks.w = w;
	loop_timer_set(w->loop, &w->locks.timer, LOCKS_LOOK, on_look);
}

#include "warden/locks_devs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "cage/slot.h"

enum { MOUNTINFO_READ = 64 * KIB }; /* the mounts of the box's start come first */

static uint64_t dev_of(struct str text, int base)
{
	char copy[32], *end;
	if (text.n >= sizeof copy)
		return UINT64_MAX;
	memcpy(copy, text.p, text.n);
	copy[text.n] = 0;
	uint64_t major = strtoul(copy, &end, base);
	if (end == copy || *end != ':')
		return UINT64_MAX;
	char *minor_at = end + 1;
	uint64_t minor = strtoul(minor_at, &end, base);
	return end == minor_at || *end ? UINT64_MAX : major << 32 | minor;
}

uint64_t locks_dev_parse(struct str text)
{
	return dev_of(text, 16);
}

/* "36 35 0:78 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=262144k". Volumes share one superblock, masked files are the
 * host's. */
static uint64_t own_dev(struct str line)
{
	static const char *const places[] = {"/", "/dev", "/dev/pts", "/dev/shm", "/proc"};
	struct str dev = {0}, place = {0}, rest = line;
	for (int i = 0; i < 5; i++) {
		struct str word = str_split(rest, ' ', &rest);
		dev = i == 2 ? word : dev;
		place = i == 4 ? word : place;
	}
	const char *kind = memmem(rest.p, rest.n, " - ", 3);
	if (!kind)
		return UINT64_MAX;
	bool own = str_starts(str_n(kind + 3, (size_t)(rest.p + rest.n - kind - 3)), STR("fuse"));
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		own |= str_eq_c(place, places[i]);
	return own ? dev_of(dev, 10) : UINT64_MAX;
}

static void add(struct locks_devs *d, uint64_t dev, uint32_t box)
{
	if (d->n == d->room) {
		d->room = d->room ? 2 * d->room : 256;
		d->list = xrealloc(d->list, d->room * sizeof *d->list);
	}
	d->list[d->n++] = (struct locks_dev){dev, box};
}

static void read_box(struct locks_devs *d, uint32_t i, pid_t pid)
{
	static char text[MOUNTINFO_READ];
	char path[48];
	snprintf(path, sizeof path, "/proc/%d/mountinfo", pid);
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_full(fd, text, sizeof text);
	if (n <= 0)
		return;
	struct str rest = str_n(text, (size_t)n);
	while (memchr(rest.p, '\n', rest.n)) {
		uint64_t dev = own_dev(str_split(rest, '\n', &rest));
		if (dev != UINT64_MAX)
			add(d, dev, i);
	}
}

static int compare(const void *a, const void *b)
{
	const struct locks_dev *x = a, *y = b;
	return x->dev < y->dev ? -1 : x->dev > y->dev;
}

static void drop_ended(struct locks_devs *d)
{
	size_t kept = 0;
	for (size_t i = 0; i < d->n; i++)
		if (d->serials[d->list[i].box])
			d->list[kept++] = d->list[i];
	d->n = kept;
}

void locks_devs_refresh(struct locks_devs *d, void (*rest)(void *arg), void *arg)
{
	uint64_t serials[WARDEN_BOXES_MAX];
	bool changed = false;
	for (uint32_t i = 0; i < WARDEN_BOXES_MAX; i++) {
		serials[i] = atomic_load(&d->table->boxes[i].serial);
		if (serials[i] != d->serials[i]) {
			changed = true;
			d->serials[i] = 0;
		}
	}
	if (!changed)
		return;
	drop_ended(d);
	for (uint32_t i = 0; i < WARDEN_BOXES_MAX; i++) {
		if (!serials[i] || d->serials[i])
			continue;
		const struct locks_box *b = &d->table->boxes[i];
		pid_t pid = b->pid;
		size_t before = d->n;
		read_box(d, i, pid);
		/* The process is the box's if it was so after the read as well. */
		if (slot_start_time(pid) != b->start_time || atomic_load(&b->serial) != serials[i])
			d->n = before;
		else
			d->serials[i] = serials[i];
		rest(arg);
	}
	qsort(d->list, d->n, sizeof *d->list, compare);
}

void locks_devs_forget(struct locks_devs *d)
{
	memset(d->serials, 0, sizeof d->serials);
}

int locks_devs_find(const struct locks_devs *d, uint64_t dev)
{
	const struct locks_dev key = {.dev = dev};
	const struct locks_dev *at = d->n ? bsearch(&key, d->list, d->n, sizeof key, compare) : NULL;
	return at ? (int)at->box : -1;
}

#include "agent/proc/resolv.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "proto/hosts.h"
#include "proto/limits.h"

#define RESOLV "/etc/resolv.conf"
#define HOSTS  "/etc/hosts"
/* The gate answers at every address; this one is the box's by convention (docs/design/011-network.md). */
#define RESOLVER "nameserver 192.0.0.1\n"

static bool has_word(struct str text, struct str word)
{
	while (text.n) {
		struct str line = str_split(text, '\n', &text);
		line = str_split(line, '#', &(struct str){0});
		while (line.n) {
			size_t n = 0;
			while (n < line.n && line.p[n] != ' ' && line.p[n] != '\t' && line.p[n] != '\r')
				n++;
			if (n && str_eq(str_n(line.p, n), word))
				return true;
			line = str_skip(line, n < line.n ? n + 1 : n);
		}
	}
	return false;
}

/* Puts a new file in the place of `name`, which may be a link. Opening a file of the image for writing would copy it
 * into the box's layer, and the kernel syncs such a copy to the disk: milliseconds of every first start. The time of
 * the old file stays, so that an image is the same whichever box packs it. */
static int replace(const char *name, struct str content)
{
	struct stat st;
	bool keep = lstat(name, &st) == 0 && S_ISREG(st.st_mode);
	const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, keep ? st.st_mtim : (struct timespec){0}};
	int r = fd_replace_file(AT_FDCWD, name, content, keep ? st.st_mode & 07777 : 0644);
	if (r == 0 && keep && (st.st_uid || st.st_gid) && lchown(name, st.st_uid, st.st_gid) < 0)
		r = -errno;
	if (r == 0 && utimensat(AT_FDCWD, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return r;
}

static void hosts_init(void)
{
	char name[BOX_ID_MAX + 2] = {0};
	auto_buf struct buf old = {0}, text = {0};
	struct stat st;
	if (lstat(HOSTS, &st) == 0 && !S_ISREG(st.st_mode))
		return; /* the owner's business as well */
	int r = fd_read_file(AT_FDCWD, HOSTS, BOX_HOSTS_MAX, &old);
	if ((r < 0 && r != -ENOENT) || gethostname(name, sizeof name - 1) < 0)
		return;
	if (has_word(buf_str(&old), STR("localhost")) && has_word(buf_str(&old), str_of(name)))
		return;
	hosts_without_mark(buf_str(&old), &text); /* names of boxes whose files this image was made of */
	if (!has_word(buf_str(&text), STR("localhost")))
		buf_add_str(&text, STR("127.0.0.1\tlocalhost\n::1\tlocalhost\n"));
	if (!has_word(buf_str(&text), str_of(name)))
		buf_printf(&text, "127.0.1.1\t%s" HOSTS_MARK "\n", name);
	r = replace(HOSTS, buf_str(&text));
	if (r < 0)
		log_event(LOG_WARN, "the box's own name is not in " HOSTS, "error=%s", LOG_Q(strerror(-r)));
}

static void resolver_init(void)
{
	struct stat st;
	if (stat(RESOLV, &st) == 0 && st.st_size > 0)
		return;
	int r = replace(RESOLV, STR(RESOLVER));
	if (r < 0)
		log_event(LOG_WARN, "names cannot be resolved: no " RESOLV, "error=%s", LOG_Q(strerror(-r)));
}

void resolv_init(void)
{
	struct stat before, after;
	bool there = stat("/etc", &before) == 0;
	hosts_init();
	resolver_init();
	if (!there || stat("/etc", &after) < 0 || memcmp(&before.st_mtim, &after.st_mtim, sizeof after.st_mtim) == 0)
		return;
	const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, before.st_mtim};
	if (utimensat(AT_FDCWD, "/etc", times, 0) < 0)
		log_event(LOG_WARN, "the time of /etc cannot be kept", "error=%s", LOG_Q(strerror(errno)));
}

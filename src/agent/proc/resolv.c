#include "agent/proc/resolv.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/log.h"
#include "proto/limits.h"

#define RESOLV "/etc/resolv.conf"
#define HOSTS  "/etc/hosts"
enum { HOSTS_MAX = 65536 }; /* a longer file is its owner's business */
/* The gate answers at every address; this one is the box's by convention (docs/design/011-network.md). */
static const char resolver[] = "nameserver 192.0.0.1\n";

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

static void hosts_init(void)
{
	char name[BOX_ID_MAX + 2] = {0}, lines[sizeof name + 64];
	auto_buf struct buf text = {0};
	if (gethostname(name, sizeof name - 1) < 0 || fd_read_file(AT_FDCWD, HOSTS, HOSTS_MAX, &text) == -EFBIG)
		return;
	bool local = has_word(buf_str(&text), STR("localhost")), own = has_word(buf_str(&text), str_of(name));
	if (local && own)
		return;
	size_t size = buf_size(&text);
	bool cut = size && buf_str(&text).p[size - 1] != '\n';
	int n = snprintf(lines, sizeof lines, "%s%s%s%s%s", cut ? "\n" : "",
		local ? "" : "127.0.0.1\tlocalhost\n::1\tlocalhost\n", own ? "" : "127.0.1.1\t", own ? "" : name,
		own ? "" : "\n");
	auto_fd int fd = open(HOSTS, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0644);
	if (fd < 0 || fd_write_full(fd, lines, (size_t)n) < 0)
		log_event(LOG_WARN, "the box's own name is not in " HOSTS, "error=%s", LOG_Q(strerror(errno)));
}

void resolv_init(void)
{
	hosts_init();
	struct stat st;
	if (stat(RESOLV, &st) == 0 && st.st_size > 0)
		return;
	if (lstat(RESOLV, &st) == 0 && S_ISLNK(st.st_mode))
		unlink(RESOLV);
	auto_fd int fd = open(RESOLV, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0644);
	if (fd < 0 || fd_write_full(fd, resolver, sizeof resolver - 1) < 0)
		log_event(LOG_WARN, "names cannot be resolved: no " RESOLV, "error=%s", LOG_Q(strerror(errno)));
}

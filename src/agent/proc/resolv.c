#include "agent/proc/resolv.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/log.h"

#define RESOLV "/etc/resolv.conf"
/* The gate answers at every address; this one is the box's by convention (docs/design/011-network.md). */
static const char text[] = "nameserver 192.0.0.1\n";

void resolv_init(void)
{
	struct stat st;
	if (stat(RESOLV, &st) == 0 && st.st_size > 0)
		return;
	if (lstat(RESOLV, &st) == 0 && S_ISLNK(st.st_mode))
		unlink(RESOLV);
	auto_fd int fd = open(RESOLV, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0644);
	if (fd < 0 || fd_write_full(fd, text, sizeof text - 1) < 0)
		log_event(LOG_WARN, "names cannot be resolved: no " RESOLV, "error=%s", LOG_Q(strerror(errno)));
}

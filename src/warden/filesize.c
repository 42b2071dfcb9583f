#include "warden/filesize.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/log.h"
#include "cage/cgroup.h"
#include "warden/limits.h"
#include "warden/warden.h"

struct pass {
	rlim_t limit;
	unsigned changed;
	bool denied;
};

/* A process that has lowered its own limit keeps it. */
static void set_one(void *arg, pid_t pid)
{
	struct pass *p = arg;
	struct rlimit now;
	if (prlimit(pid, RLIMIT_FSIZE, NULL, &now) < 0) {
		p->denied |= errno == EPERM;
		return;
	}
	if (now.rlim_max == p->limit)
		return;
	bool own = now.rlim_cur != now.rlim_max && now.rlim_cur < p->limit;
	const struct rlimit want = {own ? now.rlim_cur : p->limit, p->limit};
	p->changed += prlimit(pid, RLIMIT_FSIZE, &want, NULL) == 0;
}

uint64_t filesize_of(const struct box *b)
{
	uint64_t disk = b->info.limits.disk_bytes;
	return (disk > b->volume_bytes ? disk : b->volume_bytes) * BOX_FILE_SHARE;
}

/* A process that forks meanwhile may hand on the limit from before: look again until all have it. */
void filesize_set(const struct box *b)
{
	for (unsigned i = 0; i < FILESIZE_PASSES; i++) {
		struct pass p = {.limit = filesize_of(b)};
		cgroup_each_pid(&b->w->cgroups, b->info.slot, set_one, &p);
		if (p.denied)
			log_limited(LOG_WARN,
				"processes keep their limit of the length of files until their sandbox starts again: "
				"this host gives the warden no CAP_SYS_RESOURCE",
				"slot=%u", b->info.slot);
		if (!p.changed)
			return;
	}
}

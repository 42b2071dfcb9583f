#include "agent/code/warm.h"

#include <sys/prctl.h>

#include "agent/agent.h"
#include "agent/code/spare.h"
#include "agent/proc/netlink.h"
#include "agent/proc/spawn.h"
#include "base/fd_pass.h"
#include "base/log.h"

extern char **environ;

static bool hand_over(const struct warm_record *r, const struct worker_fds *fds, int listener)
{
	const int all[WARM_FDS] = {fds->socket, fds->out, fds->err, fds->interrupt, listener};
	return fd_send(WARM_FD, r, sizeof *r, all, listener < 0 ? WARM_FDS - 1 : WARM_FDS, 0) == (ssize_t)sizeof *r;
}

int warm_run(bool typescript)
{
	struct err e;
	struct worker_fds fds;
	struct warm_record r = {.magic = WARM_MAGIC, .typescript = typescript};
	int listener;
	/* A box that is made before the worker is there runs beside this process, which has the agent's writable procfs
	 * and the way to the agent: no process of the box may trace it. */
	prctl(PR_SET_DUMPABLE, 0);
	log_init("atoll-agent");
	if (spawn_init(&e) < 0)
		return 1;
	spawn_use_proc(5);
	env_import(&agent.env, environ);
	struct worker_spec s = {
		.language = LANG_JAVASCRIPT, .cwd = "/", .context = "", .env = &agent.env, .ahead = true};
	if (netlink_load_filter(&listener, &e) < 0 || worker_start_plain(&s, &fds, &r.pid, &e) < 0)
		return 1;
	if (typescript)
		spare_load_compiler(fds.socket);
	/* The worker ends when nobody has its descriptors. */
	return hand_over(&r, &fds, listener) ? 0 : 1;
}

#include "cage/init_warm.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "cage/caps.h"
#include "cage/seccomp.h"
#include "cage/sys.h"

/* A worker is a command: outside of the agent's place. */
static int join_leaves(void)
{
	for (int fd = FD_LEAF; fd < FD_LEAF + CGROUP_LEAVES; fd++) {
		if (write(fd, "0", 1) != 1)
			return -1;
		close(fd);
	}
	return 0;
}

/* Keeps 0, 1, 2: /dev/null, FD_PROC, FD_WARM, and the agent's program until it is executed. */
static int keep_fds(int end)
{
	if (dup2(FD_NULL, FD_LISTEN) < 0 || dup2(FD_NULL, FD_OOM) < 0 || dup2(end, FD_WARM) < 0)
		return -1;
	close(FD_REPLY);
	close(FD_ASK);
	close(FD_CONTROL);
	return 0;
}

_Noreturn static void warm_child(int end, bool typescript)
{
	char *argv[] = {"atoll-agent", "warm", typescript ? "typescript" : "javascript", NULL};
	char *envp[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"LANG=C.UTF-8", "LC_ALL=C.UTF-8", NULL};
	struct err e;
	if (join_leaves() == 0 && keep_fds(end) == 0 && (chdir("/workspace") == 0 || chdir("/") == 0) &&
		caps_limit(CAPS_BOX, &e) == 0 && seccomp_load(SECCOMP_BOX, &e) == 0)
		sys_execveat(FD_AGENT, argv, envp);
	_exit(1);
}

void init_warm(bool typescript)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	/* The half-made box still has privileges: nobody in it may trace it. */
	bool ready = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && dup2(pair[0], FD_WARM) >= 0;
	if (ready && fork() == 0)
		warm_child(pair[1], typescript);
	close(pair[0]);
	close(pair[1]);
}

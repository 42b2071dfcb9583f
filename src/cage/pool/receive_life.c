/*
 * The process that receives: what it gives up before it reads its first byte.
 */
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "cage/caps.h"
#include "cage/pool/receive.h"
#include "cage/sys.h"

enum { FD_IN = 0, FD_KEEP = 1, FD_ROOT = 3 };

/* Owners, modes, attributes of the overlay (trusted.*: SYS_ADMIN), file capabilities. */
#define CAPS_RECEIVE                                                                                                   \
	(1ull << 0 /* CHOWN */ | 1ull << 1 /* DAC_OVERRIDE */ | 1ull << 3 /* FOWNER */ | 1ull << 4 /* FSETID */ |      \
		1ull << 21 /* SYS_ADMIN */ | 1ull << 31 /* SETFCAP */)

/* clang-format off */
static const short calls[] = {
	SYS_read, SYS_pwrite64, SYS_fallocate, SYS_fstat, SYS_close, SYS_openat2, SYS_fchdir, SYS_ftruncate, SYS_mknodat, SYS_mkdirat, SYS_symlinkat,
	SYS_linkat, SYS_renameat, SYS_renameat2, SYS_unlinkat, SYS_newfstatat, SYS_fchmodat, 452 /* fchmodat2 */, SYS_fchownat,
	SYS_utimensat, SYS_lsetxattr, SYS_lremovexattr, SYS_syncfs, SYS_exit_group, SYS_exit, SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap,
	SYS_madvise, SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_futex,
#ifdef SYS_rename
	SYS_rename,
#endif
};
/* clang-format on */

enum { CALLS = ARRAY_LEN(calls) };

/* Any other call ends the process, and any ioctl but the one that shares blocks. The warden's own filter, which refuses
 * other machines' numbers, stays in force. */
static int filter_load(void)
{
	enum { TAIL = 5, ALLOW = CALLS + TAIL };
	struct sock_filter code[ALLOW + 1];
	code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < CALLS; i++)
		code[i + 1] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], (uint8_t)(ALLOW - i - 2), 0);
	const struct sock_filter tail[TAIL] = {BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)FICLONERANGE, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	memcpy(code + CALLS + 1, tail, sizeof tail);
	struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

/* Files of the tree only, none of them to be executed, no mounts. Kernels without Landlock leave it to the rest. */
static void landlock(void)
{
	enum { REFER = 1 << 13, FIRST = (1 << 13) - 1 };
	int version = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (version < 2)
		return; /* the first one forbids renames between directories */
	const struct landlock_ruleset_attr rules = {.handled_access_fs = FIRST | REFER};
	auto_fd int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
	const struct landlock_path_beneath_attr tree = {
		.allowed_access = (FIRST | REFER) & ~(uint64_t)LANDLOCK_ACCESS_FS_EXECUTE, .parent_fd = FD_ROOT};
	if (fd < 0 || syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &tree, 0) < 0)
		return;
	syscall(SYS_landlock_restrict_self, fd, 0);
}

static int confine(void)
{
	struct err e;
	umask(0);
	if (unshare(CLONE_NEWNS) < 0 || fchdir(FD_ROOT) < 0 || chroot(".") < 0)
		return -errno;
	if (caps_limit(CAPS_RECEIVE, &e) < 0)
		return -EPERM;
	landlock();
	return filter_load();
}

void receive_life(int in, int root, int keep)
{
	prctl(PR_SET_NAME, "atoll-receive");
	/* Away from the numbers that they shall have. */
	in = fcntl(in, F_DUPFD, 8);
	root = fcntl(root, F_DUPFD, 8);
	if (in < 0 || root < 0 || dup2(in, FD_IN) < 0 || dup2(root, FD_ROOT) < 0 ||
		(keep >= 0 && dup2(keep, FD_KEEP) < 0))
		_exit(EIO);
	close(2);
	sys_close_range(FD_ROOT + 1, ~0u);
	int r = confine();
	if (r == 0)
		r = receive_streams(FD_IN, FD_ROOT);
	_exit(-r);
}

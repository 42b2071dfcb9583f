/*
 * sys.h - the system calls that the C libraries have no wrapper for, thin and with libc's manners (-1 and errno).
 *
 * <linux/mount.h> and glibc's <sys/mount.h> define the same names differently: the files of src/cage include this
 * header and never <sys/mount.h>. Numbers and flags that are newer than the build machine's kernel headers are here
 * too; the kernel answers EINVAL or ENOSYS where it is older, and callers say so.
 */
#pragma once

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/types.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include "base/base.h"

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef MNT_DETACH
#define MNT_DETACH 2
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* fork() when it returns 0 in the child; the caller's stack is copied, so no stack is given. */
static inline pid_t sys_clone3(struct clone_args *a)
{
	return (pid_t)syscall(SYS_clone3, a, sizeof *a);
}

static inline int sys_pidfd_open(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

static inline int sys_pidfd_signal(int pidfd, int signo)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);
}

static inline int sys_close_range(unsigned first, unsigned last)
{
	return (int)syscall(SYS_close_range, first, last, 0);
}

static inline int sys_openat2(int dirfd, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};
	return (int)syscall(SYS_openat2, dirfd, path, &how, sizeof how);
}

static inline int sys_open_tree(int dirfd, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, dirfd, path, flags | OPEN_TREE_CLOEXEC);
}

/* Both ends by descriptor. */
static inline int sys_move_mount(int from, int to)
{
	return (int)syscall(SYS_move_mount, from, "", to, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

static inline int sys_mount_setattr(int fd, unsigned flags, struct mount_attr *a)
{
	return (int)syscall(SYS_mount_setattr, fd, "", flags | AT_EMPTY_PATH, a, sizeof *a);
}

static inline int sys_fsopen(const char *type)
{
	return (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
}

static inline int sys_fsconfig(int fs, unsigned command, const char *key, const void *value, int aux)
{
	return (int)syscall(SYS_fsconfig, fs, command, key, value, aux);
}

static inline int sys_fsmount(int fs, unsigned attrs)
{
	return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attrs);
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
	return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int sys_umount(const char *path, int flags)
{
	return (int)syscall(SYS_umount2, path, flags);
}

static inline int sys_execveat(int fd, char *const argv[], char *const envp[])
{
	return (int)syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH);
}

/* Renames, but not over something: EEXIST then. */
static inline int sys_rename_new(int from_dir, const char *from, int to_dir, const char *to)
{
	return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 1 /* RENAME_NOREPLACE */);
}

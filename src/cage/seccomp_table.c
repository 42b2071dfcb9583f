/*
 * The table. Numbers from 424 on are the same on all machines and are written out where the build machine's headers
 * may not have them yet.
 */
#include <string.h>
#include <sys/syscall.h>

#include "base/base.h"
#include "cage/seccomp.h"

/* Calls that programs need: files, memory, processes, time, signals, sockets, SysV and POSIX messages. io_setup and
 * its like are missing: one box could take all of fs.aio-max-nr. */
/* clang-format off */
static const short allowed[] = {
	SYS_read, SYS_write, SYS_close, SYS_fstat, SYS_lseek, SYS_mprotect, SYS_munmap, SYS_brk,
	SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev,
	SYS_sched_yield, SYS_mremap, SYS_msync, SYS_mincore, SYS_shmat, SYS_shmctl, SYS_dup,
	SYS_nanosleep, SYS_getitimer, SYS_setitimer, SYS_getpid, SYS_sendfile, SYS_connect, SYS_accept, SYS_sendto,
	SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_shutdown, SYS_bind, SYS_listen, SYS_getsockname, SYS_getpeername,
	SYS_getsockopt, SYS_execve, SYS_exit, SYS_wait4, SYS_kill, SYS_uname, SYS_semget, SYS_semop,
	SYS_semctl, SYS_shmdt, SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_flock, SYS_fsync,
	SYS_fdatasync, SYS_truncate, SYS_ftruncate, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_fchmod, SYS_fchown,
	SYS_umask, SYS_gettimeofday, SYS_getrusage, SYS_sysinfo, SYS_times, SYS_ptrace, SYS_getuid, SYS_getgid,
	SYS_setuid, SYS_setgid, SYS_geteuid, SYS_getegid, SYS_setpgid, SYS_getppid, SYS_setsid, SYS_setreuid,
	SYS_setregid, SYS_getgroups, SYS_setgroups, SYS_setresuid, SYS_getresuid, SYS_setresgid, SYS_getresgid,
	SYS_getpgid, SYS_setfsuid, SYS_setfsgid, SYS_getsid, SYS_capget, SYS_capset, SYS_rt_sigpending,
	SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo, SYS_rt_sigsuspend, SYS_sigaltstack, SYS_statfs, SYS_fstatfs,
	SYS_getpriority, SYS_setpriority, SYS_sched_setparam, SYS_sched_getparam, SYS_sched_setscheduler,
	SYS_sched_getscheduler, SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_sched_rr_get_interval,
	SYS_mlock, SYS_munlock, SYS_mlockall, SYS_munlockall, SYS_setrlimit, SYS_getrlimit, SYS_chroot,
	SYS_gettid, SYS_readahead, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_getxattr, SYS_lgetxattr,
	SYS_fgetxattr, SYS_listxattr, SYS_llistxattr, SYS_flistxattr, SYS_removexattr, SYS_lremovexattr,
	SYS_fremovexattr, SYS_tkill, SYS_futex, SYS_sched_setaffinity, SYS_sched_getaffinity, SYS_remap_file_pages,
	SYS_getdents64, SYS_set_tid_address, SYS_restart_syscall, SYS_semtimedop, SYS_fadvise64, SYS_timer_create, SYS_timer_settime,
	SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete, SYS_clock_gettime, SYS_clock_getres,
	SYS_clock_nanosleep, SYS_exit_group, SYS_epoll_ctl, SYS_tgkill, SYS_mq_open, SYS_mq_unlink, SYS_mq_timedsend,
	SYS_mq_timedreceive, SYS_mq_notify, SYS_mq_getsetattr, SYS_waitid, SYS_ioprio_set, SYS_ioprio_get,
	SYS_inotify_add_watch, SYS_inotify_rm_watch, SYS_openat, SYS_mkdirat, SYS_mknodat, SYS_fchownat,
	SYS_newfstatat, SYS_unlinkat, SYS_renameat, SYS_linkat, SYS_symlinkat, SYS_readlinkat, SYS_fchmodat,
	SYS_faccessat, SYS_pselect6, SYS_ppoll, SYS_set_robust_list, SYS_get_robust_list, SYS_splice, SYS_tee,
	SYS_sync_file_range, SYS_utimensat, SYS_epoll_pwait, SYS_timerfd_create, SYS_fallocate, SYS_timerfd_settime,
	SYS_timerfd_gettime, SYS_accept4, SYS_signalfd4, SYS_eventfd2, SYS_epoll_create1, SYS_dup3, SYS_pipe2,
	SYS_inotify_init1, SYS_preadv, SYS_pwritev, SYS_rt_tgsigqueueinfo, SYS_recvmmsg, SYS_prlimit64,
	SYS_sendmmsg, SYS_getcpu, SYS_process_vm_readv, SYS_process_vm_writev, SYS_sched_setattr, SYS_sched_getattr,
	SYS_renameat2, SYS_seccomp, SYS_getrandom, SYS_execveat, SYS_membarrier, SYS_mlock2,
	SYS_copy_file_range, SYS_preadv2, SYS_pwritev2, SYS_pkey_mprotect, SYS_pkey_alloc, SYS_pkey_free, SYS_statx,
	SYS_rseq, SYS_pidfd_send_signal, SYS_pidfd_open, SYS_close_range, SYS_openat2, SYS_pidfd_getfd,
	SYS_faccessat2, SYS_epoll_pwait2, SYS_landlock_create_ruleset, SYS_landlock_add_rule,
	SYS_landlock_restrict_self, 448 /* process_mrelease */, 449 /* futex_waitv */, 451 /* cachestat */,
	452 /* fchmodat2 */, 453 /* map_shadow_stack */, 454 /* futex_wake */, 455 /* futex_wait */,
	456 /* futex_requeue */, 462 /* mseal */, 463 /* setxattrat */, 464 /* getxattrat */, 465 /* listxattrat */,
	466 /* removexattrat */,
	/* Goes to the agent (proto/netlink.h), which unmounts FUSE; the kernel refuses it to a box. */
	SYS_umount2,
#ifdef __x86_64__
	SYS_open, SYS_stat, SYS_lstat, SYS_poll, SYS_access, SYS_pipe, SYS_select, SYS_dup2, SYS_pause, SYS_alarm,
	SYS_fork, SYS_vfork, SYS_getdents, SYS_rename, SYS_mkdir, SYS_rmdir, SYS_creat, SYS_link, SYS_unlink,
	SYS_symlink, SYS_readlink, SYS_chmod, SYS_chown, SYS_lchown, SYS_getpgrp, SYS_utime, SYS_mknod,
	SYS_arch_prctl, SYS_time, SYS_epoll_create, SYS_epoll_wait, SYS_utimes, SYS_inotify_init, SYS_futimesat,
	SYS_signalfd, SYS_eventfd,
#endif
};

/* Dangerous, or for the whole machine: refused by name. */
static const short denied[] = {
	SYS_mount, SYS_pivot_root, 428 /* open_tree */, 429 /* move_mount */, 430 /* fsopen */,
	431 /* fsconfig */, 432 /* fsmount */, 433 /* fspick */, 442 /* mount_setattr */, 467 /* open_tree_attr */,
	SYS_setns, SYS_bpf, 425 /* io_uring_setup */, 426 /* io_uring_enter */, 427 /* io_uring_register */,
	SYS_userfaultfd, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_perf_event_open, SYS_kexec_load,
	SYS_kexec_file_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_open_by_handle_at,
	SYS_name_to_handle_at, SYS_syslog, SYS_acct, SYS_swapon, SYS_swapoff, SYS_reboot, SYS_quotactl,
	443 /* quotactl_fd */, SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex,
	SYS_fanotify_init, SYS_fanotify_mark, SYS_sethostname, SYS_setdomainname, SYS_vhangup, SYS_lookup_dcookie,
	SYS_nfsservctl, SYS_kcmp, SYS_process_madvise, SYS_move_pages, SYS_migrate_pages,
#ifdef __x86_64__
	SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_uselib, SYS_ustat, SYS_sysfs, SYS__sysctl,
#endif
};
/* clang-format on */

/* Calls that only the warden and its half-made boxes need. */
static const short making[] = {SYS_bpf, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_clone3, SYS_setns, SYS_sethostname,
	428 /* open_tree */, 429 /* move_mount */, 430 /* fsopen */, 431 /* fsconfig */, 432 /* fsmount */,
	442 /* mount_setattr */, SYS_setns /* for zygotes, which inherit this */};

static const struct {
	short number;
	unsigned char action;
} looked_at[] = {{SYS_clone, SECCOMP_CLONE}, {SYS_unshare, SECCOMP_UNSHARE}, {SYS_socket, SECCOMP_SOCKET},
	{SYS_socketpair, SECCOMP_SOCKETPAIR}, {SYS_ioctl, SECCOMP_IOCTL}, {SYS_personality, SECCOMP_PERSONALITY},
	{SYS_mmap, SECCOMP_MMAP}, {SYS_shmget, SECCOMP_SHMGET}, {SYS_memfd_create, SECCOMP_MEMFD},
	{SYS_setsockopt, SECCOMP_SETSOCKOPT}, {SYS_prctl, SECCOMP_PRCTL}, {SYS_madvise, SECCOMP_MADVISE},
	{SYS_fcntl, SECCOMP_FCNTL},
	/* They would write back every file system of the host, or the files of all boxes. */
	{SYS_sync, SECCOMP_NOTHING}, {SYS_syncfs, SECCOMP_NOTHING}};

void seccomp_table(enum seccomp_profile profile, unsigned char ret[SECCOMP_NUMBERS])
{
	memset(ret, SECCOMP_NOSYS, SECCOMP_NUMBERS);
	for (size_t i = 0; i < ARRAY_LEN(denied); i++)
		ret[denied[i]] = SECCOMP_DENY;
	for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
		ret[allowed[i]] = SECCOMP_ALLOW;
	for (size_t i = 0; i < ARRAY_LEN(looked_at); i++)
		ret[looked_at[i].number] = profile == SECCOMP_WARDEN ? SECCOMP_ALLOW : looked_at[i].action;
	for (size_t i = 0; profile == SECCOMP_WARDEN && i < ARRAY_LEN(making); i++)
		ret[making[i]] = SECCOMP_ALLOW;
	if (profile == SECCOMP_ZYGOTE)
		ret[SYS_setns] = SECCOMP_ALLOW;
}

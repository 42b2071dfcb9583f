#include "warden/zygote_start.h"

#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/sig.h"
#include "cage/caps.h"
#include "cage/dev.h"
#include "cage/fs.h"
#include "cage/init.h"
#include "cage/seccomp.h"
#include "proto/limits.h"
#include "proto/zygote.h"
#include "warden/limits.h"

/* In zygote_texts.S. */
extern const char zygote_python_text[], zygote_python_text_end[];
extern const char zygote_join_text[], zygote_join_text_end[];

enum { FD_CONTROL = 3, FD_TEXT = 4, FD_PIDNS = 5, FD_STAT = 6, FD_KEPT = 7 };

#define CAPS_ZYGOTE (1ull << CAP_SYS_ADMIN)

/* ---- the child ---- */

static int zygote_fail(struct err *e, const char *what)
{
	return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "%s", what);
}

static int put_mount(int root, const char *name, int mount, struct err *e)
{
	const uint64_t resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_BENEATH;
	auto_fd int at = sys_openat2(root, name, O_PATH | O_DIRECTORY, resolve);
	return at < 0 || sys_move_mount(mount, at) < 0 ? zygote_fail(e, name) : 0;
}

static int make_tmp(uint32_t user, struct err *e)
{
	char id[16];
	snprintf(id, sizeof id, "%u", user);
	const struct fs_option options[] = {{"size", ZYGOTE_TMP}, {"mode", "0700"}, {"uid", id}, {"gid", id}};
	return fs_make("tmpfs", options, ARRAY_LEN(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, "mount /tmp", e);
}

static int write_join(int tmp, struct err *e)
{
	auto_fd int fd = openat(tmp, "join.so", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
	size_t n = (size_t)(zygote_join_text_end - zygote_join_text);
	return fd < 0 || fd_write_full(fd, zygote_join_text, n) < 0 ? zygote_fail(e, "write join.so") : 0;
}

static int enter_image(const struct slot_host *h, const struct image *image, uint32_t user, struct err *e)
{
	char path[BOX_IMAGE_NAME_MAX + 16];
	int dev = -1, shm = -1;
	snprintf(path, sizeof path, "%s/rootfs", image->key);
	/* Before the namespace is another one: the descriptor is of a mount in the warden's. */
	int root = fs_clone(h->images, path, 0, e);
	if (root < 0)
		return -1;
	if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
		return zygote_fail(e, "make the zygote's namespaces");
	if (fs_set(root, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, -1, e) < 0)
		return -1;
	int at = open(INIT_ANCHOR, O_PATH | O_DIRECTORY | O_CLOEXEC), tmp = make_tmp(user, e);
	if (tmp < 0 || at < 0 || write_join(tmp, e) < 0 || dev_make(user, &dev, &shm, e) < 0)
		return -1;
	if (sys_move_mount(root, at) < 0)
		return zygote_fail(e, "mount the image");
	if (put_mount(root, "dev", dev, e) < 0 || put_mount(root, "tmp", tmp, e) < 0)
		return -1;
	if (fchdir(root) < 0 || sys_pivot_root(".", ".") < 0 || sys_umount(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return zygote_fail(e, "enter the image");
	return 0;
}

static int open_text(struct err *e)
{
	int fd = memfd_create("atoll-worker", 0);
	size_t n = (size_t)(zygote_python_text_end - zygote_python_text);
	if (fd < 0 || fd_write_full(fd, zygote_python_text, n) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return zygote_fail(e, "prepare the worker's text");
	return fd;
}

/* 0, 1, 2: /dev/null. 3: the warden. 4: the worker's text. 5: our own pid namespace, for the way back. 6: the kernel's
 * report on our memory, because there will be no /proc. */
static int keep_fds(int control, int text, int pidns, int stat, struct err *e)
{
	int null = open("/dev/null", O_RDWR);
	const int from[FD_KEPT] = {null, null, null, control, text, pidns, stat};
	int high[FD_KEPT];
	for (int i = 0; i < FD_KEPT; i++)
		if ((high[i] = fcntl(from[i], F_DUPFD, 64)) < 0)
			return zygote_fail(e, "keep descriptors");
	for (int i = 0; i < FD_KEPT; i++)
		if (dup2(high[i], i) < 0)
			return zygote_fail(e, "keep descriptors");
	return sys_close_range(FD_KEPT, ~0u) < 0 ? zygote_fail(e, "close descriptors") : 0;
}

/* One capability survives the exec of an unprivileged user: as an ambient one. */
static int keep_capability(struct err *e)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};
	data[0].permitted = data[0].effective = data[0].inheritable = (uint32_t)CAPS_ZYGOTE;
	if (syscall(SYS_capset, &head, data) < 0 ||
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0) < 0)
		return zygote_fail(e, "keep the capability to join boxes");
	return 0;
}

static int become_user(uint32_t user, struct err *e)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	sig_default_all();
	umask(022);
	setsid();
	/* Behind everything else until it is ready; the warden lifts it then. */
	struct sched_param param = {0};
	syscall(SYS_sched_setscheduler, 0, SCHED_IDLE, &param); /* musl has none */
	if (init_limit_self(e) < 0 || caps_bound(CAPS_ZYGOTE, e) < 0)
		return -1;
	if (setgroups(0, NULL) < 0 || setresgid(user, user, user) < 0 || setresuid(user, user, user) < 0)
		return zygote_fail(e, "become the zygote's user");
	if (keep_capability(e) < 0)
		return -1;
	return seccomp_load(SECCOMP_ZYGOTE, e);
}

static void execute_python(void)
{
	static const char *const programs[] = {"/usr/local/bin/python3", "/usr/bin/python3", "/bin/python3"};
	static char boot[] = "f=open(4,'rb');s=f.read();f.close();exec(compile(s,'<atoll_worker/boot.py>','exec'))\n"
			     "del f,s\nfrom atoll_worker.zygote import main\nmain()";
	char *argv[] = {"python3", "-X", "utf8", "-c", boot, NULL};
	char *envp[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp",
		"LANG=C.UTF-8", "LC_ALL=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1", "OPENBLAS_NUM_THREADS=1",
		"OMP_NUM_THREADS=1", NULL};
	for (size_t i = 0; i < ARRAY_LEN(programs); i++)
		execve(programs[i], argv, envp);
}

/* Its children inherit the score: that of every command of a box, which is above the supervisors'. */
static void raise_oom_score(void)
{
	fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", STR(BOX_OOM_SCORE));
}

_Noreturn static void zygote_child(const struct slot_host *h, uint32_t slot, const struct image *image, int control)
{
	struct err e = {0};
	char byte;
	int pidns = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	int stat = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	/* Wait until the warden has put us into our cgroups. */
	if (recv(control, &byte, 1, 0) != 1)
		_exit(0);
	prctl(PR_SET_NAME, "atoll-zygote");
	raise_oom_score();
	int text = pidns < 0 ? -1 : open_text(&e);
	if (text < 0 || enter_image(h, image, ids_base(slot), &e) < 0 || keep_fds(control, text, pidns, stat, &e) < 0 ||
		become_user(ids_base(slot), &e) < 0) {
		/* keep_fds may have moved the socket already. */
		if (send(control, &e, sizeof e, MSG_NOSIGNAL) < 0)
			send(FD_CONTROL, &e, sizeof e, MSG_NOSIGNAL);
		_exit(1);
	}
	execute_python();
	_exit(ZYGOTE_NO_PYTHON);
}

/* ---- the warden's side ---- */

static int send_setup(int control, struct err *e)
{
	static struct zygote_setup s;
	const struct sock_filter *filter;
	s.magic = ZYGOTE_MAGIC;
	s.caps = CAPS_BOX;
	s.filter_n = (uint32_t)seccomp_program(SECCOMP_BOX, &filter);
	memcpy(s.filter, filter, s.filter_n * sizeof *filter);
	if (send(control, "m", 1, MSG_NOSIGNAL) != 1 || send(control, &s, sizeof s, MSG_NOSIGNAL) != (ssize_t)sizeof s)
		return zygote_fail(e, "set up the zygote");
	return 0;
}

static int give_birth(
	const struct slot_host *h, uint32_t slot, const struct image *image, struct zygote_process *z, struct err *e)
{
	const struct box_limits limits = {ZYGOTE_MEM, BOX_CPU_DEFAULT, ZYGOTE_PIDS};
	int ends[2];
	if (cgroup_limit(h->cgroups, slot, &limits, e) < 0)
		return -1;
	auto_fd int cgroup = cgroup_open_v2(h->cgroups, slot, e);
	if (cgroup < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return zygote_fail(e, "make the zygote's socket");
	z->control = ends[0];
	auto_fd int its_end = ends[1];
	struct clone_args a = {.flags = CLONE_PIDFD | CLONE_INTO_CGROUP,
		.pidfd = (uint64_t)(uintptr_t)&z->pidfd,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)cgroup};
	z->pid = sys_clone3(&a);
	if (z->pid == 0)
		zygote_child(h, slot, image, its_end);
	if (z->pid < 0)
		return zygote_fail(e, "start the zygote");
	return cgroup_attach(h->cgroups, slot, z->pid, e) < 0 || send_setup(z->control, e) < 0 ? -1 : 0;
}

int zygote_spawn(
	const struct slot_host *h, uint32_t slot, const struct image *image, struct zygote_process *ret, struct err *e)
{
	struct zygote_process z = {.pidfd = -1, .control = -1};
	if (cgroup_make(h->cgroups, slot, e) < 0)
		return -1;
	if (give_birth(h, slot, image, &z, e) == 0) {
		*ret = z;
		return 0;
	}
	if (z.pidfd >= 0) {
		sys_pidfd_signal(z.pidfd, SIGKILL);
		waitid(P_PIDFD, (id_t)z.pidfd, &(siginfo_t){0}, WEXITED);
	}
	fd_close(&z.pidfd);
	fd_close(&z.control);
	cgroup_remove(h->cgroups, slot);
	return -1;
}

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/log.h"
#include "cli/up/up.h"

enum { TOKEN_BYTES = 32, TOKEN_MIN = 16, LEFTOVER_WAIT_MS = 5000 };

const char *up_missing_program(const char *dir)
{
	static const char *const names[] = {
		"atolld", "atoll-warden", "atoll-agent", "atoll-gate", "atoll-images", "atoll-mover", "atoll-backup"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[PATH_MAX + 32];
		snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		/* A user who may not walk there cannot know: the daemon's, for a checkout in root's home. */
		if (access(path, X_OK) < 0 && (errno != EACCES || geteuid() == 0))
			return names[i];
	}
	return NULL;
}

bool up_image_there(void)
{
	DIR *d = opendir(cli_images_dir());
	bool found = false;
	struct dirent *de;
	while (d && !found && (de = readdir(d))) {
		char path[320], about[320];
		struct stat st;
		snprintf(path, sizeof path, "%s/rootfs", de->d_name);
		snprintf(about, sizeof about, "%s/image.json", de->d_name);
		found = de->d_name[0] != '.' && fstatat(dirfd(d), path, &st, 0) == 0 && S_ISDIR(st.st_mode) &&
			faccessat(dirfd(d), about, F_OK, 0) == 0;
	}
	if (d)
		closedir(d);
	return found;
}

/* ---- user and settings ---- */

static int run_useradd(const char *user)
{
	char *argv[] = {"useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent",
		"--shell", "/usr/sbin/nologin", (char *)user, NULL};
	extern char **environ;
	pid_t pid;
	int status, r = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
	if (r != 0)
		return r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* The user of this name. `make`: made when missing. */
static int find_user(struct cli *c, const char *name, bool make, uid_t *ret_uid, gid_t *ret_gid, struct err *e)
{
	struct passwd *pw = getpwnam(name);
	/* A user that ATOLL_USER names is not made: the name may be misspelt. */
	if (!pw && !make) {
		cli_hint(c, "Make it: useradd --system --user-group --no-create-home %s; or unset ATOLL_USER.", name);
		return err_set(e, ERRC_INVALID_REQUEST, "ATOLL_USER: there is no user '%s'", name);
	}
	if (!pw) {
		int r = run_useradd(name);
		/* Another process may have made the user meanwhile: only its existence counts. */
		pw = getpwnam(name);
		if (pw && r == 0)
			log_event(LOG_INFO, "system user made", "user=%s uid=%d", name, (int)pw->pw_uid);
		if (!pw) {
			cli_hint(c, "Make it by hand: useradd --system --user-group --no-create-home %s", name);
			return r > 0 ? err_os(e, ERRC_INTERNAL_ERROR, r, "making the user '%s' with useradd", name)
				     : err_set(e, ERRC_INTERNAL_ERROR, "useradd could not make the user '%s'", name);
		}
	}
	*ret_uid = pw->pw_uid;
	*ret_gid = pw->pw_gid;
	if (pw->pw_uid != 0 && pw->pw_gid != 0)
		return 0;
	cli_hint(c, "Choose an ordinary user, or unset ATOLL_USER.");
	return err_set(e, ERRC_INVALID_REQUEST, "the daemon must not run as '%s': that is root", name);
}

static int find_users(struct cli *c, struct up_place *p, struct err *e)
{
	if (find_user(c, p->user, strcmp(p->user, UP_USER) == 0, &p->uid, &p->gid, e) < 0)
		return -1;
	return find_user(c, UP_GATE_USER, true, &p->gate_uid, &p->gate_gid, e);
}

static int make_absolute(const char *path, char ret[PATH_MAX], struct err *e)
{
	char cwd[PATH_MAX] = "";
	if (path[0] != '/' && !getcwd(cwd, sizeof cwd))
		return err_os(e, ERRC_INVALID_REQUEST, errno, "working directory");
	int n = snprintf(ret, PATH_MAX, "%s%s%s", cwd, *cwd ? "/" : "", path);
	while (n > 1 && n < PATH_MAX && ret[n - 1] == '/')
		ret[--n] = 0;
	return n < PATH_MAX ? 0 : err_set(e, ERRC_INVALID_REQUEST, "the path '%.100s…' is too long", path);
}

int up_prepare_settings(struct cli *c, struct up_place *p, struct err *e)
{
	const char *user = getenv("ATOLL_USER");
	if (make_absolute(cli_run_dir(), p->run, e) < 0 || make_absolute(cli_data_dir(), p->data, e) < 0 ||
		make_absolute(cli_images_dir(), p->images, e) < 0)
		return -1;
	/* The longest socket below it is s/<slot>.sock. */
	size_t most = sizeof((struct sockaddr_un *)0)->sun_path - sizeof "/s/4294967295.sock";
	if (strlen(p->run) > most) {
		cli_hint(c, "Set ATOLL_RUN to a path of at most %zu characters.", most);
		return err_set(
			e, ERRC_INVALID_REQUEST, "the run directory %s is too long for sockets below it", p->run);
	}
	if (snprintf(p->user, sizeof p->user, "%s", user && *user ? user : UP_USER) >= (int)sizeof p->user)
		return err_set(e, ERRC_INVALID_REQUEST, "ATOLL_USER is too long");
	if (find_users(c, p, e) < 0)
		return -1;
	setenv("ATOLL_RUN", p->run, 1);
	setenv("ATOLL_DATA", p->data, 1);
	setenv("ATOLL_IMAGES", p->images, 1);
	setenv("ATOLL_USER", p->user, 1);
	return 0;
}

/* ---- directories ---- */

static int make_parents(const char *path, struct err *e)
{
	char part[PATH_MAX];
	for (const char *s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/')) {
		snprintf(part, sizeof part, "%.*s", (int)(s - path), path);
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return err_os(e, ERRC_INTERNAL_ERROR, errno, "making %s", part);
	}
	return 0;
}

static int make_dir(const char *path, uid_t uid, gid_t gid, mode_t mode, struct err *e)
{
	if (make_parents(path, e) < 0)
		return -1;
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "making %s", path);
	auto_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st = {0};
	/* Another owner may have put a token or a socket into the directory. */
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid != 0 && st.st_uid != uid)
		return err_set(e, ERRC_PERMISSION_DENIED,
			"%s belongs to another user (uid %u): choose another directory", path, (unsigned)st.st_uid);
	if (fd < 0 || fchown(fd, uid, gid) < 0 || fchmod(fd, mode) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "directory %s", path);
	return 0;
}

/* Files of an image are in every box, and everybody may write to some of its directories, as in any system. So users of
 * the host must not enter it. The warden opens images as root, and boxes and zygotes get descriptors. */
static int close_images(const struct up_place *p, struct err *e)
{
	auto_fd int fd = open(p->images, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_os(e, ERRC_NOT_FOUND, errno, "image directory %s", p->images);
	if (st.st_uid != 0)
		log_event(LOG_WARN, "the image directory belongs to a user, who can change the files of every box",
			"path=%s uid=%u", LOG_Q(p->images), (unsigned)st.st_uid);
	if (!(st.st_mode & 077))
		return 0;
	if (fchmod(fd, 0700) < 0)
		log_event(LOG_WARN, "users of this machine can enter the image directory", "path=%s err=%s",
			LOG_Q(p->images), LOG_Q(strerror(errno)));
	else
		log_event(LOG_WARN,
			"users of this machine could enter the image directory until now; rebuild the image if a "
			"user may have changed it",
			"path=%s mode=%04o", LOG_Q(p->images), (unsigned)st.st_mode & 07777u);
	return 0;
}

/* ---- locks ---- */

static pid_t read_holder(int fd)
{
	char text[128];
	int pid = 0;
	ssize_t n = pread(fd, text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = 0;
	return sscanf(text, "up %d", &pid) == 1 ? pid : 0;
}

static int take_lock(struct cli *c, const char *dir, int *ret, struct err *e)
{
	char path[PATH_MAX + 16];
	snprintf(path, sizeof path, "%s/up.lock", dir);
	auto_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "%s", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		cli_hint(c, "Stop it, or give this one its own ATOLL_RUN, ATOLL_DATA and ATOLL_LISTEN.");
		return err_set(e, ERRC_RESOURCE_BUSY, "another 'atoll up' (pid %d) already serves %s",
			(int)read_holder(fd), dir);
	}
	*ret = take_fd(&fd);
	return 0;
}

/* Compares the name, not the executable: a process that is ending has no executable, but still has its sockets. */
static bool runs_program(pid_t pid, const char *program)
{
	char path[64];
	auto_buf struct buf comm = {0};
	struct str rest;
	snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
	return fd_read_file(AT_FDCWD, path, 64, &comm) == 0 &&
	       str_eq_c(str_split(buf_str(&comm), '\n', &rest), program);
}

/* When `atoll up` is killed, the kernel also kills its programs, after a moment. This process holds the lock of their
 * directory, so no other `atoll up` owns the rest of them. */
static int await_end(pid_t pid, const char *program, struct err *e)
{
	auto_fd int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (fd < 0 || !runs_program(pid, program))
		return 0;
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	if (poll(&pfd, 1, LEFTOVER_WAIT_MS) == 1)
		return 0;
	return err_set(e, ERRC_RESOURCE_BUSY, "%s of an earlier 'atoll up' still runs (pid %d)", program, (int)pid);
}

static int await_leftovers(const struct up_place *p, struct err *e)
{
	char text[128];
	int warden = 0, daemon = 0, gate = 0;
	ssize_t n = pread(p->run_lock, text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = 0;
	if (sscanf(text, "up %*d warden %d atolld %d gate %d", &warden, &daemon, &gate) < 1)
		return 0;
	return await_end(daemon, "atolld", e) < 0 || await_end(gate, "atoll-gate", e) < 0 ||
			       await_end(warden, "atoll-warden", e) < 0
		       ? -1
		       : 0;
}

void up_note_pids(const struct up_place *p, pid_t warden, pid_t daemon, pid_t gate)
{
	char text[96], line[128];
	int locks[] = {p->run_lock, p->data_lock};
	snprintf(text, sizeof text, "up %d warden %d atolld %d gate %d", getpid(), warden, daemon, gate);
	/* Always the same length, in one write, so that a reader never finds half of it. */
	int n = snprintf(line, sizeof line, "%-95s\n", text);
	for (size_t i = 0; i < ARRAY_LEN(locks); i++)
		if (pwrite(locks[i], line, (size_t)n, 0) < 0)
			log_event(LOG_WARN, "cannot write the lock file", "err=%s", LOG_Q(strerror(errno)));
}

/* A daemon that systemd or a user started holds no lock, but its socket answers. The new warden itself finds an old
 * warden and reports it: boxes that are being made may hold the old warden's socket for a moment. */
static int refuse_running(struct cli *c, const struct up_place *p, struct err *e)
{
	char path[PATH_MAX + 16];
	snprintf(path, sizeof path, "%s/atoll.sock", p->run);
	auto_fd int fd = fd_unix_connect(path, SOCK_STREAM);
	if (fd < 0)
		return 0;
	cli_hint(c, "Use it, stop it, or give this one its own ATOLL_RUN, ATOLL_DATA and ATOLL_LISTEN.");
	return err_set(e, ERRC_RESOURCE_BUSY, "a daemon already answers on %s", path);
}

/* ---- token ---- */

static int new_token(const char *path, struct err *e)
{
	unsigned char raw[TOKEN_BYTES];
	char text[2 * TOKEN_BYTES + 2];
	if (getrandom(raw, sizeof raw, 0) != sizeof raw)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "random bytes for the token");
	for (size_t i = 0; i < sizeof raw; i++)
		snprintf(text + 2 * i, 3, "%02x", raw[i]);
	text[2 * TOKEN_BYTES] = '\n';
	int r = fd_replace_file(AT_FDCWD, path, str_n(text, sizeof text - 1), 0600);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "writing %s", path) : 0;
}

static int prepare_token(struct cli *c, const struct up_place *p, struct err *e)
{
	char path[PATH_MAX + 16];
	struct stat st;
	snprintf(path, sizeof path, "%s/token", p->data);
	if (lstat(path, &st) < 0 && new_token(path, e) < 0)
		return -1;
	auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "%s", path);
	if (!S_ISREG(st.st_mode) || st.st_size < TOKEN_MIN) {
		cli_hint(c, "Write at least %d characters into it, or delete it to get a new one.", TOKEN_MIN);
		return err_set(e, ERRC_INVALID_REQUEST, "the token in %s is too short", path);
	}
	if (fchown(fd, p->uid, p->gid) < 0 || fchmod(fd, 0600) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "owner of %s", path);
	return 0;
}

/* The default advice for errors below; a more exact advice replaces it. */
#define CANNOT_USE "Set %s to a directory that root can write, on a disk with room."

int up_prepare_files(struct cli *c, struct up_place *p, struct err *e)
{
	char daemon_dir[PATH_MAX + 16];
	snprintf(daemon_dir, sizeof daemon_dir, "%s/daemon", p->data);
	cli_hint(c, CANNOT_USE, "ATOLL_RUN");
	if (make_dir(p->run, 0, 0, 0711, e) < 0 || take_lock(c, p->run, &p->run_lock, e) < 0)
		return -1;
	cli_hint(c, "%s", "");
	if (await_leftovers(p, e) < 0 || refuse_running(c, p, e) < 0)
		return -1;
	cli_hint(c, CANNOT_USE, "ATOLL_DATA");
	if (make_dir(p->data, 0, 0, 0711, e) < 0 || take_lock(c, p->data, &p->data_lock, e) < 0)
		return -1;
	char gate_dir[PATH_MAX + 16];
	snprintf(gate_dir, sizeof gate_dir, "%s/gate", p->data);
	if (make_dir(gate_dir, p->gate_uid, p->gate_gid, 0700, e) < 0)
		return -1;
	char backups[PATH_MAX + 16];
	snprintf(backups, sizeof backups, "%s/backups", p->data);
	if (make_dir(daemon_dir, p->uid, p->gid, 0700, e) < 0 || make_dir(backups, p->uid, p->gid, 0700, e) < 0 ||
		prepare_token(c, p, e) < 0)
		return -1;
	cli_hint(c, "%s", "Set ATOLL_IMAGES to the directory of the images.");
	if (close_images(p, e) < 0)
		return -1;
	cli_hint(c, "%s", "");
	return 0;
}

/* ---- kernel settings ---- */

static void raise_setting(const char *path, uint64_t wanted)
{
	auto_buf struct buf b = {0};
	uint64_t now = 0;
	char text[24], name[64];
	snprintf(name, sizeof name, "%s", path + sizeof "/proc/sys/" - 1);
	for (char *slash = name; (slash = strchr(slash, '/'));)
		*slash = '.';
	if (fd_read_file(AT_FDCWD, path, 64, &b) < 0 ||
		!str_to_u64(str_split(buf_str(&b), '\n', &(struct str){0}), UINT64_MAX, &now))
		return;
	if (now >= wanted)
		return;
	snprintf(text, sizeof text, "%llu", (unsigned long long)wanted);
	int r = fd_write_file(AT_FDCWD, path, str_of(text));
	if (r < 0)
		log_event(LOG_WARN, "cannot raise a low kernel setting", "setting=%s value=%llu wanted=%s err=%s", name,
			(unsigned long long)now, text, LOG_Q(strerror(-r)));
	else
		log_event(LOG_INFO, "raised a kernel setting for many boxes", "setting=%s from=%llu to=%s", name,
			(unsigned long long)now, text);
}

void up_raise_limits(void)
{
	raise_setting(UP_INOTIFY_INSTANCES, UP_INOTIFY_INSTANCES_WANTED);
	raise_setting(UP_INOTIFY_WATCHES, UP_INOTIFY_WATCHES_WANTED);
}

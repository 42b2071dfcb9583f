#include "warden/probe.h"

#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "cage/layers.h"
#include "cage/steer.h"
#include "warden/isolate.h"

enum { PROBE_ROOT = 0x70000000, NFTW_FDS = 8 };

#define ZEROS  "000000000000000000000000000000000000000000000000000000000000000"
#define KEY    "sha256-00000000000000000000000000000000000000000000000000000000"
#define LAYERS ZEROS "0\n" ZEROS "1"

/* ---- the trial: an installation with one plain image and one of two layers ---- */

static const char first_layer[] = "images/layers/" ZEROS "0", second_layer[] = "images/layers/" ZEROS "1";
static const char *const dirs[] = {"run", "ids", "data", "data/boxes", "images", "images/plain", "images/plain/rootfs",
	"images/meta", "images/layers", first_layer, second_layer};

static int make_trial(char *path, size_t size, const char *data)
{
	snprintf(path, size, "%s/probe-XXXXXX", data);
	if (!mkdtemp(path)) {
		snprintf(path, size, "/var/tmp/atoll-probe-XXXXXX");
		if (!mkdtemp(path))
			return -errno;
	}
	auto_fd int trial = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (trial < 0 || mkdirat(trial, dirs[i], 0755) < 0)
			return -errno;
	int r = fd_replace_file(trial, "images/plain/image.json", STR("{}"), 0644);
	if (r == 0)
		r = fd_replace_file(trial, "images/meta/" KEY ".layers", STR(LAYERS), 0644);
	if (r == 0)
		r = fd_replace_file(trial, "images/layers/" ZEROS "0/low", STR("low"), 0644);
	return r;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	remove(path);
	return 0;
}

/* ---- probes ---- */

/* The user namespace of a box, from a child that ends here. */
static int make_userns(struct err *e)
{
	static const char *const maps[] = {"uid_map", "gid_map"};
	char path[64], text[48], byte = 0;
	int ready[2], fd = -1;
	if (pipe2(ready, O_CLOEXEC) < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "make a pipe");
	pid_t pid = fork();
	if (pid == 0) {
		byte = unshare(CLONE_NEWUSER) == 0;
		while (write(ready[1], &byte, 1) == 1 && byte)
			pause();
		_exit(0);
	}
	bool ok = pid > 0 && read(ready[0], &byte, 1) == 1 && byte;
	snprintf(text, sizeof text, "0 %d 65536", PROBE_ROOT);
	for (size_t i = 0; ok && i < ARRAY_LEN(maps); i++) {
		snprintf(path, sizeof path, "/proc/%d/%s", pid, maps[i]);
		ok = fd_write_file(AT_FDCWD, path, str_of(text)) == 0;
	}
	snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
	if (ok)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	int os = errno;
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	close(ready[0]);
	close(ready[1]);
	return fd < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, os, "make a user namespace") : fd;
}

/* Mounts the image as the root of a box, and looks for a file of its lowest layer. */
static int try_image(const char *name, const char *layer, const char *file, int userns, struct err *e)
{
	int spent[LAYER_SPENT];
	struct image image;
	struct stat st;
	auto_fd int images = open("/images", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int boxes = open("/data/boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (image_find(images, name, &image, e) < 0 || layer_make(boxes, layer, e) < 0)
		return -1;
	const struct layer_mount_args args = {
		.images = images, .image = &image, .dir = boxes, .name = layer, .userns = userns, .root = PROBE_ROOT};
	auto_fd int mount = layer_mount(&args, spent, e);
	if (mount < 0)
		return -1;
	return fstatat(mount, file, &st, 0) < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, errno, "read the image") : 0;
}

static void tell(const char *name, int r, const struct err *e)
{
	printf("%s\t%s\n", name, r < 0 ? e->msg : "ok");
	fflush(stdout);
}

_Noreturn static void probe_child(const char *trial)
{
	char run[4200], data[4200], images[4200], ids[4200];
	struct err e = {0};
	snprintf(run, sizeof run, "%s/run", trial);
	snprintf(data, sizeof data, "%s/data", trial);
	snprintf(images, sizeof images, "%s/images", trial);
	snprintf(ids, sizeof ids, "%s/ids", trial);
	const struct isolate_paths paths = {run, data, images, ids, NULL, -1};
	int userns = make_userns(&e);
	int r = userns < 0 || isolate_mounts(&paths, &e) < 0 || isolate_privileges(&e) < 0 ? -1 : 0;
	tell("warden", r, &e);
	if (r < 0)
		_exit(1);
	tell("steering", steer_check(&e), &e);
	tell("overlay", try_image("plain", "a", ".", userns, &e), &e);
	tell("layers", try_image(KEY, "b", "low", userns, &e), &e);
	_exit(0);
}

/* The doctor's alarm, or a user who ends it: the child is killed, and this process removes the trial. */
static pid_t prober;

static void on_end(int signo)
{
	(void)signo;
	kill(prober, SIGKILL);
}

static pid_t start_child(const char *trial)
{
	static const int ends[] = {SIGALRM, SIGTERM, SIGINT, SIGHUP};
	const struct sigaction kill_child = {.sa_handler = on_end};
	sigset_t all, before;
	pid_t parent = getpid();
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	prober = fork();
	if (prober == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		sigprocmask(SIG_SETMASK, &before, NULL);
		probe_child(trial);
	}
	for (size_t i = 0; prober > 0 && i < ARRAY_LEN(ends); i++)
		sigaction(ends[i], &kill_child, NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return prober;
}

int probe_run(const char *data)
{
	char trial[4100];
	int status = -1, r = make_trial(trial, sizeof trial, data);
	fflush(stdout);
	pid_t pid = r < 0 ? -1 : start_child(trial);
	if (r < 0)
		fprintf(stderr, "atoll-warden: make a trial directory: %s\n", strerror(-r));
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	nftw(trial, remove_one, NFTW_FDS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

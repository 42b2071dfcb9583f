/*
 * atoll-images: accepts connections of atolld, starts a process for each, and destroys the box of a process that ended
 * early.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/beside.h"
#include "base/fd.h"
#include "base/log.h"
#include "images/build_mounts.h"

static unsigned jobs;

static void use_daemon_socket(void)
{
	char url[300];
	snprintf(url, sizeof url, "unix:%s/own.sock", cli_run_dir());
	setenv("ATOLL_URL", url, 1);
}

/* In a process of its own: the daemon may be busy, or away. */
static void destroy_box(pid_t owner, const char *digits)
{
	if (fork() != 0)
		return;
	auto_work struct work w = {0};
	struct err e;
	alarm(60);
	if (work_open(&w, NULL, &e) < 0)
		_exit(0);
	work_name(owner, digits, "", w.box);
	w.there = true;
	work_drop(&w);
	work_name(owner, digits, "-context", w.box);
	w.there = true;
	work_drop(&w);
	caches_drop_of(&w, owner);
	char dir[300];
	snprintf(dir, sizeof dir, "%s/daemon/image-%d", cli_data_dir(), (int)owner);
	if (access(dir, F_OK) == 0)
		execlp("rm", "rm", "-rf", "--", dir, (char *)NULL);
	_exit(0);
}

struct job {
	pid_t pid; /* 0: a free place */
	char digits[WORK_DIGITS + 1];
};

static struct job *find_job(pid_t pid)
{
	static struct job list[SERVICE_JOBS_MAX];
	for (size_t i = 0; i < SERVICE_JOBS_MAX; i++)
		if (list[i].pid == pid)
			return &list[i];
	return NULL;
}

static void reap(void)
{
	int status;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
		struct job *job = find_job(pid);
		if (!job)
			continue;
		jobs--;
		job->pid = 0;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			destroy_box(pid, job->digits);
	}
}

/* What a killed service has left. */
static void sweep(void)
{
	if (fork() != 0)
		return;
	auto_work struct work w = {0};
	auto_buf struct buf text = {.max = SERVICE_PAGE_MAX};
	struct err e;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(120);
	for (int i = 0;
		work_open(&w, NULL, &e) < 0 || client_call(&w.cl, "GET", "/v1/sandboxes", STR(""), &text, &e) < 0;
		i++) {
		if (i == 100)
			_exit(0); /* no daemon: the next start sweeps */
		client_close(&w.cl);
		usleep(200000);
	}
	auto_json struct json_doc *doc = json_parse(buf_str(&text), &e);
	json_each(it, doc ? json_get(json_root(doc), "sandboxes") : NULL)
	{
		const char *id = NULL;
		uint64_t pid;
		struct str rest;
		if (json_read_cstr(it, "id", &id, &e) < 0 || !id || strncmp(id, "image-", 6) != 0 ||
			!str_to_u64(str_split(str_of(id + 6), '-', &rest), INT32_MAX, &pid) || kill((pid_t)pid, 0) == 0)
			continue;
		snprintf(w.box, sizeof w.box, "%s", id);
		w.there = true;
		work_drop(&w);
	}
	caches_drop_of(&w, 0);
	_exit(0);
}

static void accept_one(int listening)
{
	unsigned char raw[WORK_DIGITS / 2];
	int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	struct job *job = find_job(0);
	if (fd < 0 || !job || getrandom(raw, sizeof raw, 0) != sizeof raw) {
		fd_close(&fd);
		return;
	}
	for (size_t i = 0; i < sizeof raw; i++)
		snprintf(work_digits + 2 * i, 3, "%02x", raw[i]);
	pid_t pid = fork();
	if (pid == 0) {
		sigset_t none;
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGPIPE, SIG_IGN);
		struct conn c = {.fd = fd};
		serve_request(&c);
		_exit(0);
	}
	close(fd);
	if (pid < 0)
		return;
	*job = (struct job){.pid = pid};
	memcpy(job->digits, work_digits, sizeof work_digits);
	jobs++;
}

int main(int argc, char **argv)
{
	char path[300];
	sigset_t set;
	(void)argv;
	if (argc > 1) {
		puts("atoll-images: imports and builds images for atolld. Started by 'atoll up'.");
		return 0;
	}
	beside_name("atoll-images");
	beside_keep("atoll-mover");
	log_init("atoll-images");
	use_daemon_socket();
	snprintf(path, sizeof path, "%s/daemon/" IMAGE_SERVICE, cli_data_dir());
	int listening = fd_unix_listen(path, SOCK_STREAM, 0600, 128);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (listening < 0 || signals < 0) {
		fprintf(stderr, "atoll-images: listen on %s: %s\n", path, strerror(listening < 0 ? -listening : errno));
		return 1;
	}
	sweep();
	log_event(LOG_INFO, "ready", "socket=%s", LOG_Q(path));
	for (;;) {
		struct pollfd p[2] = {{signals, POLLIN, 0}, {jobs < SERVICE_JOBS_MAX ? listening : -1, POLLIN, 0}};
		struct signalfd_siginfo info;
		poll(p, 2, -1);
		while (read(signals, &info, sizeof info) > 0)
			;
		reap();
		if (p[1].revents & POLLIN)
			accept_one(listening);
	}
}

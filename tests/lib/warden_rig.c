#include "warden_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "cage/cgroup.h"
#include "warden/limits.h"

enum { RIG_WAIT = 30000 };

/* Paths to clean up: copies, because the test's own rig ends with its stack. */
static char clean_dir[64], clean_instance[32];
static pid_t clean_pid;

static const char *build_dir(void)
{
	const char *b = getenv("ATOLL_BUILD");
	return b && *b ? b : "build";
}

static void find_program(char *ret, size_t size, const char *const *places)
{
	for (; *places; places++) {
		snprintf(ret, size, "%s/%s", build_dir(), *places);
		if (access(ret, X_OK) == 0)
			return;
	}
	test_fail(__FILE__, __LINE__, "%s is not built", ret);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st, (void)type, (void)f;
	remove(path);
	return 0;
}

static void end_slot(void *arg, uint32_t slot)
{
	struct cgroups *c = arg;
	cgroup_kill(c, slot);
	for (int i = 0; i < 200 && cgroup_remove(c, slot) < 0; i++)
		poll(NULL, 0, 10);
}

/* After a failure nothing can be asked of the warden any more: from outside. */
static void clean(void)
{
	struct cgroups c;
	if (clean_pid > 0) {
		kill(clean_pid, SIGKILL);
		waitpid(clean_pid, NULL, 0);
	}
	if (*clean_instance && cgroup_open(&c, clean_instance, NULL) == 0) {
		cgroup_each(&c, end_slot, &c);
		cgroup_retire(&c);
		cgroup_close(&c);
	}
	if (*clean_dir) { /* a warden that was killed leaves its bpffs */
		char bpf[sizeof clean_dir + 16];
		snprintf(bpf, sizeof bpf, "%s/run/bpf", clean_dir);
		sys_umount(bpf, MNT_DETACH);
	}
	/* The warden's reaper may still be at work there. */
	for (int i = 0; *clean_dir && i < 200 && access(clean_dir, F_OK) == 0; i++) {
		nftw(clean_dir, remove_one, 32, FTW_DEPTH | FTW_PHYS);
		poll(NULL, 0, 5);
	}
	clean_dir[0] = clean_instance[0] = 0;
}

static void on_alarm(int signo)
{
	(void)signo;
	test_print_hang();
	clean();
	_exit(1);
}

void rig_make_dirs(struct rig *r)
{
	static const char *const dirs[] = {"run", "data", "images", "images/default", "images/default/rootfs"};
	char path[256];
	if (geteuid() != 0)
		TEST_SKIP("needs root");
	snprintf(r->dir, sizeof r->dir, "/tmp/atoll-test-XXXXXX");
	CHECK(mkdtemp(r->dir));
	CHECK(chmod(r->dir, 0755) == 0);
	snprintf(clean_dir, sizeof clean_dir, "%s", r->dir);
	clean_instance[0] = 0;
	clean_pid = 0;
	atexit(clean);
	signal(SIGALRM, on_alarm);
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
		snprintf(path, sizeof path, "%s/%s", r->dir, dirs[i]);
		CHECK(mkdir(path, 0755) == 0);
	}
	snprintf(path, sizeof path, "%s/images/default/image.json", r->dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK(fd >= 0 && write(fd, "{}", 2) == 2);
	close(fd);
}

static void exec_warden(struct rig *r, int log)
{
	char program[4096], agent[4096], value[4096];
	find_program(program, sizeof program, (const char *[]){"atoll-warden", NULL});
	find_program(agent, sizeof agent,
		(const char *[]){"static/tests/helpers/mini-agent", "../static/tests/helpers/mini-agent", NULL});
	setenv("ATOLL_AGENT", r->agent ? r->agent : agent, 1);
	setenv("ATOLL_USER", "0", 1);
	static const char *const names[][2] = {
		{"ATOLL_RUN", "run"}, {"ATOLL_DATA", "data"}, {"ATOLL_IMAGES", "images"}};
	for (size_t i = 0; i < 3; i++) {
		snprintf(value, sizeof value, "%s/%s", r->dir, names[i][1]);
		setenv(names[i][0], value, 1);
	}
	if (r->data)
		setenv("ATOLL_DATA", r->data, 1);
	dup2(log, 2);
	execl(program, "atoll-warden", (char *)NULL);
	_exit(127);
}

static void spawn(struct rig *r)
{
	int p[2];
	CHECK(pipe2(p, O_CLOEXEC) == 0);
	r->pid = fork();
	CHECK(r->pid >= 0);
	if (r->pid == 0)
		exec_warden(r, p[1]);
	clean_pid = r->pid;
	close(p[1]);
	r->log = p[0];
}

/* One line of the log; false at its end. */
static bool read_line(struct rig *r)
{
	size_t n = 0;
	while (n + 1 < sizeof r->last_log && read(r->log, r->last_log + n, 1) == 1 && r->last_log[n] != '\n')
		n++;
	r->last_log[n] = 0;
	return n > 0;
}

/* Its pipe must not fill up. */
static void drain_log(struct rig *r)
{
	fd_set_nonblock(r->log, true);
	char piece[4096];
	while (read(r->log, piece, sizeof piece) > 0)
		;
}

void rig_connect(struct rig *r)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	snprintf(sa.sun_path, sizeof sa.sun_path, "%s/run/warden.sock", r->dir);
	r->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(r->sock >= 0 && connect(r->sock, (struct sockaddr *)&sa, sizeof sa) == 0);
}

void rig_boot(struct rig *r)
{
	spawn(r);
	char line[sizeof r->last_log] = "";
	while (!strstr(r->last_log, "msg=\"ready\"")) {
		snprintf(line, sizeof line, "%s", r->last_log);
		if (!read_line(r))
			test_fail(__FILE__, __LINE__, "the warden did not start: %s", line);
	}
	const char *name = strstr(r->last_log, "instance=");
	CHECK(name && sscanf(name, "instance=%31s", r->instance) == 1);
	snprintf(clean_instance, sizeof clean_instance, "%s", r->instance);
	r->last_log[0] = 0;
	rig_connect(r);
}

void rig_start(struct rig *r)
{
	rig_make_dirs(r);
	rig_boot(r);
}

void rig_kill(struct rig *r)
{
	int status;
	kill(r->pid, SIGKILL);
	CHECK_INT(waitpid(r->pid, &status, 0), r->pid);
	r->pid = clean_pid = 0;
	close(r->log);
	close(r->sock);
}

void rig_stop(struct rig *r)
{
	int status;
	kill(r->pid, SIGTERM);
	CHECK_INT(waitpid(r->pid, &status, 0), r->pid);
	r->pid = clean_pid = 0;
	CHECK_INT(status, 0);
	close(r->log);
	close(r->sock);
}

const char *rig_refused(struct rig *r)
{
	static char last[4096];
	int status;
	spawn(r);
	last[0] = 0;
	while (read_line(r))
		snprintf(last, sizeof last, "%s", r->last_log);
	CHECK_INT(waitpid(r->pid, &status, 0), r->pid);
	r->pid = clean_pid = 0;
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	return last;
}

struct warden_request rig_request(uint32_t op, const char *id)
{
	struct warden_request rq = {.op = op};
	snprintf(rq.id, sizeof rq.id, "%s", id);
	if (op == WARDEN_CREATE)
		snprintf(rq.image, sizeof rq.image, "default");
	return rq;
}

uint64_t rig_send(struct rig *r, struct warden_request rq)
{
	rq.magic = WARDEN_MAGIC;
	rq.seq = ++r->seq;
	CHECK_INT(send(r->sock, &rq, sizeof rq, MSG_NOSIGNAL), sizeof rq);
	return rq.seq;
}

static struct warden_reply receive(struct rig *r)
{
	struct warden_reply reply;
	struct pollfd p = {.fd = r->sock, .events = POLLIN};
	drain_log(r);
	if (poll(&p, 1, RIG_WAIT) != 1)
		test_fail(__FILE__, __LINE__, "the warden does not answer");
	ssize_t n = recv(r->sock, &reply, sizeof reply, 0);
	if (n != (ssize_t)sizeof reply)
		test_fail(__FILE__, __LINE__, "the warden hung up");
	CHECK_INT(reply.magic, WARDEN_MAGIC);
	return reply;
}

enum { KEPT_MAX = 512 };
static struct warden_reply kept[KEPT_MAX];
static size_t kept_n;

static bool take_kept(bool (*match)(const struct warden_reply *, uint64_t), uint64_t arg, struct warden_reply *ret)
{
	for (size_t i = 0; i < kept_n; i++) {
		if (!match(&kept[i], arg))
			continue;
		*ret = kept[i];
		memmove(&kept[i], &kept[i + 1], (--kept_n - i) * sizeof *kept);
		return true;
	}
	return false;
}

static bool has_seq(const struct warden_reply *reply, uint64_t seq)
{
	return reply->seq == seq;
}

static bool is_event(const struct warden_reply *reply, uint64_t unused)
{
	(void)unused;
	return reply->op == WARDEN_BOX_DIED && reply->seq == 0;
}

static struct warden_reply wait_for(struct rig *r, bool (*match)(const struct warden_reply *, uint64_t), uint64_t arg)
{
	struct warden_reply reply;
	if (take_kept(match, arg, &reply))
		return reply;
	while (reply = receive(r), !match(&reply, arg)) {
		CHECK(kept_n < KEPT_MAX);
		kept[kept_n++] = reply;
	}
	return reply;
}

struct warden_reply rig_wait(struct rig *r, uint64_t seq)
{
	return wait_for(r, has_seq, seq);
}

struct warden_reply rig_event(struct rig *r)
{
	return wait_for(r, is_event, 0);
}

struct warden_reply rig_call(struct rig *r, struct warden_request rq)
{
	return rig_wait(r, rig_send(r, rq));
}

static struct warden_reply must(struct rig *r, struct warden_request rq, const char *id)
{
	snprintf(rq.id, sizeof rq.id, "%s", id);
	struct warden_reply reply = rig_call(r, rq);
	if (reply.err.code)
		test_fail(__FILE__, __LINE__, "operation %u on '%s': %s", rq.op, id, reply.err.msg);
	return reply;
}

struct box_info rig_create(struct rig *r, const char *id)
{
	struct warden_reply reply = must(r, (struct warden_request){.op = WARDEN_CREATE, .image = "default"}, id);
	CHECK(reply.has_info);
	CHECK_CSTR(reply.info.id, id);
	CHECK_INT(reply.info.state, BOX_RUNNING);
	return reply.info;
}

void rig_destroy(struct rig *r, const char *id, uint32_t flags)
{
	must(r, (struct warden_request){.op = WARDEN_DESTROY, .flags = flags}, id);
}

struct box_info rig_inspect(struct rig *r, const char *id)
{
	return must(r, (struct warden_request){.op = WARDEN_INSPECT}, id).info;
}

size_t rig_list(struct rig *r, struct box_info *ret, size_t max)
{
	uint64_t seq = rig_send(r, (struct warden_request){.op = WARDEN_LIST});
	size_t n = 0;
	for (;;) {
		struct warden_reply reply = rig_wait(r, seq);
		CHECK_INT(reply.err.code, ERRC_OK);
		if (!reply.more)
			return n;
		if (n < max)
			ret[n] = reply.info;
		n++;
	}
}

const char *rig_ask_ms(struct rig *r, uint32_t slot, const char *line, int ms)
{
	static char answer[65536];
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	snprintf(sa.sun_path, sizeof sa.sun_path, "%s/run/s/%u.sock", r->dir, slot);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	if (connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0)
		test_fail(__FILE__, __LINE__, "agent of slot %u: %s", slot, strerror(errno));
	CHECK(dprintf(fd, "%s\n", line) > 0);
	size_t n = 0;
	for (struct pollfd p = {.fd = fd, .events = POLLIN};;) {
		if (poll(&p, 1, ms) != 1) {
			close(fd);
			return NULL;
		}
		ssize_t got = read(fd, answer + n, sizeof answer - 1 - n);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	close(fd);
	answer[n] = 0;
	return answer;
}

const char *rig_ask(struct rig *r, uint32_t slot, const char *line)
{
	const char *answer = rig_ask_ms(r, slot, line, RIG_WAIT);
	if (!answer)
		test_fail(__FILE__, __LINE__, "no answer to '%s'", line);
	return answer;
}

static int entries(const char *path)
{
	int n = 0;
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

static int count_in(struct rig *r, const char *name)
{
	char path[256];
	if (r->data && strncmp(name, "data/", 5) == 0)
		snprintf(path, sizeof path, "%s/%s", r->data, name + 5);
	else
		snprintf(path, sizeof path, "%s/%s", r->dir, name);
	return entries(path);
}

static void count_slot(void *arg, uint32_t slot)
{
	(void)slot;
	++*(int *)arg;
}

static int count_lines(const char *path)
{
	FILE *f = fopen(path, "re");
	int n = 0;
	for (int c; f && (c = fgetc(f)) != EOF;)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

struct rig_traces rig_traces(struct rig *r)
{
	struct rig_traces t = {0};
	struct cgroups c;
	char path[64];
	CHECK(cgroup_open(&c, r->instance, NULL) == 0);
	cgroup_each(&c, count_slot, &t.cgroups);
	t.hierarchies = 1 + (c.v1[0] >= 0) + (c.v1[1] >= 0) + (c.v1[2] >= 0);
	cgroup_close(&c);
	t.records = count_in(r, "run/boxes");
	t.sockets = count_in(r, "run/s") / 2; /* a socket and a pipe each */
	t.layers = count_in(r, "data/slots");
	t.boxes = count_in(r, "data/boxes");
	t.trash = count_in(r, "data/trash");
	snprintf(path, sizeof path, "/proc/%d/fd", r->pid);
	t.fds = entries(path);
	snprintf(path, sizeof path, "/proc/%d/mountinfo", r->pid);
	t.mounts = count_lines(path);
	return t;
}

struct rig_traces rig_traces_steady(struct rig *r)
{
	struct rig_traces last = rig_traces(r);
	for (int i = 0, same = 0; i < RIG_WAIT / 20 && same < 10; i++) {
		poll(NULL, 0, 20);
		struct rig_traces now = rig_traces(r);
		same = now.fds == last.fds && now.mounts == last.mounts ? same + 1 : 0;
		last = now;
	}
	return last;
}

void rig_check_clean(struct rig *r)
{
	struct rig_traces t = {0};
	/* The pool refills and the reaper works behind the replies: there is no event to wait for. */
	for (int i = 0; i < RIG_WAIT / 20; i++) {
		t = rig_traces(r);
		if (t.records == (int)WARDEN_POOL && t.sockets == (int)WARDEN_POOL && t.layers <= (int)WARDEN_POOL &&
			t.cgroups == (int)WARDEN_POOL * t.hierarchies && t.boxes == 0 && t.trash == 0)
			return;
		drain_log(r);
		poll(NULL, 0, 20);
	}
	test_fail(__FILE__, __LINE__, "left: %d cgroups, %d records, %d sockets, %d layers, %d boxes, %d in the trash",
		t.cgroups, t.records, t.sockets, t.layers, t.boxes, t.trash);
}

void rig_stop_clean(struct rig *r)
{
	rig_check_clean(r);
	rig_stop(r);
}

#include "agent/code/spare.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/code/warm.h"
#include "agent/code/zygote_client.h"
#include "agent/limits.h"
#include "agent/proc/children.h"
#include "agent/proc/netlink.h"
#include "agent/proc/plain.h"
#include "agent/proc/user.h"
#include "base/fd_pass.h"
#include "proto/warm.h"

/* A program file, to tell when another one took its place. */
struct program {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

static struct {
	struct child child; /* watched while there is a spare */
	pid_t pid;
	struct worker_fds fds;
	struct env env;		/* that it was started with */
	char *path;		/* of the program */
	struct program program; /* that it was started from */
	bool early;		/* it was started before the box's user and settings were known */
	int await_fd;		/* from which the first spare comes; -1: none is due */
	struct loop_io await_io;
	struct loop_task reap_task;
	bool typescript;	 /* a TypeScript context has been there: the next spare loads the compiler ahead */
	struct loop_timer timer; /* until the spare is started, or ended */
	bool told[LANG_N];	 /* the warden knows that the box uses the language */
} spare = {.await_fd = -1};

static bool program_at(const char *path, struct program *ret)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return false;
	*ret = (struct program){st.st_dev, st.st_ino, st.st_size, st.st_mtim};
	return true;
}

static bool program_same(const struct program *a, const struct program *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->changed.tv_sec == b->changed.tv_sec &&
	       a->changed.tv_nsec == b->changed.tv_nsec;
}

/* The runtime or its libraries read this variable before the worker's code runs. */
static bool counts_at_start(const char *entry)
{
	static const char *const prefixes[] = {
		"NODE_", "UV_", "LD_", "SSL_", "OPENSSL_", "MALLOC_", "GLIBC_", "V8_", "LANG", "LC_", "ICU_"};
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (!strncmp(entry, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

/* All variables of `a` that count at the start are in `b` too. */
static bool covered(const struct env *a, const struct env *b)
{
	for (size_t i = 0; i < a->n; i++) {
		if (!counts_at_start(a->v[i]))
			continue;
		bool found = false;
		for (size_t k = 0; k < b->n && !found; k++)
			found = !strcmp(a->v[i], b->v[k]);
		if (!found)
			return false;
	}
	return true;
}

static bool fits(const struct worker_spec *s)
{
	struct program now;
	if (spare.early && box_user())
		return false;
	auto_free char *path = plain_find("node", env_get(s->env, "PATH"));
	return path && !strcmp(path, spare.path) && program_at(path, &now) && program_same(&now, &spare.program) &&
	       covered(s->env, &spare.env) && covered(&spare.env, s->env);
}

static void spare_forget(void)
{
	child_forget(&spare.child);
	loop_timer_stop(&spare.timer);
	env_free(&spare.env);
	free(take_ptr(&spare.path));
	spare.pid = 0;
	spare.early = false;
}

static void spare_on_exit(struct child *c, int wstatus)
{
	(void)c, (void)wstatus;
	worker_fds_close(&spare.fds);
	spare_forget();
}

static void on_unwanted(struct loop_timer *t)
{
	(void)t;
	kill(-spare.pid, SIGKILL);
}

void spare_load_compiler(int socket)
{
	static const char warm[] = {3, 0, 0, 0, 'W', '{', '}'};
	(void)!send(socket, warm, sizeof warm, MSG_NOSIGNAL);
}

static void spare_start(struct loop_timer *t)
{
	(void)t;
	struct err e;
	if (spare.pid || agent.stopping)
		return;
	env_apply(&spare.env, &agent.env);
	spare.path = plain_find("node", env_get(&spare.env, "PATH"));
	struct worker_spec s = {.language = LANG_JAVASCRIPT, .cwd = agent.workdir, .context = "", .env = &spare.env};
	/* A failure needs no report: the next context that is created will report it. */
	if (!spare.path || !program_at(spare.path, &spare.program) ||
		worker_start_plain(&s, &spare.fds, &spare.pid, &e) < 0) {
		spare_forget();
		return;
	}
	child_watch(&spare.child, spare.pid, spare_on_exit);
	if (spare.typescript)
		spare_load_compiler(spare.fds.socket);
	loop_timer_set(agent.loop, &spare.timer, CODE_SPARE_KEEP, on_unwanted);
}

static void await_end(void)
{
	loop_del(&spare.await_io);
	fd_close(&spare.await_fd);
}

/* It was started before the box had a limit of its own. The process is not reaped yet, so the number is still its. */
static bool limit_files(pid_t pid)
{
	struct rlimit own;
	return getrlimit(RLIMIT_FSIZE, &own) == 0 && prlimit(pid, RLIMIT_FSIZE, &own, NULL) == 0;
}

/* The spare that the warden had started (init_warm.c has its environment). */
static void spare_adopt(const struct warm_record *r, const struct worker_fds *fds)
{
	spare.fds = *fds;
	spare.pid = r->pid;
	spare.early = true;
	env_put(&spare.env, STR("LANG"), STR("C.UTF-8"));
	env_put(&spare.env, STR("LC_ALL"), STR("C.UTF-8"));
	spare.path = plain_find("node", env_get(&agent.env, "PATH"));
	child_watch(&spare.child, spare.pid, spare_on_exit);
	loop_timer_set(agent.loop, &spare.timer, CODE_WARM_KEEP, on_unwanted);
	if (!limit_files(spare.pid) || !spare.path || !program_at(spare.path, &spare.program))
		on_unwanted(NULL);
}

static void reap(struct loop_task *t)
{
	(void)t;
	agent_reap();
}

static void on_await(struct loop_io *io, uint32_t events)
{
	(void)io, (void)events;
	int fds[WARM_FDS] = {-1, -1, -1, -1, -1};
	struct warm_record record;
	struct fd_record r = {.data = &record, .size = sizeof record, .fds = fds, .fds_max = WARM_FDS};
	ssize_t n = fd_recv(spare.await_fd, &r, MSG_DONTWAIT);
	if (n == -EAGAIN)
		return;
	await_end();
	struct worker_fds theirs = {fds[0], fds[1], fds[2], fds[3]};
	bool good =
		n == (ssize_t)sizeof record && record.magic == WARM_MAGIC && record.pid > 1 && r.fds_n >= WARM_FDS - 1;
	if (good && !spare.pid) {
		netlink_adopt(take_fd(&fds[4]));
		spare_adopt(&record, &theirs);
	} else if (n > 0) {
		fd_record_close(&r);
	}
	/* The process that started it has ended: no signal tells the agent of what happened before it was there. */
	loop_defer(agent.loop, &spare.reap_task, reap);
}

void spare_await(int fd)
{
	if (fd < 0)
		return;
	spare.await_fd = fd;
	if (loop_add(agent.loop, &spare.await_io, fd, EPOLLIN, on_await) < 0)
		fd_close(&spare.await_fd);
}

bool spare_take(const struct worker_spec *s, struct worker_fds *ret, pid_t *ret_pid)
{
	if (s->language == LANG_PYTHON)
		return false;
	if (spare.await_fd >= 0)
		on_await(&spare.await_io, EPOLLIN);
	if (spare.await_fd >= 0)
		await_end(); /* it comes too late to be of use */
	if (!spare.pid || !fits(s))
		return false;
	*ret = spare.fds;
	*ret_pid = spare.pid;
	spare_forget();
	return true;
}

void spare_want(enum language l)
{
	if (l == LANG_PYTHON)
		return;
	spare.typescript |= l == LANG_TYPESCRIPT;
	if (!spare.told[l])
		zygote_note(l == LANG_TYPESCRIPT ? WARM_TYPESCRIPT : WARM_JAVASCRIPT);
	spare.told[l] = true;
	if (!spare.pid)
		loop_timer_set(agent.loop, &spare.timer, CODE_SPARE_DELAY, spare_start);
}

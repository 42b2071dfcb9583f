/*
 * Starting a worker's process: the runtime's program, which the context's PATH finds, with the worker's own program
 * text as descriptor 4.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "agent/code/worker_start.h"
#include "agent/proc/plain.h"
#include "agent/proc/spawn.h"
#include "agent/proc/user.h"
#include "base/fd.h"

/* In worker_texts.S. */
extern const char worker_python_text[], worker_python_text_end[];
extern const char worker_node_text[], worker_node_text_end[];

enum { WORKER_SOCKET = 3, WORKER_TEXT = 4, WORKER_INTERRUPT = 5, WORKER_ARGS_MAX = 8 };

struct runtime {
	const char *program;
	const char *args[WORKER_ARGS_MAX]; /* after the program's name */
	enum errc missing;
	bool deaf; /* SIGINT does not stop a loop: a thread of the worker reads the run to interrupt from descriptor 5
		    */
	const char *text, *text_end;
	int fd; /* the text, sealed; made at first use */
};

static struct runtime python = {.program = "python3",
	.args = {"-X", "utf8", "-c",
		"f=open(4,'rb');s=f.read();f.close();exec(compile(s,'<atoll_worker/boot.py>','exec'))\n"
		"del f,s\nfrom atoll_worker.main import main\nmain()"},
	.missing = ERRC_PYTHON_NOT_AVAILABLE,
	.text = worker_python_text,
	.text_end = worker_python_text_end,
	.fd = -1};

/* The block keeps the names of this text from the user's code. The checks would end the process when a callback of a
 * timer is interrupted. */
static struct runtime node = {.program = "node",
	.args = {"--no-force-async-hooks-checks", "--input-type=commonjs", "-e",
		"{const fs=require('fs'),M=require('module'),s=fs.readFileSync(4,'utf8');fs.closeSync(4);"
		"const m=new "
		"M('/atoll/worker.cjs');m.filename='atoll:worker';m.paths=[];m._compile(s,'atoll:worker')}"},
	.missing = ERRC_JAVASCRIPT_NOT_AVAILABLE,
	.deaf = true,
	.text = worker_node_text,
	.text_end = worker_node_text_end,
	.fd = -1};

static const struct {
	const char *name, *aliases[2];
	struct runtime *runtime;
} languages[LANG_N] = {
	[LANG_PYTHON] = {"python", {"python3"}, &python},
	[LANG_JAVASCRIPT] = {"javascript", {"js", "node"}, &node},
	[LANG_TYPESCRIPT] = {"typescript", {"ts"}, &node},
};

const char *language_name(enum language l)
{
	return languages[l].name;
}

bool language_of(struct str name, enum language *ret)
{
	for (int l = 0; l < LANG_N; l++)
		if (str_eq_c(name, languages[l].name) ||
			(languages[l].aliases[0] && str_eq_c(name, languages[l].aliases[0])) ||
			(languages[l].aliases[1] && str_eq_c(name, languages[l].aliases[1]))) {
			*ret = (enum language)l;
			return true;
		}
	return false;
}

/* Each start gets a descriptor of its own, because the position must not be shared. */
static int text_open(struct runtime *r, struct err *e)
{
	if (r->fd < 0) {
		auto_fd int fd = memfd_create("atoll-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (fd < 0 || fd_write_full(fd, r->text, (size_t)(r->text_end - r->text)) < 0 ||
			fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
			return err_os(e, ERRC_INTERNAL_ERROR, errno, "prepare the %s worker", r->program);
		r->fd = take_fd(&fd);
	}
	char path[32];
	snprintf(path, sizeof path, "/proc/self/fd/%d", r->fd);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? fd : err_os(e, ERRC_INTERNAL_ERROR, errno, "open the %s worker", r->program);
}

static int worker_pair(struct worker_fds *ours, struct worker_fds *theirs, struct err *e)
{
	int s[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
		pipe2(err, O_CLOEXEC) < 0) {
		int os = errno;
		int *all[] = {&s[0], &s[1], &out[0], &out[1]};
		for (size_t i = 0; i < ARRAY_LEN(all); i++)
			fd_close(all[i]);
		return err_os(e, ERRC_CODE_EXECUTION_ERROR, os, "make the pipes of a context");
	}
	*ours = (struct worker_fds){s[0], out[0], err[0], -1};
	*theirs = (struct worker_fds){s[1], out[1], err[1], -1};
	fd_set_nonblock(s[0], true);
	fd_set_nonblock(out[0], true);
	fd_set_nonblock(err[0], true);
	return 0;
}

void worker_fds_close(struct worker_fds *f)
{
	fd_close(&f->socket);
	fd_close(&f->out);
	fd_close(&f->err);
	fd_close(&f->interrupt);
}

static int interrupt_pair(struct worker_fds *ours, struct worker_fds *theirs, struct err *e)
{
	int p[2];
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_os(e, ERRC_CODE_EXECUTION_ERROR, errno, "make the pipes of a context");
	theirs->interrupt = p[0];
	ours->interrupt = p[1];
	fd_set_nonblock(p[1], true);
	return 0;
}

static int start_program(struct runtime *r, const char *path, const struct worker_spec *s, struct worker_fds *theirs,
	pid_t *ret, struct err *e)
{
	auto_fd int text = text_open(r, e);
	if (text < 0)
		return -1;
	const char *argv[WORKER_ARGS_MAX + 2] = {r->program};
	for (int i = 0; i < WORKER_ARGS_MAX; i++)
		argv[i + 1] = r->args[i];
	struct spawn_spec sp = {.path = path,
		.argv = argv,
		.envp = env_vector(s->env),
		.tied = !s->ahead,
		.fd = {-1, theirs->out, theirs->err},
		.extra = {{theirs->socket, WORKER_SOCKET}, {text, WORKER_TEXT}, {theirs->interrupt, WORKER_INTERRUPT}},
		.extra_n = r->deaf ? 3 : 2};
	enum spawn_step step;
	if (spawn(&sp, ret, &step, e) < 0) {
		e->code = ERRC_CODE_EXECUTION_ERROR;
		return err_wrap(e, "start %s", r->program);
	}
	return 0;
}

/* An interpreter, its loader or its C library reads this variable once, when it starts. */
static bool changes_start(const char *entry)
{
	static const char *const prefixes[] = {
		"PYTHON", "LD_", "MALLOC_", "GLIBC_", "OPENBLAS_", "OMP_", "MKL_", "MPL", "VIRTUAL_ENV"};
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (str_starts(str_of(entry), str_of(prefixes[i])))
			return true;
	return false;
}

int worker_start_zygote(const struct worker_zygote *z, pid_t *ret, struct err *e)
{
	static const char script[] =
		"f=open(4,'rb');s=f.read();f.close();exec(compile(s,'<atoll_worker/boot.py>','exec'))\n"
		"del f,s\nfrom atoll_worker.nursery import main\nmain()";
	static const char *const argv[] = {"python3", "-X", "utf8", "-c", script, NULL};
	auto_fd int text = text_open(&python, e);
	if (text < 0)
		return -1;
	struct spawn_spec sp = {.path = z->path,
		.argv = argv,
		.envp = env_vector(z->env),
		.tied = true,
		.fd = {-1, -1, -1},
		.extra = {{z->reply, WORKER_SOCKET}, {text, WORKER_TEXT}, {z->ask, WORKER_INTERRUPT}},
		.extra_n = 3};
	enum spawn_step step;
	return spawn(&sp, ret, &step, e);
}

bool worker_env_counts(const char *entry)
{
	return changes_start(entry) || str_starts(str_of(entry), STR("HOME=")) || str_starts(str_of(entry), STR("LC_"));
}

static bool same_text(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

bool worker_may_join(const struct worker_spec *s)
{
	if (s->language != LANG_PYTHON || box_user() || !same_text(env_get(s->env, "HOME"), "/root") ||
		!same_text(env_get(s->env, "LC_ALL"), "C.UTF-8"))
		return false;
	for (size_t i = 0; i < s->env->n; i++)
		if (changes_start(s->env->v[i]))
			return false;
	auto_free char *path = plain_find("python3", env_get(s->env, "PATH"));
	auto_free char *usual = plain_find("python3", "/usr/local/bin:/usr/bin:/bin");
	return same_text(path, usual);
}

int worker_start_plain(const struct worker_spec *s, struct worker_fds *ret, pid_t *ret_pid, struct err *e)
{
	struct runtime *r = languages[s->language].runtime;
	struct worker_fds ours, theirs;
	auto_free char *path = plain_program(r->program, s->env);
	if (!path)
		return err_set(e, r->missing, "There is no %s in this sandbox", r->program);
	if (worker_pair(&ours, &theirs, e) < 0)
		return -1;
	int failed = r->deaf ? interrupt_pair(&ours, &theirs, e) : 0;
	if (!failed)
		failed = start_program(r, path, s, &theirs, ret_pid, e);
	worker_fds_close(&theirs);
	if (failed < 0)
		worker_fds_close(&ours);
	else
		*ret = ours;
	return failed;
}

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/cp/cp.h"

enum { SAID_MAX = 16 * 1024, PACK_TOLD = 3 };

/*
 * $1 destination; $2 the name inside the destination when that is a directory ("": the stream is the content of that
 * directory); $3 a name to gather under. "end" is the last entry of the stream: without it the connection broke and the
 * tree is not whole, even if tar reports no error.
 */
static const char script[] = "set -e\n"
			     "d=$1\n"
			     "case $d in */) mkdir -p -- \"$d\";; esac\n"
			     "while :; do case $d in ?*/) d=${d%/};; *) break;; esac; done\n"
			     "t=$d\n"
			     "if [ -n \"$2\" ] && [ -d \"$d\" ]; then t=${d%/}/$2; fi\n"
			     "case $t in */*) p=${t%/*}; [ -n \"$p\" ] || p=/;; *) p=.;; esac\n"
			     "mkdir -p -- \"$p\"\n"
			     "s=${p%/}/$3\n"
			     "trap 'rm -rf -- \"$s\"' EXIT\n"
			     "trap 'exit 1' HUP INT TERM PIPE\n"
			     "mkdir -m 700 -- \"$s\"\n"
			     "tar -xf - -C \"$s\" --no-same-owner\n"
			     "[ -f \"$s/end\" ] || { echo 'the transfer was not complete' >&2; exit 1; }\n"
			     "if [ -d \"$s/x\" ] && [ -d \"$t\" ]; then cp -alf -- \"$s/x/.\" \"$t/\"\n"
			     "else mv -fT -- \"$s/x\" \"$t\"; fi\n";

static void on_in(void *arg, size_t n)
{
	cp_progress_add(arg, n);
}

/* A child process reads the tree, because reading may block. The child prints its own errors. */
static pid_t start_packing(struct cp *cp, int *ret_fd, struct err *e)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "pipe");
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		struct err why;
		close(ends[0]);
		if (cp_pack(cp->from.path, ends[1], &why) == 0)
			_exit(0);
		if (why.os == EPIPE)
			_exit(1);
		cp_progress_end(&cp->progress);
		cli_fail(cp->cl->cli, &why);
		fflush(NULL);
		_exit(PACK_TOLD);
	}
	close(ends[1]);
	*ret_fd = ends[0];
	if (pid > 0)
		return pid;
	close(ends[0]);
	return err_os(e, ERRC_INTERNAL_ERROR, errno, "fork");
}

int cp_up(struct cp *cp, struct err *e)
{
	char temp[CP_TEMP_NAME];
	auto_buf struct buf out = {.max = SAID_MAX}, said = {.max = SAID_MAX};
	auto_free char *name = str_dup(cp_base_name(cp->from.path));
	char *argv[] = {"sh", "-c", (char *)script, "cp", (char *)cp->to.path, name, temp, NULL};
	struct stream_request rq = {.id = cp->to.id, .argv = argv};
	struct stream_result r;
	struct stat st;
	auto_fd int in = -1;
	if (stat(cp->from.path, &st) < 0)
		return err_os(e, errc_from_file_errno(errno), errno, "'%s'", cp->from.path);
	if (!*name && !S_ISDIR(st.st_mode))
		return err_set(e, ERRC_INVALID_REQUEST, "'%s' is no directory", cp->from.path);
	if (cp_temp_name(temp, e) < 0)
		return -1;
	cp->progress.total = cp->progress.shown ? cp_pack_size(cp->from.path) : 0;
	pid_t pid = start_packing(cp, &in, e);
	if (pid < 0)
		return -1;
	struct stream_io io = {.in = in, .out = &out, .err = &said, .on_in = on_in, .arg = &cp->progress};
	int failed = stream_run(cp->cl, &rq, &io, &r, e);
	int status = 0;
	fd_close(&in);
	waitpid(pid, &status, 0);
	cp_progress_end(&cp->progress);
	if (WIFEXITED(status) && WEXITSTATUS(status) == PACK_TOLD)
		cp->told = true;
	if (cp->told || failed < 0 || r.exit_code == 0)
		return cp->told ? -1 : failed;
	return cp_command_failed(&r, &said, cp->to.path, e);
}

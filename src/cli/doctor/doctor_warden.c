/*
 * doctor_warden.c - what the warden finds that it can do on this host: `atoll-warden --probe` runs its own code with
 * its own capabilities. Only root can ask.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "cli/doctor/doctor.h"

enum { PROBE_SECONDS = 60, PROBE_TEXT = 4096 };

static char found[PROBE_TEXT]; /* the lines of the probe */

/* The alarm stays through exec: a probe that hangs does not hang the doctor. */
_Noreturn static void become_probe(int out)
{
	char path[4200];
	snprintf(path, sizeof path, "%s/atoll-warden", cli_bin_dir());
	if (dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
		_exit(127);
	alarm(PROBE_SECONDS);
	execl(path, "atoll-warden", "--probe", (char *)NULL);
	_exit(127);
}

static void ask_once(void)
{
	static bool asked;
	int ends[2], status;
	if (asked || pipe2(ends, O_CLOEXEC) < 0)
		return;
	asked = true;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		become_probe(ends[1]);
	close(ends[1]);
	ssize_t n = pid < 0 ? -1 : fd_read_full(ends[0], found, sizeof found - 1);
	found[n > 0 ? n : 0] = 0;
	close(ends[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
}

/* The line of this probe, or the last one that there is: the error that ended it. */
static void copy_line(const char *name, char *ret, size_t size)
{
	size_t n = strlen(name);
	const char *last = "it said nothing", *end = found;
	for (const char *at = found; *at; at = end + (*end == '\n')) {
		end = at + strcspn(at, "\n");
		bool ours = strncmp(at, name, n) == 0 && at[n] == '\t';
		last = ours ? at + n + 1 : at;
		if (ours)
			break;
	}
	snprintf(ret, size, "%.*s", (int)strcspn(last, "\n"), last);
}

enum doctor_state doctor_ask_warden(const char *name, char ret_why[DOCTOR_WHY])
{
	char path[4200];
	snprintf(path, sizeof path, "%s/atoll-warden", cli_bin_dir());
	if (geteuid() != 0 || access(path, X_OK) < 0) {
		snprintf(ret_why, DOCTOR_WHY, "only root can try it, with the warden's program");
		return DOCTOR_UNKNOWN;
	}
	ask_once();
	copy_line(name, ret_why, DOCTOR_WHY);
	return strcmp(ret_why, "ok") == 0 ? DOCTOR_OK : DOCTOR_MISSING;
}

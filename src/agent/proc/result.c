#include "agent/proc/result.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "agent/proc/oom.h"

const char *outcome_name(enum outcome o)
{
	switch (o) {
	case OUTCOME_EXITED:
	case OUTCOME_NO_DIRECTORY:
		return "exited";
	case OUTCOME_KILLED:
		return "killed";
	case OUTCOME_TIMEOUT:
		return "timeout";
	case OUTCOME_OOM:
		return "oom";
	case OUTCOME_LOST:
	case OUTCOME_NOT_STARTED:
	default:
		return "lost";
	}
}

struct cmd_result cmd_result_of(int wstatus, uint64_t oom_before)
{
	struct cmd_result r = {.outcome = OUTCOME_EXITED};
	if (WIFSIGNALED(wstatus)) {
		r.outcome = OUTCOME_KILLED;
		r.signal = WTERMSIG(wstatus);
		r.exit_code = 128 + r.signal;
	} else {
		r.exit_code = WEXITSTATUS(wstatus);
	}
	cmd_result_check_oom(&r, oom_before);
	return r;
}

/* The exit code counts, not the signal: a shell reports the death of its last program as 137 and exits itself. */
void cmd_result_check_oom(struct cmd_result *r, uint64_t oom_before)
{
	if (r->exit_code == 128 + SIGKILL && oom_kills() > oom_before)
		r->outcome = OUTCOME_OOM;
}

struct cmd_result cmd_result_not_started(const struct err *e)
{
	return (struct cmd_result){.outcome = OUTCOME_NOT_STARTED, .error = *e};
}

static const char *const names[] = {[SIGHUP] = "SIGHUP",
	[SIGINT] = "SIGINT",
	[SIGQUIT] = "SIGQUIT",
	[SIGILL] = "SIGILL",
	[SIGTRAP] = "SIGTRAP",
	[SIGABRT] = "SIGABRT",
	[SIGBUS] = "SIGBUS",
	[SIGFPE] = "SIGFPE",
	[SIGKILL] = "SIGKILL",
	[SIGUSR1] = "SIGUSR1",
	[SIGSEGV] = "SIGSEGV",
	[SIGUSR2] = "SIGUSR2",
	[SIGPIPE] = "SIGPIPE",
	[SIGALRM] = "SIGALRM",
	[SIGTERM] = "SIGTERM",
	[SIGSTKFLT] = "SIGSTKFLT",
	[SIGCHLD] = "SIGCHLD",
	[SIGCONT] = "SIGCONT",
	[SIGSTOP] = "SIGSTOP",
	[SIGTSTP] = "SIGTSTP",
	[SIGTTIN] = "SIGTTIN",
	[SIGTTOU] = "SIGTTOU",
	[SIGURG] = "SIGURG",
	[SIGXCPU] = "SIGXCPU",
	[SIGXFSZ] = "SIGXFSZ",
	[SIGVTALRM] = "SIGVTALRM",
	[SIGPROF] = "SIGPROF",
	[SIGWINCH] = "SIGWINCH",
	[SIGIO] = "SIGIO",
	[SIGPWR] = "SIGPWR",
	[SIGSYS] = "SIGSYS"};

const char *signal_name(int sig)
{
	static char other[16];
	if (sig > 0 && sig < (int)ARRAY_LEN(names) && names[sig])
		return names[sig];
	snprintf(other, sizeof other, "SIG%d", sig);
	return other;
}

int signal_number(struct str name)
{
	uint64_t n;
	if (str_to_u64(name, 64, &n))
		return (int)n;
	for (int i = 1; i < (int)ARRAY_LEN(names); i++) {
		if (!names[i])
			continue;
		struct str full = str_of(names[i]);
		if (str_eq_nocase(name, full) || str_eq_nocase(name, str_skip(full, 3)))
			return i;
	}
	return 0;
}

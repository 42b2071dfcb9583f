#include "agent/agent.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/api.h"
#include "agent/limits.h"
#include "agent/proc/children.h"
#include "agent/proc/plain.h"
#include "agent/proc/proctree.h"
#include "agent/proc/spawn.h"
#include "agent/request/route.h"
#include "agent/shell/session.h"
#include "agent/shell/shell.h"
#include "agent/term/terminal.h"
#include "base/log.h"

struct agent agent;

extern char **environ;

static bool is_dir(const char *path)
{
	struct stat st;
	return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ---- ending ---- */

/* Signals every process of the box; alone, every descendant of the agent. */
static void signal_all(int sig)
{
	if (getpid() == 1)
		kill(-1, sig);
	else
		proctree_kill_below(getpid(), sig, NULL);
}

static void on_kill_over(struct loop_timer *t)
{
	(void)t;
	loop_stop(agent.loop);
}

/* Those that are left are killed. Their results, and the close frames of sockets, go out before the agent ends. */
static void on_stop_over(struct loop_timer *t)
{
	(void)t;
	signal_all(SIGKILL);
	loop_timer_set(agent.loop, &agent.stop_timer, AGENT_KILL_WAIT, on_kill_over);
}

/* All processes have ended and every answer is out. */
static void maybe_over(void)
{
	if (agent.stopping && agent.childless && agent.drained)
		loop_stop(agent.loop);
}

static void on_drained(void *arg)
{
	(void)arg;
	agent.drained = true;
	maybe_over();
}

void agent_reap(void)
{
	agent.childless = !children_reap();
	maybe_over();
}

static void agent_stop(int sig)
{
	if (agent.stopping) {
		on_stop_over(NULL);
		return;
	}
	log_event(LOG_INFO, "stopping", "signal=%d", sig);
	agent.stopping = true;
	http_server_drain(agent.server, AGENT_STOP_GRACE + AGENT_KILL_WAIT, on_drained, NULL);
	signal_all(SIGTERM);
	signal_all(SIGCONT);
	ws_stop();
	rpc_stop();
	watch_stop();
	port_watch_stop();
	sessions_delete_all(); /* an interactive shell takes no notice of SIGTERM */
	terminals_stop();
	loop_timer_set(agent.loop, &agent.stop_timer, AGENT_STOP_GRACE, on_stop_over);
	agent_reap();
}

/* ---- signals ---- */

static void forward_one(struct child *c, void *arg)
{
	kill(-c->pid, *(int *)arg);
}

static void on_signal(void *arg, int sig)
{
	(void)arg;
	switch (sig) {
	case SIGCHLD:
		agent_reap();
		break;
	case SIGTERM:
	case SIGINT:
	case SIGQUIT:
		agent_stop(sig);
		break;
	default:
		/* SIGHUP, SIGUSR1 … that are sent to a box are meant for its programs. */
		log_event(LOG_INFO, "signal forwarded", "signal=%d", sig);
		child_each(forward_one, &sig);
	}
}

static int take_signals(struct err *e)
{
	static const int taken[] = {
		SIGCHLD, SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM, SIGPWR};
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(taken); i++)
		sigaddset(&set, taken[i]);
	int r = loop_signals(agent.loop, &set, on_signal, NULL);
	if (r < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "take signals");
	/* Writing to a command that has closed its input is EPIPE, not death. Blocked rather than ignored: an ignored
	 * signal would be inherited by every program. */
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return 0;
}

/* ---- start ---- */

static void read_surroundings(void)
{
	env_import(&agent.env, environ);
	/* These belong to the shell that started the agent. */
	env_unset(&agent.env, STR("_"));
	env_unset(&agent.env, STR("OLDPWD"));
	env_unset(&agent.env, STR("PWD"));
	env_unset(&agent.env, STR("SHLVL"));
	if (!env_get(&agent.env, "PATH"))
		env_put(&agent.env, STR("PATH"), STR("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
	if (!env_get(&agent.env, "HOME"))
		env_put(&agent.env, STR("HOME"), STR("/root"));
	if (!env_get(&agent.env, "SANDBOX_VERSION"))
		env_put(&agent.env, STR("SANDBOX_VERSION"), STR(AGENT_PROTOCOL_VERSION));
	env_put(&agent.env, STR("LANG"), STR("C.UTF-8"));
	env_put(&agent.env, STR("LC_ALL"), STR("C.UTF-8"));
	const char *home = env_get(&agent.env, "HOME");
	agent.workdir = xstrdup(is_dir("/workspace") ? "/workspace" : is_dir(home) ? home : "/");
	agent.shell = plain_find("bash", env_get(&agent.env, "PATH"));
	if (!agent.shell)
		agent.shell = plain_find("bash", "/bin:/usr/bin:/usr/local/bin");
}

int agent_start(int listen_fd, struct err *e)
{
	/* No process of the box may trace the agent, whatever user it runs as. */
	prctl(PR_SET_DUMPABLE, 0);
	if (getpid() != 1)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	agent.loop = loop_new();
	if (!agent.loop) {
		close(listen_fd);
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make an event loop");
	}
	read_surroundings();
	children_on_stranger(shells_listen);
	agent.server = http_server_new(agent.loop, route_request, NULL);
	if (take_signals(e) < 0 || http_server_listen(agent.server, listen_fd, 0, e) < 0)
		return -1;
	return 0;
}

int agent_run(void)
{
	loop_run(agent.loop);
	return 0;
}

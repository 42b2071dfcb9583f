/*
 * atoll-gate: every connection of every box ends here, is decided, and goes on from here.
 *
 * Started by `atoll up` as a user of its own, with two listening sockets: descriptor 3 for the warden (SEQPACKET), 4
 * for atolld (a stream). It keeps nothing on disk; both tell it everything when they connect.
 */
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/beside.h"
#include "base/log.h"
#include "gate/confine.h"
#include "gate/gate.h"

enum { FD_WARDEN = 3, FD_DAEMON = 4 };

static const char help[] =
	"usage: atoll-gate [--help]\n"
	"\n"
	"Connects the sandboxes of one atolld to the network. Started by 'atoll up', with the listening\n"
	"sockets for the warden and the daemon as descriptors 3 and 4.\n"
	"\n"
	"environment:\n"
	"  ATOLL_USER    the daemon's user, who may connect; default atoll\n"
	"  ATOLL_RUN     hook.sock there is the daemon's, for outbound handlers\n"
	"  ATOLL_EGRESS_PROXY  the host's own proxy: http://, httph://, socks5:// or "
	"socks5h://[user:password@]host:port\n"
	"  ATOLL_ONLINK  'deny': addresses without a gateway need a rule that names them; default 'allow'\n"
	"  ATOLL_DATA    its directory gate/ holds the authority's key for intercepted HTTPS\n"
	"  SSL_CERT_FILE, SSL_CERT_DIR  whom to trust as an intercepted server, default the system's\n"
	"  ATOLL_LOG, ATOLL_LOG_LEVEL  'json' or 'text'; 'error', 'warn', 'info', 'debug'\n";

struct ip_host *gate_host(struct gate *g)
{
	ip_host_look(&g->host, loop_now(g->loop));
	return &g->host;
}

static void on_signal(void *arg, int signo)
{
	struct gate *g = arg;
	log_event(LOG_INFO, "stopping", "signal=%d connections=%zu", signo, g->conns);
	loop_stop(g->loop);
}

static uid_t daemon_user(void)
{
	const char *name = getenv("ATOLL_USER");
	uint64_t number;
	const struct passwd *p = getpwnam(name && *name ? name : "atoll");
	if (p)
		return p->pw_uid;
	return name && str_to_u64(str_of(name), INT32_MAX, &number) ? (uid_t)number : (uid_t)-1;
}

static size_t open_files(void)
{
	struct rlimit n = {0, 0};
	if (getrlimit(RLIMIT_NOFILE, &n) == 0) {
		n.rlim_cur = n.rlim_max;
		setrlimit(RLIMIT_NOFILE, &n);
	}
	return n.rlim_cur < SIZE_MAX ? (size_t)n.rlim_cur : SIZE_MAX;
}

/* Below ATOLL_DATA 'atoll up' makes a directory that only this user can enter. Without it the key is as old as we are.
 */
static int open_authority(struct gate *g, struct err *e)
{
	const char *data = getenv("ATOLL_DATA");
	char dir[PATH_MAX];
	int n = snprintf(dir, sizeof dir, "%s/gate", data ? data : "");
	bool there = data && *data && n < (int)sizeof dir && access(dir, W_OK | X_OK) == 0;
	if (!there)
		log_event(LOG_WARN, "the authority of HTTPS interceptions is not kept: no directory", "dir=%s",
			LOG_Q(dir));
	return ca_open(there ? dir : NULL, &g->ca, e) < 0 || tls_trust_open(g->loop, &g->trust, e) < 0 ? -1 : 0;
}

static int find_hook_socket(struct gate *g, struct err *e)
{
	char path[PATH_MAX];
	const char *run = getenv("ATOLL_RUN");
	snprintf(path, sizeof path, "%s/hook.sock", run && *run ? run : "/run/atoll");
	return http_endpoint_unix(&g->hook_socket, str_of(path), e);
}

static int read_onlink(struct gate *g, struct err *e)
{
	const char *text = getenv("ATOLL_ONLINK");
	g->host.deny_onlink = text && strcmp(text, "deny") == 0;
	if (!text || !*text || strcmp(text, "allow") == 0 || g->host.deny_onlink)
		return 0;
	return err_set(e, ERRC_VALIDATION_FAILED, "ATOLL_ONLINK must be 'allow' or 'deny', not '%.40s'", text);
}

static int start(struct gate *g, struct err *e)
{
	uid_t user = daemon_user();
	int r = loop_service_signals(g->loop, on_signal, g);
	if (r < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "watch signals");
	if (egress_parse(getenv("ATOLL_EGRESS_PROXY"), &g->egress, e) < 0)
		return -1;
	unsetenv("ATOLL_EGRESS_PROXY");
	if (read_onlink(g, e) < 0)
		return -1;
	places_init(g, open_files());
	g->resolver = resolver_new(g->loop, e);
	if (!g->resolver || open_authority(g, e) < 0 || find_hook_socket(g, e) < 0 || web_init(g, e) < 0)
		return -1;
	if (intake_listen(g, FD_WARDEN, e) < 0 || control_listen(g, FD_DAEMON, user, e) < 0)
		return -1;
	windows_open(g);
	if (confine(e) < 0)
		return -1;
	log_event(LOG_INFO, "ready", "uid=%d connections_max=%zu ipv6=%d", (int)getuid(), places_max(g),
		gate_host(g)->v6);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		bool asked = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
		fputs(help, asked ? stdout : stderr);
		return asked ? 0 : 2;
	}
	beside_name("atoll-gate");
	log_init("atoll-gate");
	static struct gate g;
	struct err e = {0};
	list_init(&g.asks);
	g.loop = loop_new();
	if (!g.loop || start(&g, &e) < 0) {
		fprintf(stderr, "atoll-gate: %s\n", g.loop ? e.msg : "no event loop");
		return 1;
	}
	loop_run(g.loop);
	return 0;
}

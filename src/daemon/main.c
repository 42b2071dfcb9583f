/*
 * atolld: the unprivileged half of Atoll. It parses all input from outside, routes requests to boxes, makes and
 * destroys boxes through the warden, and keeps the state of sandboxes.
 *
 * Start: read the environment, bind the sockets that need root, become the user, then do the rest. End: the first
 * SIGTERM or SIGINT stops accepting and gives running exchanges DAEMON_GRACE to end; the second signal ends the daemon
 * at once. SIGHUP reads the certificate again. Boxes keep running in every case.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>

#include "base/beside.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/admit/login.h"
#include "daemon/admit/tickets.h"
#include "daemon/limits.h"
#include "daemon/listen.h"
#include "daemon/network/approvals.h"
#include "daemon/network/gate_client.h"
#include "daemon/network/secrets.h"
#include "daemon/op/audit.h"
#include "daemon/pass/preview_memory.h"
#include "daemon/privileges.h"
#include "daemon/route/request.h"
#include "daemon/serve/events.h"
#include "daemon/storage/backups.h"
#include "daemon/storage/image_jobs.h"
#include "daemon/tls.h"
#include "doors/docker/docker.h"
#include "doors/mcp/mcp.h"
#include "http/limits.h"

static const char help[] =
	"atolld: serves the Atoll API and routes requests to sandboxes. Usually started by 'atoll up'.\n"
	"\n"
	"  atolld             serve\n"
	"  atolld --help      this text\n"
	"  atolld --version   the version\n"
	"\n"
	"Environment:\n"
	"  ATOLL_LISTEN          address and port, default 127.0.0.1:8700; port 0 lets the kernel choose\n"
	"  ATOLL_DATA            token and state, default /var/lib/atoll\n"
	"  ATOLL_RUN             sockets, default /run/atoll\n"
	"  ATOLL_PREVIEW_DOMAIN  domain of preview URLs, default localhost with the port of ATOLL_LISTEN\n"
	"  ATOLL_HOSTS           names besides localhost under which the API may be asked, divided by commas\n"
	"  ATOLL_TRUSTED_PROXIES addresses and networks whose X-Forwarded-* are believed\n"
	"  ATOLL_SLEEP_AFTER     how long a sandbox that sets no sleepAfter stays awake, default 10m; 0: always\n"
	"  ATOLL_PAGE_OUT_AFTER  a sandbox that sleeps so long goes to swap, default 1m; 0: never\n"
	"  ATOLL_TUNNELS         cloudflared: tunnels without a name lead through Cloudflare; default daemon\n"
	"  ATOLL_APP_TIMEOUT     seconds that a server in a box may take to begin an answer, default 0: no limit\n"
	"  ATOLL_NETWORK         open, list or off: the network of sandboxes that set no mode, default open\n"
	"  ATOLL_NETWORK_ALLOW   rules for all sandboxes, divided by commas\n"
	"  ATOLL_NETWORK_DENY    the same; these beat every allow rule\n"
	"  ATOLL_TLS_CERT        PEM file with the certificate and its chain: TCP clients must use TLS then\n"
	"  ATOLL_TLS_KEY         PEM file with its key; both are read again when they change, and on SIGHUP\n"
	"  ATOLL_BACKUP_URL      s3://bucket/prefix: where backups are kept, default $ATOLL_DATA/backups\n"
	"  ATOLL_BACKUP_CREDENTIALS  file with endpoint and keys of the bucket\n"
	"  ATOLL_BACKUP_EVERY_MIN  the shortest time between two backups of a schedule, default 1m\n"
	"  ATOLL_BACKUP_BYTES    what backups of one sandbox may take, hidden ones included, default 100G; 0: any\n"
	"  ATOLL_BACKUP_TIME     how long a backup may take, besides a second for each 8 MiB of the disk, default 1h\n"
	"  ATOLL_USER            user to run as when started as root, default atoll\n"
	"  ATOLL_LOG             text or json; ATOLL_LOG_LEVEL: error, warn, info, debug\n"
	"  LISTEN_PID, LISTEN_FDS  sockets to serve on, as systemd passes them; then nothing is bound\n";

/* Each connection may need a second one to a box: the table of descriptors bounds both. */
static size_t connections_that_fit(void)
{
	enum { RESERVED = 256 };
	struct rlimit l;
	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return HTTP_CONNS_MAX;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	size_t fit = l.rlim_cur > 2 * RESERVED ? (l.rlim_cur - RESERVED) / 2 : RESERVED / 2;
	return fit < HTTP_CONNS_MAX ? fit : HTTP_CONNS_MAX;
}

/* Held until the process ends. */
static int take_lock(const struct config *c, struct err *e)
{
	char path[300];
	snprintf(path, sizeof path, "%s/lock", c->state_dir);
	if (mkdir(c->state_dir, 0700) < 0 && errno != EEXIST)
		return err_os(e, ERRC_INTERNAL_ERROR, errno,
			"make %s ('atoll up' makes it, and gives it to ATOLL_USER)", c->state_dir);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "open %s", path);
	/* The daemon of a supervisor that was killed may be on its way out. */
	int locked = flock(fd, LOCK_EX | LOCK_NB);
	for (int waited = 0; locked < 0 && waited < STATE_LOCK_WAIT; waited += STATE_LOCK_PAUSE) {
		nanosleep(&(struct timespec){.tv_nsec = STATE_LOCK_PAUSE * 1000000L}, NULL);
		locked = flock(fd, LOCK_EX | LOCK_NB);
	}
	if (locked < 0)
		return err_set(e, ERRC_INVALID_STATE, "another atolld uses %s", c->state_dir);
	return 0;
}

/* Behind a proxy's address are many clients. */
static bool is_proxy(void *arg, const struct sockaddr *peer)
{
	return host_nets_has(&((struct daemon *)arg)->config.trusted_proxies, peer);
}

static int open_parts(struct daemon *d, struct err *e)
{
	struct token token;
	if (take_lock(&d->config, e) < 0 || token_load(d->config.token_path, &token, e) < 0 ||
		store_open(d->config.state_dir, &d->store, e) < 0)
		return -1;
	d->loop = loop_new();
	if (!d->loop)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make the event loop");
	list_init(&d->token_requests);
	list_init(&d->running);
	d->tokens = tokens_new(&token);
	explicit_bzero(&token, sizeof token);
	d->mcp = mcp_new(d);
	d->docker = docker_new(d);
	d->login = login_new(d);
	d->audit = audit_new();
	d->tickets = tickets_new(d->loop);
	if (secrets_open(d, e) < 0 || recover_load(d, e) < 0 || approvals_load(d, e) < 0 || mcp_load(d->mcp, e) < 0 ||
		docker_load(d->docker, e) < 0 || login_load(d->login, e) < 0 ||
		tokens_load(d->tokens, d->store, e) < 0 || store_start(d->store, d->loop, e) < 0)
		return -1;
	d->backups = backups_new(d);
	d->image_jobs = image_jobs_new(d);
	d->events = events_new(d);
	usage_start(d);
	tokens_api_watch(d);
	d->client = http_client_new(d->loop);
	d->gate = gate_client_new(d);
	d->warden = warden_client_new(d->loop, d->config.warden_sock, &recover_warden_ops, d);
	d->server = http_server_new(d->loop, daemon_request_begin, d);
	http_server_config(d->server)->conns_max = connections_that_fit();
	http_server_set_public(d->server, LISTEN_TCP, is_proxy, d);
	preview_memory_start(d);
	if (!d->config.tls_cert)
		return 0;
	if (tls_new(d->config.tls_cert, d->config.tls_key, d->loop, &d->tls, e) < 0)
		return -1;
	http_server_set_layer(d->server, LISTEN_TCP, tls_open, d->tls);
	return 0;
}

/* Clients wait in the backlog until the warden has listed the living boxes, so the first answers are true. If the
 * warden is away, the daemon starts to serve after RECOVER_WAIT. */
static struct listeners listeners;

static void start_serving(struct daemon *d)
{
	struct err e;
	loop_timer_stop(&d->serve_timer);
	if (d->stopping || !listeners.n)
		return;
	docker_start(d->docker);
	image_jobs_sweep(d);
	while (listeners.n) {
		listeners.n--;
		if (http_server_listen(
			    d->server, take_fd(&listeners.v[listeners.n].fd), listeners.v[listeners.n].tag, &e) < 0)
			log_event(LOG_ERROR, "cannot serve", "error=%s", LOG_Q(e.msg));
	}
	log_event(LOG_INFO, "serving", "version=%s listen=%s uid=%u sandboxes=%zu pid=%d", ATOLL_VERSION,
		*listeners.address ? listeners.address : "-", (unsigned)getuid(), d->boxes.count, (int)getpid());
}

static void on_recover_wait(struct loop_timer *t)
{
	start_serving(container_of(t, struct daemon, serve_timer));
}

static void on_drained(void *arg)
{
	loop_stop(((struct daemon *)arg)->loop);
}

static void on_signal(void *arg, int signo)
{
	struct daemon *d = arg;
	if (signo == SIGHUP) {
		if (d->tls)
			tls_reload(d->tls);
		return;
	}
	log_event(LOG_INFO, d->stopping ? "stopping now" : "stopping", "signal=%d", signo);
	if (d->stopping)
		return loop_stop(d->loop);
	d->stopping = true;
	http_server_drain(d->server, DAEMON_GRACE, on_drained, d);
}

static int watch_signals(struct daemon *d, struct err *e)
{
	int r = loop_service_signals(d->loop, on_signal, d);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "watch for signals") : 0;
}

static int become_user(const struct config *c, struct listeners *l, struct err *e)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	if (uid == 0 && privs_lookup(c->user, &uid, &gid, e) < 0)
		return -1;
	if (listen_open(c, uid, gid, l, e) < 0)
		return -1;
	metrics_open();
	beside_keep("atoll");
	beside_keep("atoll-backup");
	beside_keep("atoll-images");
	beside_keep("atoll-mover");
	return privs_drop(uid, gid, e);
}

static int serve(void)
{
	static struct daemon d = {
		.images_meta = -1}; /* lives as long as the process; only the store is closed at the end */
	struct err e = {0};
	d.started_ms = clock_ms();
	umask(077);
	if (config_read(&d.config, &e) < 0 || become_user(&d.config, &listeners, &e) < 0 || open_parts(&d, &e) < 0 ||
		watch_signals(&d, &e) < 0) {
		fprintf(stderr, "atolld: %s\n", e.msg);
		return EX_CONFIG;
	}
	config_listening(&d.config, listeners.address);
	d.on_recovered = start_serving;
	loop_timer_set(d.loop, &d.serve_timer, RECOVER_WAIT, on_recover_wait);
	loop_run(d.loop);
	store_close(d.store);
	log_event(LOG_INFO, "stopped", "pid=%d", (int)getpid());
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(help, stdout);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("atolld " ATOLL_VERSION);
		return 0;
	}
	if (argc != 1) {
		fprintf(stderr, "atolld: takes no arguments; see atolld --help\n");
		return EX_USAGE;
	}
	beside_name("atolld");
	log_init("atolld");
	return serve();
}

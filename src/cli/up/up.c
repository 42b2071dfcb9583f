/*
 * up.c - `atoll up`: prepares the host, starts warden and daemon, reports readiness, restarts them, stops them.
 *
 * Order at the start: settings, locks, files, sockets, pool, warden, and when it has sent the cgroups of gate and daemon
 * these two; then GET /v1/health through the listening socket. That request waits in the socket's queue until the daemon accepts it; its answer means that the daemon is
 * ready. Order at the end: the daemon first (it finishes its requests), then the warden. Boxes are not children of
 * `atoll up` and live on.
 */
#include "cli/up/up.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/args.h"
#include "cli/verbs.h"

enum { READY_LIMIT_MS = 120000, READY_RETRY_MS = 20, STOP_LIMIT_MS = 15000, HEALTH_MAX = 65536 };
/* One Ctrl-C may arrive twice: from the terminal, and from a wrapper such as sudo or timeout. */
enum { SAME_SIGNAL_MS = 100 };

struct up {
	struct cli *c;
	struct loop *loop;
	struct http_client *http;
	struct up_place place;
	struct up_sockets sockets;
	struct up_groups groups;
	struct up_child warden, daemon, gate;
	struct loop_timer ready_retry, limit;
	uint64_t began, stop_began;
	bool ready, stopping;
	int code;
	char last[160];	    /* why the daemon is not ready yet */
	struct err failure; /* why `atoll up` gives up */
};

static void finish(struct up *u, int code)
{
	u->code = u->code ? u->code : code;
	loop_stop(u->loop);
}

/* ---- stop ---- */

static void stop_next(struct up *u)
{
	if (u->daemon.pid)
		up_child_stop(&u->daemon, SIGTERM);
	else if (u->gate.pid)
		up_child_stop(&u->gate, SIGTERM);
	else if (u->warden.pid)
		up_child_stop(&u->warden, SIGTERM);
	else
		finish(u, 0);
}

static void kill_all(struct up *u)
{
	up_child_stop(&u->daemon, SIGKILL);
	up_child_stop(&u->gate, SIGKILL);
	up_child_stop(&u->warden, SIGKILL);
}

static void on_stop_limit(struct loop_timer *t)
{
	struct up *u = container_of(t, struct up, limit);
	log_event(LOG_WARN, "killing programs that did not stop in time", "ms=%d", STOP_LIMIT_MS);
	kill_all(u);
}

static void stop(struct up *u, int code)
{
	if (u->stopping)
		return;
	u->stopping = u->daemon.stopping = u->warden.stopping = u->gate.stopping = true;
	u->code = code;
	u->stop_began = clock_ms();
	loop_timer_stop(&u->ready_retry);
	loop_timer_set(u->loop, &u->limit, STOP_LIMIT_MS, on_stop_limit);
	stop_next(u);
}

static void on_signal(void *arg, int signo)
{
	struct up *u = arg;
	if (u->stopping && clock_ms() - u->stop_began < SAME_SIGNAL_MS)
		return;
	if (u->stopping) {
		log_event(LOG_WARN, "stopping now; boxes stay alive", "signal=%d", signo);
		kill_all(u);
		return;
	}
	log_event(LOG_INFO, "stopping; boxes stay alive, and the next 'atoll up' finds them again", "signal=%d", signo);
	stop(u, 0);
}

/* ---- ready ---- */

/* Reads the environment as the daemon does. */
static const char *scheme(void)
{
	const char *cert = getenv("ATOLL_TLS_CERT");
	return cert && *cert ? "https" : "http";
}

/* One word for a shell, quoted if it needs to be. */
static void print_word(const char *start, const char *path, const char *end)
{
	bool quoted = strpbrk(path, " \t\n$&;()<>|*?#!~[]{}=%'\"\\`") != NULL;
	printf("%s%s", quoted ? "'" : "", start);
	for (const char *c = path; *c; c++)
		printf(*c == '\'' ? "'\\''" : "%c", *c);
	printf("%s%s", end, quoted ? "'" : "");
}

/* The two lines that a project for Cloudflare needs, to be pasted into a shell. */
static void print_wrangler(const struct up *u)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
	path[n > 0 ? n : 0] = 0;
	char *slash = strrchr(path, '/');
	if (slash)
		*slash = 0;
	printf("  wrangler export WRANGLER_DOCKER_BIN=");
	print_word("", path, "/atoll-docker");
	printf("\n           export DOCKER_HOST=");
	print_word("unix://", u->place.run, "/docker.sock");
	printf("\n");
}

/* `link` signs a browser in to the console, once; it may be empty. */
static void print_ready(struct up *u, struct str link)
{
	const struct up_place *p = &u->place;
	bool own_run = strcmp(p->run, "/run/atoll") != 0;
	printf("%sAtoll is ready%s after %.1f s\n", cli_style(1, STYLE_BOLD), cli_style(1, STYLE_PLAIN),
		(double)(clock_ms() - u->began) / 1000);
	printf("  address  %s://%s and unix:%s/atoll.sock\n", scheme(), u->sockets.address, p->run);
	printf("  token    %s/token (the unix socket needs none)\n", p->data);
	printf("  try      ");
	if (own_run) {
		printf("ATOLL_RUN=");
		print_word("", p->run, "");
		printf(" ");
	}
	print_word("", u->c->self, "");
	printf(" exec hello -- echo hi\n");
	if (link.n)
		printf("  console  %.*s (works once, for five minutes)\n", STR_ARG(link));
	print_wrangler(u);
	printf("  stop     Ctrl-C; boxes stay alive\n");
	fflush(stdout);
}

static void print_ready_json(struct up *u)
{
	auto_buf struct buf b = {0};
	char path[PATH_MAX + 32];
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	snprintf(path, sizeof path, "%s://%s", scheme(), u->sockets.address);
	json_member_cstr(&w, "url", path);
	snprintf(path, sizeof path, "%s/atoll.sock", u->place.run);
	json_member_cstr(&w, "socket", path);
	snprintf(path, sizeof path, "%s/token", u->place.data);
	json_member_cstr(&w, "tokenFile", path);
	json_member_i64(&w, "pid", getpid());
	json_member_i64(&w, "daemonPid", u->daemon.pid);
	json_member_i64(&w, "wardenPid", u->warden.pid);
	json_member_i64(&w, "gatePid", u->gate.pid);
	json_member_u64(&w, "milliseconds", clock_ms() - u->began);
	json_object_end(&w);
	cli_print(&b);
}

/* Tells a service manager that waits for readiness (systemd's Type=notify). */
static void notify_manager(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	if (!path || strlen(path) >= sizeof sa.sun_path)
		return;
	memcpy(sa.sun_path, path, strlen(path));
	if (sa.sun_path[0] == '@')
		sa.sun_path[0] = 0;
	auto_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	static const char text[] = "READY=1";
	socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (sendto(fd, text, sizeof text - 1, MSG_NOSIGNAL, (struct sockaddr *)&sa, n) < 0)
		log_event(LOG_WARN, "cannot notify the service manager", "err=%s", LOG_Q(strerror(errno)));
}

static void ask_ready(struct up *u);

static void on_retry(struct loop_timer *t)
{
	ask_ready(container_of(t, struct up, ready_retry));
}

/* The daemon serves, and has found its warden. */
static bool is_healthy(const struct http_reply *r)
{
	bool warden = false;
	auto_json struct json_doc *d = r->status == 200 ? json_parse(r->body, NULL) : NULL;
	json_read_bool(d ? json_root(d) : NULL, "warden", &warden, NULL);
	return warden;
}

static void ask(struct up *u, const char *method, const char *target, http_on_reply on_reply)
{
	struct http_endpoint ep;
	struct http_question q = {.options = {.method = str_of(method),
					  .target = str_of(target),
					  .head_ms = READY_LIMIT_MS,
					  .fresh = true},
		.body = STR(""),
		.max = HEALTH_MAX,
		.on_reply = on_reply,
		.arg = u};
	char path[PATH_MAX + 16];
	snprintf(path, sizeof path, "%s/atoll.sock", u->place.run);
	INVARIANT(http_endpoint_unix(&ep, str_of(path), NULL) == 0);
	http_call_whole(u->http, &ep, &q);
}

/* The line with the link is left out when there is none. */
static void on_link(void *arg, const struct http_reply *r, const struct http_failure *f)
{
	struct up *u = arg;
	struct str link = STR("");
	(void)f;
	if (u->stopping)
		return;
	auto_json struct json_doc *d = r && r->status == 201 ? json_parse(r->body, NULL) : NULL;
	json_read_str(d ? json_root(d) : NULL, "url", &link, NULL);
	print_ready(u, link);
}

static void on_health(void *arg, const struct http_reply *r, const struct http_failure *f)
{
	struct up *u = arg;
	if (u->stopping)
		return;
	if (!r || !is_healthy(r)) {
		if (r)
			snprintf(u->last, sizeof u->last, "%d %.*s", r->status, STR_ARG(r->body));
		else
			snprintf(u->last, sizeof u->last, "%.150s", f->err.msg);
		loop_timer_set(u->loop, &u->ready_retry, READY_RETRY_MS, on_retry);
		return;
	}
	u->ready = true;
	loop_timer_stop(&u->limit);
	notify_manager();
	if (u->c->json)
		print_ready_json(u);
	else
		ask(u, "POST", "/v1/console/links", on_link);
}

static void ask_ready(struct up *u)
{
	ask(u, "GET", "/v1/health", on_health);
}

static void on_ready_limit(struct loop_timer *t)
{
	struct up *u = container_of(t, struct up, limit);
	err_set(&u->failure, ERRC_INTERNAL_ERROR, "the daemon did not become ready within %d s: %s",
		READY_LIMIT_MS / 1000, u->last);
	stop(u, u->c->verb->exit_failed);
}

/* ---- children ---- */

static void on_change(struct up *u, struct up_child *ch)
{
	up_note_pids(&u->place, u->warden.pid, u->daemon.pid, u->gate.pid);
	if (u->stopping) {
		stop_next(u);
	} else if (!u->ready && ch->pid == 0 && WIFEXITED(ch->status)) {
		/* The program gave up at its first start and has printed the reason; a restart would fail again. */
		char how[80];
		up_child_describe(ch->status, how, sizeof how);
		cli_hint(u->c, "Its messages above say why.");
		err_set(&u->failure, ERRC_INTERNAL_ERROR, "%s could not start: %s", ch->name, how);
		stop(u, u->c->verb->exit_failed);
	}
}

static void on_warden_change(struct up_child *ch)
{
	on_change(container_of(ch, struct up, warden), ch);
}

static void on_daemon_change(struct up_child *ch)
{
	on_change(container_of(ch, struct up, daemon), ch);
}

static void on_gate_change(struct up_child *ch)
{
	on_change(container_of(ch, struct up, gate), ch);
}

/* The first groups of the first warden: the programs that enter them begin. */
static void on_groups(struct up_groups *g)
{
	struct up *u = container_of(g, struct up, groups);
	struct err e;
	if (u->stopping || u->gate.loop)
		return;
	if (up_child_start(&u->gate, u->loop, &e) < 0 || up_child_start(&u->daemon, u->loop, &e) < 0) {
		u->failure = e;
		return stop(u, u->c->verb->exit_failed);
	}
	up_note_pids(&u->place, u->warden.pid, u->daemon.pid, u->gate.pid);
}

static void set_children(struct up *u)
{
	u->warden = (struct up_child){.name = "atoll-warden",
		.place = &u->place,
		.down = {u->groups.warden},
		.down_names = "groups",
		.on_change = on_warden_change};
	u->daemon = (struct up_child){.name = "atolld",
		.place = &u->place,
		.down = {u->sockets.tcp, u->sockets.local, u->sockets.hook, u->sockets.docker, u->sockets.own},
		.down_names = "http:unix:hook:docker:own",
		.beside = {"atoll", "atoll-backup", "atoll-images", "atoll-mover"},
		.group = &u->groups.of[GROUPS_DAEMON],
		.uid = u->place.uid,
		.gid = u->place.gid,
		.on_change = on_daemon_change};
	u->gate = (struct up_child){.name = "atoll-gate",
		.place = &u->place,
		.down = {u->sockets.gate_warden, u->sockets.gate_daemon},
		.down_names = "warden:daemon",
		.group = &u->groups.of[GROUPS_GATE],
		.uid = u->place.gate_uid,
		.gid = u->place.gate_gid,
		.on_change = on_gate_change};
}

static int start_children(struct up *u, struct err *e)
{
	if (up_groups_open(&u->groups, u->loop, on_groups, e) < 0)
		return -1;
	set_children(u);
	if (up_child_start(&u->warden, u->loop, e) < 0)
		return -1;
	up_note_pids(&u->place, u->warden.pid, u->daemon.pid, u->gate.pid);
	return 0;
}

/* ---- the verb ---- */

static int check_host(struct cli *c, struct err *e)
{
	if (geteuid() != 0) {
		cli_hint(c, "Run 'sudo %s up'.", c->self);
		return err_set(e, ERRC_PERMISSION_DENIED,
			"root is needed: boxes are made of namespaces, mounts and cgroups (the API itself runs as user "
			"atoll)");
	}
	const char *missing = up_missing_program(cli_bin_dir());
	if (missing) {
		cli_hint(c, "Build all programs with 'make', and keep them in one directory.");
		return err_set(e, ERRC_NOT_FOUND, "%s is missing in %s", missing, cli_bin_dir());
	}
	if (!up_image_there()) {
		cli_hint(c, "Make the default image once with 'make image', or point ATOLL_IMAGES to one.");
		return err_set(e, ERRC_NOT_FOUND, "there is no image in %s", cli_images_dir());
	}
	return 0;
}

static int start(struct up *u, struct err *e)
{
	struct cli *c = u->c;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (check_host(c, e) < 0 || up_prepare_settings(c, &u->place, e) < 0 || up_prepare_files(c, &u->place, e) < 0)
		return -1;
	/* A pool takes gigabytes and seconds: a port that is taken is noticed before. */
	if (up_listen(c, &u->place, &u->sockets, e) < 0 || up_prepare_pool(c, &u->place, e) < 0)
		return -1;
	up_raise_limits();
	u->loop = loop_new();
	int r = u->loop ? loop_signals(u->loop, &set, on_signal, u) : -errno;
	if (r < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "event loop");
	u->http = http_client_new(u->loop);
	if (start_children(u, e) < 0)
		return -1;
	loop_timer_set(u->loop, &u->limit, READY_LIMIT_MS, on_ready_limit);
	ask_ready(u);
	return 0;
}

int verb_up(struct cli *c, int argc, char **argv)
{
	int code;
	if (!args_parse_none(c, argc, argv, &code))
		return code;
	log_init("atoll");
	struct up u = {.c = c, .began = clock_ms()};
	struct err e;
	if (start(&u, &e) < 0) {
		if (u.sockets.local > 0)
			up_unlisten(&u.place);
		return cli_fail(c, &e);
	}
	loop_run(u.loop);
	up_note_pids(&u.place, 0, 0, 0);
	up_unlisten(&u.place);
	http_client_free(u.http);
	loop_free(u.loop);
	return u.failure.code ? cli_fail(c, &u.failure) : u.code;
}

/*
 * selftest_host.c - checks of what differs between kernels: the network of boxes, disk limits beside snapshots, images
 * with layers.
 *
 * A refusal of the daemon's is a failure, also "this host cannot": the daemon may be wrong. A check is skipped only for a
 * reason that this program has found itself, or that the administrator chose (a pool of plain directories).
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "cli/api.h"
#include "cli/selftest/selftest.h"
#include "cli/stream/stream.h"
#include "cli/verb/box.h"

enum { TEXT_MAX = 65536, DISK = 64 * MIB };
#define GREETING "served by the host"

static enum selftest_verdict failed(struct selftest *t, const struct err *e)
{
	snprintf(t->why, sizeof t->why, "%s", e->msg);
	return SELFTEST_FAIL;
}

/* Runs a script in the box. Returns its exit code, or -1 with t->why. */
static int run_code(struct selftest *t, const char *script, struct buf *out)
{
	auto_buf struct buf err = {.max = TEXT_MAX};
	char *argv[] = {"/bin/sh", "-c", (char *)script, NULL};
	struct stream_result r;
	if (!selftest_exec(t, argv, -1, &r, out, &err))
		return -1;
	snprintf(t->why, sizeof t->why, "%s with code %d, stdout '%.200s', stderr '%.200s'", r.outcome, r.exit_code,
		buf_cstr(out), buf_cstr(&err));
	return strcmp(r.outcome, "exited") == 0 ? r.exit_code : -1;
}

static bool run(struct selftest *t, const char *script, struct buf *out)
{
	return run_code(t, script, out) == 0;
}

static int call(struct selftest *t, const char *method, const char *rest, const char *body, struct err *e)
{
	auto_buf struct buf path = {0}, answer = {0};
	client_box_path(&path, t->box, rest);
	return client_call(&t->run->cl, method, buf_cstr(&path), str_of(body), &answer, e);
}

/* ---- the network ---- */

/* Whether this kernel steers connections at all, asked of the kernel itself: a map of sockets can be made. */
static bool kernel_steers(void)
{
	union bpf_attr a = {.map_type = BPF_MAP_TYPE_SOCKMAP, .key_size = 4, .value_size = 4, .max_entries = 1};
	auto_fd int map = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a);
	return map >= 0;
}

/* The daemon gives boxes no network. */
static enum selftest_verdict no_network(struct selftest *t, const struct json *answer)
{
	struct str reason = STR_NULL;
	json_read_str(answer, "reason", &reason, NULL);
	snprintf(t->why, sizeof t->why, "boxes have no network: %.*s", STR_ARG(reason));
	if (geteuid() == 0)
		return kernel_steers() ? SELFTEST_FAIL : SELFTEST_SKIP;
	size_t n = strlen(t->why);
	snprintf(t->why + n, sizeof t->why - n, "; root can find out whether this kernel lacks it");
	return SELFTEST_FAIL;
}

/* A socket that listens on an address of this host other than loopback; -1 when there is none. */
static int listen_here(struct sockaddr_in *ret)
{
	struct ifaddrs *all = NULL;
	int fd = -1;
	if (getifaddrs(&all) < 0)
		return -1;
	for (struct ifaddrs *i = all; i && fd < 0; i = i->ifa_next) {
		socklen_t n = sizeof *ret;
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP))
			continue;
		memcpy(ret, i->ifa_addr, sizeof *ret);
		ret->sin_port = 0;
		if (ntohl(ret->sin_addr.s_addr) >> 24 == 127)
			continue;
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && (bind(fd, (struct sockaddr *)ret, sizeof *ret) < 0 || listen(fd, 8) < 0 ||
				       getsockname(fd, (struct sockaddr *)ret, &n) < 0))
			fd_close(&fd);
	}
	freeifaddrs(all);
	return fd;
}

/* Answers every request with the greeting until it is killed. */
static pid_t serve(int fd)
{
	static const char answer[] = "HTTP/1.0 200 OK\r\nContent-Length: 18\r\n\r\n" GREETING;
	_Static_assert(sizeof GREETING == 19, "the length in the answer");
	char request[4096];
	pid_t pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		auto_fd int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (c >= 0 && read(c, request, sizeof request) > 0)
			fd_write_full(c, answer, sizeof answer - 1);
	}
}

static enum selftest_verdict fetch(struct selftest *t, const struct sockaddr_in *at)
{
	auto_buf struct buf out = {.max = TEXT_MAX}, body = {0}, path = {0}, answer = {0};
	char address[INET_ADDRSTRLEN];
	struct err e;
	inet_ntop(AF_INET, &at->sin_addr, address, sizeof address);
	buf_printf(&body, "{\"mode\":\"list\",\"allow\":[\"%s/32:%u\"]}", address, ntohs(at->sin_port));
	client_box_path(&path, t->box, "/network");
	if (client_call(&t->run->cl, "PATCH", buf_cstr(&path), buf_str(&body), &answer, &e) < 0)
		return failed(t, &e);
	auto_json struct json_doc *d = json_parse(buf_str(&answer), NULL);
	if (!d || !str_eq_c(api_text(json_root(d), "mode"), "list"))
		return no_network(t, d ? json_root(d) : NULL);
	auto_buf struct buf script = {0};
	buf_printf(&script, "curl -sS -m 30 http://%s:%u/", address, ntohs(at->sin_port));
	return run(t, buf_cstr(&script), &out) && str_eq_c(buf_str(&out), GREETING) ? SELFTEST_PASS : SELFTEST_FAIL;
}

enum selftest_verdict selftest_network(struct selftest *t)
{
	struct sockaddr_in at = {0};
	if (strncmp(t->run->cl.where, "unix:", 5) != 0 && !strstr(t->run->cl.where, "127.0.0.1")) {
		snprintf(t->why, sizeof t->why, "the daemon may be on another machine than the server of this check");
		return SELFTEST_SKIP;
	}
	auto_fd int fd = listen_here(&at);
	if (fd < 0) {
		snprintf(t->why, sizeof t->why, "this host has no IPv4 address but loopback");
		return SELFTEST_SKIP;
	}
	pid_t server = serve(fd);
	enum selftest_verdict v = fetch(t, &at);
	if (server > 0) {
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
	}
	return v;
}

/* ---- files ---- */

/* Whether the daemon keeps files in plain directories, which have no limits; then t->why says why. */
static bool is_plain(struct selftest *t)
{
	auto_buf struct buf answer = {0};
	struct err e;
	struct str kind = STR_NULL, reason = STR_NULL;
	if (client_call(&t->run->cl, "GET", "/v1/health", STR(""), &answer, &e) < 0)
		return false;
	auto_json struct json_doc *d = json_parse(buf_str(&answer), NULL);
	const struct json *host = d ? json_get(json_root(d), "host") : NULL, *pool = json_get(host, "pool");
	json_read_str(pool, "kind", &kind, NULL);
	json_read_str(pool, "reason", &reason, NULL);
	snprintf(t->why, sizeof t->why, "there is no pool: %.*s", STR_ARG(reason));
	return str_eq_c(kind, "plain");
}

static bool is_full(struct str said)
{
	return memmem(said.p, said.n, "Disk quota exceeded", 19) ||
	       memmem(said.p, said.n, "No space left on device", 23);
}

enum selftest_verdict selftest_disk_limit(struct selftest *t)
{
	static const struct box_options limit = {.disk = DISK};
	auto_buf struct buf answer = {0}, out = {.max = TEXT_MAX};
	struct err e;
	if (is_plain(t))
		return SELFTEST_SKIP;
	if (box_put(&t->run->cl, t->box, &limit, &answer, &e) < 0)
		return failed(t, &e);
	if (!run(t, "head -c 8M /dev/urandom >/workspace/kept && sync", &out))
		return SELFTEST_FAIL;
	if (call(t, "POST", "/snapshots", "{}", &e) < 0)
		return failed(t, &e);
	buf_clear(&out);
	int code =
		run_code(t, "exec 2>&1; rm /workspace/kept && head -c 100M /dev/zero >/workspace/more && sync", &out);
	if (code == 0)
		snprintf(t->why, sizeof t->why, "after a snapshot a box with a limit of 64 MiB wrote 100 MiB");
	return code > 0 && is_full(buf_str(&out)) ? SELFTEST_PASS : SELFTEST_FAIL;
}

/* Commits the box and runs another one on the result, which is the image of the box with a layer more. */
static enum selftest_verdict run_image(struct selftest *t, const char *image)
{
	auto_buf struct buf answer = {0}, out = {.max = TEXT_MAX};
	const struct box_options options = {.image = image};
	struct selftest other = {.run = t->run};
	struct err e;
	snprintf(other.box, sizeof other.box, "%.20s-image", t->box);
	if (box_put(&t->run->cl, other.box, &options, &answer, &e) < 0)
		return failed(t, &e);
	bool ok = run(&other, "cat /layered /workspace/layered", &out) && str_eq_c(buf_str(&out), "high\nhigh\n");
	snprintf(t->why, sizeof t->why, "%s", other.why);
	selftest_close(&other);
	return ok ? SELFTEST_PASS : SELFTEST_FAIL;
}

enum selftest_verdict selftest_layers(struct selftest *t)
{
	auto_buf struct buf out = {.max = TEXT_MAX}, body = {0}, answer = {0}, target = {0};
	struct err e;
	if (is_plain(t)) /* a commit is made of a snapshot */
		return SELFTEST_SKIP;
	if (!run(t, "echo high >/layered && cp /layered /workspace", &out))
		return SELFTEST_FAIL;
	buf_printf(&body, "{\"sandbox\":\"%s\",\"name\":\"%s\"}", t->box, t->box);
	if (client_call(&t->run->cl, "POST", "/v1/images/commit", buf_str(&body), &answer, &e) < 0)
		return failed(t, &e);
	enum selftest_verdict v = run_image(t, t->box);
	buf_printf(&target, "/v1/images/%s", t->box);
	if (client_call(&t->run->cl, "DELETE", buf_cstr(&target), STR(""), &answer, &e) < 0)
		fprintf(stderr, "atoll selftest: image '%s' was not removed: %s\n", t->box, e.msg);
	return v;
}

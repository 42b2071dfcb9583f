/* The daemon about itself: health, metrics, the OpenAPI document. */
#include "base/clock.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"
#include "daemon/route/view.h"
#include "daemon/serve/openapi.h"
#include "proto/limits.h"

enum { HEALTH_WAIT_MS = 500 };
/* What this daemon can do beyond commands, files, code and ports: pages hide what is not in the list. */
static const char *const features[] = {"approvals", "audit", "backups", "checks", "events", "images", "instances",
	"lifecycle", "mcp", "mounts", "network", "secrets", "snapshots", "tickets", "tokens", "usage", "volumes"};

static void write_features(struct json_writer *w)
{
	json_key(w, "features");
	json_array_begin(w);
	for (size_t i = 0; i < ARRAY_LEN(features); i++)
		json_cstr(w, features[i]);
	json_array_end(w);
}

static void health_of_boxes(struct json_writer *w, struct daemon *d)
{
	json_key(w, "sandboxes");
	json_object_begin(w);
	for (int i = 0; i < SB_DESTROYED; i++)
		json_member_u64(w, state_name((enum sandbox_state)i), d->by_state[i]);
	json_object_end(w);
	const struct warden_host *host = warden_host(d->warden);
	json_key(w, "host");
	if (host)
		view_host(w, host);
	else
		json_null(w);
	json_key(w, "defaults");
	json_object_begin(w);
	json_member_u64(w, "memory", BOX_MEM_DEFAULT);
	json_member_double(w, "cpu", BOX_CPU_DEFAULT / 1000.0);
	json_member_u64(w, "pids", BOX_PIDS_DEFAULT);
	json_member_u64(w, "disk", BOX_DISK_DEFAULT);
	json_object_end(w);
}

static void answer_health(struct daemon_request *r)
{
	struct daemon *d = r->daemon;
	auto_buf struct buf out = {0};
	char iso[CLOCK_ISO_LEN];
	struct json_writer w = json_writer(&out);
	bool up = warden_client_is_up(d->warden);
	json_object_begin(&w);
	json_member_cstr(&w, "status", d->stopping ? "stopping" : up ? "ok" : "degraded");
	json_member_cstr(&w, "version", ATOLL_VERSION);
	json_member_u64(&w, "uptimeSeconds", (clock_ms() - d->started_ms) / 1000);
	json_member_bool(&w, "warden", up);
	if (caller_is_admitted(&r->caller)) {
		health_of_boxes(&w, d);
		write_features(&w);
	}
	json_member_cstr(&w, "timestamp", clock_iso(clock_wall_ms(), iso));
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

/* The warden has told how full the pool is, or is gone. */
static void on_hello(void *arg, const struct warden_answer *a)
{
	struct daemon_request *r = arg;
	(void)a;
	loop_timer_stop(&r->timer);
	if (r->x && !r->status)
		answer_health(r);
	daemon_request_release(r);
}

/* It is late: answer with what it told before. */
static void on_hello_late(struct loop_timer *t)
{
	struct daemon_request *r = container_of(t, struct daemon_request, timer);
	if (r->x && !r->status)
		answer_health(r);
}

void handle_health(struct daemon_request *r)
{
	struct daemon *d = r->daemon;
	if (!caller_is_admitted(&r->caller) || !warden_client_is_up(d->warden))
		return answer_health(r);
	daemon_request_hold(r);
	loop_timer_set(d->loop, &r->timer, HEALTH_WAIT_MS, on_hello_late);
	warden_client_call(d->warden, &(struct warden_request){.op = WARDEN_HELLO}, on_hello, r);
}

void handle_metrics(struct daemon_request *r)
{
	auto_buf struct buf out = {0};
	metrics_write(r->daemon, &out);
	http_respond(r->x, 200, "text/plain; version=0.0.4; charset=utf-8", buf_str(&out));
	daemon_request_answered(r, 200);
}

void handle_openapi(struct daemon_request *r)
{
	daemon_request_json(r, 200, str_n(openapi_json, openapi_json_len));
}

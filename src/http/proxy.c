#include "http/proxy.h"

#include "http/client/call.h"
#include "http/limits.h"

struct http_proxy {
	struct http_exchange *x; /* NULL once it has ended or been given back */
	struct http_call *call;	 /* NULL once it has ended */
	struct http_proxy_options o;
	struct loop_timer continue_timer;
	int status;
	bool complete, given_back, untouched;
};

/* ---- headers ---- */

static bool is_hop_by_hop(const struct http_headers *h, struct str name)
{
	static const struct str hop[] = {STR("Connection"), STR("Keep-Alive"), STR("Proxy-Connection"),
		STR("Proxy-Authenticate"), STR("Proxy-Authorization"), STR("TE"), STR("Transfer-Encoding"),
		STR("Upgrade"), STR("Content-Length")};
	for (size_t i = 0; i < ARRAY_LEN(hop); i++)
		if (str_eq_nocase(name, hop[i]))
			return true;
	return http_header_has_token(h, STR("Connection"), name);
}

static bool passes(struct http_proxy *p, http_proxy_filter filter, const struct http_headers *h, struct str name,
	struct str *value)
{
	return !is_hop_by_hop(h, name) && (!filter || filter(p->o.arg, name, value));
}

/* What the client may see of a header of the response. */
static bool is_clean(struct http_proxy *p, struct str name, struct str *value)
{
	return !p->o.clean_response ||
	       (p->o.clean_response(p->o.arg, &name, true) && p->o.clean_response(p->o.arg, value, false));
}

/* Fields for routing, framing, authentication or processing are not allowed behind the body: code that looked at the
 * head has already acted (RFC 9110, 6.5.1). */
static bool may_trail(struct str name)
{
	static const struct str withheld[] = {STR("Host"), STR("Authorization"), STR("Cookie"), STR("Set-Cookie"),
		STR("Trailer"), STR("Expect"), STR("Range"), STR("Content-Type"), STR("Content-Encoding"),
		STR("Content-Range"), STR("Cache-Control"), STR("Location"), STR("WWW-Authenticate"),
		STR("Max-Forwards"), STR("Forwarded"), STR("X-Real-IP")};
	static const struct str forwarded = STR("X-Forwarded-");
	for (size_t i = 0; i < ARRAY_LEN(withheld); i++)
		if (str_eq_nocase(name, withheld[i]))
			return false;
	return name.n < forwarded.n || !str_eq_nocase(str_n(name.p, forwarded.n), forwarded);
}

/* Appends the trailers that pass, as lines. */
static void pass_trailers(
	struct http_proxy *p, const struct http_headers *h, struct str lines, bool response, struct buf *out)
{
	while (lines.n) {
		struct str one = str_split(lines, '\n', &lines), value, name = str_split(one, ':', &value);
		value = str_trim(str_n(value.p, value.n - 1));
		if (!may_trail(name) || !passes(p, NULL, h, name, &value) || (response && !is_clean(p, name, &value)) ||
			!http_value_ok(value))
			continue;
		http_put_header(out, name, value);
	}
}

/* HTTP/2 over an upgraded connection would carry requests that are not checked here. */
static bool wants_upgrade(const struct http_request *r)
{
	return r->upgrade && !http_header_has_token(&r->headers, STR("Upgrade"), STR("h2c"));
}

static size_t request_headers(struct http_proxy *p, const struct http_request *r, struct http_header *ret)
{
	size_t n = 0;
	for (size_t i = 0; i < r->headers.n; i++) {
		struct http_header h = r->headers.v[i];
		bool own = str_eq_nocase(h.name, STR("Host")) ||
			   (str_eq_nocase(h.name, STR("Expect")) && (!r->expect_continue || p->o.body.p));
		if (!own && passes(p, p->o.filter_request, &r->headers, h.name, &h.value))
			ret[n++] = h;
	}
	if (wants_upgrade(r))
		ret[n++] = *http_header_find(&r->headers, STR("Upgrade"));
	for (size_t i = 0; i < p->o.add_n; i++)
		ret[n++] = p->o.add[i];
	return n;
}

/* ---- end ---- */

static void let_go(struct http_proxy *p)
{
	if (p->x || p->call)
		return;
	loop_timer_stop(&p->continue_timer);
	if (p->o.on_done && !p->given_back)
		p->o.on_done(p->o.arg, p->status, p->complete);
	free(p);
}

/* ---- the client's side ---- */

static void write_up(struct http_proxy *p, struct str bytes)
{
	if (bytes.n && p->call && !http_call_write(p->call, bytes))
		http_pause(p->x);
}

/* False: the exchange was cut off. */
static bool write_filtered(struct http_proxy *p, struct str piece)
{
	auto_buf struct buf out = {.max = 2 * HTTP_READ_CHUNK};
	if (!p->o.filter_body(p->o.arg, piece, &out)) {
		http_abort(p->x);
		return false;
	}
	write_up(p, buf_str(&out));
	return true;
}

static void x_body(struct http_exchange *x, struct str chunk)
{
	struct http_proxy *p = http_exchange_arg(x);
	if (p->o.counts)
		p->o.counts->in += chunk.n;
	if (p->o.on_bytes)
		p->o.on_bytes(p->o.arg);
	if (p->o.filter_body && p->call)
		write_filtered(p, chunk);
	else
		write_up(p, chunk);
}

static void x_body_end(struct http_exchange *x)
{
	struct http_proxy *p = http_exchange_arg(x);
	auto_buf struct buf trailers = {0};
	if (!p->call || p->o.body.p || (p->o.filter_body && !write_filtered(p, STR_NULL)))
		return;
	pass_trailers(p, &http_request(x)->headers, http_request_trailers(x), false, &trailers);
	http_call_end_with(p->call, buf_str(&trailers));
}

static void x_writable(struct http_exchange *x)
{
	struct http_proxy *p = http_exchange_arg(x);
	if (p->call)
		http_call_resume(p->call);
}

static void x_close(struct http_exchange *x, bool complete)
{
	struct http_proxy *p = http_exchange_arg(x);
	p->x = NULL;
	p->complete = complete;
	if (p->call)
		http_call_cancel(p->call);
	let_go(p);
}

static const struct http_exchange_ops x_ops = {
	.on_body = x_body, .on_body_end = x_body_end, .on_writable = x_writable, .on_close = x_close};

/* ---- the other side ---- */

/* The body may flow. */
static void let_flow(struct http_proxy *p)
{
	p->untouched = false;
	if (p->x)
		http_resume(p->x);
}

/* The other side has said nothing for a while: it may not know about expectations. */
static void on_continue_due(struct loop_timer *t)
{
	let_flow(container_of(t, struct http_proxy, continue_timer));
}

static void c_sent(struct http_call *c)
{
	struct http_proxy *p = http_call_arg(c);
	if (p->x && http_request(p->x)->expect_continue)
		loop_timer_set(c->cl->loop, &p->continue_timer, HTTP_CONTINUE_WAIT, on_continue_due);
	else
		let_flow(p);
}

static void c_info(struct http_call *c, const struct http_response *r)
{
	struct http_proxy *p = http_call_arg(c);
	if (!p->x)
		return;
	if (r->status == 100)
		return let_flow(p);
	struct http_header v[HTTP_HEADERS_MAX];
	struct http_headers passed = {v, 0};
	for (size_t i = 0; i < r->headers.n && passed.n < HTTP_HEADERS_MAX; i++) {
		struct http_header h = r->headers.v[i];
		struct str value = h.value;
		/* Cookies belong to the final answer. Bytes that filters write live for one header only: a value that
		 * had to be cleaned is left out. */
		if (!str_eq_nocase(h.name, STR("Set-Cookie")) &&
			passes(p, p->o.filter_response, &r->headers, h.name, &h.value) && is_clean(p, h.name, &value) &&
			value.p == r->headers.v[i].value.p)
			v[passed.n++] = (struct http_header){h.name, value};
	}
	http_respond_info(p->x, r->status, &passed);
}

/* The answer to HEAD, and a 304, announce the length that GET would have. */
static int64_t announced_length(const struct http_response *r)
{
	uint64_t n;
	if (r->content_length != 0)
		return r->content_length;
	struct str v = http_header_value(&r->headers, STR("Content-Length"));
	if (v.p && str_to_u64(v, INT64_MAX, &n))
		return (int64_t)n;
	return HTTP_CHUNKED;
}

static void c_head(struct http_call *c, const struct http_response *r)
{
	struct http_proxy *p = http_call_arg(c);
	if (!p->x)
		return;
	for (size_t i = 0; i < r->headers.n; i++) {
		struct str name = r->headers.v[i].name, value = r->headers.v[i].value;
		if (passes(p, p->o.filter_response, &r->headers, name, &value) && is_clean(p, name, &value))
			http_respond_header(p->x, name, value);
	}
	p->status = r->status;
	struct str protocol = http_header_value(&r->headers, STR("Upgrade")), reason = r->reason;
	if (r->status == 101 && protocol.n && is_clean(p, STR_NULL, &protocol))
		http_respond_header(p->x, STR("Upgrade"), protocol);
	/* Last: its bytes may be the filter's, and are read by the next line. */
	if (is_clean(p, STR_NULL, &reason))
		http_respond_reason(p->x, reason);
	if (r->status == 101)
		http_upgrade(p->x);
	else
		http_respond_begin(p->x, r->status, announced_length(r));
}

static void c_body(struct http_call *c, struct str chunk)
{
	struct http_proxy *p = http_call_arg(c);
	if (p->o.counts && p->x)
		p->o.counts->out += chunk.n;
	if (p->o.on_bytes && p->x)
		p->o.on_bytes(p->o.arg);
	if (p->x && !http_respond_write(p->x, chunk))
		http_call_pause(c);
}

static void c_body_end(struct http_call *c)
{
	struct http_proxy *p = http_call_arg(c);
	auto_buf struct buf trailers = {0};
	if (!p->x)
		return;
	pass_trailers(p, &http_call_response(c)->headers, http_call_trailers(c), true, &trailers);
	http_respond_end_with(p->x, buf_str(&trailers));
}

static void c_writable(struct http_call *c)
{
	struct http_proxy *p = http_call_arg(c);
	if (p->x)
		http_resume(p->x);
}

static void give_back(struct http_proxy *p, const struct http_failure *failure)
{
	struct http_exchange *x = p->x;
	p->x = NULL;
	p->given_back = true;
	http_exchange_set(x, NULL, NULL);
	struct http_failure f = *failure;
	f.untouched = p->untouched || http_request(x)->content_length == 0 || p->o.body.p;
	if (p->o.on_fail)
		p->o.on_fail(p->o.arg, x, &f);
	else
		http_respond_error(x, &failure->err);
}

static void c_close(struct http_call *c, const struct http_failure *failure)
{
	struct http_proxy *p = http_call_arg(c);
	p->call = NULL;
	if (failure && p->x && !http_respond_begun(p->x))
		give_back(p, failure);
	else if (failure && p->x)
		http_abort(p->x);
	else if (p->x)
		http_resume(p->x);
	let_go(p);
}

static const struct http_call_ops c_ops = {.on_sent = c_sent,
	.on_info = c_info,
	.on_head = c_head,
	.on_body = c_body,
	.on_body_end = c_body_end,
	.on_writable = c_writable,
	.on_close = c_close};

static void send_whole(struct http_proxy *p)
{
	write_up(p, p->o.body);
	if (p->o.body.n)
		http_call_end(p->call);
}

/* Through a connection to `ep`, or through fd when `ep` is NULL. */
static struct http_proxy *start(struct http_exchange *x, struct http_client *cl, const struct http_endpoint *ep, int fd,
	const struct http_proxy_options *o)
{
	const struct http_request *r = http_request(x);
	struct http_proxy *p = xcalloc(1, sizeof *p);
	*p = (struct http_proxy){.x = x, .o = *o};
	auto_free struct http_header *headers = xcalloc(r->headers.n + o->add_n + 1, sizeof *headers);
	struct http_call_options call = {
		.method = r->method_text,
		.target = o->target.n ? o->target : r->target,
		.host = o->host.p ? o->host : r->host,
		.headers = headers,
		.headers_n = request_headers(p, r, headers),
		.content_length = o->body.p	   ? (int64_t)o->body.n
				  : o->filter_body ? o->body_length
						   : r->content_length,
		.wipe = o->wipe,
		.upgrade = wants_upgrade(r),
		.te_trailers = http_header_has_token(&r->headers, STR("TE"), STR("trailers")),
		.connect_ms = o->connect_ms,
		.head_ms = o->head_ms,
		.stall_ms = o->stall_ms,
	};
	http_exchange_set(x, &x_ops, p);
	/* Before the call is started: a body that waits then leaves together with its head. */
	if (!r->expect_continue)
		http_resume(x);
	p->call = ep ? http_call_start(cl, ep, &call, &c_ops, p) : http_call_start_fd(cl, fd, &call, &c_ops, p);
	if (o->body.p)
		send_whole(p);
	if (o->body.p)
		return p;
	/* Until the call is connected, or has got its 100, the body is not read: it can still go elsewhere. */
	p->untouched = !call_connected(p->call) || r->expect_continue;
	if (p->untouched)
		http_pause(x);
	return p;
}

struct http_proxy *http_proxy(struct http_exchange *x, struct http_client *cl, const struct http_endpoint *ep,
	const struct http_proxy_options *o)
{
	return start(x, cl, ep, -1, o);
}

struct http_proxy *http_proxy_fd(
	struct http_exchange *x, struct http_client *cl, int fd, const struct http_proxy_options *o)
{
	return start(x, cl, NULL, fd, o);
}

struct http_exchange *http_proxy_client(const struct http_proxy *p)
{
	return p->x;
}

int http_proxy_window(const struct http_proxy *p, uint32_t window)
{
	return p->call ? http_call_window(p->call, window) : -1;
}

void http_proxy_abort(struct http_proxy *p)
{
	if (p->x)
		http_abort(p->x);
}

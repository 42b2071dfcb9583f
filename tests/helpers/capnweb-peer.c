/*
 * capnweb-peer: one end of a capnweb session whose frames are lines on stdin and stdout, for tests against the npm
 * package. Its main object:
 *
 *	echo(x)		x
 *	add(a, b)	the sum of two whole numbers
 *	fail()		rejects with a RangeError that has `code` and `details`
 *	counter(n)	an object with increment(by) and value()
 *	twice(f, x)	calls f(x) twice and answers with the second result
 *	ask(path, x)	calls that method of the peer's main object with x, and answers with its result
 *	numbers(n)	a stream of n chunks, each one byte
 *	count(stream)	how many bytes it has
 *
 * Without stdin it ends; "ended: REASON" on stderr says that the session did.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "capnweb/capnweb.h"

static struct capnweb *session;
static bool over;

struct counter {
	long value;
};

struct numbers {
	struct capnweb_stream *st;
	long left;
};

struct counting {
	struct capnweb_call *call;
	struct capnweb_pipe *pipe;
	size_t bytes;
};

struct asking {
	struct capnweb_call *call;
	int64_t stub;
	int left;
	char arg[4000];
};

static bool on_send(void *arg, struct str frame)
{
	(void)arg;
	fwrite(frame.p, 1, frame.n, stdout);
	fputc('\n', stdout);
	return true;
}

static void on_end(void *arg, const char *reason)
{
	(void)arg;
	fprintf(stderr, "ended: %s\n", reason);
	over = true;
}

static long number(const struct capnweb_call *c, size_t i)
{
	const struct json *n = capnweb_call_arg(c, i);
	return n && n->type == JSON_T_NUMBER ? strtol(n->text.p, NULL, 10) : 0;
}

static void answer_number(struct capnweb_call *c, long n)
{
	char text[30];
	snprintf(text, sizeof text, "%ld", n);
	capnweb_resolve(c, str_of(text));
}

/* ---- streams ---- */

static void numbers_ready(void *arg)
{
	struct numbers *n = arg;
	while (n->left > 0) {
		char byte = (char)('0' + n->left-- % 10);
		if (!capnweb_stream_write(n->st, str_n(&byte, 1)))
			return;
	}
	capnweb_stream_end(n->st, NULL);
	free(n);
}

static void numbers_cancel(void *arg)
{
	free(arg);
}

static void numbers(struct capnweb_call *c)
{
	static const struct capnweb_stream_ops ops = {.on_ready = numbers_ready, .on_cancel = numbers_cancel};
	struct capnweb_answer a = {0};
	struct numbers *n = xcalloc(1, sizeof *n);
	n->left = number(c, 0);
	n->st = capnweb_stream_new(session, &ops, n);
	capnweb_answer_stream(&a, n->st);
	capnweb_resolve_answer(c, &a);
}

static bool count_chunk(void *arg, struct str bytes)
{
	((struct counting *)arg)->bytes += bytes.n;
	return true;
}

static void count_done(void *arg, bool complete)
{
	struct counting *k = arg;
	if (!over && complete)
		answer_number(k->call, (long)k->bytes);
	else if (!over)
		capnweb_reject(k->call, "Error", STR("aborted"), STR_NULL);
	free(k);
}

static void count(struct capnweb_call *c)
{
	static const struct capnweb_pipe_ops ops = {.on_chunk = count_chunk, .on_done = count_done};
	struct capnweb_pipe *p = capnweb_take_pipe(c, capnweb_call_arg(c, 0));
	if (!p)
		return capnweb_reject(c, "TypeError", STR("not a stream"), STR_NULL);
	struct counting *k = xcalloc(1, sizeof *k);
	*k = (struct counting){.call = c, .pipe = p};
	capnweb_pipe_start(p, &ops, k);
}

/* ---- calls to the peer ---- */

static void on_reply(void *arg, bool ok, const struct json *value)
{
	struct asking *q = arg;
	auto_buf struct buf text = {0};
	if (over || !value) {
		free(q);
		return;
	}
	if (ok && --q->left > 0)
		return capnweb_call_peer(session, q->stub, NULL, str_of(q->arg), on_reply, q);
	json_put_tree(&text, value);
	if (ok)
		capnweb_resolve(q->call, buf_str(&text));
	else
		capnweb_reject(q->call, "Error", STR("the peer refused"), STR_NULL);
	if (q->stub)
		capnweb_release_stub(session, q->stub);
	free(q);
}

static void ask(struct capnweb_call *c, bool twice)
{
	auto_buf struct buf text = {0};
	const struct json *first = capnweb_call_arg(c, 0), *x = capnweb_call_arg(c, 1);
	struct asking *q = xcalloc(1, sizeof *q);
	q->call = c;
	q->left = twice ? 2 : 1;
	q->stub = twice ? capnweb_take_stub(c, first) : 0;
	if (x)
		json_put_tree(&text, x);
	snprintf(q->arg, sizeof q->arg, "%.*s", STR_ARG(buf_str(&text)));
	if (twice && !q->stub) {
		free(q);
		return capnweb_reject(c, "TypeError", STR("not a function"), STR_NULL);
	}
	auto_free char *path = twice ? NULL : str_dup(first ? first->text : STR(""));
	capnweb_call_peer(session, q->stub, path, str_of(q->arg), on_reply, q);
}

/* ---- objects ---- */

static void counter(struct capnweb_call *c)
{
	struct capnweb_answer a = {0};
	struct counter *k = xcalloc(1, sizeof *k);
	k->value = number(c, 0);
	capnweb_answer_object(&a, session, k);
	capnweb_resolve_answer(c, &a);
}

static void on_drop(void *arg, void *object)
{
	(void)arg;
	fprintf(stderr, "dropped\n");
	free(object);
}

static void call_counter(struct capnweb_call *c, struct counter *k, const char *method)
{
	if (strcmp(method, "increment") == 0)
		k->value += number(c, 0);
	else if (strcmp(method, "value") != 0)
		return capnweb_reject(c, "TypeError", STR("is not a function."), STR_NULL);
	answer_number(c, k->value);
}

static void echo(struct capnweb_call *c)
{
	auto_buf struct buf text = {0};
	const struct json *x = capnweb_call_arg(c, 0);
	if (x)
		json_put_tree(&text, x);
	capnweb_resolve(c, x ? buf_str(&text) : CAPNWEB_UNDEFINED);
}

static void on_call(void *arg, struct capnweb_call *c, void *object, const char *method)
{
	(void)arg;
	if (object)
		call_counter(c, object, method);
	else if (strcmp(method, "echo") == 0)
		echo(c);
	else if (strcmp(method, "add") == 0)
		answer_number(c, number(c, 0) + number(c, 1));
	else if (strcmp(method, "fail") == 0)
		capnweb_reject(
			c, "RangeError", STR("as you wish"), STR("{\"code\":\"FAILED\",\"details\":{\"n\":[[1,2]]}}"));
	else if (strcmp(method, "counter") == 0)
		counter(c);
	else if (strcmp(method, "twice") == 0 || strcmp(method, "ask") == 0)
		ask(c, method[0] == 't');
	else if (strcmp(method, "numbers") == 0)
		numbers(c);
	else if (strcmp(method, "count") == 0)
		count(c);
	else
		capnweb_reject(c, "TypeError", STR("is not a function."), STR_NULL);
}

int main(void)
{
	static const struct capnweb_ops ops = {
		.send = on_send, .on_call = on_call, .on_drop = on_drop, .on_end = on_end};
	auto_free char *line = NULL;
	size_t room = 0;
	ssize_t n = 0;
	session = capnweb_new(&ops, NULL);
	while (!over && (n = getline(&line, &room, stdin)) > 0) {
		capnweb_frame(session, str_n(line, (size_t)n - (line[n - 1] == '\n')));
		fflush(stdout);
	}
	over = true;
	capnweb_free(session);
	return 0;
}

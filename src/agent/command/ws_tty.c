#include "agent/command/ws_tty.h"

#include "agent/agent.h"
#include "agent/proc/cmd.h"
#include "agent/proc/plain.h"
#include "agent/term/terminal.h"

struct ws_tty {
	struct ws *ws;
	struct ws_tty **owner;
	struct terminal *terminal;
	struct terminal_viewer v;
};

static bool on_output(struct terminal_viewer *v, struct str bytes)
{
	struct ws_tty *t = container_of(v, struct ws_tty, v);
	auto_buf struct buf frame = {0};
	buf_add_byte(&frame, 1);
	buf_add_str(&frame, bytes);
	return ws_send(t->ws, buf_str(&frame), false);
}

static void on_input_wanted(struct terminal_viewer *v, bool wanted)
{
	struct ws *ws = container_of(v, struct ws_tty, v)->ws;
	if (wanted)
		ws_resume(ws);
	else
		ws_pause(ws);
}

static void on_program_end(struct terminal_viewer *v, int code, int signal)
{
	struct ws_tty *t = container_of(v, struct ws_tty, v);
	auto_buf struct buf b = {0};
	struct json_writer j = json_writer(&b);
	json_object_begin(&j);
	json_member_cstr(&j, "type", "exit");
	json_member_i64(&j, "exitCode", code);
	json_member_cstr(&j, "signal", signal ? signal_name(signal) : NULL);
	json_member_cstr(&j, "outcome", signal ? "killed" : "exited");
	json_object_end(&j);
	*t->owner = NULL;
	ws_resume(t->ws); /* the close handshake must get through */
	ws_send(t->ws, buf_str(&b), true);
	ws_close(t->ws, WS_CLOSE_NORMAL, STR_NULL);
	free(t);
}

/* on_program_end follows, unless the client has gone. */
static void on_over(void *arg)
{
	struct ws_tty *t = arg;
	t->terminal = NULL;
	if (!t->ws)
		free(t);
}

static uint16_t dimension(const struct json *size, const char *key, uint16_t fallback)
{
	uint64_t n = 0;
	bool given = size && size->type == JSON_T_OBJECT &&
		     json_read_u64(size, key, 1, TERMINAL_SIZE_MAX, &n, NULL) == 0 && n;
	return given ? (uint16_t)n : fallback;
}

int ws_tty_start(struct ws *ws, const struct ws_tty_spec *s, struct ws_tty **owner, struct err *e)
{
	auto_free char *path = plain_program(s->argv[0], s->env);
	if (!path) {
		err_set(e, ERRC_COMMAND_NOT_FOUND, "'%.100s' was not found", s->argv[0]);
		e->os = ENOENT;
		return -1;
	}
	struct ws_tty *t = xcalloc(1, sizeof *t);
	t->ws = ws;
	t->owner = owner;
	t->v.on_output = on_output;
	t->v.on_input_wanted = on_input_wanted;
	t->v.on_exit = on_program_end;
	const struct terminal_spec spec = {.path = path,
		.argv = s->argv,
		.env = s->env,
		.cwd = s->cwd,
		.cols = dimension(s->size, "cols", 80),
		.rows = dimension(s->size, "rows", 24),
		.on_over = on_over,
		.arg = t};
	if (terminal_start(agent.loop, &spec, &t->terminal, e) < 0) {
		free(t);
		return -1;
	}
	*owner = t;
	terminal_attach(t->terminal, &t->v);
	return 0;
}

int ws_tty_pid(const struct ws_tty *t)
{
	return t->terminal ? terminal_pid(t->terminal) : 0;
}

void ws_tty_input(struct ws_tty *t, struct str bytes)
{
	if (t->terminal)
		terminal_input(t->terminal, bytes);
}

void ws_tty_resize(struct ws_tty *t, const struct json *size)
{
	uint16_t cols = dimension(size, "cols", 0), rows = dimension(size, "rows", 0);
	if (t->terminal && cols && rows)
		terminal_resize(t->terminal, cols, rows);
}

void ws_tty_more(struct ws_tty *t)
{
	if (t->terminal)
		terminal_more(t->terminal, &t->v);
}

void ws_tty_free(struct ws_tty *t)
{
	struct terminal *terminal = t ? t->terminal : NULL;
	if (!terminal)
		return;
	t->ws = NULL; /* on_over frees it */
	terminal_detach(terminal, &t->v);
	terminal_hangup(terminal);
}

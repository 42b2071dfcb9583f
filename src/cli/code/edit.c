#include "cli/code/edit.h"

#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "cli/text.h"
#include "cli/tty.h"

enum {
	KEY_CTRL_A = 1,
	KEY_CTRL_B,
	KEY_CTRL_C,
	KEY_CTRL_D,
	KEY_CTRL_E,
	KEY_CTRL_F,
	KEY_CTRL_H = 8,
	KEY_TAB = 9,
	KEY_CTRL_K = 11,
	KEY_CTRL_L = 12,
	KEY_CTRL_N = 14,
	KEY_CTRL_P = 16,
	KEY_CTRL_U = 21,
	KEY_CTRL_W = 23,
	KEY_ESC = 27,
	KEY_DELETE = 127
};

/* ---- the text and its cursor ---- */

static struct str text_of(struct edit *ed)
{
	return buf_str(&ed->line);
}

static bool inside_character(struct edit *ed, size_t at)
{
	struct str s = text_of(ed);
	return at < s.n && ((unsigned char)s.p[at] & 0xc0) == 0x80;
}

static size_t left_of(struct edit *ed, size_t at)
{
	if (at)
		at--;
	while (at && inside_character(ed, at))
		at--;
	return at;
}

static size_t right_of(struct edit *ed, size_t at)
{
	if (at < text_of(ed).n)
		at++;
	while (inside_character(ed, at))
		at++;
	return at;
}

static void replace(struct edit *ed, size_t from, size_t to, struct str with)
{
	struct str s = text_of(ed);
	struct buf made = {.max = EDIT_LINE_MAX};
	buf_add(&made, s.p, from);
	buf_add_str(&made, with);
	buf_add(&made, s.p + to, s.n - to);
	if (made.failed) { /* too long: the line does not change */
		buf_free(&made);
		return;
	}
	buf_free(&ed->line);
	ed->line = made;
	ed->at = from + with.n;
}

static size_t word_start(struct edit *ed)
{
	struct str s = text_of(ed);
	size_t at = ed->at;
	while (at && s.p[at - 1] == ' ')
		at--;
	while (at && s.p[at - 1] != ' ')
		at--;
	return at;
}

static void look_up(struct edit *ed, bool older)
{
	if (older ? ed->shown == 0 : ed->shown == ed->history_n)
		return;
	if (ed->shown == ed->history_n) {
		free(ed->kept);
		ed->kept = str_dup(text_of(ed));
	}
	ed->shown += older ? (size_t)-1 : 1;
	const char *text = ed->shown == ed->history_n ? ed->kept : ed->history[ed->shown];
	replace(ed, 0, text_of(ed).n, str_of(text));
}

/* ---- showing it ---- */

static void draw(struct edit *ed)
{
	auto_buf struct buf out = {0}, before = {0}, after = {0};
	struct str s = text_of(ed);
	size_t room = text_terminal_width(STDOUT_FILENO, 80), start = 0;
	size_t prompt = text_width(str_of(ed->prompt));
	room = room > prompt + 2 ? room - prompt - 1 : 1;
	while (text_width(str_n(s.p + start, ed->at - start)) > room)
		start = right_of(ed, start);
	text_put_safe(&before, str_n(s.p + start, ed->at - start));
	size_t end = ed->at;
	while (end < s.n && text_width(str_n(s.p + start, right_of(ed, end) - start)) <= room)
		end = right_of(ed, end);
	text_put_safe(&after, str_n(s.p + ed->at, end - ed->at));
	buf_printf(&out, "\r%s%.*s%.*s\033[K", ed->prompt, STR_ARG(buf_str(&before)), STR_ARG(buf_str(&after)));
	size_t back = text_width(buf_str(&after));
	if (back)
		buf_printf(&out, "\033[%zuD", back);
	fd_write_full(STDOUT_FILENO, out.p + out.off, buf_size(&out));
}

/* ---- keys ---- */

/* Takes an escape sequence such as "\033[A" at the start of s. Returns its length, 0 when its rest has not come. */
static size_t take_escape(struct edit *ed, struct str s)
{
	size_t n = 2;
	if (s.n < 2)
		return 0;
	if (s.p[1] != '[' && s.p[1] != 'O')
		return 2;
	while (n < s.n && n < 16 && (s.p[n] < '@' || s.p[n] > '~'))
		n++;
	if (n == s.n)
		return n < 16 ? 0 : n;
	char key = s.p[n] == '~' && n == 3 ? s.p[2] : s.p[n];
	size_t len = text_of(ed).n;
	if (key == 'A' || key == 'B')
		look_up(ed, key == 'A');
	else if (key == 'C')
		ed->at = right_of(ed, ed->at);
	else if (key == 'D')
		ed->at = left_of(ed, ed->at);
	else if (key == 'H' || key == '1' || key == '7')
		ed->at = 0;
	else if (key == 'F' || key == '4' || key == '8')
		ed->at = len;
	else if (key == '3')
		replace(ed, ed->at, right_of(ed, ed->at), STR(""));
	return n + 1;
}

static void take_control(struct edit *ed, char key)
{
	size_t len = text_of(ed).n;
	if (key == KEY_CTRL_A || key == KEY_CTRL_E)
		ed->at = key == KEY_CTRL_A ? 0 : len;
	else if (key == KEY_CTRL_B || key == KEY_CTRL_F)
		ed->at = key == KEY_CTRL_B ? left_of(ed, ed->at) : right_of(ed, ed->at);
	else if (key == KEY_CTRL_P || key == KEY_CTRL_N)
		look_up(ed, key == KEY_CTRL_P);
	else if (key == KEY_CTRL_C)
		ed->end = EDIT_CANCEL + 1;
	else if ((key == KEY_CTRL_D || key == 0) &&
		 !len) /* 0: a Ctrl-D that was typed while the terminal was not raw */
		ed->end = EDIT_EOF + 1;
	else if (key == KEY_CTRL_D)
		replace(ed, ed->at, right_of(ed, ed->at), STR(""));
	else if (key == KEY_CTRL_H || key == KEY_DELETE)
		replace(ed, left_of(ed, ed->at), ed->at, STR(""));
	else if (key == KEY_CTRL_K)
		replace(ed, ed->at, len, STR(""));
	else if (key == KEY_CTRL_U)
		replace(ed, 0, ed->at, STR(""));
	else if (key == KEY_CTRL_W)
		replace(ed, word_start(ed), ed->at, STR(""));
	else if (key == KEY_TAB)
		replace(ed, ed->at, ed->at, STR("    "));
	else if (key == KEY_CTRL_L)
		fd_write_full(STDOUT_FILENO, "\033[H\033[2J", 7);
	else if (key == '\r' || key == '\n')
		ed->end = EDIT_LINE + 1;
}

static void take_keys(struct edit *ed)
{
	while (buf_size(&ed->typed) && !ed->end) {
		struct str s = buf_str(&ed->typed);
		unsigned char key = (unsigned char)s.p[0];
		size_t n = 1;
		if (key == KEY_ESC) {
			n = take_escape(ed, s);
		} else if (key < ' ' || key == KEY_DELETE) {
			take_control(ed, (char)key);
		} else {
			int len = str_utf8_len(s);
			n = len < 0 ? 0 : len > 0 ? (size_t)len : 1;
			if (len > 0)
				replace(ed, ed->at, ed->at, str_n(s.p, n));
		}
		if (!n)
			break;
		buf_consume(&ed->typed, n);
	}
	draw(ed);
}

static void on_typed(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct edit *ed = container_of(io, struct edit, io);
	char keys[4096];
	ssize_t n = read(STDIN_FILENO, keys, sizeof keys);
	if (n <= 0) {
		ed->end = n < 0 && (errno == EINTR || errno == EAGAIN) ? ed->end : EDIT_EOF + 1;
		return;
	}
	buf_add(&ed->typed, keys, (size_t)n);
	take_keys(ed);
}

enum edit_end edit_read(struct edit *ed, const char *prompt, struct err *e)
{
	if (tty_raw(STDIN_FILENO, STDOUT_FILENO, TTY_PLAIN, e) < 0)
		return EDIT_ERROR;
	ed->prompt = prompt;
	ed->shown = ed->history_n;
	ed->at = 0;
	ed->end = 0;
	ed->cl->interrupted = 0;
	buf_clear(&ed->line);
	take_keys(ed);
	if (!ed->end)
		loop_add(ed->cl->loop, &ed->io, STDIN_FILENO, EPOLLIN, on_typed);
	while (!ed->end && !ed->cl->interrupted)
		loop_turn(ed->cl->loop, -1);
	loop_del(&ed->io);
	ed->at = text_of(ed).n;
	draw(ed);
	fd_write_full(STDOUT_FILENO, "\r\n", 2);
	tty_restore();
	return ed->end ? (enum edit_end)(ed->end - 1) : EDIT_SIGNAL;
}

void edit_remember(struct edit *ed, const char *text)
{
	bool again = ed->history_n && strcmp(ed->history[ed->history_n - 1], text) == 0;
	if (!*text || again)
		return;
	if (ed->history_n == EDIT_HISTORY_MAX) {
		free(ed->history[0]);
		memmove(ed->history, ed->history + 1, sizeof *ed->history * --ed->history_n);
	}
	ed->history[ed->history_n++] = xstrdup(text);
}

void edit_free(struct edit *ed)
{
	for (size_t i = 0; i < ed->history_n; i++)
		free(ed->history[i]);
	buf_free(&ed->typed);
	buf_free(&ed->line);
	free(ed->kept);
}

#include "cli/tty.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

enum { PARAMETERS_MAX = 16 };

/* DEC private modes that are off by default (25 is on by default). */
static const struct {
	int mode;
	bool usual;
} known[] = {{1049, false}, {1047, false}, {47, false}, {25, true}, {1, false}, {5, false}, {6, false}, {7, true},
	{9, false}, {1000, false}, {1001, false}, {1002, false}, {1003, false}, {1004, false}, {1005, false},
	{1006, false}, {1015, false}, {1016, false}, {2004, false}};

static struct {
	bool raw;
	int in, out;
	struct termios before, now;
	bool changed[ARRAY_LEN(known)];
	bool keypad;  /* ESC = */
	bool escapes; /* a mode was changed */
	/* The output's position in an escape sequence. */
	enum { AT_TEXT, AT_ESC, AT_CSI, AT_PRIVATE } at;
	int parameters[PARAMETERS_MAX], parameters_n;
} tty;

struct tty_size tty_size(int fd)
{
	struct winsize w;
	if (ioctl(fd, TIOCGWINSZ, &w) < 0 || !w.ws_col || !w.ws_row)
		return (struct tty_size){80, 24};
	return (struct tty_size){w.ws_col, w.ws_row};
}

/* ---- modes that the other side has set ---- */

static void note_mode(int mode, bool on)
{
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (known[i].mode == mode)
			tty.changed[i] = on != known[i].usual;
}

static void note_byte(char c)
{
	switch (tty.at) {
	case AT_TEXT:
		break;
	case AT_ESC:
		if (c == '=' || c == '>')
			tty.keypad = c == '=';
		if (c == 'c') { /* reset */
			memset(tty.changed, 0, sizeof tty.changed);
			tty.keypad = false;
		}
		tty.at = c == '[' ? AT_CSI : AT_TEXT;
		break;
	case AT_CSI:
		tty.at = c == '?' ? AT_PRIVATE : AT_TEXT;
		tty.parameters_n = 1;
		tty.parameters[0] = 0;
		break;
	case AT_PRIVATE:
		if (c >= '0' && c <= '9' && tty.parameters[tty.parameters_n - 1] < 10000) {
			tty.parameters[tty.parameters_n - 1] = tty.parameters[tty.parameters_n - 1] * 10 + (c - '0');
			break;
		}
		if (c == ';' && tty.parameters_n < PARAMETERS_MAX) {
			tty.parameters[tty.parameters_n++] = 0;
			break;
		}
		for (int i = 0; (c == 'h' || c == 'l') && i < tty.parameters_n; i++)
			note_mode(tty.parameters[i], c == 'h');
		tty.at = AT_TEXT;
		break;
	}
}

void tty_watch(struct str bytes)
{
	tty.escapes = tty.escapes || memchr(bytes.p, 033, bytes.n) != NULL;
	for (size_t i = 0; i < bytes.n; i++) {
		if (bytes.p[i] == 033)
			tty.at = AT_ESC;
		else if (tty.at != AT_TEXT)
			note_byte(bytes.p[i]);
	}
}

/* Called from signal handlers too: no stdio, no allocation. */
static void put(const char *text)
{
	if (write(tty.out, text, strlen(text)) < 0)
		return; /* the terminal is gone: nothing to restore */
}

static void put_mode(int mode, bool on)
{
	char text[] = "\033[?\0\0\0\0\0\0", digits[8];
	size_t n = 0, at = 3;
	for (; mode; mode /= 10)
		digits[n++] = (char)('0' + mode % 10);
	while (n)
		text[at++] = digits[--n];
	text[at] = on ? 'h' : 'l';
	put(text);
}

static void undo_modes(void)
{
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (tty.changed[i])
			put_mode(known[i].mode, known[i].usual);
	if (tty.keypad)
		put("\033>");
	if (tty.escapes)
		put("\033[0m");
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		tty.changed[i] = false;
	tty.keypad = tty.escapes = false;
}

/* ---- raw mode ---- */

void tty_restore(void)
{
	if (!tty.raw)
		return;
	tty.raw = false;
	undo_modes();
	tcsetattr(tty.in, TCSANOW, &tty.before);
}

static void on_fault(int signo)
{
	tty_restore();
	signal(signo, SIG_DFL);
	raise(signo);
}

static void guard_once(void)
{
	static bool done;
	static const int faults[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
	if (done)
		return;
	done = true;
	atexit(tty_restore);
	for (size_t i = 0; i < ARRAY_LEN(faults); i++)
		signal(faults[i], on_fault);
}

int tty_raw(int in, int out, enum tty_how how, struct err *e)
{
	if (tcgetattr(in, &tty.before) < 0)
		return err_os(e, ERRC_INVALID_REQUEST, errno, "the terminal");
	tty.in = in;
	tty.out = out;
	tty.now = tty.before;
	cfmakeraw(&tty.now);
	if (how == TTY_SCREEN)
		tty.now.c_lflag |= ISIG;
	guard_once();
	tty.raw = true;
	if (tcsetattr(in, TCSANOW, &tty.now) < 0) {
		tty.raw = false;
		return err_os(e, ERRC_INVALID_REQUEST, errno, "the terminal");
	}
	if (how == TTY_SCREEN) {
		static const char begin[] = "\033[?1049h\033[?25l\033[2J";
		tty_watch(str_of(begin));
		put(begin);
	}
	return 0;
}

void tty_suspend(void)
{
	undo_modes();
	tcsetattr(tty.in, TCSANOW, &tty.before);
}

void tty_resume(void)
{
	tcsetattr(tty.in, TCSANOW, &tty.now);
}

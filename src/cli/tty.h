/*
 * tty.h - puts the terminal of this program into raw mode, and restores it on every way out.
 *
 * tty_restore is called at exit and by the handlers of signals that crashes raise. Signals from outside come through
 * the client's loop, and the verb then returns normally. Only SIGKILL leaves the terminal unrestored.
 *
 * A program in a box may set terminal modes that would stay after a detach: the other screen, mouse reports, a hidden
 * cursor. tty_watch finds them in the output, and tty_restore resets them.
 */
#pragma once

#include "base/str.h"
#include "proto/errc.h"

struct tty_size {
	unsigned cols, rows;
};

/* 80 x 24 when fd is not a terminal. */
struct tty_size tty_size(int fd);

enum tty_how {
	TTY_PLAIN,
	TTY_SCREEN, /* draws on the other screen, without a cursor; Ctrl-C still is a signal */
};

/* Once at a time. `in` is put into raw mode, `out` is where escape sequences go. */
int tty_raw(int in, int out, enum tty_how how, struct err *e);
void tty_restore(void);
/* Called with the bytes that are about to be printed. */
void tty_watch(struct str bytes);
/* Restores the terminal before a stop by SIGTSTP, and sets raw mode again after it. */
void tty_suspend(void);
void tty_resume(void);

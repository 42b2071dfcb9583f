/*
 * tty.h - the terminal of this program in raw mode, and back as it was on every way out.
 *
 * tty_restore is called at exit and by the handlers of signals that end a program by its own fault; signals from
 * outside come through the client's loop, whose verb then leaves in the ordinary way. Only SIGKILL can leave a terminal
 * behind as it is.
 *
 * A program in a box may have turned things on that outlive it here when we leave in the middle: the other screen,
 * mouse reports, a hidden cursor. tty_watch looks for them in what is printed, and tty_restore turns them off again.
 */
#pragma once

#include "base/str.h"
#include "proto/errc.h"

struct tty_size {
	unsigned cols, rows;
};

/* 80 x 24 when it is no terminal. */
struct tty_size tty_size(int fd);

enum tty_how {
	TTY_PLAIN,
	TTY_SCREEN, /* draws on the other screen, without a cursor; Ctrl-C still is a signal */
};

/* Once at a time. `in` is put into raw mode, `out` is where escape sequences go. */
int tty_raw(int in, int out, enum tty_how how, struct err *e);
void tty_restore(void);
/* What is about to be printed. */
void tty_watch(struct str bytes);
/* Back to how it was and into raw mode again: around a stop by SIGTSTP. */
void tty_suspend(void);
void tty_resume(void);

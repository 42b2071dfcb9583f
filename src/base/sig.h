/*
 * sig.h - signal actions, past the C library.
 */
#pragma once

/* Gives every signal its default action, also 32 to 34, which the C library keeps for itself: posix_spawn leaves them
 * ignored in programs that it starts, and their children inherit that. Async-signal-safe. */
void sig_default_all(void);

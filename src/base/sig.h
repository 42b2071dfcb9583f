/*
 * sig.h - signal actions, past the C library.
 */
#pragma once

/* Every signal gets its default action, also 32 to 34, which the C library keeps for itself and does not let us touch:
 * posix_spawn leaves them ignored in what it starts, and programs inherit that. Async-signal-safe. */
void sig_default_all(void);

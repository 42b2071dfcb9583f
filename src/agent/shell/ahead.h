/*
 * ahead.h - shells that are started before a command needs them.
 *
 * bash takes 1.3 ms to start. A client that creates a session gives it a command next, so the session's shell is
 * started right after the answer and waits. It has run nothing: until it is taken, the session has no shell, and plain
 * commands are executed directly (proc/plain.h). A waiting shell must be the shell that would be started now. It is
 * given up when the box's environment changes, and not taken when its directory is another than the session's. One that
 * ends while it waits is forgotten.
 *
 * At most SHELLS_AHEAD_MAX shells wait; sessions beyond that start theirs with the first command that needs one.
 */
#pragma once

#include "agent/shell/session_impl.h"

/* The session's waiting shell, now the caller's, whose ops it gets; NULL: there is none that would do. */
struct shell *ahead_take(struct session *s, const struct shell_owner_ops *ops);
/* Ends the session's waiting shell; it wants none any more. */
void ahead_drop(struct session *s);

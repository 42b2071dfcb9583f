/*
 * approvals.h - questions of the gate that somebody has to answer, and the rules that answers leave behind.
 *
 * A sandbox whose policy says `ask` has connections that no rule decides held in the gate. The gate tells of each
 * question; clients see them (GET /v1/approvals, as a list or an event stream) and answer. An answer counts once, or
 * becomes a rule of the sandbox, or a rule for all sandboxes ("always"), kept in the store as an item of the kind
 * "network-rule" and merged with ATOLL_NETWORK_ALLOW and ATOLL_NETWORK_DENY into daemon.network.
 *
 * Questions live in memory: the gate tells all of them again when it connects. One that is being answered is not shown
 * any more, and comes back when its rule cannot be kept.
 *
 *	{"type":"approval","id":…,"sandbox":…,"host":…,"port":n,…}                          a new question
 *	{"type":"ended","id":…,"sandbox":…,"end":"allow"|"deny"|"timeout"|"gone"}            … is one no more
 */
#pragma once

#include "base/json.h"
#include "daemon/network/follow.h"
#include "proto/errc.h"
#include "proto/limits.h"

struct daemon;
struct approvals;

enum { APPROVAL_ID_MAX = 32 };

enum approval_remember { REMEMBER_ONCE, REMEMBER_SANDBOX, REMEMBER_ALWAYS };

/* An answer under way: from a client's POST to the gate. */
struct approval_answer {
	char id[APPROVAL_ID_MAX + 1];
	char sandbox[BOX_ID_MAX + 1];
	char rule[NET_RULE_MAX + 1]; /* "host:port" */
	bool allow;
	enum approval_remember remember;
};

/* Reads the rules that were kept, before store_start. */
int approvals_load(struct daemon *d, struct err *e);

/* ---- from the gate ---- */
void approvals_asked(struct daemon *d, const struct json *o);
void approvals_unasked(struct daemon *d, const struct json *o);
/* The gate has gone: its questions with it. */
void approvals_lost(struct daemon *d);

/* ---- for clients; `own`: for a program of ours, which also sees questions of boxes of builds ---- */
void approvals_ids(const struct daemon *d, void (*each)(void *arg, const char *id), void *arg);
/* One question, unless it has ended or is being answered. */
void approvals_write(const struct daemon *d, const char *id, bool own, struct json_writer *w);
/* "always": [ … ] */
void approvals_write_always(const struct daemon *d, struct json_writer *w);
int approvals_follow(struct daemon *d, const struct follow *how, struct err *e);
/* Takes the question with this id out of sight. APPROVAL_NOT_FOUND; fills id, sandbox and rule of *a. */
int approvals_take(struct daemon *d, const char *id, bool own, struct approval_answer *a, struct err *e);
/* It could not be answered: show it again. */
void approvals_put_back(struct daemon *d, const char *id);
/* It has been answered. */
void approvals_done(struct daemon *d, const struct approval_answer *a);

/* A rule for all sandboxes; counts when `on_done` comes without an error. LIMIT_REACHED. */
typedef void (*approvals_on_kept)(void *arg, const struct err *e);
int approvals_keep(
	struct daemon *d, const struct approval_answer *a, approvals_on_kept on_done, void *arg, struct err *e);
/* Takes such a rule away, by the id of the approval that made it. APPROVAL_NOT_FOUND. */
int approvals_forget(struct daemon *d, const char *id, approvals_on_kept on_done, void *arg, struct err *e);

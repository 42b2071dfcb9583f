/*
 * login.h - how a browser signs in to the console: a one-time link or the token, then a session in a cookie.
 *
 * The cookie atoll_session is HttpOnly and SameSite=Strict. It counts only together with the header X-Atoll-Console,
 * which no navigation, form or image can send; for a WebSocket, only with an Origin that is exactly this one; and never
 * below …/proxy/, where pages of a box are on this origin. A session ends after an hour without a request, after twelve
 * hours, with the named token that began it, when it signs out, and when it is revoked, alone or with all others
 * (DELETE /v1/console/sessions). The store keeps a hash of it.
 */
#pragma once

#include "daemon/limits.h"
#include "daemon/route/request.h"

struct login;

struct login *login_new(struct daemon *d);
/* The sessions of the store. Before store_start. */
int login_load(struct login *l, struct err *e);
/* The request has the cookie of a session, sent the way that only the console can. */
bool login_admits(struct login *l, struct daemon_request *r);
/* The token with this name is revoked: its sessions and links too. */
void login_forget_token(struct login *l, const char *name);

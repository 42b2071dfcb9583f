/*
 * git.h - what a clone needs to know about URLs and about git's words.
 *
 * Credentials in a URL are taken out before git sees it and given to it through a credential helper that lives in the
 * environment of that one process, for that one host: they reach no argument list, no .git/config, no message, no
 * answer, and no other server that the first one redirects to.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"
#include "proto/errc.h"

struct git_url {
	char *clean;  /* without secrets: what git is given */
	char *shown;  /* with "******@" where they were: what answers say */
	char *origin; /* "https://host:port": where the credentials belong; NULL when there are none */
	char *user;   /* decoded; NULL when the URL has none that git could use */
	char *password;
	char *userinfo; /* both as they were written; NULL when there is no password */
	char *query;	/* may be a secret too; NULL when there is none */
	char *name;	/* of the repository: last part of the path without ".git" */
};

/* http, https, git, ssh, file URLs and host:path. INVALID_GIT_URL otherwise; the message does not repeat the URL. */
int git_url_parse(struct str text, struct git_url *ret, struct err *e);
void git_url_free(struct git_url *u);

/* Puts ****** in place of the URL's secrets, in every form that git or a server may have put them into its words. */
void git_redact(const struct git_url *u, struct buf *text);

/* The code that git's last words stand for; GIT_OPERATION_FAILED when they say nothing known. */
enum errc git_error_code(struct str said);

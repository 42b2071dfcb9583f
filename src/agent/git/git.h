/*
 * git.h - the URLs and the error messages of git clone.
 *
 * Credentials are taken out of a URL before git sees it. git gets them from a credential helper in the environment of
 * its process, for one host only. So they reach no argument list, no .git/config, no message, no answer, and no server
 * that the first server redirects to.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"
#include "proto/errc.h"

struct git_url {
	char *clean;  /* the URL without secrets, for git */
	char *shown;  /* the URL with "******@" in place of secrets, for answers */
	char *origin; /* "https://host:port" that the credentials are for; NULL when there are none */
	char *user;   /* decoded; NULL when the URL has no credentials that git can use */
	char *password;
	char *userinfo; /* user and password as they were written; NULL when there is no password */
	char *query;	/* may be a secret too; NULL when there is none */
	char *name;	/* name of the repository: last part of the path without ".git" */
};

/* http, https, git, ssh, file URLs and host:path. INVALID_GIT_URL otherwise; the message does not repeat the URL. */
int git_url_parse(struct str text, struct git_url *ret, struct err *e);
void git_url_free(struct git_url *u);

/* Replaces the URL's secrets in `text` by ******, in every form in which git or a server may have printed them. */
void git_redact(const struct git_url *u, struct buf *text);

struct agent_request;
/* For struct route_aside: the path of a checkout, its target or a repository in a file, that may wait for a FUSE
 * server. */
char *git_waits(const struct agent_request *r, const char *fields);

/* The error code for git's messages; GIT_OPERATION_FAILED when none is known. */
enum errc git_error_code(struct str said);

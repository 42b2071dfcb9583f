/*
 * git.h - what a clone needs to know about URLs and about git's words.
 *
 * Credentials in a URL are taken out before git sees it and given to it through a credential helper that lives in the
 * environment of that one process: they reach no argument list, no .git/config, no message and no answer.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

struct git_url {
	char *clean; /* without credentials: what git is given */
	char *shown; /* with "******@" where they were: what answers say */
	char *user;  /* decoded; NULL when the URL has none */
	char *password;
	char *name; /* of the repository: last part of the path without ".git" */
};

/* http, https, git, ssh, file URLs and host:path. INVALID_GIT_URL otherwise. */
int git_url_parse(struct str text, struct git_url *ret, struct err *e);
void git_url_free(struct git_url *u);

/* The code that git's last words stand for; GIT_CLONE_FAILED when they say nothing known. */
enum errc git_error_code(struct str said);

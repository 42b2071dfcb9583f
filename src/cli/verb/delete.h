/*
 * delete.h - `rm NAME...` of the verbs that keep named things: volumes, secrets, backups, sessions.
 */
#pragma once

#include "cli/client.h"

typedef int (*delete_one)(void *arg, const char *name, struct err *e);

/* Deletes each of the names, also after one that failed. Prints the names of those that are gone, with --json an
 * object, and an error for each other one. Returns the exit code. */
int delete_each(struct cli *c, char **names, int n, delete_one one, void *arg);
/* The same with DELETE on "<collection><name>", as in "/v1/volumes/". */
int delete_from(struct cli *c, const char *collection, char **names, int n);

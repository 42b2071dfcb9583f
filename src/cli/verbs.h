/*
 * verbs.h - the functions behind the verb table (verbs.c), each in the file of its name.
 */
#pragma once

#include "cli/cli.h"

int verb_create(struct cli *c, int argc, char **argv);
int verb_doctor(struct cli *c, int argc, char **argv);
int verb_exec(struct cli *c, int argc, char **argv);
int verb_expose(struct cli *c, int argc, char **argv);
int verb_inspect(struct cli *c, int argc, char **argv);
int verb_list(struct cli *c, int argc, char **argv);
int verb_open(struct cli *c, int argc, char **argv);
int verb_ports(struct cli *c, int argc, char **argv);
int verb_requests(struct cli *c, int argc, char **argv);
int verb_rm(struct cli *c, int argc, char **argv);
int verb_run(struct cli *c, int argc, char **argv);
int verb_selftest(struct cli *c, int argc, char **argv);
int verb_unexpose(struct cli *c, int argc, char **argv);
int verb_up(struct cli *c, int argc, char **argv);
int verb_version(struct cli *c, int argc, char **argv);

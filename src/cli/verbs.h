/*
 * verbs.h - the functions behind the verb table (verbs.c), each in the file of its name.
 */
#pragma once

#include "cli/cli.h"

int verb_cat(struct cli *c, int argc, char **argv);
int verb_code(struct cli *c, int argc, char **argv);
int verb_completion(struct cli *c, int argc, char **argv);
int verb_console(struct cli *c, int argc, char **argv);
int verb_cp(struct cli *c, int argc, char **argv);
int verb_backup(struct cli *c, int argc, char **argv);
int verb_backups(struct cli *c, int argc, char **argv);
int verb_snapshot(struct cli *c, int argc, char **argv);
int verb_snapshots(struct cli *c, int argc, char **argv);
int verb_restore(struct cli *c, int argc, char **argv);
int verb_diff(struct cli *c, int argc, char **argv);
int verb_fork(struct cli *c, int argc, char **argv);
int verb_replace(struct cli *c, int argc, char **argv);
int verb_create(struct cli *c, int argc, char **argv);
int verb_doctor(struct cli *c, int argc, char **argv);
int verb_env(struct cli *c, int argc, char **argv);
int verb_exec(struct cli *c, int argc, char **argv);
int verb_expose(struct cli *c, int argc, char **argv);
int verb_git(struct cli *c, int argc, char **argv);
int verb_inspect(struct cli *c, int argc, char **argv);
int verb_kill(struct cli *c, int argc, char **argv);
int verb_list(struct cli *c, int argc, char **argv);
int verb_logs(struct cli *c, int argc, char **argv);
int verb_ls(struct cli *c, int argc, char **argv);
int verb_mount(struct cli *c, int argc, char **argv);
int verb_unmount(struct cli *c, int argc, char **argv);
int verb_mounts(struct cli *c, int argc, char **argv);
int verb_volume(struct cli *c, int argc, char **argv);
int verb_secret(struct cli *c, int argc, char **argv);
int verb_token(struct cli *c, int argc, char **argv);
int verb_mcp(struct cli *c, int argc, char **argv);
int verb_build(struct cli *c, int argc, char **argv);
int verb_export(struct cli *c, int argc, char **argv);
int verb_image(struct cli *c, int argc, char **argv);
int verb_images(struct cli *c, int argc, char **argv);
int verb_import(struct cli *c, int argc, char **argv);
int verb_commit(struct cli *c, int argc, char **argv);
int verb_pull(struct cli *c, int argc, char **argv);
int verb_push(struct cli *c, int argc, char **argv);
int verb_docker(struct cli *c, int argc, char **argv);
int verb_net(struct cli *c, int argc, char **argv);
int verb_approve(struct cli *c, int argc, char **argv);
int verb_open(struct cli *c, int argc, char **argv);
int verb_ports(struct cli *c, int argc, char **argv);
int verb_ps(struct cli *c, int argc, char **argv);
int verb_requests(struct cli *c, int argc, char **argv);
int verb_rm(struct cli *c, int argc, char **argv);
int verb_sleep(struct cli *c, int argc, char **argv);
int verb_stop(struct cli *c, int argc, char **argv);
int verb_update(struct cli *c, int argc, char **argv);
int verb_wake(struct cli *c, int argc, char **argv);
int verb_run(struct cli *c, int argc, char **argv);
int verb_selftest(struct cli *c, int argc, char **argv);
int verb_sessions(struct cli *c, int argc, char **argv);
int verb_shell(struct cli *c, int argc, char **argv);
int verb_stats(struct cli *c, int argc, char **argv);
int verb_unexpose(struct cli *c, int argc, char **argv);
int verb_up(struct cli *c, int argc, char **argv);
int verb_version(struct cli *c, int argc, char **argv);
int verb_watch(struct cli *c, int argc, char **argv);
int verb_write(struct cli *c, int argc, char **argv);

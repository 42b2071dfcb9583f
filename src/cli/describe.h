/*
 * describe.h - lists every verb with its options, for completions and the manual.
 *
 * A verb that runs with cli.on_table set passes on the table that it parses with and does nothing else. So completions
 * and manual always match the parser.
 */
#pragma once

#include "cli/args.h"

/* Calls back for each verb in order, with its options; --json and --help are not among them. */
void describe_each(void (*each)(void *arg, const struct verb *v, const struct arg *table), void *arg);

/* The manual page as scdoc(5), from the tables. */
void describe_manual(struct buf *to);

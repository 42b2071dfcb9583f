/*
 * program.h - a program as a sealed copy in memory. Boxes execute the agent from it: nothing that a box does to
 * /proc/self/exe reaches a file of the host, and the host's path is not seen inside.
 */
#pragma once

#include "proto/errc.h"

/* Copies the file at `path`, seals it, returns the descriptor. */
int program_load(const char *path, const char *name, struct err *e);

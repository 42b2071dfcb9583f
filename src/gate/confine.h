/*
 * confine.h - what is left to the gate once it runs: no new privileges, no core dumps, and a list of system calls.
 */
#pragma once

#include "proto/errc.h"

int confine(struct err *e);

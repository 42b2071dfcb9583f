/*
 * signals.h - signal names as the API has them.
 */
#pragma once

#include "base/base.h"

/* "SIGINT"; "SIGUNKNOWN" for numbers without a name. */
const char *signals_name(int signo);
/* The number of "SIGINT", or 0. */
int signals_number(const char *name);

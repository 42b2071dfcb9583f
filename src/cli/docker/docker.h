/*
 * docker.h - the `docker` command that wrangler calls: `atoll` under the name atoll-docker (docs/design/023-docker.md).
 *
 * atoll-docker is a link to `atoll`. `atoll docker install` makes another link, /usr/local/bin/docker, to that one.
 */
#pragma once

#include <stdbool.h>

/* Whether this process was started as atoll-docker: by that name, as `docker`, or through a link to atoll-docker of any
 * name. Never when argv[0] says atoll. */
bool docker_is_called(const char *called);

/* The program atoll-docker; its exit code. */
int docker_main(int argc, char **argv);

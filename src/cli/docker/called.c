#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "cli/docker/docker.h"

enum { LINKS_MAX = 40 }; /* as in the kernel's own walk */

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static bool is_docker(const char *path)
{
	const char *name = last_part(path);
	return strcmp(name, "atoll-docker") == 0 || strcmp(name, "docker") == 0;
}

/* Replaces a link by what it names; false: it is no link, or its path is too long. */
static bool follow(char path[PATH_MAX])
{
	char to[PATH_MAX], next[PATH_MAX];
	ssize_t n = readlink(path, to, sizeof to - 1);
	if (n <= 0)
		return false;
	to[n] = 0;
	int dir = to[0] == '/' ? 0 : (int)(last_part(path) - path);
	if (snprintf(next, sizeof next, "%.*s%s", dir, path, to) >= (int)sizeof next)
		return false;
	memcpy(path, next, sizeof next);
	return true;
}

/* The kernel tells which path was executed, also when a shell found it in PATH. */
bool docker_is_called(const char *called)
{
	char path[PATH_MAX];
	const char *executed = (const char *)getauxval(AT_EXECFN);
	if (strcmp(last_part(called), "atoll") == 0)
		return false;
	if (is_docker(called))
		return true;
	if (!executed || snprintf(path, sizeof path, "%s", executed) >= (int)sizeof path)
		return false;
	for (int i = 0; i < LINKS_MAX; i++) {
		if (is_docker(path))
			return true;
		if (!follow(path))
			return false;
	}
	return false;
}

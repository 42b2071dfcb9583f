/*
 * docker.c - `atoll docker install` and `remove`: a link named docker, so that wrangler finds Atoll without variables.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/verbs.h"

static const char link_path[] = "/usr/local/bin/docker";

/* Where atoll-docker is: beside this program. */
static int own_program(char ret[PATH_MAX], struct err *e)
{
	ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - 1);
	ret[n > 0 ? n : 0] = 0;
	char *slash = strrchr(ret, '/');
	if (!slash || slash - ret > PATH_MAX - 32)
		return err_set(e, ERRC_INTERNAL_ERROR, "the path of atoll is not known");
	snprintf(slash, 32, "/atoll-docker");
	return access(ret, X_OK) < 0 ? err_os(e, ERRC_INTERNAL_ERROR, errno, "use %.200s", ret) : 0;
}

/* Whether the file is a link to an atoll-docker. */
static bool is_ours(const char *path)
{
	char to[PATH_MAX];
	ssize_t n = readlink(path, to, sizeof to);
	return n > 0 && str_ends(str_n(to, (size_t)n), STR("/atoll-docker"));
}

/* A docker in PATH that is not ours. */
static bool find_real(char ret[PATH_MAX])
{
	const char *path = getenv("PATH");
	struct str rest = str_of(path ? path : "/usr/local/bin:/usr/bin:/bin");
	while (rest.n) {
		struct str dir = str_split(rest, ':', &rest);
		snprintf(ret, PATH_MAX, "%.*s/docker", (int)(dir.n < 4000 ? dir.n : 4000), dir.p);
		if (access(ret, F_OK) == 0 && !is_ours(ret))
			return true;
	}
	return false;
}

static int install(struct cli *c)
{
	char program[PATH_MAX], real[PATH_MAX];
	struct err e;
	if (own_program(program, &e) < 0)
		return cli_fail(c, &e);
	if (find_real(real)) {
		err_set(&e, ERRC_INVALID_STATE, "there is a docker already: %.200s; set WRANGLER_DOCKER_BIN instead",
			real);
		return cli_fail(c, &e);
	}
	if (is_ours(link_path))
		unlink(link_path);
	if (symlink(program, link_path) < 0) {
		err_os(&e, ERRC_INTERNAL_ERROR, errno, "make %s", link_path);
		return cli_fail(c, &e);
	}
	printf("%s is %s\n", link_path, program);
	return 0;
}

static int take_away(struct cli *c)
{
	struct err e;
	if (access(link_path, F_OK) == 0 && !is_ours(link_path)) {
		err_set(&e, ERRC_INVALID_STATE, "%s is not Atoll's", link_path);
		return cli_fail(c, &e);
	}
	if (is_ours(link_path) && unlink(link_path) < 0) {
		err_os(&e, ERRC_INTERNAL_ERROR, errno, "remove %s", link_path);
		return cli_fail(c, &e);
	}
	return 0;
}

int verb_docker(struct cli *c, int argc, char **argv)
{
	static const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n == 1 && strcmp(a.words[0], "install") == 0)
		return install(c);
	if (a.n == 1 && strcmp(a.words[0], "remove") == 0)
		return take_away(c);
	return cli_usage(c, "write 'atoll docker install' or 'atoll docker remove'");
}

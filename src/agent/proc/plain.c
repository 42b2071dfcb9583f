#include "agent/proc/plain.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "agent/fuse/mounts.h"

/* `compgen -b; compgen -k` of bash 5.2, sorted for bsearch. */
static const char *const shell_words[] = {"!", ".", ":", "[", "[[", "]]", "alias", "bg", "bind", "break", "builtin",
	"caller", "case", "cd", "command", "compgen", "complete", "compopt", "continue", "coproc", "declare", "dirs",
	"disown", "do", "done", "echo", "elif", "else", "enable", "esac", "eval", "exec", "exit", "export", "false",
	"fc", "fg", "fi", "for", "function", "getopts", "hash", "help", "history", "if", "in", "jobs", "kill", "let",
	"local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly", "return",
	"select", "set", "shift", "shopt", "source", "suspend", "test", "then", "time", "times", "trap", "true", "type",
	"typeset", "ulimit", "umask", "unalias", "unset", "until", "wait", "while", "{", "}"};

static int compare_word(const void *key, const void *elem)
{
	return strcmp(key, *(const char *const *)elem);
}

static bool is_shell_word(const char *w)
{
	return bsearch(w, shell_words, ARRAY_LEN(shell_words), sizeof *shell_words, compare_word) != NULL;
}

static bool is_plain_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("_-./:=@%+, \t", c));
}

static bool env_changes_bash(const struct env *env)
{
	return env_get(env, "BASH_ENV") || env_get(env, "SHELLOPTS") || env_get(env, "BASHOPTS") ||
	       env_get(env, "POSIXLY_CORRECT");
}

/* Splits p->mem in place. False: no word, or too many. */
static bool split(struct plain *p)
{
	int n = 0;
	for (char *s = p->mem; *s;) {
		if (*s == ' ' || *s == '\t') {
			*s++ = 0;
			continue;
		}
		if (n == PLAIN_WORDS_MAX)
			return false;
		p->argv[n++] = s;
		while (*s && *s != ' ' && *s != '\t')
			s++;
	}
	p->argv[n] = NULL;
	return n > 0;
}

static bool is_program(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

/* The search ends at the first directory behind a FUSE server, and sets *ret_waits. */
static char *find(const char *name, const char *path, bool *ret_waits)
{
	struct str rest = str_of(path);
	while (rest.n) {
		struct str dir = str_split(rest, ':', &rest);
		if (dir.n == 0 || dir.p[0] != '/')
			return NULL;
		char *full = xasprintf("%.*s/%s", STR_ARG(dir), name);
		bool waits = fuse_mounts_on(full);
		if (!waits && is_program(full))
			return full;
		free(full);
		if (waits) {
			*ret_waits = true;
			return NULL;
		}
	}
	return NULL;
}

char *plain_find(const char *name, const char *path)
{
	bool waits;
	return find(name, path, &waits);
}

char *plain_program(const char *name, const struct env *env)
{
	const char *path = env_get(env, "PATH");
	bool waits = false;
	if (strchr(name, '/'))
		return xstrdup(name);
	char *found = path ? find(name, path, &waits) : NULL;
	return waits ? xstrdup(name) : found;
}

bool plain_command(struct str command, const struct env *env, struct plain *ret)
{
	for (size_t i = 0; i < command.n; i++)
		if (!is_plain_byte(command.p[i]))
			return false;
	if (env_changes_bash(env))
		return false;
	struct plain p = {.mem = str_dup(command)};
	const char *path = env_get(env, "PATH");
	bool waits = false; /* then bash searches */
	if (!split(&p) || strchr(p.argv[0], '=') || p.argv[0][0] == '%')
		goto no;
	if (strchr(p.argv[0], '/'))
		p.path = xstrdup(p.argv[0]);
	else if (path && !is_shell_word(p.argv[0]))
		p.path = find(p.argv[0], path, &waits);
	if (!p.path)
		goto no;
	*ret = p;
	return true;
no:
	plain_free(&p);
	return false;
}

void plain_free(struct plain *p)
{
	free(p->mem);
	free(p->path);
	*p = (struct plain){0};
}

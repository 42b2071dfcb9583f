/*
 * secrets.c - `atoll build --secret id=NAME,src=FILE` or `env=VARIABLE`, as docker takes them.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/fd.h"
#include "cli/args.h"
#include "cli/image/image.h"

enum { SECRET_MAX = 512 * 1024 }; /* bytes of one; docker takes 500 kB */

struct given {
	char *id, *file, *variable;
	bool from_env, from_file;
};

static void given_free(struct given *g)
{
	free(g->id);
	free(g->file);
	free(g->variable);
}

static void set(char **to, struct str value)
{
	free(*to);
	*to = str_dup(value);
}

static int read_given(const char *text, struct given *g, struct err *e)
{
	struct str rest = str_of(text);
	while (rest.n) {
		struct str value, key = str_split(str_split(rest, ',', &rest), '=', &value);
		if (str_eq_c(key, "id"))
			set(&g->id, value);
		else if (str_eq_c(key, "src") || str_eq_c(key, "source"))
			set(&g->file, value);
		else if (str_eq_c(key, "env"))
			set(&g->variable, value);
		else if (str_eq_c(key, "type") && (str_eq_c(value, "file") || str_eq_c(value, "env")))
			*(value.p[0] == 'f' ? &g->from_file : &g->from_env) = true;
		else
			return err_set(e, ERRC_INVALID_REQUEST,
				"--secret does not know '%.*s'; write id=NAME,src=FILE or id=NAME,env=VARIABLE",
				(int)(key.n < 40 ? key.n : 40), key.p);
	}
	if (!g->id || !*g->id || strchr(g->id, '/'))
		return err_set(e, ERRC_INVALID_REQUEST, "--secret needs id=NAME, without '/'");
	return 0;
}

/* Without src and env, the variable of that name counts, then the file of that name: as with docker. */
static int read_bytes(const struct given *g, struct buf *ret, struct err *e)
{
	const char *variable = g->variable ? g->variable : g->from_env && g->file ? g->file : g->id;
	bool plain = !g->file && !g->variable && !g->from_file;
	const char *value = g->variable || g->from_env || plain ? getenv(variable) : NULL;
	if (value) {
		buf_add_c(ret, value);
		return 0;
	}
	if (g->variable || g->from_env)
		return err_set(e, ERRC_INVALID_REQUEST, "the variable '%.60s' for the secret '%.60s' is not set",
			variable, g->id);
	const char *path = g->file ? g->file : g->id;
	int r = fd_read_file(AT_FDCWD, path, SECRET_MAX, ret);
	if (r == -EFBIG)
		return err_set(
			e, ERRC_PAYLOAD_TOO_LARGE, "the secret '%.60s' is larger than %d bytes", g->id, SECRET_MAX);
	return r < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, -r, "the secret '%.60s': read '%.100s'", g->id, path) : 0;
}

int image_secrets(const struct arg_list *all, struct buf *ret, struct err *e)
{
	struct json_writer w = json_writer(ret);
	json_object_begin(&w);
	for (size_t i = 0; i < all->n; i++) {
		struct given g = {0};
		auto_buf struct buf bytes = {0}, text = {0};
		int r = read_given(all->items[i], &g, e) < 0 || read_bytes(&g, &bytes, e) < 0 ? -1 : 0;
		if (r == 0) {
			base64_append(&text, buf_str(&bytes));
			json_member_str(&w, g.id, buf_str(&text));
		}
		given_free(&g);
		if (r < 0)
			return -1;
	}
	json_object_end(&w);
	return 0;
}

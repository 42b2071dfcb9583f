/*
 * Git URLs: whatever is accepted has no secret in what git is given or in what answers show, is no option and no
 * remote helper, and its clean form is read back as itself. Secrets are found by their own marks: the parser's word on
 * what they are is not taken.
 */
#include "agent/git/git.h"
#include "fuzz.h"

static bool holds(const char *text, struct str part)
{
	return part.n && memmem(text, strlen(text), part.p, part.n);
}

/* What stands before the last '@' of the authority of an http URL. */
static struct str userinfo_of(struct str url)
{
	ssize_t colon = str_index(url, ':');
	if (colon < 0 || !str_starts(url, STR("http")) || !str_starts(str_skip(url, (size_t)colon), STR("://")))
		return STR_NULL;
	struct str rest, authority = str_split(str_skip(url, (size_t)colon + 3), '/', &rest);
	const char *at = authority.n ? memrchr(authority.p, '@', authority.n) : NULL;
	return at ? str_n(authority.p, (size_t)(at - authority.p)) : STR_NULL;
}

static void check(struct str text, const struct git_url *u)
{
	struct git_url again;
	struct err e;
	struct str secret = userinfo_of(text);
	MUST(u->clean[0] != '-' && u->name[0] != '-' && !strchr(u->name, '/'));
	const char *colon = strchr(u->clean, ':');
	MUST(colon && colon[1] != ':');
	/* As a whole with its '@': the same letters may stand elsewhere in the URL for other reasons. */
	if (secret.n && !str_eq_c(secret, "******")) {
		struct str with_at = str_n(secret.p, secret.n + 1);
		MUST(!str_starts(str_of(strstr(u->clean, "://") + 3), with_at));
		MUST(!str_starts(str_of(strstr(u->shown, "://") + 3), with_at));
		MUST(u->user && u->origin && !holds(u->origin, STR("@")));
	}
	MUST(git_url_parse(str_of(u->clean), &again, &e) == 0);
	MUST(strcmp(again.clean, u->clean) == 0 && strcmp(again.name, u->name) == 0);
	MUST(!again.password || !again.password[0] || str_starts(text, STR("http")));
	git_url_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct git_url u;
	struct err e;
	struct str text = str_n(data, size);
	if (git_url_parse(text, &u, &e) < 0)
		return 0;
	check(text, &u);
	auto_buf struct buf said = {0};
	buf_add_str(&said, text);
	git_redact(&u, &said);
	git_error_code(buf_str(&said));
	git_url_free(&u);
	return 0;
}

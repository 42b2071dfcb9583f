#include "daemon/admit/token.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "test.h"

static char dir[64], path[96];

static void remove_place(void)
{
	unlink(path);
	rmdir(dir);
}

static void make_place(void)
{
	snprintf(dir, sizeof dir, "/tmp/atoll-token-XXXXXX");
	CHECK(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/token", dir);
	atexit(remove_place);
}

static int load(const char *content, mode_t mode, struct token *t, struct err *e)
{
	*e = (struct err){0};
	CHECK_INT(fd_replace_file(AT_FDCWD, path, str_of(content), mode), 0);
	return token_load(path, t, e);
}

TEST(a_missing_token_is_made_once)
{
	make_place();
	struct token first, second;
	struct err e = {0};
	CHECK_INT(token_load(path, &first, &e), 0);
	CHECK_INT(first.n, 64);
	struct stat st;
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_mode & 07777, 0600);
	CHECK_INT(token_load(path, &second, &e), 0);
	CHECK_CSTR(second.text, first.text);
}

TEST(two_tokens_differ)
{
	make_place();
	struct token first, second;
	struct err e = {0};
	CHECK_INT(token_load(path, &first, &e), 0);
	unlink(path);
	CHECK_INT(token_load(path, &second, &e), 0);
	CHECK(strcmp(first.text, second.text) != 0);
}

TEST(a_token_that_others_may_read_is_refused)
{
	make_place();
	struct token t;
	struct err e;
	CHECK_INT(load("0123456789abcdef\n", 0600, &t, &e), 0);
	CHECK_INT(load("0123456789abcdef\n", 0640, &t, &e), -1);
	CHECK(strstr(e.msg, "mode 0600, it has 0640"));
	CHECK_INT(load("0123456789abcdef\n", 0604, &t, &e), -1);
}

TEST(a_token_that_is_no_secret_is_refused)
{
	make_place();
	struct token t;
	struct err e;
	CHECK_INT(load("", 0600, &t, &e), -1);
	CHECK_INT(load("0123456789abcde\n", 0600, &t, &e), -1);
	CHECK(strstr(e.msg, "has 15 characters"));
	CHECK_INT(load("0123456789abcdef 0123\n", 0600, &t, &e), -1);
	CHECK_INT(load("0123456789abcdef\n0123\n", 0600, &t, &e), -1);
	char longest[TOKEN_MAX + 2] = {0};
	memset(longest, 'a', TOKEN_MAX);
	CHECK_INT(load(longest, 0600, &t, &e), 0);
	memset(longest, 'a', TOKEN_MAX + 1);
	CHECK_INT(load(longest, 0600, &t, &e), -1);
}

TEST(a_link_is_not_followed)
{
	make_place();
	struct token t;
	struct err e = {0};
	CHECK_INT(symlink("/etc/hostname", path), 0);
	CHECK_INT(token_load(path, &t, &e), -1);
}

TEST(a_directory_that_cannot_be_written_says_who_makes_the_token)
{
	struct token t;
	struct err e = {0};
	CHECK_INT(token_load("/proc/token", &t, &e), -1);
	CHECK(strstr(e.msg, "'atoll up' makes it"));
}

TEST_MAIN()

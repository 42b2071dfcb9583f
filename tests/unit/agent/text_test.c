/* What the agent makes of command texts: which need no shell, how words are quoted, what an environment becomes. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/env.h"
#include "agent/limits.h"
#include "agent/proc/plain.h"
#include "agent/proc/spool.h"
#include "agent/shell/shell_text.h"
#include "base/fd.h"
#include "test.h"

static struct env *path_env(void)
{
	static struct env env;
	env_put(&env, STR("PATH"), STR("/usr/local/bin:/usr/bin:/bin"));
	return &env;
}

static bool is_plain(const char *command)
{
	struct plain p;
	bool plain = plain_command(str_of(command), path_env(), &p);
	if (plain)
		plain_free(&p);
	return plain;
}

TEST(plain_commands_are_split_at_blanks_and_found)
{
	struct plain p;
	CHECK(plain_command(STR("  env -i\tA=b  ./x,y:z@%+ "), path_env(), &p));
	CHECK_CSTR(p.path, "/usr/bin/env");
	const char *const want[] = {"env", "-i", "A=b", "./x,y:z@%+"};
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		CHECK_CSTR(p.argv[i], want[i]);
	CHECK(p.argv[4] == NULL);
	plain_free(&p);
	CHECK(plain_command(STR("./nowhere"), path_env(), &p));
	CHECK_CSTR(p.path, "./nowhere");
	plain_free(&p);
}

TEST(every_byte_that_means_something_to_bash_needs_bash)
{
	static const char special[] = "\n\r\v\f!\"#$&'()*;<>?[\\]^`{|}~\x7f\x80\xff";
	for (size_t i = 0; i < sizeof special - 1; i++) {
		char command[] = "/bin/true x y";
		command[11] = special[i];
		CHECK(!is_plain(command));
	}
}

TEST(builtins_keywords_assignments_and_the_unknown_need_bash)
{
	static const char *const words[] = {"", "  ", "cd /", "echo x", "true", "exit", "time ls", "A=1 env", "A=1",
		"%1", ".", ": x", "export A", "no-such-program-at-all", "until", "coproc"};
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		CHECK(!is_plain(words[i]));
	CHECK(is_plain("/bin/echo x"));
}

TEST(a_path_with_a_relative_directory_is_left_to_bash)
{
	struct env env = {0};
	struct plain p;
	env_put(&env, STR("PATH"), STR(".:/usr/bin"));
	CHECK(!plain_command(STR("env"), &env, &p));
	env_put(&env, STR("PATH"), STR(":/usr/bin"));
	CHECK(!plain_command(STR("env"), &env, &p));
	env_free(&env);
}

TEST(an_environment_that_changes_bash_is_left_to_bash)
{
	static const char *const names[] = {"BASH_ENV", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct env env = {0};
		struct plain p;
		env_put(&env, STR("PATH"), STR("/usr/bin"));
		env_put(&env, str_of(names[i]), STR("x"));
		CHECK(!plain_command(STR("/bin/true"), &env, &p));
		env_free(&env);
	}
}

TEST(words_past_the_limit_need_bash)
{
	struct buf b = {0};
	buf_add_c(&b, "/bin/true");
	for (int i = 1; i < PLAIN_WORDS_MAX; i++)
		buf_add_c(&b, " a");
	CHECK(is_plain(buf_cstr(&b)));
	buf_add_c(&b, " a");
	CHECK(!is_plain(buf_cstr(&b)));
	buf_free(&b);
}

static void check_quoted(const char *text, const char *want)
{
	struct buf b = {0};
	shell_quote(&b, str_of(text));
	CHECK_CSTR(buf_cstr(&b), want);
	buf_free(&b);
}

TEST(a_quoted_word_is_what_it_was)
{
	check_quoted("", "''");
	check_quoted("plain", "'plain'");
	check_quoted("it's", "'it'\\''s'");
	check_quoted("''", "''\\'''\\'''");
}

/* Every byte but NUL, through a real bash. */
TEST(bash_reads_back_any_bytes)
{
	char all[255], got[256];
	for (int i = 0; i < 255; i++)
		all[i] = (char)(i + 1);
	struct buf script = {0};
	buf_add_c(&script, "printf %s ");
	shell_quote(&script, str_n(all, sizeof all));
	int p[2];
	CHECK(pipe(p) == 0);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		dup2(p[1], 1);
		setenv("LC_ALL", "C", 1);
		execlp("bash", "bash", "-c", buf_cstr(&script), (char *)NULL);
		_exit(127);
	}
	close(p[1]);
	CHECK_INT(fd_read_full(p[0], got, sizeof got), sizeof all);
	CHECK_MEM(got, sizeof all, all, sizeof all);
	waitpid(pid, NULL, 0);
	buf_free(&script);
}

TEST(lines_for_the_shell_stay_below_what_it_reads_at_once)
{
	struct env env = {0};
	char cwd[AGENT_PATH_MAX];
	memset(cwd, 'd', sizeof cwd - 1);
	cwd[0] = '/';
	cwd[sizeof cwd - 1] = 0;
	for (int i = 0; i < 50; i++) {
		char name[16];
		snprintf(name, sizeof name, "NAME%d", i);
		env_put(&env, str_of(name), STR("a rather long value that must not be in a line"));
	}
	struct shell_text t = {.command = STR("true"),
		.env = &env,
		.cwd = cwd,
		.in = "/tmp/.atoll-0123456789abcdef01234567",
		.out = "/tmp/.atoll-0123456789abcdef01234567",
		.err = "/tmp/.atoll-0123456789abcdef01234567",
		.go = "/tmp/.atoll-0123456789abcdef01234567",
		.seq = UINT64_MAX,
		.last_status = 255,
		.stoppable = true};
	void (*const make[])(const struct shell_text *, struct buf *, struct buf *) = {
		shell_text_group, shell_text_eval, shell_text_background};
	for (size_t i = 0; i < ARRAY_LEN(make); i++) {
		struct buf script = {0}, feed = {0};
		make[i](&t, &script, &feed);
		struct str rest = buf_str(&feed);
		while (rest.n)
			CHECK(str_split(rest, '\n', &rest).n < SHELL_LINE_MAX);
		buf_free(&script);
		buf_free(&feed);
	}
	env_free(&env);
}

TEST(changes_are_applied_in_order_and_null_unsets)
{
	struct env base = {0}, change = {0};
	struct err e;
	env_put(&base, STR("A"), STR("1"));
	env_put(&base, STR("B"), STR("2"));
	struct json_doc *d = json_parse(STR("{\"env\":{\"A\":\"x=y\",\"B\":null,\"_c9\":\"\"}}"), &e);
	CHECK(d && env_read(json_root(d), "env", &change, &e) == 0);
	json_free(d);
	env_apply(&base, &change);
	CHECK_CSTR(env_get(&base, "A"), "x=y");
	CHECK(env_get(&base, "B") == NULL);
	CHECK_CSTR(env_get(&base, "_c9"), "");
	CHECK_INT(base.n, 2);
	CHECK(env_vector(&base)[2] == NULL);
	env_free(&base);
	env_free(&change);
}

TEST(names_that_are_no_names_are_refused)
{
	static const char *const bad[] = {"", "1A", "A-B", "A B", "A=B", "\xc3\xa9", "A\n"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!env_name_ok(str_of(bad[i])));
	CHECK(env_name_ok(STR("_")) && env_name_ok(STR("a1_B")));
}

TEST(a_spool_keeps_everything_at_the_limit_and_past_it)
{
	struct spool s = SPOOL_INIT;
	struct err e;
	char block[1000], back[1000];
	for (uint64_t at = 0; at + sizeof block <= SPOOL_MEM; at += sizeof block) {
		memset(block, (int)(at / sizeof block % 251), sizeof block);
		CHECK(spool_add(&s, str_n(block, sizeof block), &e) == 0);
	}
	size_t rest = SPOOL_MEM - (size_t)s.size;
	CHECK(spool_add(&s, str_n(block, rest), &e) == 0);
	CHECK_INT(s.size, SPOOL_MEM);
	CHECK(s.fd < 0);
	CHECK(spool_add(&s, STR("!"), &e) == 0);
	CHECK(s.fd >= 0 && s.mem.cap == 0);
	CHECK_INT(s.size, SPOOL_MEM + 1);
	CHECK_INT(spool_read(&s, 2000, back, sizeof back), sizeof back);
	memset(block, 2, sizeof block);
	CHECK_MEM(back, sizeof back, block, sizeof block);
	CHECK_INT(spool_read(&s, SPOOL_MEM, back, sizeof back), 1);
	CHECK_INT(back[0], '!');
	CHECK_INT(spool_read(&s, SPOOL_MEM + 1, back, sizeof back), 0);
	spool_free(&s);
}

TEST_MAIN()

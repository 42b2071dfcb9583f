#include "images/dockerfile.h"

#include "test.h"

static const char *why(const char *text)
{
	static struct err e;
	struct dockerfile d;
	if (dockerfile_parse(str_of(text), &d, &e) == 0) {
		dockerfile_free(&d);
		return "fine";
	}
	return e.msg;
}

TEST(errors_name_line_and_column)
{
	CHECK(strstr(why("FROM a\n  RNU x\n"), "Dockerfile:2:3: unknown instruction 'RNU'; did you mean RUN?"));
	CHECK(strstr(why("FROM a\nRUN\n"), "Dockerfile:2:1: RUN needs an argument"));
	CHECK(strstr(why("RUN x\n"), "Dockerfile:1:1: RUN before the first FROM"));
	CHECK(strstr(why("# only\n"), "there is no FROM"));
	CHECK(strstr(why("FROM a\nRUN <<EOF\nx\n"), "Dockerfile:2:1: the here-document 'EOF' has no end"));
	CHECK_CSTR(why("FROM a\nONBUILD RUN x\n"), "fine");
	CHECK(strstr(why("FROM a\nONBUILD RNU x\n"), "Dockerfile:2:1: ONBUILD: unknown instruction 'RNU'"));
	CHECK(strstr(why("FROM a\nONBUILD ONBUILD ONBUILD RUN x\n"), "Dockerfile:2:1: ONBUILD takes one instruction"));
	CHECK(strstr(why("FROM a\nONBUILD FROM b\n"), "Dockerfile:2:1: ONBUILD takes one instruction"));
	CHECK(strstr(why("FROM a\nRUN \xff\n"), "UTF-8"));
}

TEST(lines_are_joined_and_comments_left_out)
{
	struct dockerfile d;
	struct err e;
	struct str text = STR("# syntax=docker/dockerfile:1\nARG V=1\nFROM a:$V AS one\nRUN a && \\\n  # no\n\n  "
			      "b\nCMD [\"x\", \"y z\"]\n");
	CHECK_INT(dockerfile_parse(text, &d, &e), 0);
	CHECK_INT(d.n, 4);
	CHECK(strcmp(d.v[2].text, "a &&   b") == 0);
	CHECK_INT(d.v[2].line, 4);
	CHECK(d.v[3].is_json && d.v[3].json.n == 2 && strcmp(d.v[3].json.v[1], "y z") == 0);
	dockerfile_free(&d);
}

TEST(here_documents_and_flags)
{
	struct dockerfile d;
	struct err e;
	struct str text = STR("FROM a\nCOPY --chown=1:2 <<-'E F' <<END /x\n\tone\nEND\nRUN cat <<'A' > /b\n$x\nA\n");
	CHECK_INT(dockerfile_parse(text, &d, &e), 0);
	CHECK(strcmp(dockerfile_flag(&d.v[1], "chown"), "1:2") == 0);
	CHECK(dockerfile_flag(&d.v[1], "from") == NULL);
	CHECK_INT(d.v[2].docs_n, 1);
	CHECK(!d.v[2].docs[0].expand && strcmp(d.v[2].docs[0].content, "$x\n") == 0);
	dockerfile_free(&d);
}

static const char *lookup(void *arg, struct str name)
{
	(void)arg;
	static char longer[DOCKERFILE_PATTERN_MAX + 2];
	memset(longer, 'x', sizeof longer - 1);
	return str_eq_c(name, "A")	 ? "1"
	       : str_eq_c(name, "EMPTY") ? ""
	       : str_eq_c(name, "PATH")	 ? "/usr/lib/a.so"
	       : str_eq_c(name, "WIDE")	 ? "b  c"
	       : str_eq_c(name, "LONG")	 ? longer
					 : NULL;
}

static const char *expand(const char *text)
{
	static struct buf out;
	struct err e;
	buf_clear(&out);
	return dockerfile_expand(str_of(text), '\\', lookup, NULL, &out, &e) < 0 ? "refused" : buf_cstr(&out);
}

TEST(variables)
{
	CHECK(strcmp(expand("$A ${A}b $B|${B:-x$A}|${EMPTY:-y}|${EMPTY-z}|${A:+w}|${B:+w}"), "1 1b |x1|y||w|") == 0);
	/* Quotes mean nothing in a plain text, which a here-document is. */
	CHECK(strcmp(expand("\\$A '$A' it's $A \\n"), "$A '1' it's 1 \\n") == 0);
	CHECK(strcmp(expand("${A"), "refused") == 0);
	CHECK(strcmp(expand("${}"), "refused") == 0);
	CHECK(strcmp(expand("${A?x}${A:?x}"), "11") == 0);
	CHECK(strcmp(expand("${A!x}"), "refused") == 0);
}

static const char *last_error(const char *text)
{
	static struct err e;
	auto_buf struct buf out = {0};
	return dockerfile_word(str_of(text), '\\', lookup, NULL, &out, &e) < 0 ? e.msg : "fine";
}

TEST(a_variable_that_is_needed)
{
	CHECK_CSTR(last_error("${B:?say $A}"), "the variable 'B' is needed: say 1");
	CHECK_CSTR(last_error("${EMPTY:?}"), "the variable 'EMPTY' is needed: it has no value");
	CHECK_CSTR(last_error("${EMPTY?}"), "fine");
}

TEST(patterns)
{
	CHECK_CSTR(expand("${PATH#*/} ${PATH##*/} ${PATH%/*} ${PATH%%/*} ${PATH%x}"),
		"usr/lib/a.so a.so /usr/lib  /usr/lib/a.so");
	CHECK_CSTR(expand("${PATH/\\//:} ${PATH//l?b/$A} ${PATH/none/x} ${B#x}"),
		":usr/lib/a.so /usr/1/a.so /usr/lib/a.so ");
	CHECK_CSTR(expand("${PATH//*/x}|${PATH#}|${PATH/}|${LONG#x}"), "refused");
	CHECK_CSTR(expand("${PATH//*/x}|${PATH#}|${PATH/}"), "x|/usr/lib/a.so|/usr/lib/a.so");
}

TEST(words)
{
	struct words w = {0};
	struct err e;
	CHECK_INT(dockerfile_words(STR("a \"b c\" d\\ e 'f\"g'"), '\\', NULL, NULL, &w, &e), 0);
	CHECK_INT(w.n, 4);
	CHECK(strcmp(w.v[1], "b c") == 0 && strcmp(w.v[2], "d e") == 0 && strcmp(w.v[3], "f\"g") == 0);
	words_free(&w);
	CHECK_INT(dockerfile_words(STR("a 'b"), '\\', NULL, NULL, &w, &e), -1);
	words_free(&w);
	/* A value does not fall apart, and a quote in another quote is a plain byte. */
	CHECK_INT(dockerfile_words(STR("x=$WIDE \"it's $A\" '$A' ${B:-\"p  q\"}\tz"), '\\', lookup, NULL, &w, &e), 0);
	CHECK_INT(w.n, 5);
	CHECK_CSTR(w.v[0], "x=b  c");
	CHECK_CSTR(w.v[1], "it's 1");
	CHECK_CSTR(w.v[2], "$A");
	CHECK_CSTR(w.v[3], "p  q");
	words_free(&w);
}

TEST(instructions_have_a_limit)
{
	auto_buf struct buf text = {0};
	buf_add_c(&text, "FROM a\n");
	for (int i = 1; i < DOCKERFILE_STEPS_MAX; i++)
		buf_add_c(&text, "USER a\n");
	CHECK(strcmp(why(buf_cstr(&text)), "fine") == 0);
	buf_add_c(&text, "USER a\n");
	CHECK(strstr(why(buf_cstr(&text)), "more than 1000 instructions"));
}

TEST_MAIN()

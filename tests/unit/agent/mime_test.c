#include "agent/file/mime.h"
#include "agent/watch/glob.h"
#include "test.h"

TEST(extensions_come_before_content)
{
	CHECK_CSTR(mime_of_file(STR("/a/b.PNG"), STR("text"), true), "image/png");
	CHECK_CSTR(mime_of_file(STR("/a.d/README"), STR("plain\n"), true), "text/plain");
	CHECK_CSTR(mime_of_file(STR("x.json"), STR("\0\1"), true), "application/json");
	CHECK_CSTR(mime_of_file(STR("x.unknown"), STR("\x89PNG\r\n\x1a\n.."), true), "image/png");
	CHECK_CSTR(mime_of_file(STR("run"), STR("#!/bin/sh\n"), true), "text/x-shellscript");
	CHECK_CSTR(mime_of_file(STR("e"), STR(""), true), "inode/x-empty");
}

TEST(a_character_cut_by_the_sniff_is_still_text)
{
	CHECK_CSTR(mime_of_file(STR("x"), STR("a\xc3"), false), "text/plain");
	CHECK_CSTR(mime_of_file(STR("x"), STR("a\xc3"), true), "application/octet-stream");
	CHECK_CSTR(mime_of_file(STR("x"), STR("a\0b"), true), "application/octet-stream");
}

TEST(what_is_seen_of_a_text_decides)
{
	CHECK_CSTR(mime_of_content(STR("{\"a\": [1, 2"), false), "application/json");
	CHECK_CSTR(mime_of_content(STR("{\"a\": [1, 2"), true), "text/plain");
	CHECK_CSTR(mime_of_content(STR("{\"a\":1}\n{\"b\":"), false), "application/x-ndjson");
	CHECK_CSTR(mime_of_content(STR("{\"a\":1}\n{\"b\":"), true), "text/plain");
	CHECK_CSTR(mime_of_content(STR("RIFF"), true), "text/plain");
	CHECK_CSTR(mime_of_content(STR("WEBPVP8"), true), "text/plain");
	CHECK_CSTR(mime_of_content(STR("#!"), true), "text/plain");
	CHECK_CSTR(mime_of_content(STR("#!/usr/bin/env"), true), "text/plain");
	CHECK_CSTR(mime_of_content(STR(" \n<HTML>"), true), "text/html");
}

TEST(text_types)
{
	CHECK(mime_is_text("text/x-anything") && mime_is_text("application/json") && mime_is_text("image/svg+xml"));
	CHECK(mime_is_text("inode/x-empty") && !mime_is_text("application/pdf") && !mime_is_text("image/png"));
}

TEST(globs)
{
	static const struct {
		const char *pattern, *path;
		bool want;
	} cases[] = {
		{"*.ts", "a.ts", true},
		{"*.ts", "src/deep/a.ts", true},
		{"*.ts", "a.tsx", false},
		{"node_modules", "a/node_modules/x/y", true},
		{"node_modules", "a/node_modules2/x", false},
		{"src/*.ts", "src/a.ts", true},
		{"src/*.ts", "src/b/a.ts", false},
		{"src/**/*.ts", "src/a.ts", true},
		{"src/**/*.ts", "src/b/c/a.ts", true},
		{"src/**", "src/b/c", true},
		{"**/x", "a/b/x", true},
		{"**/x", "x", true},
		{"**/x", "ax", false},
		{"a?c/d", "abc/d", true},
		{"a?c/d", "a/c/d", false},
		{"*a*b*c", "xxaxxbxxc", true},
		{"*a*b*c", "xxaxxcxxb", false},
		{"[a]", "a", false},
		{"", "a", false},
		{"*/b", "a/b", true},
		{"**/a/**/b", "x/a/y/a/z/b", true},
		{"src/gen", "src/gen/deep/x", true},
		{"src/gen", "lib/src/gen", true},
		{"src/gen", "src/generated", false},
		{"src/gen", "mysrc/gen", false},
		{"src/*.ts", "lib/src/a.ts", true},
		{"a/", "a", false},
		{"a/", "a/b", false},
		{"/work/src", "/work/src/x", true},
		{"/src", "/work/src/x", false},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (glob_match(str_of(cases[i].pattern), str_of(cases[i].path)) != cases[i].want)
			test_fail(__FILE__, __LINE__, "'%s' on '%s'", cases[i].pattern, cases[i].path);
}

TEST(a_hostile_pattern_ends)
{
	char pattern[200] = {0}, path[4000] = {0};
	for (size_t i = 0; i + 2 < sizeof pattern; i += 2)
		memcpy(pattern + i, "*a", 2);
	memset(path, 'a', sizeof path - 1);
	path[sizeof path - 2] = 'b';
	CHECK(!glob_match(str_of(pattern), str_of(path)));
}

TEST_MAIN()

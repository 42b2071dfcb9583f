#include <stdio.h>
#include <string.h>

#include "cli/code/code.h"
#include "cli/code/edit.h"

/* ---- is it whole? ---- */

struct scan {
	enum code_language l;
	struct str s;
	size_t i;
	int depth;	    /* open brackets */
	char quote;	    /* the quote that began the current string, else 0 */
	bool triple, block; /* block: a line ended in ':', so indented lines follow, and an empty one ends it */
	bool comment;	    /* inside a comment that may span lines */
	bool blank_line, continued;
	char last; /* the last character of this line that counts */
};

static bool here(const struct scan *c, const char *text)
{
	return str_starts(str_skip(c->s, c->i), str_of(text));
}

static void in_string(struct scan *c)
{
	char ch = c->s.p[c->i];
	const char three[] = {c->quote, c->quote, c->quote, 0};
	if (ch == '\\') {
		c->i++;
	} else if (ch == c->quote && c->triple && here(c, three)) {
		c->i += 2;
		c->quote = 0;
	} else if (ch == c->quote && !c->triple) {
		c->quote = 0;
	} else if (ch == '\n' && !c->triple && c->quote != '`') {
		c->quote = 0; /* an error: the interpreter reports it */
	}
}

static void end_line(struct scan *c)
{
	if (c->l == CODE_PYTHON && c->depth == 0 && (c->last == ':' || c->blank_line))
		c->block = c->last == ':';
	c->continued = c->last == '\\';
	c->blank_line = true;
	c->last = 0;
}

static void in_code(struct scan *c)
{
	char ch = c->s.p[c->i];
	bool python = c->l == CODE_PYTHON;
	if (ch == '\n')
		return end_line(c);
	if ((python && ch == '#') || (!python && here(c, "//"))) {
		while (c->i + 1 < c->s.n && c->s.p[c->i + 1] != '\n')
			c->i++;
		return;
	}
	if (!python && here(c, "/*")) {
		c->comment = true;
		return;
	}
	if (ch == '\'' || ch == '"' || (!python && ch == '`')) {
		const char three[] = {ch, ch, ch, 0};
		c->quote = ch;
		c->triple = python && here(c, three);
		c->i += c->triple ? 2 : 0;
	} else if (strchr("([{", ch)) {
		c->depth++;
	} else if (strchr(")]}", ch)) {
		c->depth -= c->depth > 0;
	}
	if (ch != ' ' && ch != '\t') {
		c->last = ch;
		c->blank_line = false;
	}
}

bool code_is_whole(enum code_language l, struct str text)
{
	struct scan c = {.l = l, .s = text, .blank_line = true};
	for (; c.i < text.n; c.i++) {
		if (c.comment && here(&c, "*/")) {
			c.comment = false;
			c.i++;
		} else if (c.comment) {
			continue;
		} else if (c.quote) {
			in_string(&c);
		} else {
			in_code(&c);
		}
	}
	if (c.quote || c.comment || c.depth || c.last == '\\' || c.continued)
		return false;
	if (l != CODE_PYTHON)
		return true;
	/* An empty line ends a block; a decorator alone is never whole. */
	bool empty_line = c.blank_line && text.n && text.p[text.n - 1] == '\n';
	bool decorator = text.n && text.p[0] == '@' && str_index(text, '\n') < 0;
	return !decorator && c.last != ':' && (!c.block || empty_line);
}

/* ---- line after line ---- */

/* Reads a whole piece of code into *ret. */
static enum edit_end read_piece(struct code *c, struct edit *ed, struct buf *ret, struct err *e)
{
	buf_clear(ret);
	for (;;) {
		enum edit_end end = edit_read(ed,
			buf_size(ret)		     ? "... "
			: c->language == CODE_PYTHON ? ">>> "
						     : "> ",
			e);
		if (end != EDIT_LINE)
			return end;
		edit_remember(ed, buf_cstr(&ed->line));
		bool empty = buf_size(&ed->line) == 0;
		if (buf_size(ret))
			buf_add_byte(ret, '\n');
		buf_add_str(ret, buf_str(&ed->line));
		/* Two empty lines end the input, also if it is not whole: the interpreter reports the error. */
		if (code_is_whole(c->language, buf_str(ret)) || (empty && str_ends(buf_str(ret), STR("\n\n"))))
			return EDIT_LINE;
	}
}

/* 0: go on; otherwise the exit code + 1. */
static int run_piece(struct code *c, struct str text, struct err *e)
{
	c->cl.interrupted = 0;
	switch (code_run(c, text, e)) {
	case CODE_DONE:
	case CODE_RAISED:
		return 0;
	case CODE_EXITED:
		return c->exit_code + 1;
	case CODE_INTERRUPTED:
		if (c->cl.interrupted != SIGINT)
			return 128 + c->cl.interrupted + 1;
		fprintf(stderr, "interrupted\n");
		return 0;
	case CODE_LOST:
		fprintf(stderr, "atoll code: the interpreter has ended; its variables are lost\n");
		return c->cl.cli->verb->exit_failed + 1;
	case CODE_FAILED:
		break;
	}
	return cli_fail(c->cl.cli, e) + 1;
}

static bool asks_to_leave(enum code_language l, struct str text)
{
	bool word = str_eq_c(text, "exit") || str_eq_c(text, "quit");
	return str_eq_c(text, "exit()") || str_eq_c(text, "quit()") ||
	       (l == CODE_PYTHON ? word : str_eq_c(text, ".exit"));
}

int code_repl(struct code *c)
{
	static const char *const names[] = {"Python", "JavaScript", "TypeScript"};
	struct edit ed = {.cl = &c->cl};
	auto_buf struct buf piece = {0};
	struct err e;
	int code = 0;
	printf("%s in box %s; Ctrl-C interrupts, exit() or Ctrl-D ends\n", names[c->language], c->id);
	fflush(stdout);
	while (!code) {
		enum edit_end end = read_piece(c, &ed, &piece, &e);
		if (end == EDIT_EOF || (end == EDIT_LINE && asks_to_leave(c->language, str_trim(buf_str(&piece)))))
			break;
		if (end == EDIT_SIGNAL)
			code = 128 + c->cl.interrupted + 1;
		else if (end == EDIT_ERROR)
			code = cli_fail(c->cl.cli, &e) + 1;
		else if (end == EDIT_LINE && str_trim(buf_str(&piece)).n)
			code = run_piece(c, buf_str(&piece), &e);
	}
	edit_free(&ed);
	return code ? code - 1 : 0;
}

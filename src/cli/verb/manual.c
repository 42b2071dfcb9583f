/*
 * manual.c - the manual page, as scdoc(5): `atoll help --scdoc`. Verbs and options are those of the tables.
 */
#include <string.h>

#include "cli/describe.h"

/* Appends text with a backslash before scdoc's markup characters. */
static void put_text(struct buf *to, const char *text, size_t n)
{
	bool start = true;
	for (size_t i = 0; i < n; i++) {
		if (strchr("\\*_~`<>", text[i]) || (start && strchr("#-.|[]:;+", text[i])))
			buf_add_byte(to, '\\');
		buf_add_byte(to, text[i]);
		start = text[i] == '\n';
	}
}

static void put_all(struct buf *to, const char *text)
{
	put_text(to, text, strlen(text));
}

static void put_option(struct buf *to, const struct arg *o)
{
	if (o->letter)
		buf_printf(to, "*-%c*, ", (int)o->letter);
	buf_printf(to, "*--%s*", o->name);
	if (o->value) {
		buf_add_c(to, " _");
		put_all(to, o->value);
		buf_add_byte(to, '_');
	}
	buf_add_c(to, "\n\t");
	put_all(to, o->help);
	buf_add_c(to, ".\n\n");
}

static void put_verb(void *arg, const struct verb *v, const struct arg *table)
{
	struct buf *to = arg;
	if (v->section)
		buf_printf(to, "# %s\n\n", v->section);
	/* A heading has neither markup nor escapes. */
	buf_printf(to, "## atoll %s %s\n\n", v->name, v->usage);
	put_all(to, v->summary);
	buf_add_c(to, ".\n\n");
	if (*v->help) {
		put_all(to, v->help);
		buf_add_c(to, "\n\n");
	}
	for (const struct arg *o = table; o->kind != ARG_END; o++)
		put_option(to, o);
	if (v->examples)
		buf_printf(to, "```\n%s\n```\n\n", v->examples);
}

void describe_manual(struct buf *to)
{
	buf_add_c(to, "atoll"
		      "(1)\n\n"
		      "# NAME\n\n"
		      "atoll - isolated Linux boxes on your own machine\n\n"
		      "# SYNOPSIS\n\n"
		      "*atoll* _VERB_ [options]\n\n"
		      "*atoll help* [_VERB_]\n\n"
		      "# DESCRIPTION\n\n"
		      "*atoll* makes and uses named, isolated Linux boxes. *atoll up* runs the daemon that keeps them; "
		      "every other verb talks to the daemon over HTTP, on the same machine through a unix socket. The "
		      "first command that names a box makes it; the box stays until it is removed.\n\n"
		      "Every verb takes *--json*, for output that programs read, and *--help*. Results go to stdout, "
		      "everything else goes to stderr. Names that come from a box are shown with control characters as "
		      "escapes; the output of programs is passed on unchanged. Colours are used only on a "
		      "terminal.\n\n");
	describe_each(put_verb, to);
	buf_add_c(to,
		"# EXIT STATUS\n\n"
		"*0*\n\tdone\n\n"
		"*1*\n\tfailed; stderr says why and what to do\n\n"
		"*2*\n\tcalled wrongly\n\n"
		"*128+n*\n\tended by signal n, as 130 by Ctrl-C\n\n"
		"*exec*, *run* and *shell* pass on the exit code of their command. Their own codes are *124* when a "
		"time limit ended the command, *125* when Atoll itself failed or was called wrongly, *126* when the "
		"program could not be run and *127* when it was not found.\n\n"
		"# ENVIRONMENT\n\n"
		"*ATOLL\\_URL*\n\tthe daemon: https://host, http://host:port or unix:/path; for https "
		"SSL\\_CERT\\_FILE may name the certificates of the authority\n\n"
		"*ATOLL\\_TOKEN*\n\tits token, over TCP; without it the file token in the data directory is read\n\n"
		"*ATOLL\\_RUN*, *ATOLL\\_DATA*, *ATOLL\\_IMAGES*\n\tdirectories: /run/atoll, /var/lib/atoll, "
		"/var/lib/atoll/images\n\n"
		"*ATOLL\\_LISTEN*, *ATOLL\\_USER*\n\tof *atoll up*: its address (127.0.0.1:8700) and the daemon's user "
		"(atoll)\n\n"
		"*NO\\_COLOR*\n\twhen set, no colours\n\n"
		"# FILES\n\n"
		"_/run/atoll/atoll.sock_\n\tthe daemon's socket\n\n"
		"_/var/lib/atoll/token_\n\tthe daemon's token\n");
}

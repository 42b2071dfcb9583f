/*
 * main.c - the `atoll` program: finds the verb and runs it. Under the name atoll-docker it is the docker command.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/beside.h"
#include "cli/describe.h"
#include "cli/docker/docker.h"

/* What speaks TLS (cli/tls), which client_tls.c starts. */
extern const char tls_program[], tls_program_end[];

static void print_verbs(FILE *to)
{
	fprintf(to, "Usage: atoll VERB [options]\n\n"
		    "Isolated Linux boxes on your own machine.\n\n");
	for (size_t i = 0; i < cli_verbs_count; i++) {
		if (cli_verbs[i].section)
			fprintf(to, "%s%s%s%s\n", i ? "\n" : "", cli_style(fileno(to), STYLE_BOLD),
				cli_verbs[i].section, cli_style(fileno(to), STYLE_PLAIN));
		fprintf(to, "  %-10s %s\n", cli_verbs[i].name, cli_verbs[i].summary);
	}
	fprintf(to,
		"\n'atoll help VERB' explains one verb. Every verb takes --json.\n"
		"ATOLL_URL (https://host, http://host:port or unix:/path) and ATOLL_TOKEN choose the daemon;\n"
		"the default is the socket %s/atoll.sock, else http://127.0.0.1:8700.\n",
		cli_run_dir());
}

static const char *verb_name(void *arg, size_t i)
{
	(void)arg;
	return i < cli_verbs_count ? cli_verbs[i].name : i == cli_verbs_count ? "help" : NULL;
}

/* Words of other programs for what a verb does. */
static const char *const synonyms[][2] = {{"attach", "shell"}, {"bash", "shell"}, {"clone", "git"}, {"copy", "cp"},
	{"delete", "rm"}, {"del", "rm"}, {"describe", "inspect"}, {"destroy", "rm"}, {"download", "cp"},
	{"freeze", "sleep"}, {"get", "cp"}, {"info", "inspect"}, {"new", "create"}, {"node", "code"}, {"put", "cp"},
	{"pause", "sleep"}, {"python", "code"}, {"remove", "rm"}, {"resume", "wake"}, {"serve", "up"},
	{"set", "update"}, {"sh", "shell"}, {"show", "inspect"}, {"spawn", "exec"}, {"ssh", "shell"}, {"start", "wake"},
	{"status", "list"}, {"terminal", "shell"}, {"top", "stats"}, {"upload", "cp"}};

static const char *synonym(const char *word)
{
	for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
		if (strcmp(word, synonyms[i][0]) == 0)
			return synonyms[i][1];
	return NULL;
}

static int unknown_verb(const char *self, const char *word)
{
	const char *same = synonym(word), *near = same ? same : cli_nearest(word, verb_name, NULL);
	if (near)
		fprintf(stderr, "atoll: there is no verb '%s'; did you mean '%s'?\n", word, near);
	else
		fprintf(stderr, "atoll: there is no verb '%s'; '%s help' lists them all\n", word, self);
	return 2;
}

static int run_verb(struct cli *c, const char *name, int argc, char **argv)
{
	c->verb = cli_verb(name);
	return c->verb ? cli_end(c, c->verb->run(c, argc, argv)) : unknown_verb(c->self, name);
}

static bool is_word(const char *word, const char *a, const char *b, const char *d)
{
	return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, d) == 0;
}

/* A standard descriptor that is closed would be the next socket to the daemon, and results would go there. In its place
 * comes one that can be neither read nor written. */
static void fill_closed(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			_exit(1);
}

int main(int argc, char **argv)
{
	if (argc > 0 && docker_is_called(argv[0]))
		return docker_main(argc, argv);
	fill_closed();
	beside_name("atoll");
	/* A write to a broken pipe then returns EPIPE, which each verb handles in its own way. */
	signal(SIGPIPE, SIG_IGN);
	struct cli c = {.self = argc > 0 ? argv[0] : "atoll",
		.tls_program = str_n(tls_program, (size_t)(tls_program_end - tls_program))};
	if (argc < 2) {
		print_verbs(stderr);
		return 2;
	}
	const char *word = argv[1];
	if (is_word(word, "help", "--help", "-h")) {
		if (argc < 3) {
			print_verbs(stdout);
			return 0;
		}
		if (strcmp(argv[2], "--scdoc") == 0) {
			auto_buf struct buf page = {0};
			describe_manual(&page);
			cli_print(&page);
			return 0;
		}
		char *ask_help[] = {"--help", NULL};
		return run_verb(&c, argv[2], 1, ask_help);
	}
	if (is_word(word, "--version", "-V", "-v"))
		word = "version";
	return run_verb(&c, word, argc - 2, argv + 2);
}

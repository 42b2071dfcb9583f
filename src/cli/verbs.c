/*
 * verbs.c - the verb table: what `atoll help` lists, in the order a newcomer meets them. Completions and the manual
 * page are made from it too.
 */
#include "cli/verbs.h"

#define OWN_CODES     .exit_failed = 1, .exit_usage = 2
#define COMMAND_CODES .exit_failed = 125, .exit_usage = 125

const struct verb cli_verbs[] = {
	{"up", "Run the daemon and the warden in the foreground", "",
		"Needs root. Makes the system user, directories and the token when they are missing, starts both "
		"programs,\n"
		"starts them again when they end. Ctrl-C stops them; boxes stay alive and are found again.\n\n"
		"ATOLL_LISTEN (127.0.0.1:8700), ATOLL_RUN (/run/atoll), ATOLL_DATA (/var/lib/atoll), ATOLL_IMAGES and\n"
		"ATOLL_USER (atoll) say where and as whom. With other values a second one runs beside the first.",
		verb_up, OWN_CODES, .section = "This machine", .examples = "sudo atoll up"},
	{"doctor", "Say which isolation layers this host has, and what is missing", "",
		"Works without a daemon and without root as far as that goes. Exit code 1 when boxes cannot be made "
		"here.",
		verb_doctor, OWN_CODES, .examples = "atoll doctor\natoll doctor --json | jq .ready"},
	{"selftest", "Try the whole installation in throw-away boxes", "[--escape [CHECK...]]", "", verb_selftest,
		OWN_CODES, .examples = "atoll selftest\nsudo atoll selftest --escape"},

	{"exec", "Run a command in a box; the box is made when it is not there", "ID [options] [--] COMMAND [ARG...]",
		"stdin, stdout and stderr are connected, signals are passed on, and the exit code is the command's:\n"
		"128+n after signal n, 124 after --timeout, 125 when Atoll itself failed, 126 and 127 when the "
		"program\n"
		"cannot be run or found. The command is run as given; for a shell write: -- sh -c 'ls | wc -l'\n\n"
		"With --session it runs in the shell of that session, which remembers 'cd' and 'export': one word is\n"
		"taken as a line for that shell, several are quoted. There stdin is empty, and what is printed comes\n"
		"at the end. Ctrl-C then leaves the command running in its session.",
		verb_exec, COMMAND_CODES, .section = "Commands", .words = WORDS_BOX,
		.examples = "atoll exec dev -- python3 -c 'print(6 * 7)'\n"
			    "cat data.csv | atoll exec dev -- wc -l\n"
			    "atoll exec dev -s work 'cd /tmp && export A=1'; atoll exec dev -s work 'pwd; echo $A'\n"
			    "atoll exec dev -d --name web -- python3 -m http.server 8080"},
	{"run", "Run a command in a new box and throw the box away", "[options] [--] COMMAND [ARG...]",
		"Exit codes are those of exec.", verb_run, COMMAND_CODES,
		.examples = "atoll run -- hostname\natoll run --memory 128m --timeout 5 -- ./untrusted"},
	{"shell", "Open a terminal in a box", "ID [options]",
		"The terminal lives in the box. 'exit' ends it; Enter ~ . (the three keys) detaches from it and "
		"leaves\n"
		"it running, and the same command attaches again and shows what it has printed meanwhile (the last\n"
		"256 KiB). A second terminal has another --session; who gives the same name shares one. ~~ types a "
		"~.\n\n"
		"The exit code is the shell's: 128+n after signal n, 0 after detaching, 125 when Atoll itself failed.",
		verb_shell, COMMAND_CODES, .words = WORDS_BOX,
		.examples = "atoll shell dev\natoll shell dev --session logs\natoll shell dev --shell python3 -s py"},
	{"code", "Run Python, JavaScript or TypeScript in a box", "ID [-l LANG] [-c CODE] [FILE...]",
		"FILEs are of this machine, - is stdin. What is printed and the value of the last expression are "
		"shown;\n"
		"pictures and HTML are written here as atoll-1.png and so on, and named. Without CODE and FILE it "
		"asks\n"
		"line by line, and variables are kept from one to the next: Ctrl-C interrupts, Ctrl-D ends.\n\n"
		"Exit code 1 when the code raised an error, 130 after Ctrl-C. With --json a line for each event.",
		verb_code, OWN_CODES, .words = WORDS_BOX_FILES,
		.examples = "atoll code dev\natoll code dev -c 'import numpy; numpy.arange(5).sum()'\n"
			    "atoll code dev -l ts -c 'const a: number = 6; a * 7'\natoll code dev plot.py"},
	{"ps", "List the background processes of a box", "ID",
		"Those that 'exec -d' or the API have started, also ended ones that are still remembered.", verb_ps,
		OWN_CODES, .words = WORDS_BOX, .examples = "atoll ps dev\natoll ps dev -q -r"},
	{"logs", "Print what a background process has printed", "ID PROCESS [-f]",
		"Its stdout goes to stdout and its stderr to stderr, byte for byte. With --follow until it ends; when\n"
		"the connection breaks it is taken up again where it was.",
		verb_logs, OWN_CODES, .words = WORDS_PROCESS, .examples = "atoll logs dev web\natoll logs -f dev web"},
	{"kill", "End background processes of a box", "ID PROCESS... [-s SIG] | ID --all",
		"With TERM (the default) or KILL it waits until the process and all that it has started are gone; "
		"what\n"
		"does not end within 5 s of TERM is killed. Other signals are sent to the process, and that is all.",
		verb_kill, OWN_CODES, .words = WORDS_PROCESS,
		.examples = "atoll kill dev web\natoll kill dev web -s HUP\natoll kill dev --all"},
	{"sessions", "List, make and remove the sessions of a box", "ID [list | create [NAME] | rm NAME...]",
		"A session is a shell that keeps its directory and variables from one 'exec --session' to the next.",
		verb_sessions, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll sessions dev\natoll sessions dev create work --cwd /tmp -e A=1\natoll sessions dev "
			    "rm work"},

	{"env", "List, set and unset the variables of a box", "ID [list | set NAME=VALUE... | unset NAME...]",
		"Everything that is started in the box from then on has them, also after it was stopped; what runs "
		"already\n"
		"keeps those that it began with. Values may be secrets: only the names are listed.",
		verb_env, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll env dev set API_KEY=abc MODE=test\natoll env dev\natoll env dev unset MODE"},

	{"ls", "List a directory of a box", "ID [PATH] [-l] [-a] [-R]",
		"Without PATH: /workspace. On a terminal control characters in names are shown as escapes.", verb_ls,
		OWN_CODES, .section = "Files", .words = WORDS_BOX, .examples = "atoll ls dev\natoll ls -la dev /etc"},
	{"cat", "Print files of a box", "ID PATH...", "Byte for byte, of any size.", verb_cat, OWN_CODES,
		.words = WORDS_BOX, .examples = "atoll cat dev /etc/os-release\natoll cat dev out.png > out.png"},
	{"write", "Write stdin into a file of a box", "ID PATH",
		"Missing directories are made. The file has its old content until all of the new has arrived.",
		verb_write, OWN_CODES, .words = WORDS_BOX,
		.examples = "echo 'print(1)' | atoll write dev /workspace/a.py\natoll write dev data.bin < data.bin"},
	{"cp", "Copy files and directories into a box or out of it", "SRC DST",
		"One of the two is ID:PATH, the other a path here, or - for stdin or stdout. A directory is copied "
		"with\n"
		"all in it; modes, times and symbolic links are kept. Into a directory that is there it goes under "
		"its\n"
		"name; SRC/. is its content. Nothing changes at DST before all has arrived. Relative paths in a box\n"
		"begin at /workspace. The box must have sh and tar, unless one side is -.",
		verb_cp, OWN_CODES, .words = WORDS_COPY,
		.examples = "atoll cp src dev:\natoll cp dev:/workspace/out.png .\natoll cp dev:results/. ./results\n"
			    "tar -c . | atoll cp - dev:/tmp/all.tar"},
	{"watch", "Print what changes in a directory of a box", "ID [PATH]",
		"A line for each change until Ctrl-C; with --json an object for each. Without PATH: /workspace.",
		verb_watch, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll watch dev\natoll watch dev /workspace/src --include '*.py'"},
	{"git", "Clone a repository into a box", "ID clone URL [DIR]",
		"DIR is /workspace/<name of the repository> unless given. A name and password in the URL are not kept\n"
		"in the clone, and in no message.",
		verb_git, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll git dev clone https://example.org/demo.git\n"
			    "atoll git dev clone https://example.org/demo.git src --branch v2 --depth 1"},

	{"expose", "Make a port of a box reachable and print its URL", "ID PORT [options]",
		"The URL works in browsers and curl as it is; who has it can reach the port, nobody else can. The same "
		"port\n"
		"keeps its URL until it is unexposed or the box is destroyed.",
		verb_expose, OWN_CODES, .section = "Ports", .words = WORDS_BOX},
	{"ports", "List the exposed ports of a box", "ID", "", verb_ports, OWN_CODES, .words = WORDS_BOX},
	{"open", "Open a port of a box in the browser", "ID PORT",
		"Exposes the port when it is not. Prints the URL; where there is no desktop, it only prints it.",
		verb_open, OWN_CODES, .words = WORDS_BOX},
	{"requests", "Show the last requests that came to an exposed port", "ID PORT", "", verb_requests, OWN_CODES,
		.words = WORDS_BOX},
	{"unexpose", "Take the URL of a port away", "ID PORT", "", verb_unexpose, OWN_CODES, .words = WORDS_BOX},

	{"net", "Show or change what a box may reach", "ID [allow|deny|remove RULE...] [mode MODE] [log [-f]]",
		"A rule is a host name (HTTP and TLS), a name with a port (any protocol), '*.name', an address range, "
		"or\n"
		"udp://name:port. Deny beats allow. Modes: open (everything public), list (only what is allowed), "
		"off.\n"
		"A change counts at once, for open connections as well.",
		verb_net, OWN_CODES, .section = "Network", .words = WORDS_BOX,
		.examples = "atoll net dev mode list\natoll net dev allow pypi.org files.pythonhosted.org\natoll net "
			    "dev log -f"},

	{"create", "Make a box, with limits of its own", "ID [options]", "", verb_create, OWN_CODES, .section = "Boxes",
		.examples = "atoll create dev --memory 2g --cpus 2"},
	{"list", "List the boxes", "[-q]", "", verb_list, OWN_CODES, .examples = "atoll list\natoll list -q"},
	{"inspect", "Show one box: state, limits, usage", "ID", "", verb_inspect, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll inspect dev\natoll inspect dev --json | jq .usage"},
	{"stats", "Show CPU and memory of boxes", "[ID...]",
		"On a terminal live, busiest first, until q or Ctrl-C; otherwise, or with --once or --json, one look\n"
		"over half a second. CPU % is of one CPU.",
		verb_stats, OWN_CODES, .words = WORDS_BOXES, .examples = "atoll stats\natoll stats dev --json"},
	{"rm", "Destroy boxes with their files", "ID... | --all", "", verb_rm, OWN_CODES, .words = WORDS_BOXES,
		.examples = "atoll rm dev\natoll rm --all"},

	{"completion", "Print the completion of bash, zsh or fish", "bash | zsh | fish",
		"'make install' puts them where the shells look. By hand: source the output in bash and zsh, in fish "
		"write\n"
		"it to ~/.config/fish/completions/atoll.fish. Names of boxes and processes are completed too.",
		verb_completion, OWN_CODES, .section = "Other", .words = WORDS_SHELLS,
		.examples = "source <(atoll completion bash)\natoll completion fish > "
			    "~/.config/fish/completions/atoll.fish"},
	{"version", "Print the version", "", "", verb_version, OWN_CODES},
};
const size_t cli_verbs_count = ARRAY_LEN(cli_verbs);

/*
 * verbs.c - the verb table: what `atoll help` lists, in the order a newcomer meets them.
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
		verb_up, OWN_CODES},
	{"exec", "Run a command in a box; the box is made when it is not there", "ID [options] [--] COMMAND [ARG...]",
		"stdin, stdout and stderr are connected, signals are passed on, and the exit code is the command's:\n"
		"128+n after signal n, 124 after --timeout, 125 when Atoll itself failed, 126 and 127 when the "
		"program\n"
		"cannot be run or found. The command is run as given; for a shell write: -- sh -c 'ls | wc -l'",
		verb_exec, COMMAND_CODES},
	{"run", "Run a command in a new box and throw the box away", "[options] [--] COMMAND [ARG...]",
		"Exit codes are those of exec.", verb_run, COMMAND_CODES},
	{"create", "Make a box, with limits of its own", "ID [options]", "", verb_create, OWN_CODES},
	{"list", "List the boxes", "", "", verb_list, OWN_CODES},
	{"inspect", "Show one box: state, limits, usage", "ID", "", verb_inspect, OWN_CODES},
	{"expose", "Make a port of a box reachable and print its URL", "ID PORT [options]",
		"The URL works in browsers and curl as it is; who has it can reach the port, nobody else can. The same "
		"port\n"
		"keeps its URL until it is unexposed or the box is destroyed.",
		verb_expose, OWN_CODES},
	{"ports", "List the exposed ports of a box", "ID", "", verb_ports, OWN_CODES},
	{"open", "Open a port of a box in the browser", "ID PORT",
		"Exposes the port when it is not. Prints the URL; where there is no desktop, it only prints it.",
		verb_open, OWN_CODES},
	{"requests", "Show the last requests that came to an exposed port", "ID PORT", "", verb_requests, OWN_CODES},
	{"unexpose", "Take the URL of a port away", "ID PORT", "", verb_unexpose, OWN_CODES},
	{"rm", "Destroy boxes with their files", "ID... | --all", "", verb_rm, OWN_CODES},
	{"doctor", "Say which isolation layers this host has, and what is missing", "",
		"Works without a daemon and without root as far as that goes. Exit code 1 when boxes cannot be made "
		"here.",
		verb_doctor, OWN_CODES},
	{"selftest", "Try the whole installation in throw-away boxes", "[--escape [CHECK...]]", "", verb_selftest,
		OWN_CODES},
	{"version", "Print the version", "", "", verb_version, OWN_CODES},
};
const size_t cli_verbs_count = ARRAY_LEN(cli_verbs);

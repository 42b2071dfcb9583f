/*
 * verbs.c - the verb table: what `atoll help` lists, in the order a newcomer meets them.
 */
#include "cli/verbs.h"

#define OWN_CODES .exit_failed = 1, .exit_usage = 2

const struct verb cli_verbs[] = {
	{"up", "Run the daemon and the warden in the foreground", "",
		"Needs root. Makes the system user, directories and the token when they are missing, starts both "
		"programs,\n"
		"starts them again when they end. Ctrl-C stops them; boxes stay alive and are found again.\n\n"
		"ATOLL_LISTEN (127.0.0.1:8700), ATOLL_RUN (/run/atoll), ATOLL_DATA (/var/lib/atoll), ATOLL_IMAGES and\n"
		"ATOLL_USER (atoll) say where and as whom. With other values a second one runs beside the first.",
		verb_up, OWN_CODES},
	{"create", "Make a box, with limits of its own", "ID [options]", "", verb_create, OWN_CODES},
	{"list", "List the boxes", "", "", verb_list, OWN_CODES},
	{"inspect", "Show one box: state, limits, usage", "ID", "", verb_inspect, OWN_CODES},
	{"rm", "Destroy boxes with their files", "ID... | --all", "", verb_rm, OWN_CODES},
	{"doctor", "Say which isolation layers this host has, and what is missing", "",
		"Works without a daemon and without root as far as that goes. Exit code 1 when boxes cannot be made "
		"here.",
		verb_doctor, OWN_CODES},
	{"version", "Print the version", "", "", verb_version, OWN_CODES},
};
const size_t cli_verbs_count = ARRAY_LEN(cli_verbs);

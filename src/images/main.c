#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beside.h"
#include "base/log.h"
#include "images/build.h"
#include "images/registry.h"

/* Verbs that need the image directory, and those that do not. */
static const struct {
	const char *name;
	int (*run)(struct order *o, struct store *s, struct err *e);
	int (*run_without)(struct order *o, struct err *e);
} verbs[] = {{"list", do_list}, {"inspect", do_inspect}, {"remove", do_remove}, {"prune", do_prune}, {"tag", do_tag},
	{"commit", do_commit}, {"import", do_import}, {"export", do_export}, {"build", do_build}, {"pull", do_pull},
	{"push", do_push}, {"tidy", NULL, do_tidy}, {"sweep", NULL, do_sweep}};

static int work(const char *verb, struct err *e)
{
	struct store s = {.sock = -1, .meta = -1};
	if (order_read(&the_order, e) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (strcmp(verb, verbs[i].name) != 0)
			continue;
		if (verbs[i].run_without)
			return verbs[i].run_without(&the_order, e);
		return store_open_images(&s, e) < 0 ? -1 : verbs[i].run(&the_order, &s, e);
	}
	return err_set(e, ERRC_INVALID_REQUEST, "unknown job");
}

int main(int argc, char **argv)
{
	struct err e = {0};
	if (argc != 2 || *argv[1] == '-') {
		puts("atoll-images: does one job with images for atolld, which starts it.");
		return argc < 2 ? 2 : 0;
	}
	beside_name("atoll-images");
	log_init("atoll-images");
	pid_t parent = getppid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		return 1;
	signal(SIGPIPE, SIG_IGN);
	umask(077);
	tell_end(work(argv[1], &e) < 0 ? &e : NULL);
	return 0;
}

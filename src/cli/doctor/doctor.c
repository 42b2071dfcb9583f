/*
 * doctor.c - `atoll doctor`: reports which isolation layers this host has and lacks, why, and what to do.
 */
#include "cli/doctor/doctor.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "cli/args.h"
#include "cli/verbs.h"

void doctor_set(struct doctor_row *r, enum doctor_state state, const char *advice, const char *fmt, ...)
{
	r->state = state;
	snprintf(r->advice, sizeof r->advice, "%s", advice ? advice : "");
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(r->detail, sizeof r->detail, fmt, ap);
	va_end(ap);
}

int doctor_try(int (*probe)(void *arg), void *arg)
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid < 0)
		return errno;
	if (pid == 0)
		_exit(probe(arg) & 0xff);
	int status;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

bool doctor_read(const char *path, char *ret, size_t n)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t r = fd < 0 ? -1 : fd_read_full(fd, ret, n - 1);
	if (r < 0)
		return false;
	ret[r] = 0;
	if (r > 0 && ret[r - 1] == '\n')
		ret[r - 1] = 0;
	return true;
}

static const char *const state_words[] = {"ok", "note", "unknown", "missing"};
static const enum cli_style state_styles[] = {STYLE_GREEN, STYLE_YELLOW, STYLE_YELLOW, STYLE_RED};

static void print_row(const struct doctor_check *k, const struct doctor_row *r)
{
	printf("  %s%-7s%s %-22s %s\n", cli_style(1, state_styles[r->state]), state_words[r->state],
		cli_style(1, STYLE_PLAIN), k->name, r->detail);
	if (*r->advice)
		printf("  %33s%s→ %s%s\n", "", cli_style(1, STYLE_DIM), r->advice, cli_style(1, STYLE_PLAIN));
}

static void write_row(struct json_writer *w, const struct doctor_check *k, const struct doctor_row *r)
{
	json_object_begin(w);
	json_member_cstr(w, "group", k->group);
	json_member_cstr(w, "name", k->name);
	json_member_cstr(w, "state", state_words[r->state]);
	json_member_cstr(w, "detail", r->detail);
	if (*r->advice)
		json_member_cstr(w, "advice", r->advice);
	json_object_end(w);
}

struct doctor_report {
	struct cli *c;
	struct json_writer w;
	const char *group;
	int count[4];
};

static void run_checks(struct doctor_report *d, const struct doctor_check *checks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct doctor_check *k = &checks[i];
		struct doctor_row r = {.state = DOCTOR_UNKNOWN};
		k->run(d->c, &r);
		d->count[r.state]++;
		if (d->c->json) {
			write_row(&d->w, k, &r);
			continue;
		}
		if (!d->group || strcmp(d->group, k->group) != 0)
			printf("%s%s%s\n", cli_style(1, STYLE_BOLD), k->group, cli_style(1, STYLE_PLAIN));
		d->group = k->group;
		print_row(k, &r);
	}
}

int verb_doctor(struct cli *c, int argc, char **argv)
{
	int code;
	if (!args_parse_none(c, argc, argv, &code))
		return code;
	auto_buf struct buf out = {0};
	struct doctor_report d = {.c = c, .w = json_writer(&out)};
	json_object_begin(&d.w);
	json_key(&d.w, "checks");
	json_array_begin(&d.w);
	run_checks(&d, doctor_kernel_checks, doctor_kernel_checks_count);
	run_checks(&d, doctor_storage_checks, doctor_storage_checks_count);
	run_checks(&d, doctor_network_checks, doctor_network_checks_count);
	run_checks(&d, doctor_host_checks, doctor_host_checks_count);
	json_array_end(&d.w);
	bool ready = d.count[DOCTOR_MISSING] == 0;
	json_member_bool(&d.w, "ready", ready);
	json_object_end(&d.w);
	if (c->json)
		cli_print(&out);
	else
		printf("%d ok, %d notes, %d unknown, %d missing%s\n", d.count[DOCTOR_OK], d.count[DOCTOR_NOTE],
			d.count[DOCTOR_UNKNOWN], d.count[DOCTOR_MISSING],
			ready && d.count[DOCTOR_UNKNOWN] ? " (run it as root for more checks)" : "");
	return ready ? 0 : c->verb->exit_failed;
}

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup/backup.h"
#include "backup/target.h"
#include "base/beside.h"
#include "base/fd.h"

static const char help[] =
	"atoll-backup: keeps and fetches backups for atolld, which starts it.\n"
	"\n"
	"  ATOLL_BACKUP_DIR  where backups and copies of them lie\n"
	"  ATOLL_BACKUP_URL  s3://bucket/prefix: they lie there instead\n"
	"  ATOLL_BACKUP_CREDENTIALS  file with endpoint, region, access_key_id, secret_access_key\n"
	"  ATOLL_BACKUP_KEY  file with the key that seals manifests; it is made if it is not there\n";

void tell(struct buf *line)
{
	buf_add_byte(line, '\n');
	struct str s = buf_str(line);
	if (fd_write_full(STDOUT_FILENO, s.p, s.n) < 0)
		_exit(1); /* the daemon is gone */
}

void tell_progress(const char *what, uint64_t bytes)
{
	auto_buf struct buf line = {0};
	buf_printf(&line, "{\"%s\":%llu}", what, (unsigned long long)bytes);
	tell(&line);
}

static int end(const struct err *e)
{
	auto_buf struct buf line = {0};
	struct json_writer w = json_writer(&line);
	json_object_begin(&w);
	if (e) {
		json_key(&w, "error");
		json_object_begin(&w);
		json_member_cstr(&w, "code", errc_info(e->code)->code);
		json_member_cstr(&w, "message", e->msg);
		json_object_end(&w);
	} else {
		json_member_bool(&w, "done", true);
	}
	json_object_end(&w);
	tell(&line);
	return e != NULL;
}

static int check_ids(int argc, char **argv, struct err *e)
{
	if (argc > BACKUP_IDS_MAX)
		return err_set(e, ERRC_INVALID_REQUEST, "more than %d ids", BACKUP_IDS_MAX);
	for (int i = 0; i < argc; i++)
		if (!backup_id_ok(str_of(argv[i])))
			return err_set(e, ERRC_INVALID_REQUEST, "'%.80s' is not the id of a backup", argv[i]);
	return 0;
}

/* A sweep waits for the jobs of a daemon that was killed; they die with it, but not at the same moment. Held until this
 * process ends. */
static int take_lock(const char *dir, bool alone, struct err *e)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (fd >= 0 && flock(fd, alone ? LOCK_EX : LOCK_SH) < 0)
		if (errno != EINTR)
			return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "lock %s", dir);
	return fd < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, errno, "open %s", dir) : 0;
}

static int open_target(const char *dir, struct target **ret, struct err *e)
{
	const char *url = getenv("ATOLL_BACKUP_URL");
	return url && *url ? target_bucket_open(url, getenv("ATOLL_BACKUP_CREDENTIALS"), dir, ret, e)
			   : target_local_open(dir, ret, e);
}

static bool take_bytes(const char *option, const char *name, uint64_t *ret)
{
	size_t n = strlen(name);
	return strncmp(option, name, n) == 0 && str_to_u64(str_of(option + n), UINT64_MAX, ret);
}

/* How many of the arguments are options. */
static int take_options(int argc, char **argv, struct backup_run *r)
{
	int n = 0;
	for (; n < argc; n++) {
		bool sweep = strcmp(argv[n], "--sweep") == 0;
		r->sweep |= sweep;
		if (!sweep && !take_bytes(argv[n], "--room=", &r->room) &&
			!take_bytes(argv[n], "--below=", &r->below) && !take_bytes(argv[n], "--most=", &r->most))
			break;
	}
	return n;
}

static int work(int argc, char **argv, struct err *e)
{
	static const struct {
		const char *name;
		int (*run)(struct backup_run *r, struct err *e);
		int min, max;
	} verbs[] = {{"store", run_store, 1, 1}, {"load", run_load, 1, BACKUP_IDS_MAX}, {"list", run_list, 0, 0},
		{"hide", run_hide, 1, BACKUP_IDS_MAX}, {"drop", run_drop, 1, BACKUP_IDS_MAX}};
	const char *dir = getenv("ATOLL_BACKUP_DIR"), *key = getenv("ATOLL_BACKUP_KEY");
	struct backup_run r = {.dir = dir};
	int options = take_options(argc - 2, argv + 2, &r);
	r.ids = argv + 2 + options;
	r.ids_n = (size_t)(argc - 2 - options);
	if (!dir || !key)
		return err_set(e, ERRC_INVALID_REQUEST, "ATOLL_BACKUP_DIR and ATOLL_BACKUP_KEY must be set");
	if (check_ids((int)r.ids_n, r.ids, e) < 0 || take_lock(dir, r.sweep, e) < 0 ||
		backup_key_load(key, &r.key, e) < 0 || open_target(dir, &r.t, e) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strcmp(argv[1], verbs[i].name) == 0 && (int)r.ids_n >= verbs[i].min && (int)r.ids_n <= verbs[i].max)
			return verbs[i].run(&r, e);
	return err_set(e, ERRC_INVALID_REQUEST, "unknown job");
}

int main(int argc, char **argv)
{
	struct err e = {0};
	if (argc < 2 || strcmp(argv[1], "--help") == 0) {
		fputs(help, stdout);
		return argc < 2 ? 2 : 0;
	}
	beside_name("atoll-backup");
	pid_t parent = getppid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 0);
	if (getppid() != parent)
		return 1;
	signal(SIGPIPE, SIG_IGN);
	umask(077);
	return end(work(argc, argv, &e) < 0 ? &e : NULL);
}

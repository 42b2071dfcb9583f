#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/mover.h"

void make_path(const char *path, const struct user *owner)
{
	auto_free char *copy = xstrdup(path);
	for (char *slash = copy + 1;; slash++) {
		if (*slash && *slash != '/')
			continue;
		char keep = *slash;
		*slash = 0;
		if (mkdir(copy, 0755) == 0) {
			if (chown(copy, owner->uid, owner->gid) < 0)
				mover_die("the owner of '%s' cannot be set: %s", copy, strerror(errno));
		} else if (errno != EEXIST) {
			mover_die("'%s' cannot be made: %s", copy, strerror(errno));
		}
		if (!keep)
			return;
		*slash = keep;
	}
}

int mover_mkdir(int argc, char **argv)
{
	struct user who = {0};
	if (argc < 1 || argv[0][0] != '/')
		mover_die("mkdir needs an absolute path");
	mover_user(argc > 1 ? argv[1] : "", &who);
	make_path(argv[0], &who);
	return 0;
}

/* COPY of one file to a name: into it when it is a directory already. */
static const char *choose_dir(char *dest, const char **ret_name)
{
	struct stat st;
	*ret_name = NULL;
	if (dest[strlen(dest) - 1] == '/' || (stat(dest, &st) == 0 && S_ISDIR(st.st_mode)))
		return dest;
	char *slash = strrchr(dest, '/');
	*ret_name = xstrdup(slash + 1);
	slash[slash == dest] = 0;
	return dest;
}

struct options {
	char *dest;
	bool one_file; /* the archive holds one file, which gets the destination's name */
	bool listen;
	uint64_t max;
};

static void read_options(int argc, char **argv, struct mover_tree *t, struct options *o)
{
	for (int i = 0; i < argc; i++) {
		const char *next = i + 1 < argc ? argv[i + 1] : "";
		if (strcmp(argv[i], "--layer") == 0) {
			t->layer = true;
		} else if (strcmp(argv[i], "--keep-setuid") == 0) {
			t->keep_setuid = true;
		} else if (strcmp(argv[i], "--one-file") == 0) {
			o->one_file = true;
		} else if (strcmp(argv[i], "--listen") == 0) {
			o->listen = true;
		} else if (strcmp(argv[i], "--dest") == 0 && next[0] == '/') {
			o->dest = argv[++i];
		} else if (strcmp(argv[i], "--max") == 0) {
			o->max = strtoull(argv[++i], NULL, 10);
		} else if (strcmp(argv[i], "--owner") == 0) {
			struct user who = {0};
			mover_user(argv[++i], &who);
			t->has_owner = true;
			t->uid = who.uid;
			t->gid = who.gid;
		} else if (strcmp(argv[i], "--mode") == 0) {
			t->has_mode = true;
			t->mode = (mode_t)strtoul(argv[++i], NULL, 8) & 07777;
		} else {
			mover_die("unknown option '%s'", argv[i]);
		}
	}
}

/* Takes one connection in place of stdin. */
static void take_connection(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof at;
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0 || bind(s, (struct sockaddr *)&at, n) < 0 || listen(s, 1) < 0 ||
		getsockname(s, (struct sockaddr *)&at, &n) < 0)
		mover_die("cannot listen: %s", strerror(errno));
	printf("%u\n", ntohs(at.sin_port));
	fflush(stdout);
	int in = accept(s, NULL, NULL);
	if (in < 0 || dup2(in, 0) < 0)
		mover_die("no connection: %s", strerror(errno));
	close(in);
	close(s);
}

int mover_unpack(int argc, char **argv)
{
	struct mover_tree t = {0};
	struct options o = {.dest = "/", .max = MOVER_BYTES_MAX};
	struct archive_source *s;
	struct archive_entry *entry;
	const char *name = NULL;
	char hex[65];
	uint64_t bytes = 0;
	int r;
	read_options(argc, argv, &t, &o);
	if (o.listen)
		take_connection();
	if (o.one_file)
		o.dest = (char *)choose_dir(xstrdup(o.dest), &name);
	make_path(o.dest, &(struct user){.uid = t.uid, .gid = t.gid});
	tree_open(&t, o.dest);
	struct archive *a = source_open(o.max, &s);
	while ((r = archive_read_next_header(a, &entry)) == ARCHIVE_OK || r == ARCHIVE_WARN) {
		if (name)
			archive_entry_set_pathname(entry, name);
		tree_add(&t, a, entry);
	}
	if (r != ARCHIVE_EOF)
		mover_die("the archive is damaged: %s", archive_error_string(a));
	tree_close(&t);
	source_finish(s, hex, &bytes);
	printf("{\"digest\":\"sha256:%s\",\"bytes\":%llu,\"entries\":%llu,\"stripped\":%llu}\n", hex,
		(unsigned long long)bytes, (unsigned long long)t.entries, (unsigned long long)t.stripped);
	return 0;
}

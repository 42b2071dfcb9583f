#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/api.h"
#include "agent/file/path.h"
#include "agent/limits.h"
#include "agent/request/pump.h"
#include "base/clock.h"

/*
 * POST /api/list-files. The tree is walked while the client takes the answer, so a directory of a million files needs
 * one buffer. Directories are opened relative to their parent and never through a symbolic link.
 */

enum { LIST_PIECE = 16 * KIB, LIST_STEPS = 512 }; /* LIST_STEPS: entries between two turns of the loop */

struct level {
	DIR *dir;
	size_t prefix; /* length of this directory's relative path, with its '/' */
};

struct listing {
	struct pump pump;
	char *root; /* absolute, without '/' at the end */
	struct buf relative;
	struct level *levels;
	int depth;
	bool recursive, hidden, comma;
	uint64_t count;
};

static void listing_free(struct listing *l)
{
	while (l->depth)
		closedir(l->levels[--l->depth].dir);
	free(l->levels);
	free(l->root);
	buf_free(&l->relative);
	free(l);
}

/* 0, or a positive errno. Takes fd. */
static int push_level(struct listing *l, int fd)
{
	DIR *dir = l->depth < LIST_DEPTH_MAX ? fdopendir(fd) : NULL;
	if (!dir) {
		int os = l->depth < LIST_DEPTH_MAX ? errno : ELOOP;
		close(fd);
		return os;
	}
	if ((l->depth & (l->depth - 1)) == 0)
		l->levels = xrealloc(l->levels, (size_t)(l->depth ? l->depth * 2 : 1) * sizeof *l->levels);
	l->levels[l->depth++] = (struct level){dir, buf_size(&l->relative)};
	return 0;
}

static const char *type_of(mode_t mode)
{
	return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "symlink" : "other";
}

static void mode_text(mode_t mode, char ret[10])
{
	for (int i = 0; i < 9; i++)
		ret[i] = mode & (mode_t)(0400 >> i) ? "rwxrwxrwx"[i] : '-';
	if (mode & S_ISUID)
		ret[2] = mode & 0100 ? 's' : 'S';
	if (mode & S_ISGID)
		ret[5] = mode & 0010 ? 's' : 'S';
	if (mode & S_ISVTX)
		ret[8] = mode & 0001 ? 't' : 'T';
	ret[9] = 0;
}

static void put_entry(struct listing *l, struct json_writer *w, const char *name, const struct stat *st)
{
	char iso[CLOCK_ISO_LEN], mode[10];
	auto_free char *absolute = xasprintf("%s/%s", l->root, buf_cstr(&l->relative));
	mode_text(st->st_mode, mode);
	json_object_begin(w);
	json_member_cstr(w, "name", name);
	json_member_cstr(w, "absolutePath", absolute);
	json_member_cstr(w, "relativePath", buf_cstr(&l->relative));
	json_member_cstr(w, "type", type_of(st->st_mode));
	json_member_u64(w, "size", (uint64_t)st->st_size);
	int64_t ms = (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
	json_member_cstr(w, "modifiedAt", clock_iso(ms, iso));
	json_member_cstr(w, "mode", mode);
	json_key(w, "permissions");
	json_object_begin(w);
	json_member_bool(w, "readable", (st->st_mode & 0400) != 0);
	json_member_bool(w, "writable", (st->st_mode & 0200) != 0);
	json_member_bool(w, "executable", (st->st_mode & 0100) != 0);
	json_object_end(w);
	json_object_end(w);
}

/* Lists one entry. 1: go on, 0: the walk is over, -1: the list would not be complete. */
static int step(struct listing *l, struct json_writer *w)
{
	struct level *top = &l->levels[l->depth - 1];
	struct dirent *d = readdir(top->dir);
	if (!d) {
		closedir(top->dir);
		return --l->depth > 0;
	}
	bool dots = strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0;
	if (dots || (d->d_name[0] == '.' && !l->hidden))
		return 1;
	struct stat st;
	if (fstatat(dirfd(top->dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 1; /* deleted meanwhile */
	buf_truncate(&l->relative, top->prefix);
	buf_add_c(&l->relative, d->d_name);
	put_entry(l, w, d->d_name, &st);
	l->count++;
	if (!l->recursive || !S_ISDIR(st.st_mode))
		return 1;
	int fd = openat(dirfd(top->dir), d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE ? -1 : 1; /* deleted or not readable: listed, not entered */
	buf_add_byte(&l->relative, '/');
	return push_level(l, fd) == 0 ? 1 : -1;
}

static enum pump_state next_entries(struct pump *p)
{
	struct listing *l = container_of(p, struct listing, pump);
	auto_buf struct buf piece = {0};
	struct json_writer w = {.out = &piece, .comma = l->comma};
	int more = 1;
	for (int n = 0; more == 1 && n < LIST_STEPS && buf_size(&piece) < LIST_PIECE; n++)
		more = step(l, &w);
	l->comma = w.comma;
	if (more < 0)
		return PUMP_BROKEN;
	if (more == 0) {
		json_array_end(&w);
		json_member_u64(&w, "count", l->count);
		json_member_now(&w);
		json_object_end(&w);
		http_respond_put_extra(p->x, &piece);
	}
	if (!buf_size(&piece))
		return PUMP_LATER; /* hidden entries, or those of a FUSE server that cannot be looked at */
	pump_write(p, buf_str(&piece));
	return more ? PUMP_MORE : PUMP_END;
}

static void free_pumped(struct pump *p)
{
	listing_free(container_of(p, struct listing, pump));
}

static void begin(const struct agent_request *r, struct listing *l, const char *given)
{
	auto_buf struct buf head = {0};
	struct json_writer w = json_writer(&head);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "path", given);
	json_key(&w, "files");
	json_array_begin(&w);
	http_respond_header(r->x, STR("Content-Type"), STR("application/json"));
	http_respond_begin(r->x, 200, HTTP_CHUNKED);
	http_respond_write(r->x, buf_str(&head));
	pump_start(&l->pump, r->x, next_entries, free_pumped);
}

void api_list_files(struct agent_request *r)
{
	auto_free char *path = NULL;
	const char *given = agent_request_given(r, "path");
	const struct json *options = json_get(r->body, "options");
	struct err e;
	if (agent_request_path(r, "path", &path, &e) < 0)
		return agent_request_refuse(r, &e);
	if (!json_is_null(options) && options->type != JSON_T_OBJECT)
		return agent_request_invalid(r, "options", "field 'options' must be an object");
	struct listing *l = xcalloc(1, sizeof *l);
	/* Beside `options`, where upstream has them, they count too: that is where people write them. */
	if (json_read_bool(r->body, "recursive", &l->recursive, &e) < 0 ||
		json_read_bool(r->body, "includeHidden", &l->hidden, &e) < 0 ||
		json_read_bool(options, "recursive", &l->recursive, &e) < 0 ||
		json_read_bool(options, "includeHidden", &l->hidden, &e) < 0) {
		agent_request_refuse(r, &e);
		return listing_free(l);
	}
	l->root = path_clean(path);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
	int os = fd < 0 ? errno : push_level(l, fd);
	if (os) {
		path_fail(&e, os, "list", path, given);
		agent_request_fail_file(r, &e, given, NULL);
		return listing_free(l);
	}
	begin(r, l, given);
}

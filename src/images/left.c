/*
 * What jobs leave that were killed: their boxes, volumes and scratch directories. Their names hold the process.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "images/build_mounts.h"
#include "images/registry.h"

static void drop(struct work *w, pid_t pid, const char *digits, const char *suffix)
{
	work_name(pid, digits, suffix, w->box);
	w->there = true;
	work_drop(w);
}

int do_tidy(struct order *o, struct err *e)
{
	auto_work struct work w = {0};
	char dir[4200];
	pid_t pid = (pid_t)o->pid;
	if (work_open(&w, e) < 0)
		return -1;
	alarm(SERVICE_TIDY_TIME);
	drop(&w, pid, o->digits, "");
	drop(&w, pid, o->digits, "-context");
	caches_drop_of(&w, pid);
	snprintf(dir, sizeof dir, "%s/image-%d", o->state, (int)pid);
	if (access(dir, F_OK) == 0)
		remove_tree(dir);
	return 0;
}

/* A job of the daemon that runs: a process whose parent is ours. */
bool left_is_at_work(pid_t pid)
{
	char path[64];
	auto_buf struct buf text = {0};
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	if (fd_read_file(AT_FDCWD, path, 4096, &text) < 0)
		return false;
	const char *after = strrchr(buf_cstr(&text), ')');
	int parent = 0;
	return after && sscanf(after + 1, " %*c %d", &parent) == 1 && parent == (int)getppid();
}

int do_sweep(struct order *o, struct err *e)
{
	auto_work struct work w = {0};
	auto_buf struct buf text = {.max = SERVICE_PAGE_MAX};
	(void)o;
	alarm(2 * SERVICE_TIDY_TIME);
	if (work_open(&w, e) < 0 || daemon_call(&w.link, "GET", "/v1/sandboxes", STR(""), &text, e) < 0)
		return -1;
	auto_json struct json_doc *doc = json_parse(buf_str(&text), e);
	json_each(it, doc ? json_get(json_root(doc), "sandboxes") : NULL)
	{
		const char *id = NULL;
		uint64_t pid;
		struct str rest;
		struct err ignored;
		if (json_read_cstr(it, "id", &id, &ignored) < 0 || !id || strncmp(id, IMAGE_BOX, 6) != 0 ||
			!str_to_u64(str_split(str_of(id + 6), '-', &rest), INT32_MAX, &pid) ||
			left_is_at_work((pid_t)pid))
			continue;
		snprintf(w.box, sizeof w.box, "%s", id);
		w.there = true;
		work_drop(&w);
	}
	caches_drop_of(&w, 0);
	return doc ? 0 : -1;
}

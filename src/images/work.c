/*
 * A box for one piece of work. There is at most one at a time, named after this process, so that it can be
 * destroyed whatever happens here.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/fd.h"
#include "images/images.h"

#define MOVER_PATH "/.atoll-mover"

void work_name(pid_t pid, const char *digits, const char *suffix, char ret[BOX_ID_MAX + 1])
{
	snprintf(ret, BOX_ID_MAX + 1, IMAGE_BOX "%d-%s%s", (int)pid, digits, suffix);
}

int work_open(struct work *w, struct err *e)
{
	*w = (struct work){0};
	work_name(getpid(), the_order.digits, "", w->box);
	return daemon_open(&w->link, e);
}

void work_drop(struct work *w)
{
	auto_buf struct buf path = {0}, answer = {0};
	struct err e;
	if (!w->there)
		return;
	daemon_box_path(&path, w->box, "");
	/* A warden that was killed is back in a moment, and with it the box. */
	for (int i = 0; i < SERVICE_DROP_TRIES; i++) {
		buf_clear(&answer);
		if (daemon_call(&w->link, "DELETE", buf_cstr(&path), STR(""), &answer, &e) == 0 ||
			e.code != ERRC_CONTAINER_UNAVAILABLE)
			break;
		poll(NULL, 0, SERVICE_DROP_PAUSE);
	}
	w->there = w->has_mover = false;
}

void work_close(struct work *w)
{
	work_drop(w);
	daemon_close(&w->link);
}

static void put_limits(struct json_writer *w)
{
	struct sysinfo si = {0};
	sysinfo(&si);
	uint64_t half = (uint64_t)si.totalram * si.mem_unit / 2;
	json_key(w, "limits");
	json_object_begin(w);
	json_member_u64(w, "memory", half < SERVICE_BOX_MEMORY ? half : SERVICE_BOX_MEMORY);
	json_member_u64(w, "cpu", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	json_member_u64(w, "pids", SERVICE_BOX_PIDS);
	json_object_end(w);
}

int work_box(struct work *w, const char *key, const char *network, struct err *e)
{
	return work_box_with(w, key, network, NULL, e);
}

int work_box_with(struct work *w, const char *key, const char *network, const char *volumes, struct err *e)
{
	auto_buf struct buf path = {0}, body = {0}, answer = {0};
	struct json_writer j = json_writer(&body);
	work_drop(w);
	json_object_begin(&j);
	json_member_cstr(&j, "image", key);
	/* The mover is root, and nothing of the image runs but what the build says. */
	json_member_cstr(&j, "user", "0:0");
	json_key(&j, "command");
	json_raw(&j, STR("[]"));
	put_limits(&j);
	json_key(&j, "network");
	json_raw(&j, network ? str_of(network) : STR("{\"mode\":\"off\"}"));
	json_key(&j, "labels");
	json_raw(&j, STR("{\"atoll\":\"image\"}"));
	if (volumes) {
		json_key(&j, "volumes");
		json_raw(&j, str_of(volumes));
	}
	json_object_end(&j);
	daemon_box_path(&path, w->box, "");
	w->there = true;
	return daemon_call(&w->link, "PUT", buf_cstr(&path), buf_str(&body), &answer, e);
}

int work_detach(struct work *w, struct err *e)
{
	auto_buf struct buf path = {0}, stop = {0}, answer = {0}, again = {0};
	daemon_box_path(&path, w->box, "");
	daemon_box_path(&stop, w->box, "/stop");
	if (daemon_call(&w->link, "POST", buf_cstr(&stop), STR(""), &answer, e) < 0)
		return -1;
	return daemon_call(&w->link, "PUT", buf_cstr(&path), STR("{\"volumes\":[]}"), &again, e);
}

int work_box_bare(struct work *w, struct store *s, const char *key, uint32_t flags, struct err *e)
{
	work_drop(w);
	return store_stage(s, w->box, flags, e) < 0 ? -1 : work_box(w, key, NULL, e);
}

/* It removes itself when it begins, so that no layer has it, but in a box that becomes none. */
static int upload_mover(struct work *w, struct err *e)
{
	auto_buf struct buf path = {0};
	if (w->has_mover)
		return 0;
	daemon_box_path(&path, w->box, "/api/file?path=%2F.atoll-mover&mode=755");
	if (daemon_send_file(&w->link, buf_cstr(&path), the_order.mover, e) < 0)
		return err_wrap(e, "the mover");
	w->has_mover = w->keeps_mover;
	return 0;
}

struct sink {
	int fd;
	struct disk_guard disk;
	struct buf *text;
	struct feed *feed;
};

static int on_out(void *arg, struct str bytes, struct err *e)
{
	struct sink *s = arg;
	if (s->feed && feed_output(s->feed, &bytes, e) < 0)
		return -1;
	if (s->text) {
		buf_add_str(s->text, bytes);
		return s->text->failed ? err_set(e, ERRC_INTERNAL_ERROR, "the mover says too much") : 0;
	}
	if (!disk_takes(&s->disk, s->fd, bytes.n))
		return err_set(e, ERRC_NO_SPACE, "keep the files: the disk has no room besides its reserve");
	int r = fd_write_full(s->fd, bytes.p, bytes.n);
	return r < 0 ? err_os(e, r == -ENOSPC ? ERRC_NO_SPACE : ERRC_FILESYSTEM_ERROR, -r, "keep the files") : 0;
}

/* The mover's own sentence, without its name. */
static int explain(struct buf *said, struct err *e)
{
	struct str text = buf_str(said), rest;
	struct str line = str_split(text, '\n', &rest);
	if (str_starts(line, STR("atoll-mover: ")))
		line = str_skip(line, 13);
	bool full = strstr(buf_cstr(said), "No space left") || strstr(buf_cstr(said), "Disk quota");
	return err_set(
		e, full ? ERRC_NO_SPACE : ERRC_VALIDATION_FAILED, "%.*s", (int)(line.n < 200 ? line.n : 200), line.p);
}

int work_mover(struct work *w, struct mover_call *m, struct err *e)
{
	size_t count = 0;
	while (m->argv[count])
		count++;
	auto_free char **argv = xcalloc(count + 4, sizeof *argv);
	auto_buf struct buf said = {.max = SERVICE_OUTPUT_MAX};
	size_t at = 0;
	argv[at++] = MOVER_PATH;
	if (w->keeps_mover)
		argv[at++] = "--keep";
	for (size_t i = 0; i < count; i++)
		argv[at++] = (char *)m->argv[i];
	if (m->feed)
		argv[at++] = "--listen";
	if (upload_mover(w, e) < 0)
		return -1;
	struct feed feed = {.store = m->store, .from = m->feed, .box = w->box};
	struct sink sink = {.fd = m->out, .text = m->text, .feed = m->feed ? &feed : NULL};
	struct image_exec x = {.box = w->box, .argv = argv, .in = m->in, .err = &said, .on_out = on_out, .arg = &sink};
	if (m->on_out) {
		x.on_out = m->on_out;
		x.arg = m->arg;
	}
	int r = daemon_exec(&w->link, &x, e);
	feed_end(&feed);
	if (r < 0)
		return -1;
	if (x.oom)
		return err_set(e, ERRC_LIMIT_REACHED, "the memory limit of the work's sandbox was reached");
	m->exit_code = x.exit_code;
	return m->on_out || x.exit_code == 0 ? 0 : explain(&said, e);
}

int work_take(struct work *w, struct store *s, const char *layer, struct err *e)
{
	int r = store_take(s, w->box, layer, e);
	work_drop(w);
	return r;
}

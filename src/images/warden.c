#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fd_pass.h"
#include "images/images.h"

/* One request and its reply; *ret_fd may be NULL, fds[1] -1. */
static int ask(struct store *s, struct image_request *rq, const int fds[2], int *ret_fd, struct image_reply *ret,
	struct err *e)
{
	struct image_reply r;
	int got[1];
	struct fd_record in = {.data = &r, .size = sizeof r, .fds = got, .fds_max = 1};
	rq->magic = IMAGE_MAGIC;
	if (fd_send(s->sock, rq, sizeof *rq, fds,
		    !fds	 ? 0
		    : fds[1] < 0 ? 1
				 : 2,
		    0) < 0 ||
		fd_recv(s->sock, &in, 0) != (ssize_t)sizeof r || r.magic != IMAGE_MAGIC)
		return err_set(e, ERRC_CONTAINER_UNAVAILABLE, "the warden is away");
	err_seal(&r.err);
	if (r.err.code != ERRC_OK) {
		fd_record_close(&in);
		*e = r.err;
		return -1;
	}
	if (ret_fd && in.fds_n == 1)
		*ret_fd = got[0];
	else
		fd_record_close(&in);
	if (ret)
		*ret = r;
	return 0;
}

int store_open_images(struct store *s, struct err *e)
{
	char path[256];
	snprintf(path, sizeof path, "%s/" IMAGE_SOCKET, the_order.run);
	*s = (struct store){.sock = fd_unix_connect(path, SOCK_SEQPACKET), .meta = -1};
	if (s->sock < 0 || fd_set_nonblock(s->sock, false) < 0)
		return err_set(e, ERRC_CONTAINER_UNAVAILABLE, "the warden is away");
	struct image_request rq = {.op = IMAGE_META};
	struct image_reply reply;
	if (ask(s, &rq, NULL, &s->meta, &reply, e) < 0)
		return -1;
	reply.own[sizeof reply.own - 1] = 0;
	memcpy(s->own, reply.own, sizeof s->own);
	return s->meta < 0 ? err_set(e, ERRC_INTERNAL_ERROR, "the warden sent no directory") : 0;
}

int store_stage(struct store *s, const char *box, uint32_t flags, struct err *e)
{
	struct image_request rq = {.op = IMAGE_STAGE, .flags = flags};
	snprintf(rq.box, sizeof rq.box, "%s", box);
	return ask(s, &rq, NULL, NULL, NULL, e);
}

int store_ended(struct store *s, const char *box, struct err *e)
{
	struct image_request rq = {.op = IMAGE_ENDED};
	snprintf(rq.box, sizeof rq.box, "%s", box);
	return ask(s, &rq, NULL, NULL, NULL, e);
}

int store_take(struct store *s, const char *box, const char *layer, struct err *e)
{
	struct image_request rq = {.op = IMAGE_TAKE};
	snprintf(rq.box, sizeof rq.box, "%s", box);
	snprintf(rq.layer, sizeof rq.layer, "%s", layer);
	return ask(s, &rq, NULL, NULL, NULL, e);
}

static int text_fd(struct str text, struct err *e)
{
	int fd = memfd_create("atoll-image", MFD_CLOEXEC);
	if (fd < 0 || fd_write_full(fd, text.p, text.n) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "hand over the image's description");
	return fd;
}

int store_put(struct store *s, const char *key, struct str layers, struct str config, struct err *e)
{
	struct image_request rq = {.op = IMAGE_PUT};
	snprintf(rq.key, sizeof rq.key, "%s", key);
	auto_fd int first = text_fd(layers, e);
	auto_fd int second = first < 0 ? -1 : text_fd(config, e);
	const int fds[2] = {first, second};
	return second < 0 ? -1 : ask(s, &rq, fds, NULL, NULL, e);
}

int store_packages(struct store *s, const char *key, struct str text, struct err *e)
{
	struct image_request rq = {.op = IMAGE_PACKAGES};
	snprintf(rq.key, sizeof rq.key, "%s", key);
	auto_fd int fd = text_fd(text, e);
	const int fds[2] = {fd, -1};
	return fd < 0 ? -1 : ask(s, &rq, fds, NULL, NULL, e);
}

int store_link(struct store *s, bool cache, const char *name, const char *key, struct err *e)
{
	struct image_request rq = {.op = IMAGE_LINK, .flags = cache ? IMAGE_CACHE : 0};
	image_name_encode(name, rq.name);
	snprintf(rq.key, sizeof rq.key, "%s", key);
	return ask(s, &rq, NULL, NULL, NULL, e);
}

int store_unuse(struct store *s, const char *key, struct err *e)
{
	struct image_request rq = {.op = IMAGE_UNUSE};
	snprintf(rq.key, sizeof rq.key, "%s", key);
	return ask(s, &rq, NULL, NULL, NULL, e);
}

int store_collect(struct store *s, uint32_t flags, struct image_reply *ret, struct err *e)
{
	struct image_request rq = {.op = IMAGE_COLLECT, .flags = flags};
	return ask(s, &rq, NULL, NULL, ret, e);
}

int store_socket(struct store *s, const char *box, struct err *e)
{
	struct image_request rq = {.op = IMAGE_REACH};
	int fd = -1;
	snprintf(rq.box, sizeof rq.box, "%s", box);
	if (ask(s, &rq, NULL, &fd, NULL, e) < 0)
		return -1;
	return fd < 0 ? err_set(e, ERRC_INTERNAL_ERROR, "the warden sent no socket") : fd;
}

static bool add_size(const struct store *s, const char *layer, uint64_t *total)
{
	char path[BOX_IMAGE_NAME_MAX + IMAGE_HEX];
	auto_buf struct buf text = {0};
	uint64_t n = 0;
	snprintf(path, sizeof path, "sizes/%s", strcmp(layer, "default") == 0 ? s->own : layer);
	if (fd_read_file(s->meta, path, 32, &text) < 0 || !str_to_u64(buf_str(&text), INT64_MAX, &n))
		return false;
	*total += n;
	return true;
}

uint64_t store_size(struct store *s, const struct words *layers)
{
	struct image_request rq = {.op = IMAGE_MEASURE};
	uint64_t total = 0;
	struct err ignored;
	bool known = true;
	for (size_t i = 0; i < layers->n && known; i++)
		known = add_size(s, layers->v[i], &total);
	if (known || ask(s, &rq, NULL, NULL, NULL, &ignored) < 0)
		return total;
	total = 0;
	for (size_t i = 0; i < layers->n; i++)
		add_size(s, layers->v[i], &total);
	return total;
}

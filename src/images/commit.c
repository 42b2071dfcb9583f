/*
 * The files of a sandbox become the next layer of its image. The sandbox is forked, which takes
 * a moment and leaves it running; the fork never starts, and its layer is taken.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "images/registry.h"

/* The image of the sandbox, with its configuration. */
static int load_base(struct store *s, struct work *w, const char *box, struct image_config *ret, struct err *e)
{
	auto_buf struct buf path = {0}, text = {0};
	const char *key = NULL, *name = NULL;
	daemon_box_path(&path, box, "");
	if (daemon_call(&w->link, "GET", buf_cstr(&path), STR(""), &text, e) < 0)
		return -1;
	auto_json struct json_doc *doc = json_parse(buf_str(&text), e);
	if (!doc || json_read_cstr(json_root(doc), "imageId", &key, e) < 0 ||
		json_read_cstr(json_root(doc), "image", &name, e) < 0)
		return -1;
	if (!key)
		key = !name || strcmp(name, "default") == 0 ? s->own : name;
	return config_load(s, key, ret, e);
}

static int fork_box(struct work *w, const char *box, struct err *e)
{
	auto_buf struct buf path = {0}, body = {0}, text = {0};
	daemon_box_path(&path, box, "/fork");
	buf_printf(&body, "{\"ids\":[\"%s\"]}", w->box);
	w->there = true;
	return daemon_call(&w->link, "POST", buf_cstr(&path), buf_str(&body), &text, e);
}

static void add_history(struct image_config *c, const char *box)
{
	auto_buf struct buf text = {0};
	struct json_writer w = json_writer(&text);
	auto_free char *by = xasprintf("atoll commit %s", box);
	json_object_begin(&w);
	json_member_cstr(&w, "created_by", by);
	json_object_end(&w);
	words_add(&c->history, buf_str(&text));
}

static int take_layer(struct store *s, struct work *w, const char *box, struct image_config *c, struct err *e)
{
	auto_buf struct buf text = {0};
	char layer[IMAGE_HEX + 1];
	struct timespec now = {0};
	if (c->layers.n >= IMAGE_LAYERS_MAX)
		return err_set(e, ERRC_LIMIT_REACHED, "the image would have more than %d layers", IMAGE_LAYERS_MAX);
	clock_gettime(CLOCK_REALTIME, &now);
	buf_printf(&text, "commit %s %lld.%09ld %d", box, (long long)now.tv_sec, now.tv_nsec, (int)getpid());
	digest_of(buf_str(&text), layer);
	if (fork_box(w, box, e) < 0 || work_take(w, s, layer, e) < 0)
		return -1;
	words_add(&c->layers, str_of(layer));
	add_history(c, box);
	return 0;
}

int do_commit(struct order *o, struct store *s, struct err *e)
{
	auto_work struct work w = {0};
	auto_config struct image_config config = {0};
	auto_json struct json_doc *doc = order_json(o, e);
	const char *box = NULL;
	struct str name = STR_NULL;
	struct image_ref ref;
	char key[BOX_IMAGE_NAME_MAX + 1];
	if (!doc || json_read_cstr(json_root(doc), "sandbox", &box, e) < 0 ||
		json_read_str(json_root(doc), "name", &name, e) < 0)
		return -1;
	if (!box || !*box || !name.n)
		return err_field(e, box && *box ? "name" : "sandbox", "fields 'sandbox' and 'name' are needed");
	if (image_ref_parse(name, &ref, e) < 0)
		return -1;
	if (*ref.key || !*ref.name)
		return err_field(e, "name", "field 'name' must be a name, not a digest");
	if (work_open(&w, e) < 0 || load_base(s, &w, box, &config, e) < 0 || take_layer(s, &w, box, &config, e) < 0 ||
		config_save(s, &config, key, NULL, e) < 0)
		return -1;
	packages_keep(s, key);
	/* The box may be destroyed next, and its files can be nowhere else: unlike a pull, nothing makes them again. */
	if (syncfs(s->meta) < 0)
		return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "write the image to the disk");
	if (store_link(s, false, ref.name, key, e) < 0)
		return -1;
	auto_buf struct buf out = {0};
	struct json_writer j = json_writer(&out);
	json_object_begin(&j);
	json_member_cstr(&j, "name", ref.name);
	json_member_cstr(&j, "id", key);
	json_object_end(&j);
	tell_answer(201, buf_str(&out));
	return 0;
}

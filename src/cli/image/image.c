/*
 * image.c - `atoll images` and `atoll image`: lists, shows, names and removes images.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/api.h"
#include "cli/args.h"
#include "cli/image/image.h"
#include "cli/text.h"
#include "cli/verbs.h"

static struct json_doc *ask(struct client *cl, const char *method, const char *target, struct str body, struct err *e)
{
	auto_buf struct buf answer = {0};
	if (client_call(cl, method, target, body, &answer, e) < 0)
		return NULL;
	struct json_doc *doc = json_parse(buf_str(&answer), e);
	if (doc && cl->cli->json)
		cli_print(&answer);
	return doc;
}

/* Layers are shared: the sizes of images do not add up to the disk that they take. */
static void print_usage(const struct json *usage)
{
	uint64_t layers = 0, bytes = 0, caches = 0, cached = 0, free_bytes = 0;
	json_read_u64(usage, "layers", 0, UINT32_MAX, &layers, NULL);
	json_read_u64(usage, "bytes", 0, INT64_MAX, &bytes, NULL);
	json_read_u64(usage, "caches", 0, UINT32_MAX, &caches, NULL);
	json_read_u64(usage, "cacheBytes", 0, INT64_MAX, &cached, NULL);
	json_read_u64(usage, "reclaimableBytes", 0, INT64_MAX, &free_bytes, NULL);
	printf("\n%u layers of images made here take %.1f MB", (unsigned)layers, (double)bytes / 1e6);
	if (caches)
		printf(", %u caches of builds %.1f MB", (unsigned)caches, (double)cached / 1e6);
	if (free_bytes)
		printf("; `atoll image prune` frees %.1f MB of it", (double)free_bytes / 1e6);
	printf("\n");
}

static int list(struct client *cl, struct err *e)
{
	static const char *const heads[] = {"NAME", "ID", ">LAYERS", ">SIZE", "CREATED"};
	auto_json struct json_doc *doc = ask(cl, "GET", "/v1/images?usage=true", STR(""), e);
	struct table t = {.columns = ARRAY_LEN(heads), .heads = heads};
	if (!doc)
		return -1;
	json_each(it, json_get(json_root(doc), "images"))
	{
		uint64_t layers = 0, size = 0, created = 0;
		char when[CLOCK_ISO_LEN];
		struct str id = api_text(it, "id");
		json_read_u64(it, "layers", 0, UINT32_MAX, &layers, NULL);
		json_read_u64(it, "size", 0, INT64_MAX, &size, NULL);
		json_read_u64(it, "created", 0, INT64_MAX, &created, NULL);
		table_add(&t, api_text(it, "name"));
		table_add(&t, str_starts(id, STR("sha256-")) ? str_n(id.p + 7, 12) : id);
		table_printf(&t, "%u", (unsigned)layers);
		table_printf(&t, "%.1f MB", (double)size / 1e6);
		table_printf(&t, "%s", created ? clock_iso((int64_t)created, when) : "-");
	}
	if (!cl->cli->json) {
		table_print(&t, "no images");
		print_usage(json_get(json_root(doc), "usage"));
	}
	table_free(&t);
	return 0;
}

static int inspect(struct client *cl, const char *name, struct err *e)
{
	auto_buf struct buf path = {0}, answer = {0};
	image_path(&path, name);
	image_query(&path, "packages", "true");
	if (client_call(cl, "GET", buf_cstr(&path), STR(""), &answer, e) < 0)
		return -1;
	cli_print(&answer);
	return 0;
}

static int removed(struct client *cl, const char *method, const char *target, struct err *e)
{
	uint64_t images = 0, layers = 0, bytes = 0;
	auto_json struct json_doc *doc = ask(cl, method, target, STR(""), e);
	if (!doc || json_read_u64(json_root(doc), "images", 0, UINT32_MAX, &images, e) < 0 ||
		json_read_u64(json_root(doc), "layers", 0, UINT32_MAX, &layers, e) < 0 ||
		json_read_u64(json_root(doc), "bytes", 0, INT64_MAX, &bytes, e) < 0)
		return -1;
	if (!cl->cli->json)
		printf("removed %u images, %u layers, %.1f MB\n", (unsigned)images, (unsigned)layers,
			(double)bytes / 1e6);
	return 0;
}

static int tag(struct client *cl, const char *from, const char *to, struct err *e)
{
	auto_buf struct buf body = {0};
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_member_cstr(&w, "source", from);
	json_member_cstr(&w, "target", to);
	json_object_end(&w);
	auto_json struct json_doc *doc = ask(cl, "POST", "/v1/images/tag", buf_str(&body), e);
	return doc ? 0 : -1;
}

static int remove_all(struct client *cl, char **names, int n, struct err *e)
{
	for (int i = 0; i < n; i++) {
		auto_buf struct buf path = {0};
		image_path(&path, names[i]);
		if (removed(cl, "DELETE", buf_cstr(&path), e) < 0)
			return -1;
	}
	return 0;
}

static int act(struct client *cl, int n, char **words, struct err *e)
{
	const char *what = words[0];
	if (strcmp(what, "ls") == 0 && n == 1)
		return list(cl, e);
	if (strcmp(what, "inspect") == 0 && n == 2)
		return inspect(cl, words[1], e);
	if (strcmp(what, "rm") == 0 && n > 1)
		return remove_all(cl, words + 1, n - 1, e);
	if (strcmp(what, "prune") == 0 && n == 1)
		return removed(cl, "POST", "/v1/images/prune", e);
	if (strcmp(what, "tag") == 0 && n == 3)
		return tag(cl, words[1], words[2], e);
	return 1;
}

int verb_image(struct cli *c, int argc, char **argv)
{
	const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	auto_client struct client cl = {0};
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n < 1)
		return cli_usage(c, "what about images? Write ls, inspect, rm, prune or tag");
	if (client_open(c, &cl, &e) < 0)
		return cli_fail(c, &e);
	int r = act(&cl, a.n, a.words, &e);
	if (r > 0)
		return cli_usage(c, "write: ls, inspect NAME, rm NAME..., prune, or tag NAME NEW");
	return r < 0 ? cli_fail(c, &e) : 0;
}

int verb_images(struct cli *c, int argc, char **argv)
{
	const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	auto_client struct client cl = {0};
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n)
		return cli_usage(c, "images takes no words");
	return client_open(c, &cl, &e) < 0 || list(&cl, &e) < 0 ? cli_fail(c, &e) : 0;
}

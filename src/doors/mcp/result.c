/* The parts of a result: texts, images, tables, and output that is too long to be shown whole. */
#include <stdio.h>

#include "base/json.h"
#include "doors/mcp/call.h"

static struct json_writer part(struct mcp_call *c)
{
	struct json_writer w = json_writer(&c->content);
	w.comma = buf_size(&c->content) > 0;
	json_object_begin(&w);
	return w;
}

/* A part of what resources/read answers. */
static void resource_text(struct mcp_call *c, struct str text)
{
	struct json_writer w = part(c);
	json_member_cstr(&w, "uri", c->path);
	json_member_cstr(&w, "mimeType", "text/plain");
	json_member_str(&w, "text", text);
	json_object_end(&w);
}

void mcp_text(struct mcp_call *c, struct str text)
{
	if (c->resource)
		return resource_text(c, text);
	struct json_writer w = part(c);
	json_member_cstr(&w, "type", "text");
	json_member_str(&w, "text", text);
	json_object_end(&w);
}

void mcp_printf(struct mcp_call *c, const char *fmt, ...)
{
	auto_buf struct buf text = {0};
	va_list ap;
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	mcp_text(c, buf_str(&text));
}

void mcp_image(struct mcp_call *c, struct str base64, const char *mime)
{
	if (c->images >= MCP_IMAGES_MAX || base64.n > MCP_IMAGE_MAX)
		return mcp_printf(c, "[an image of %zu bytes was left out]", base64.n / 4 * 3);
	c->images++;
	struct json_writer w = part(c);
	if (c->resource) {
		json_member_cstr(&w, "uri", c->path);
		json_member_cstr(&w, "mimeType", mime);
		json_member_str(&w, "blob", base64);
	} else {
		json_member_cstr(&w, "type", "image");
		json_member_str(&w, "data", base64);
		json_member_cstr(&w, "mimeType", mime);
	}
	json_object_end(&w);
}

void mcp_page(struct mcp_call *c, struct str html)
{
	char uri[BOX_ID_MAX + 40];
	if (html.n > MCP_SHOWN_HEAD)
		return;
	snprintf(uri, sizeof uri, "atoll://%s/results/%llu", c->box, (unsigned long long)++c->number);
	struct json_writer w = part(c);
	json_member_cstr(&w, "type", "resource");
	json_key(&w, "resource");
	json_object_begin(&w);
	json_member_cstr(&w, "uri", uri);
	json_member_cstr(&w, "mimeType", "text/html");
	json_member_str(&w, "text", html);
	json_object_end(&w);
	json_object_end(&w);
}

/* What is past the maximum is counted, not kept. */
void mcp_output(struct mcp_call *c, struct str text)
{
	size_t room = MCP_OUTPUT_KEPT_MAX - buf_size(&c->out);
	c->out_bytes += text.n;
	buf_add_str(&c->out, text.n < room ? text : str_n(text.p, room));
}

/* The largest place up to `at` that does not cut a character. */
static size_t boundary(struct str s, size_t at)
{
	while (at > 0 && at < s.n && ((unsigned char)s.p[at] & 0xC0) == 0x80)
		at--;
	return at;
}

void mcp_show_output(struct mcp_call *c)
{
	struct str all = buf_str(&c->out);
	uint64_t lost = c->out_bytes - all.n;
	if (all.n <= MCP_SHOWN_HEAD + MCP_SHOWN_TAIL && !lost) {
		if (all.n)
			mcp_text(c, all);
		return;
	}
	size_t head = boundary(all, MCP_SHOWN_HEAD), tail = boundary(all, all.n - MCP_SHOWN_TAIL);
	auto_buf struct buf text = {0};
	uint64_t number = c->session->outputs_made + 1;
	buf_add_str(&text, str_n(all.p, head));
	buf_printf(&text,
		"\n[… %zu of %llu bytes are left out here; read_output {\"output\": %llu, \"offset\": %zu} reads on",
		tail - head, (unsigned long long)c->out_bytes, (unsigned long long)number, head);
	if (lost)
		buf_printf(&text, "; the last %llu bytes were not kept", (unsigned long long)lost);
	buf_add_c(&text, " …]\n");
	buf_add_str(&text, str_skip(all, tail));
	mcp_text(c, buf_str(&text));
	mcp_output_keep(c->session, &c->out);
}

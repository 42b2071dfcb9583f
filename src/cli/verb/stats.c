/*
 * stats.c - `atoll stats`: CPU and memory of boxes; live on a terminal, else measured once.
 *
 * CPU use is the difference of two readings of a box's CPU time. Each screen is drawn with one write, so that nothing
 * flickers; the terminal is restored on every way out (tty.h).
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/api.h"
#include "cli/args.h"
#include "cli/text.h"
#include "cli/tty.h"
#include "cli/verb/box.h"
#include "cli/verbs.h"
#include "proto/limits.h"

enum { STATS_FIRST_MS = 500, STATS_BOXES_MAX = 10000 };

struct stats_sample {
	char id[BOX_ID_MAX + 1];
	char state[16];
	bool live; /* has numbers */
	uint64_t memory, memory_max, peak, pids, pids_max, oom, disk, disk_max;
	double cpu_seconds, cpu_limit;
	double percent; /* share of one CPU since the last reading */
	uint64_t when_us;
};

struct stats {
	struct client cl;
	char **ids; /* requested boxes; none: all */
	int ids_n;
	struct stats_sample *v;
	size_t n;
	uint64_t every_ms;
	bool quit;
	struct loop_io keys;
};

/* ---- looking ---- */

static void read_sample(const struct json *j, struct stats_sample *s)
{
	const struct json *limits = json_get(j, "limits"), *usage = json_get(j, "usage");
	struct str id = api_text(j, "id"), state = api_text(j, "state");
	snprintf(s->id, sizeof s->id, "%.*s", STR_ARG(id));
	snprintf(s->state, sizeof s->state, "%.*s", STR_ARG(state));
	json_read_u64(limits, "memory", 0, UINT64_MAX, &s->memory_max, NULL);
	json_read_u64(limits, "pids", 0, UINT64_MAX, &s->pids_max, NULL);
	json_read_double(limits, "cpu", &s->cpu_limit, NULL);
	s->live = !json_is_null(usage);
	json_read_u64(usage, "memory", 0, UINT64_MAX, &s->memory, NULL);
	json_read_u64(usage, "memoryPeak", 0, UINT64_MAX, &s->peak, NULL);
	json_read_u64(usage, "pids", 0, UINT64_MAX, &s->pids, NULL);
	json_read_u64(usage, "oomKills", 0, UINT64_MAX, &s->oom, NULL);
	json_read_double(usage, "cpuSeconds", &s->cpu_seconds, NULL);
	const struct json *disk = json_get(j, "disk");
	json_read_u64(disk, "used", 0, UINT64_MAX, &s->disk, NULL);
	json_read_u64(disk, "allowed", 0, UINT64_MAX, &s->disk_max, NULL);
	s->when_us = clock_us();
}

/* A box that is gone meanwhile is left out. A missing box that was named is an error in the first reading. */
static int look_at(struct stats *s, const char *id, const struct stats_sample *old, size_t old_n, struct err *e)
{
	auto_buf struct buf path = {0}, body = {0};
	client_box_path(&path, id, "");
	if (client_call(&s->cl, "GET", buf_cstr(&path), STR(""), &body, e) < 0)
		return e->code == ERRC_SANDBOX_NOT_FOUND && (old || !s->ids_n) ? 0 : -1;
	auto_json struct json_doc *d = json_parse(buf_str(&body), e);
	if (!d)
		return -1;
	if ((s->n & (s->n - 1)) == 0)
		s->v = xrealloc(s->v, (s->n ? s->n * 2 : 1) * sizeof *s->v);
	struct stats_sample *now = &s->v[s->n++];
	*now = (struct stats_sample){0};
	read_sample(json_root(d), now);
	for (size_t i = 0; i < old_n; i++) {
		double us = (double)(now->when_us - old[i].when_us), used = now->cpu_seconds - old[i].cpu_seconds;
		if (old[i].live && strcmp(old[i].id, now->id) == 0 && us > 0 && used > 0)
			now->percent = used * 1e8 / us;
	}
	return 0;
}

struct stats_names {
	char (*v)[BOX_ID_MAX + 1];
	size_t n;
};

static int keep_name(void *arg, const struct json *box, struct err *e)
{
	struct stats_names *names = arg;
	struct str id = api_text(box, "id");
	if (names->n == STATS_BOXES_MAX)
		return err_set(e, ERRC_LIMIT_REACHED, "more than %d boxes: write the names of some", STATS_BOXES_MAX);
	if ((names->n & (names->n - 1)) == 0)
		names->v = xrealloc(names->v, (names->n ? names->n * 2 : 1) * sizeof *names->v);
	snprintf(names->v[names->n++], BOX_ID_MAX + 1, "%.*s", STR_ARG(id));
	return 0;
}

static int look(struct stats *s, struct err *e)
{
	struct stats_sample *old = s->v;
	size_t old_n = s->n;
	struct stats_names names = {0};
	int r = 0;
	s->v = NULL;
	s->n = 0;
	if (!s->ids_n)
		r = box_each(&s->cl, keep_name, &names, e);
	for (int i = 0; r == 0 && i < s->ids_n; i++)
		r = look_at(s, s->ids[i], old, old_n, e);
	for (size_t i = 0; r == 0 && i < names.n; i++)
		r = look_at(s, names.v[i], old, old_n, e);
	free(names.v);
	free(old);
	return r;
}

/* ---- showing ---- */

static int by_use(const void *pa, const void *pb)
{
	const struct stats_sample *a = pa, *b = pb;
	if (a->live != b->live)
		return a->live ? -1 : 1;
	if ((int)(a->percent * 10) != (int)(b->percent * 10))
		return a->percent > b->percent ? -1 : 1;
	return strcmp(a->id, b->id);
}

static void put_table(struct stats *s, struct buf *to, size_t rows)
{
	static const char *const heads[] = {
		"ID", "STATE", ">CPU %", ">MEMORY", ">LIMIT", ">MEM %", ">PEAK", ">PIDS", ">CPU TIME", ">DISK", ">OF"};
	struct table t = {.columns = ARRAY_LEN(heads), .heads = heads};
	char text[24];
	if (rows)
		t.max_width = text_terminal_width(STDOUT_FILENO, 0);
	if (s->n)
		qsort(s->v, s->n, sizeof *s->v, by_use);
	for (size_t i = 0; i < s->n && (!rows || i < rows); i++) {
		const struct stats_sample *b = &s->v[i];
		table_printf(&t, "%s", b->id);
		table_printf(&t, "%s", b->state);
		if (!b->live) {
			for (size_t k = 2; k < ARRAY_LEN(heads); k++)
				table_add(&t, STR("-"));
			continue;
		}
		table_printf(&t, "%.1f", b->percent);
		table_printf(&t, "%s", box_size_text(b->memory, text));
		table_printf(&t, "%s", box_size_text(b->memory_max, text));
		table_printf(&t, "%.0f", b->memory_max ? 100.0 * (double)b->memory / (double)b->memory_max : 0);
		table_printf(&t, "%s", box_size_text(b->peak, text));
		table_printf(&t, "%llu", (unsigned long long)b->pids);
		table_printf(&t, "%.2f s", b->cpu_seconds);
		table_printf(&t, "%s", b->disk_max ? box_size_text(b->disk, text) : "-");
		table_printf(&t, "%s", b->disk_max ? box_size_text(b->disk_max, text) : "-");
	}
	if (s->n || rows)
		table_put(&t, to);
	table_free(&t);
}

static void print_json(const struct stats *s)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_key(&w, "sandboxes");
	json_array_begin(&w);
	for (size_t i = 0; i < s->n; i++) {
		const struct stats_sample *b = &s->v[i];
		json_object_begin(&w);
		json_member_cstr(&w, "id", b->id);
		json_member_cstr(&w, "state", b->state);
		json_member_double(&w, "cpuPercent", b->percent);
		json_member_double(&w, "cpuSeconds", b->cpu_seconds);
		json_member_double(&w, "cpuLimit", b->cpu_limit);
		json_member_u64(&w, "memory", b->memory);
		json_member_u64(&w, "memoryPeak", b->peak);
		json_member_u64(&w, "memoryLimit", b->memory_max);
		json_member_u64(&w, "pids", b->pids);
		json_member_u64(&w, "pidsLimit", b->pids_max);
		json_member_u64(&w, "oomKills", b->oom);
		if (b->disk_max) {
			json_member_u64(&w, "disk", b->disk);
			json_member_u64(&w, "diskLimit", b->disk_max);
		}
		json_object_end(&w);
	}
	json_array_end(&w);
	json_object_end(&w);
	cli_print(&out);
}

static int once(struct stats *s, struct err *e)
{
	auto_buf struct buf out = {.max = SIZE_MAX / 2};
	if (look(s, e) < 0)
		return -1;
	usleep(STATS_FIRST_MS * 1000);
	if (look(s, e) < 0)
		return -1;
	if (s->cl.cli->json) {
		print_json(s);
		return 0;
	}
	put_table(s, &out, 0);
	if (buf_size(&out))
		cli_print(&out);
	return 0;
}

/* ---- live ---- */

static void on_key(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct stats *s = container_of(io, struct stats, keys);
	char keys[64];
	ssize_t n = read(STDIN_FILENO, keys, sizeof keys);
	s->quit = s->quit || n <= 0;
	for (ssize_t i = 0; i < n; i++)
		s->quit = s->quit || keys[i] == 'q' || keys[i] == 3 || keys[i] == 4;
}

static void draw(struct stats *s)
{
	auto_buf struct buf out = {.max = SIZE_MAX / 2}, body = {.max = SIZE_MAX / 2};
	struct tty_size size = tty_size(STDOUT_FILENO);
	size_t rows = size.rows > 3 ? (size_t)size.rows - 3 : 1, running = 0;
	double percent = 0;
	uint64_t memory = 0;
	char text[24];
	for (size_t i = 0; i < s->n; i++) {
		running += s->v[i].live;
		percent += s->v[i].percent;
		memory += s->v[i].memory;
	}
	buf_printf(&body, "%zu boxes, %zu live, CPU %.1f %%, memory %s   q: quit\n", s->n, running, percent,
		box_size_text(memory, text));
	put_table(s, &body, rows);
	/* Moves the cursor home, clears each line after its end, and clears the rest of the screen. */
	buf_add_c(&out, "\033[H");
	for (struct str rest = buf_str(&body); rest.n;) {
		struct str line = str_split(rest, '\n', &rest);
		buf_add_str(&out, line);
		buf_add_c(&out, "\033[K\r\n");
	}
	buf_add_c(&out, "\033[J");
	fd_write_full(STDOUT_FILENO, out.p + out.off, buf_size(&out));
}

static int live(struct stats *s, struct err *e)
{
	if (look(s, e) < 0 || client_catch_signals(&s->cl, e) < 0)
		return -1;
	if (tty_raw(STDIN_FILENO, STDOUT_FILENO, TTY_SCREEN, e) < 0)
		return -1;
	loop_add(s->cl.loop, &s->keys, STDIN_FILENO, EPOLLIN, on_key);
	uint64_t wait = STATS_FIRST_MS;
	int r = 0;
	draw(s);
	while (r == 0 && !s->quit && !s->cl.interrupted) {
		for (uint64_t end = clock_ms() + wait, now; (now = clock_ms()) < end && !s->quit && !s->cl.interrupted;)
			loop_turn(s->cl.loop, (int)(end - now));
		wait = s->every_ms;
		if (!s->quit && !s->cl.interrupted && (r = look(s, e)) == 0)
			draw(s);
	}
	loop_del(&s->keys);
	tty_restore();
	return r;
}

int verb_stats(struct cli *c, int argc, char **argv)
{
	struct stats s = {.every_ms = 2000};
	bool one = false;
	const struct arg table[] = {
		{"once", NULL, "measure once, also on a terminal", ARG_FLAG, &one, '1'},
		{"every", "TIME", "seconds between measurements (default 2)", ARG_SECONDS, &s.every_ms},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (s.every_ms < 100 || s.every_ms > 3600000)
		return cli_usage(c, "--every must be from 0.1 to 1h");
	for (int i = 0; i < a.n; i++)
		if (!*a.words[i])
			return cli_usage(c, "the name of a box is empty");
	s.ids = a.words;
	s.ids_n = a.n;
	struct err e;
	bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !c->json && !one;
	if (client_open(c, &s.cl, &e) < 0 || (terminal ? live(&s, &e) : once(&s, &e)) < 0)
		return cli_fail(c, &e);
	client_close(&s.cl);
	return s.cl.interrupted ? 128 + s.cl.interrupted : 0;
}

#include "agent/process/service.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/file/replace.h"
#include "agent/limits.h"
#include "agent/shell/session.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "proto/limits.h"

struct service {
	struct list node;
	struct service_spec spec;
	bool waits;	/* for its next start */
	bool forgotten; /* freed when the start under way is over */
	bool starting;
	uint64_t pause_ms, began;
	long restarts;
	struct loop_timer timer;
};

static struct list all = {&all, &all};
static size_t count;

void service_spec_free(struct service_spec *s)
{
	free(s->id);
	free(s->command);
	free(s->cwd);
	for (char **word = s->argv; word && *word; word++)
		free(*word);
	free(s->argv);
	env_free(&s->env);
	*s = (struct service_spec){0};
}

static struct service *find(struct str id)
{
	list_each(it, &all)
	{
		struct service *s = list_entry(it, struct service, node);
		if (str_eq_c(id, s->spec.id))
			return s;
	}
	return NULL;
}

/* ---- the file ---- */

static void put_service(struct json_writer *w, const struct service_spec *s)
{
	json_object_begin(w);
	json_member_cstr(w, "id", s->id);
	json_member_cstr(w, "command", s->command);
	json_member_cstr(w, "cwd", s->cwd);
	json_member_bool(w, "keepAlive", s->keep_alive);
	json_key(w, "env");
	json_object_begin(w);
	for (size_t i = 0; i < s->env.n; i++) {
		struct str value, name = str_split(str_of(s->env.v[i]), '=', &value);
		auto_free char *key = str_dup(name);
		if (name.n < strlen(s->env.v[i]))
			json_member_str(w, key, value);
	}
	json_object_end(w);
	json_object_end(w);
}

static int save(struct err *e)
{
	auto_buf struct buf text = {0};
	struct json_writer w = json_writer(&text);
	struct file_replace f = FILE_REPLACE_INIT;
	if (!agent.boxed)
		return 0;
	json_object_begin(&w);
	json_key(&w, "services");
	json_array_begin(&w);
	list_each(it, &all)
	{
		const struct service_spec *spec = &list_entry(it, struct service, node)->spec;
		if (!spec->argv)
			put_service(&w, spec);
	}
	json_array_end(&w);
	json_object_end(&w);
	buf_add_byte(&text, '\n');
	if (buf_size(&text) > SERVICES_FILE_MAX)
		return err_set(
			e, ERRC_LIMIT_REACHED, "the services of a sandbox take at most %u bytes", SERVICES_FILE_MAX);
	if (file_replace_open(&f, SERVICES_FILE, e) < 0)
		return -1;
	if (file_replace_write(&f, buf_str(&text), e) < 0) {
		file_replace_abort(&f);
		return -1;
	}
	if (fsync(f.fd) < 0)
		log_limited(LOG_WARN, "services not on disk", "os=%d", errno);
	return file_replace_finish(&f, e);
}

static void save_or_log(void)
{
	struct err e;
	if (save(&e) < 0)
		log_limited(LOG_ERROR, "services not written", "error=%s", LOG_Q(e.msg));
}

static int read_one(const struct json *o, struct service_spec *ret, struct err *e)
{
	const char *id = "", *command = "", *cwd = "";
	if (o->type != JSON_T_OBJECT || json_read_cstr(o, "id", &id, e) < 0 ||
		json_read_cstr(o, "command", &command, e) < 0 || json_read_cstr(o, "cwd", &cwd, e) < 0 ||
		json_read_bool(o, "keepAlive", &ret->keep_alive, e) < 0 || env_read(o, "env", &ret->env, e) < 0)
		return -1;
	if (!process_id_ok(str_of(id)) || !*id || !*command || *cwd != '/' || strlen(cwd) >= AGENT_PATH_MAX)
		return -1;
	ret->id = xstrdup(id);
	ret->command = xstrdup(command);
	ret->cwd = xstrdup(cwd);
	return 0;
}

/* ---- starting ---- */

static void later(struct service *s);
static void drop(struct service *s);

static void service_free(struct service *s)
{
	loop_timer_stop(&s->timer);
	service_spec_free(&s->spec);
	free(s);
}

static struct service *add(struct service_spec *spec)
{
	struct service *s = xcalloc(1, sizeof *s);
	s->spec = *spec;
	*spec = (struct service_spec){0};
	s->pause_ms = SERVICE_RETRY_MIN;
	s->began = clock_ms();
	list_push(&all, &s->node);
	count++;
	return s;
}

struct start {
	struct service *service;
	struct process *process;
};

static void on_started(void *arg, struct cmd *cmd, const struct cmd_result *failure)
{
	struct start st = *(struct start *)arg;
	struct service *s = st.service;
	free(arg);
	s->starting = false;
	s->began = clock_ms();
	if (cmd)
		process_started(st.process, cmd);
	else
		process_failed(st.process, &failure->error);
	if (s->forgotten && cmd)
		process_kill(st.process, SIGTERM);
	if (s->forgotten)
		service_free(s);
	else if (!cmd)
		later(s);
}

/* Needs no shell: an image may have none. A program that is not there will not come. */
static void start_program(struct service *s, struct process *p)
{
	auto_run struct run_spec none = {0};
	auto_env struct env env = {0};
	struct cmd *cmd;
	enum spawn_step step;
	struct err e;
	session_env(NULL, &env);
	struct run_place at = {.env = &env, .cwd = s->spec.cwd, .ops = &process_cmd_ops, .arg = p};
	s->began = clock_ms();
	if (run_start_argv((const char *const *)s->spec.argv, &none, &at, &cmd, &step, &e) < 0) {
		p->service = false;
		process_failed_visibly(p, &e);
		drop(s);
	} else {
		process_started(p, cmd);
	}
}

static void start(struct service *s)
{
	struct err e;
	auto_run struct run_spec spec = {.text = xstrdup(s->spec.command), .cwd = xstrdup(s->spec.cwd)};
	spec.command = str_of(spec.text);
	env_apply_raw(&spec.env, &s->spec.env);
	struct process *p = process_add_again(str_of(s->spec.id), spec.command, STR("default"), &e);
	if (!p)
		return later(s);
	p->service = true;
	p->keep_alive = s->spec.keep_alive;
	s->waits = false;
	if (s->spec.argv)
		return start_program(s, p);
	s->starting = true;
	struct start *st = xmalloc(sizeof *st);
	*st = (struct start){s, p};
	session_start(NULL, &spec, &process_cmd_ops, p, on_started, st);
}

static void on_due(struct loop_timer *t)
{
	struct service *s = container_of(t, struct service, timer);
	s->restarts++;
	start(s);
}

static void later(struct service *s)
{
	if (agent.stopping)
		return;
	if (clock_ms() - s->began >= SERVICE_STEADY)
		s->pause_ms = SERVICE_RETRY_MIN;
	s->waits = true;
	loop_timer_set(agent.loop, &s->timer, s->pause_ms, on_due);
	s->pause_ms = s->pause_ms * 2 > SERVICE_RETRY_MAX ? SERVICE_RETRY_MAX : s->pause_ms * 2;
}

/* ---- what others use ---- */

int service_keep(struct process *p, struct service_spec *spec, struct err *e)
{
	if (count >= SERVICES_MAX) {
		service_spec_free(spec);
		return err_set(e, ERRC_LIMIT_REACHED, "a sandbox has at most %d services", SERVICES_MAX);
	}
	struct service *s = add(spec);
	if (save(e) < 0) {
		list_del(&s->node);
		count--;
		service_free(s);
		return -1;
	}
	p->service = true;
	return 0;
}

static void drop(struct service *s)
{
	struct process *p = process_find(str_of(s->spec.id));
	if (p)
		p->service = false;
	list_del(&s->node);
	count--;
	loop_timer_stop(&s->timer);
	s->forgotten = true;
	if (!s->starting)
		service_free(s);
}

bool service_forget(struct str id)
{
	struct service *s = find(id);
	if (!s)
		return false;
	drop(s);
	save_or_log();
	return true;
}

void service_forget_all(void)
{
	if (list_empty(&all))
		return;
	while (!list_empty(&all))
		drop(list_entry(all.next, struct service, node));
	save_or_log();
}

void service_ended(const struct process *p)
{
	struct service *s = find(str_of(p->id));
	if (s && s->spec.argv && p->status == PROCESS_COMPLETED)
		drop(s);
	else if (s)
		later(s);
}

long service_restarts(struct str id)
{
	const struct service *s = find(id);
	return s ? s->restarts : -1;
}

static void start_one(const struct json *o)
{
	struct service_spec spec = {0};
	struct err e;
	if (read_one(o, &spec, &e) < 0 || find(str_of(spec.id)) || count >= SERVICES_MAX) {
		service_spec_free(&spec);
		return;
	}
	start(add(&spec));
}

/* The box may have put anything there: a FIFO must not hold the agent. */
static bool read_list(struct buf *ret)
{
	struct stat st = {0};
	auto_fd int fd = open(SERVICES_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > SERVICES_FILE_MAX)
		return false;
	char *room = buf_room(ret, SERVICES_FILE_MAX);
	ssize_t n = room ? pread(fd, room, SERVICES_FILE_MAX, 0) : -1;
	if (n <= 0)
		return false;
	buf_commit(ret, (size_t)n);
	return true;
}

void services_start(void)
{
	auto_buf struct buf text = {0};
	struct err e;
	if (!read_list(&text))
		return;
	auto_json struct json_doc *doc = json_parse(buf_str(&text), &e);
	const struct json *list =
		doc && json_root(doc)->type == JSON_T_OBJECT ? json_get(json_root(doc), "services") : NULL;
	if (!list || list->type != JSON_T_ARRAY) {
		log_event(LOG_WARN, "services not understood", "file=%s", SERVICES_FILE);
		return;
	}
	json_each(it, list) start_one(it);
}

static char **words_copy(const struct json *words, struct buf *ret_text)
{
	char **argv = xcalloc(words->count + 1, sizeof *argv);
	size_t n = 0;
	json_each(it, words)
	{
		buf_printf(ret_text, "%s%.*s", n ? " " : "", STR_ARG(it->text));
		argv[n++] = str_dup(it->text);
	}
	return argv;
}

int service_start_entrypoint(const struct json *words, struct err *e)
{
	auto_buf struct buf text = {0};
	if (json_is_null(words))
		return 0;
	if (words->type != JSON_T_ARRAY || words->count > BOX_COMMAND_WORDS_MAX)
		return err_field(e, "entrypoint", "field 'entrypoint' must be a list of words");
	json_each(it, words) if (it->type != JSON_T_STRING || memchr(it->text.p, 0, it->text.n)) return err_field(
		e, "entrypoint", "field 'entrypoint' must be a list of words");
	if (!words->count || find(STR(SERVICE_ENTRYPOINT)) || count >= SERVICES_MAX)
		return 0;
	struct service_spec spec = {.id = xstrdup(SERVICE_ENTRYPOINT), .cwd = xstrdup(agent.workdir)};
	spec.argv = words_copy(words, &text);
	spec.command = str_dup(buf_str(&text));
	start(add(&spec));
	return 0;
}

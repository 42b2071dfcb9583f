/*
 * Theory of operation. The loop thread appends a change to `queued` under the lock and wakes the writer. The writer
 * takes the whole list, runs it as one transaction, puts every change with its error onto `answered` and writes to the
 * eventfd; the loop thread takes that list and runs the callbacks. A change is owned by exactly one of the lists, or by
 * the thread that took the list.
 *
 * When a transaction of several changes fails, it is rolled back and every change is tried alone: a failure belongs to
 * the change that caused it.
 */
#include "store/store.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "store/internal.h"
#include "store/limits.h"

enum change_kind {
	CHANGE_PUT,
	CHANGE_SET_STATE,
	CHANGE_DELETE,
	CHANGE_PORT_PUT,
	CHANGE_PORT_DELETE,
	CHANGE_ITEM_PUT,
	CHANGE_ITEM_DELETE
};

struct change {
	struct list node;
	enum change_kind kind;
	struct store_row row; /* its texts are owned here */
	struct store_port port;
	struct store_item item; /* its texts are owned here */
	bool durable;
	store_on_done on_done;
	void *arg;
	struct err err;
};

struct store {
	struct db db;
	struct loop *loop;
	struct loop_io io; /* the eventfd */
	int event_fd;
	pthread_t thread;
	bool started;

	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct list queued, answered; /* struct change, under the lock */
	size_t count;		      /* queued or being written, under the lock */
	bool wanted;		      /* a caller waits for the queued changes; under the lock */
	bool closing;		      /* under the lock */
	struct loop_timer soon;	      /* no caller waits, but a change must not lie for ever */
};

int store_open(const char *dir, struct store **ret, struct err *e)
{
	struct store *s = xcalloc(1, sizeof *s);
	s->event_fd = -1;
	list_init(&s->queued);
	list_init(&s->answered);
	if (db_open(&s->db, dir, e) < 0) {
		free(s);
		return -1;
	}
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	*ret = s;
	return 0;
}

int store_load(struct store *s, store_on_row on_row, void *arg, struct err *e)
{
	INVARIANT(!s->started);
	return db_load(&s->db, on_row, arg, e);
}

int store_load_ports(struct store *s, store_on_port on_port, void *arg, struct err *e)
{
	INVARIANT(!s->started);
	return db_load_ports(&s->db, on_port, arg, e);
}

int store_load_items(struct store *s, const char *kind, store_on_item on_item, void *arg, struct err *e)
{
	INVARIANT(!s->started);
	return db_load_items(&s->db, kind, on_item, arg, e);
}

static void list_take(struct list *from, struct list *to)
{
	list_init(to);
	list_each(it, from)
	{
		list_del(it);
		list_push(to, it);
	}
}

static void change_free(struct change *c)
{
	free((char *)c->row.env);
	free((char *)c->row.labels);
	free((char *)c->row.network);
	free((char *)c->row.settings);
	free((char *)c->item.kind);
	free((char *)c->item.key);
	free((char *)c->item.sandbox);
	if (c->item.value) /* it may have been a secret */
		explicit_bzero((char *)c->item.value, strlen(c->item.value));
	free((char *)c->item.value);
	free(c);
}

static int change_run(struct store *s, struct change *c)
{
	switch (c->kind) {
	case CHANGE_PUT:
		return db_put(&s->db, &c->row, &c->err);
	case CHANGE_SET_STATE:
		return db_set_state(&s->db, c->row.id, c->row.state, c->row.reason, &c->err);
	case CHANGE_DELETE:
		return db_delete(&s->db, c->row.id, &c->err);
	case CHANGE_PORT_PUT:
		return db_port_put(&s->db, &c->port, &c->err);
	case CHANGE_PORT_DELETE:
		return db_port_delete(&s->db, c->row.id, c->port.port, &c->err);
	case CHANGE_ITEM_PUT:
		return db_item_put(&s->db, &c->item, &c->err);
	case CHANGE_ITEM_DELETE:
		return db_item_delete(&s->db, c->item.kind, c->item.key, &c->err);
	}
	return -1;
}

static int run_together(struct store *s, struct list *batch)
{
	struct err e;
	int r = db_run(&s->db, DB_BEGIN, &e);
	if (r < 0)
		return -1;
	list_each(it, batch)
	{
		if (r == 0)
			r = change_run(s, list_entry(it, struct change, node));
	}
	if (r == 0)
		r = db_run(&s->db, DB_COMMIT, &e);
	if (r < 0 && !sqlite3_get_autocommit(s->db.handle))
		db_run(&s->db, DB_ROLLBACK, &e);
	return r;
}

static void run_each(struct store *s, struct list *batch)
{
	list_each(it, batch)
	{
		struct change *c = list_entry(it, struct change, node);
		c->err = (struct err){0};
		change_run(s, c);
	}
}

static bool wants_disk(struct list *batch)
{
	list_each(it, batch)
	{
		if (list_entry(it, struct change, node)->durable)
			return true;
	}
	return false;
}

/* A batch that cannot be made durable fails whole: no caller may believe that its change is on the disk. */
static void run_batch(struct store *s, struct list *batch)
{
	struct err e = {0}, after;
	bool single = batch->next == batch->prev, durable = wants_disk(batch);
	if (durable && db_sync(&s->db, true, &e) < 0) {
		list_each(it, batch) list_entry(it, struct change, node)->err = e;
		return;
	}
	if (single || run_together(s, batch) < 0)
		run_each(s, batch);
	if (durable)
		db_sync(&s->db, false, &after); /* if this fails, commits go on waiting for the disk */
}

static void signal_answers(struct store *s)
{
	uint64_t one = 1;
	ssize_t ignored = write(s->event_fd, &one, sizeof one);
	(void)ignored;
}

static void writer_turn(struct store *s, struct list *batch)
{
	run_batch(s, batch);
	pthread_mutex_lock(&s->lock);
	list_each(it, batch)
	{
		list_del(it);
		list_push(&s->answered, it);
		s->count--;
	}
	pthread_mutex_unlock(&s->lock);
	signal_answers(s);
}

static void *writer(void *arg)
{
	struct store *s = arg;
	pthread_mutex_lock(&s->lock);
	for (;;) {
		while (!s->wanted && !s->closing)
			pthread_cond_wait(&s->wake, &s->lock);
		if (list_empty(&s->queued) && s->closing)
			break;
		s->wanted = false;
		struct list batch;
		list_take(&s->queued, &batch);
		pthread_mutex_unlock(&s->lock);
		writer_turn(s, &batch);
		pthread_mutex_lock(&s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static void run_answers(struct store *s)
{
	struct list done;
	pthread_mutex_lock(&s->lock);
	list_take(&s->answered, &done);
	pthread_mutex_unlock(&s->lock);
	list_each(it, &done)
	{
		struct change *c = list_entry(it, struct change, node);
		bool failed = c->err.code != ERRC_OK;
		list_del(it);
		if (c->on_done)
			c->on_done(c->arg, failed ? &c->err : NULL);
		else if (failed)
			log_limited(
				LOG_WARN, "state not written", "id=%s error=%s", LOG_Q(c->row.id), LOG_Q(c->err.msg));
		change_free(c);
	}
}

static void on_answers(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct store *s = container_of(io, struct store, io);
	uint64_t n;
	ssize_t ignored = read(s->event_fd, &n, sizeof n);
	(void)ignored;
	run_answers(s);
}

int store_start(struct store *s, struct loop *l, struct err *e)
{
	s->loop = l;
	s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->event_fd < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "start the state's writer");
	int r = loop_add(l, &s->io, s->event_fd, EPOLLIN, on_answers);
	if (r == 0) {
		/* Signals are the loop thread's: the writer blocks them all. */
		sigset_t all, old;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		r = -pthread_create(&s->thread, NULL, writer, s);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	if (r < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "start the state's writer");
	s->started = true;
	return 0;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	if (s->started) {
		pthread_mutex_lock(&s->lock);
		s->closing = true;
		pthread_cond_signal(&s->wake);
		pthread_mutex_unlock(&s->lock);
		pthread_join(s->thread, NULL);
	}
	loop_timer_stop(&s->soon);
	list_each(it, &s->answered) change_free(list_entry(it, struct change, node));
	loop_del(&s->io);
	fd_close(&s->event_fd);
	db_close(&s->db);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->wake);
	free(s);
}

/* The signal comes after the unlock: the writer would only wake up to wait for the lock. */
static void want(struct store *s)
{
	pthread_mutex_lock(&s->lock);
	bool news = !s->wanted;
	s->wanted = true;
	pthread_mutex_unlock(&s->lock);
	if (news)
		pthread_cond_signal(&s->wake);
}

static void on_soon(struct loop_timer *t)
{
	want(container_of(t, struct store, soon));
}

static bool enqueue(struct store *s, struct change *c)
{
	pthread_mutex_lock(&s->lock);
	bool full = s->count >= STORE_QUEUE_MAX;
	if (full)
		err_set(&c->err, ERRC_INTERNAL_ERROR, "the disk under %s does not keep up: %d changes wait for it",
			s->db.path, STORE_QUEUE_MAX);
	list_push(full ? &s->answered : &s->queued, &c->node);
	s->count += !full;
	pthread_mutex_unlock(&s->lock);
	return !full;
}

static void submit(struct store *s, struct change *c, store_on_done on_done, void *arg)
{
	INVARIANT(s->started);
	c->on_done = on_done;
	c->arg = arg;
	if (!enqueue(s, c))
		signal_answers(s);
	else if (on_done)
		want(s);
	else if (!s->soon.pos)
		loop_timer_set(s->loop, &s->soon, STORE_SOON_MS, on_soon);
}

static struct change *change_new(enum change_kind kind, const char *id)
{
	struct change *c = xcalloc(1, sizeof *c);
	c->kind = kind;
	snprintf(c->row.id, sizeof c->row.id, "%s", id);
	return c;
}

void store_put(struct store *s, const struct store_row *row, store_on_done on_done, void *arg)
{
	struct change *c = change_new(CHANGE_PUT, row->id);
	c->row = *row;
	c->row.env = xstrdup(row->env);
	c->row.network = xstrdup(row->network);
	c->row.settings = xstrdup(row->settings);
	c->row.labels = xstrdup(row->labels);
	c->durable = row->durable;
	submit(s, c, on_done, arg);
}

void store_set_state(struct store *s, const char *id, const char *state, const char *reason, bool durable,
	store_on_done on_done, void *arg)
{
	struct change *c = change_new(CHANGE_SET_STATE, id);
	snprintf(c->row.state, sizeof c->row.state, "%s", state);
	snprintf(c->row.reason, sizeof c->row.reason, "%s", reason);
	c->durable = durable;
	submit(s, c, on_done, arg);
}

void store_delete(struct store *s, const char *id, store_on_done on_done, void *arg)
{
	submit(s, change_new(CHANGE_DELETE, id), on_done, arg);
}

void store_port_put(struct store *s, const struct store_port *p, store_on_done on_done, void *arg)
{
	struct change *c = change_new(CHANGE_PORT_PUT, p->id);
	c->port = *p;
	submit(s, c, on_done, arg);
}

void store_port_delete(struct store *s, const char *id, uint16_t port, store_on_done on_done, void *arg)
{
	struct change *c = change_new(CHANGE_PORT_DELETE, id);
	c->port.port = port;
	submit(s, c, on_done, arg);
}

static struct change *item_change(enum change_kind kind, const struct store_item *item)
{
	struct change *c = change_new(kind, item->sandbox);
	INVARIANT(strlen(item->kind) <= ITEM_NAME_MAX && strlen(item->key) <= ITEM_NAME_MAX);
	INVARIANT(strlen(item->sandbox) <= ITEM_NAME_MAX && strlen(item->value) <= ITEM_VALUE_MAX);
	c->item = (struct store_item){
		.kind = xstrdup(item->kind),
		.key = xstrdup(item->key),
		.sandbox = xstrdup(item->sandbox),
		.created_ms = item->created_ms,
		.value = xstrdup(item->value),
	};
	c->durable = item->durable;
	return c;
}

void store_item_put(struct store *s, const struct store_item *item, store_on_done on_done, void *arg)
{
	submit(s, item_change(CHANGE_ITEM_PUT, item), on_done, arg);
}

void store_item_delete(struct store *s, const char *kind, const char *key, store_on_done on_done, void *arg)
{
	const struct store_item item = {.kind = kind, .key = key, .sandbox = "", .value = ""};
	submit(s, item_change(CHANGE_ITEM_DELETE, &item), on_done, arg);
}

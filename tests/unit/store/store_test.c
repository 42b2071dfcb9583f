#include "store/item.h"

#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "test.h"

/* A directory of the test's own, removed when its process ends, however that is. */
static struct place {
	char dir[64];
	struct loop *loop;
	struct store *store;
} place;

static void place_remove(void)
{
	struct place *p = &place;
	static const char *const files[] = {"state.db", "state.db-wal", "state.db-shm", "state.db-journal"};
	store_close(p->store);
	loop_free(p->loop);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		char path[128];
		snprintf(path, sizeof path, "%s/%s", p->dir, files[i]);
		unlink(path);
	}
	umount(p->dir);
	rmdir(p->dir);
}

static struct place *place_make(void)
{
	place = (struct place){.dir = "/tmp/atoll-store-XXXXXX"};
	CHECK(mkdtemp(place.dir));
	atexit(place_remove);
	place.loop = loop_new();
	CHECK(place.loop);
	return &place;
}

static void start(struct place *p)
{
	struct err e = {0};
	if (store_open(p->dir, &p->store, &e) < 0 || store_start(p->store, p->loop, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
}

static void stop(struct place *p)
{
	store_close(p->store);
	p->store = NULL;
}

struct answers {
	int ok, failed;
	struct err last;
};

static void count(void *arg, const struct err *e)
{
	struct answers *a = arg;
	if (e) {
		a->failed++;
		a->last = *e;
	} else {
		a->ok++;
	}
}

static void wait_for(struct place *p, struct answers *a, int n)
{
	while (a->ok + a->failed < n)
		loop_turn(p->loop, -1);
}

static struct store_row row(const char *id)
{
	struct store_row r = {.image = "default",
		.limits = {512ull << 20, 1000, 256},
		.created_ms = 1789000000123,
		.state = "creating",
		.sleep_after_ms = 600000,
		.keep_alive = true,
		.env = "{\"A\":\"b\"}",
		.labels = "{}",
		.network = "{}",
		.settings = "{}"};
	snprintf(r.id, sizeof r.id, "%s", id);
	return r;
}

struct rows {
	int n;
	struct store_row last;
	char env[64], labels[64];
};

static int gather(void *arg, const struct store_row *r, struct err *e)
{
	(void)e;
	struct rows *rows = arg;
	rows->n++;
	rows->last = *r;
	snprintf(rows->env, sizeof rows->env, "%s", r->env);
	snprintf(rows->labels, sizeof rows->labels, "%s", r->labels);
	return 0;
}

struct names {
	char text[256];
};

/* The ids of rows whose files are being made. */
static int gather_filling(void *arg, const struct store_row *r, struct err *e)
{
	(void)e;
	struct names *n = arg;
	if (r->filling)
		snprintf(n->text + strlen(n->text), sizeof n->text - strlen(n->text), "%s ", r->id);
	return 0;
}

struct port_rows {
	int n;
	struct store_port last;
};

static int gather_port(void *arg, const struct store_port *p, struct err *e)
{
	(void)e;
	struct port_rows *rows = arg;
	rows->n++;
	rows->last = *p;
	return 0;
}

static struct port_rows reread_ports(struct place *p)
{
	struct port_rows rows = {0};
	struct err e = {0};
	stop(p);
	if (store_open(p->dir, &p->store, &e) < 0 || store_load_ports(p->store, gather_port, &rows, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	stop(p);
	return rows;
}

/* Opens what was written, reads it, closes. */
static struct rows reread(struct place *p)
{
	struct rows rows = {0};
	struct err e = {0};
	stop(p);
	if (store_open(p->dir, &p->store, &e) < 0 || store_load(p->store, gather, &rows, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	stop(p);
	return rows;
}

TEST(what_was_put_is_read_back_after_a_restart)
{
	struct place *p = place_make();
	start(p);
	struct answers a = {0};
	struct store_row r = row("me@example.org");
	store_put(p->store, &r, count, &a);
	store_set_state(p->store, r.id, "stopped", "the box's init was killed by signal 9", false, count, &a);
	wait_for(p, &a, 2);
	CHECK_INT(a.failed, 0);
	struct rows rows = reread(p);
	CHECK_INT(rows.n, 1);
	CHECK_CSTR(rows.last.id, "me@example.org");
	CHECK_CSTR(rows.last.image, "default");
	CHECK_INT(rows.last.limits.mem_bytes, 512ll << 20);
	CHECK_INT(rows.last.limits.cpu_milli, 1000);
	CHECK_INT(rows.last.limits.pids, 256);
	CHECK_INT(rows.last.created_ms, 1789000000123);
	CHECK_CSTR(rows.last.state, "stopped");
	CHECK_CSTR(rows.last.reason, "the box's init was killed by signal 9");
	CHECK_INT(rows.last.sleep_after_ms, 600000);
	CHECK(rows.last.keep_alive);
	CHECK_CSTR(rows.env, "{\"A\":\"b\"}");
}

static struct store_port port(const char *id, uint16_t number, int64_t box_ms)
{
	struct store_port r = {.port = number, .box_ms = box_ms, .created_ms = 5, .token = "tok_1", .name = "web"};
	snprintf(r.id, sizeof r.id, "%s", id);
	return r;
}

TEST(ports_are_kept_and_end_with_their_sandbox)
{
	struct place *p = place_make();
	start(p);
	struct answers a = {0};
	struct store_row kept = row("kept"), gone = row("gone");
	struct store_port ports[] = {port("kept", 8080, kept.created_ms), port("kept", 8081, kept.created_ms),
		port("gone", 8080, gone.created_ms), port("never", 8080, 1)};
	store_put(p->store, &kept, count, &a);
	store_put(p->store, &gone, count, &a);
	for (size_t i = 0; i < ARRAY_LEN(ports); i++)
		store_port_put(p->store, &ports[i], count, &a);
	store_port_delete(p->store, "kept", 8081, count, &a);
	store_port_delete(p->store, "kept", 9999, count, &a);
	store_delete(p->store, "gone", count, &a);
	wait_for(p, &a, 9);
	CHECK_INT(a.failed, 0);
	struct port_rows rows = reread_ports(p);
	CHECK_INT(rows.n, 1);
	CHECK_CSTR(rows.last.id, "kept");
	CHECK_INT(rows.last.port, 8080);
	CHECK_INT(rows.last.created_ms, 5);
	CHECK_CSTR(rows.last.token, "tok_1");
	CHECK_CSTR(rows.last.name, "web");
}

TEST(ports_of_an_earlier_sandbox_of_the_name_are_dropped)
{
	struct place *p = place_make();
	start(p);
	struct answers a = {0};
	struct store_row old = row("box"), changed = row("box");
	struct store_port of_old = port("box", 8080, old.created_ms);
	changed.created_ms++;
	store_put(p->store, &old, count, &a);
	store_port_put(p->store, &of_old, count, &a);
	store_put(p->store, &changed, count, &a);
	wait_for(p, &a, 3);
	CHECK_INT(a.failed, 0);
	CHECK_INT(reread_ports(p).n, 0);
}

struct item_rows {
	int n;
	char text[256];
};

static int gather_item(void *arg, const struct store_item *i, struct err *e)
{
	(void)e;
	struct item_rows *rows = arg;
	rows->n++;
	snprintf(rows->text, sizeof rows->text, "%s %s %s %lld %s", i->kind, i->key, i->sandbox,
		(long long)i->created_ms, i->value);
	return 0;
}

static struct item_rows reread_items(struct place *p, const char *kind)
{
	struct item_rows rows = {0};
	struct err e = {0};
	stop(p);
	if (store_open(p->dir, &p->store, &e) < 0 || store_load_items(p->store, kind, gather_item, &rows, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	stop(p);
	return rows;
}

TEST(items_are_kept_by_kind_and_key)
{
	struct place *p = place_make();
	start(p);
	struct answers a = {0};
	struct store_item items[] = {{"snapshot", "s1", "box", 5, "{\"size\":1}"}, {"snapshot", "s1", "box", 6, "{}"},
		{"snapshot", "s2", "box", 7, "{}"}, {"secret", "s2", "", 8, "{}"}};
	for (size_t i = 0; i < ARRAY_LEN(items); i++)
		store_item_put(p->store, &items[i], count, &a);
	store_item_delete(p->store, "snapshot", "s2", count, &a);
	store_item_delete(p->store, "volume", "s1", count, &a);
	store_delete(p->store, "box", count, &a);
	wait_for(p, &a, 7);
	CHECK_INT(a.failed, 0);
	struct item_rows rows = reread_items(p, "snapshot");
	CHECK_INT(rows.n, 1);
	CHECK_CSTR(rows.text, "snapshot s1 box 6 {}");
	rows = reread_items(p, "secret");
	CHECK_INT(rows.n, 1);
	CHECK_CSTR(rows.text, "secret s2  8 {}");
	CHECK_INT(reread_items(p, "volume").n, 0);
}

TEST(ids_differ_by_case)
{
	struct place *p = place_make();
	start(p);
	struct answers a = {0};
	struct store_row upper = row("Box"), lower = row("box");
	store_put(p->store, &upper, count, &a);
	store_put(p->store, &lower, count, &a);
	store_delete(p->store, "BOX", count, &a);
	wait_for(p, &a, 3);
	CHECK_INT(a.failed, 0);
	CHECK_INT(reread(p).n, 2);
}

TEST(changes_keep_their_order_and_are_all_answered)
{
	struct place *p = place_make();
	start(p);
	struct answers a = {0};
	for (int i = 0; i < 1000; i++) {
		char id[16];
		snprintf(id, sizeof id, "b%d", i % 10);
		struct store_row r = row(id);
		if (i % 2)
			store_delete(p->store, id, count, &a);
		else
			store_put(p->store, &r, count, &a);
	}
	wait_for(p, &a, 1000);
	CHECK_INT(a.failed, 0);
	/* The last change of an even box was a put, of an odd one a delete. */
	CHECK_INT(reread(p).n, 5);
}

TEST(closing_writes_what_is_queued)
{
	struct place *p = place_make();
	start(p);
	struct answers a = {0};
	for (int i = 0; i < 100; i++) {
		char id[16];
		snprintf(id, sizeof id, "b%d", i);
		struct store_row r = row(id);
		store_put(p->store, &r, count, &a);
	}
	stop(p);
	CHECK_INT(a.ok + a.failed, 0);
	CHECK_INT(reread(p).n, 100);
}

static void sql(struct place *p, const char *text)
{
	char path[128];
	snprintf(path, sizeof path, "%s/state.db", p->dir);
	sqlite3 *db = NULL;
	CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
	char *why = NULL;
	if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
		test_fail(__FILE__, __LINE__, "%s: %s", text, why);
	sqlite3_close(db);
}

static void check_refused(struct place *p, const char *because)
{
	struct err e = {0};
	struct rows rows = {0};
	int r = store_open(p->dir, &p->store, &e);
	if (r == 0)
		r = store_load(p->store, gather, &rows, &e);
	CHECK_INT(r, -1);
	if (!strstr(e.msg, because))
		test_fail(__FILE__, __LINE__, "'%s' does not speak of '%s'", e.msg, because);
}

TEST(a_newer_schema_is_refused)
{
	struct place *p = place_make();
	start(p);
	stop(p);
	sql(p, "UPDATE meta SET value='99' WHERE key='schema'");
	check_refused(p, "newer atolld (schema 99");
}

TEST(a_fork_under_way_is_known_after_the_migration)
{
	struct place *p = place_make();
	start(p);
	stop(p);
	/* As a daemon of schema 5 left it: a reason told what the row was. */
	sql(p, "ALTER TABLE sandboxes DROP COLUMN filling; UPDATE meta SET value='5' WHERE key='schema';"
	       "INSERT INTO sandboxes VALUES"
	       "('half','default',1,1,1,1,'creating','its files are being made',0,0,'{}','{}','{}','{}',1),"
	       "('new','default',1,1,1,1,'creating','',0,0,'{}','{}','{}','{}',1),"
	       "('old','default',1,1,1,1,'stopped','its files are being made',0,0,'{}','{}','{}','{}',1)");
	struct names filling = {0};
	struct err e = {0};
	if (store_open(p->dir, &p->store, &e) < 0 || store_load(p->store, gather_filling, &filling, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	CHECK_CSTR(filling.text, "half ");
}

TEST(a_state_that_is_written_ends_the_filling)
{
	struct place *p = place_make();
	start(p);
	struct answers a = {0};
	struct store_row r = row("fork");
	r.filling = true;
	store_put(p->store, &r, count, &a);
	wait_for(p, &a, 1);
	CHECK(reread(p).last.filling);
	start(p);
	store_set_state(p->store, r.id, "stopped", "", true, count, &a);
	wait_for(p, &a, 2);
	CHECK(!reread(p).last.filling);
}

TEST(another_programs_database_is_refused)
{
	struct place *p = place_make();
	sql(p, "CREATE TABLE cats(name)");
	check_refused(p, "not a state of atolld");
}

TEST(a_row_with_an_impossible_id_is_refused)
{
	struct place *p = place_make();
	start(p);
	stop(p);
	sql(p, "INSERT INTO sandboxes VALUES('../x','default',1,1,1,1,'running','',0,0,'{}','{}','{}','{}',1,0)");
	check_refused(p, "a row that no atolld wrote");
}

TEST(rows_of_dots_alone_are_forgotten)
{
	struct place *p = place_make();
	struct rows rows = {0};
	struct err e = {0};
	start(p);
	stop(p);
	sql(p, "INSERT INTO sandboxes VALUES('.','default',1,1,1,1,'running','',0,0,'{}','{}','{}','{}',1,0),"
	       "('..','default',1,1,1,1,'stopped','',0,0,'{}','{}','{}','{}',1,0),('.a','default',1,1,1,1,'stopped','',"
	       "0,"
	       "0,"
	       "'{}','{}',"
	       "'{}','{}',1,0"
	       ")");
	CHECK_INT(store_open(p->dir, &p->store, &e), 0);
	CHECK_INT(store_load(p->store, gather, &rows, &e), 0);
	CHECK_INT(rows.n, 1);
	CHECK_CSTR(rows.last.id, ".a");
}

static void damage(struct place *p, off_t at, size_t n)
{
	char path[128], junk[8192];
	snprintf(path, sizeof path, "%s/state.db", p->dir);
	memset(junk, 0xA5, sizeof junk);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_INT(pwrite(fd, junk, n, at), n);
	close(fd);
}

TEST(a_file_that_is_no_database_is_refused)
{
	struct place *p = place_make();
	damage(p, 0, 8192);
	check_refused(p, "is damaged; move it away");
}

TEST(a_database_with_a_damaged_page_is_refused)
{
	struct place *p = place_make();
	start(p);
	struct answers a = {0};
	for (int i = 0; i < 200; i++) {
		char id[16];
		snprintf(id, sizeof id, "b%d", i);
		struct store_row r = row(id);
		store_put(p->store, &r, count, &a);
	}
	wait_for(p, &a, 200);
	stop(p);
	damage(p, 4096 * 3, 4096);
	check_refused(p, "damaged");
}

TEST(a_directory_that_is_not_there_is_named)
{
	struct place *p = place_make();
	rmdir(p->dir);
	check_refused(p, p->dir);
}

TEST(a_full_disk_fails_the_change_and_leaves_nothing_of_it)
{
	struct place *p = place_make();
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("full", p->dir, "tmpfs", 0, "size=400k") < 0)
		TEST_SKIP("needs root: mounts a small file system");
	start(p);
	struct answers a = {0};
	char labels[4000];
	memset(labels, 'x', sizeof labels);
	labels[sizeof labels - 1] = 0;
	int n = 0;
	while (!a.failed && n < 1000) {
		char id[16];
		snprintf(id, sizeof id, "b%d", n++);
		struct store_row r = row(id);
		r.labels = labels;
		store_put(p->store, &r, count, &a);
		wait_for(p, &a, n);
	}
	CHECK_INT(a.failed, 1);
	CHECK_INT(a.last.code, ERRC_NO_SPACE);
	CHECK(strstr(a.last.msg, "no space left for"));
	/* What was answered with success is there, what failed is not. */
	CHECK_INT(reread(p).n, a.ok);
}

TEST_MAIN()

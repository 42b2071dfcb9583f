#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "proto/id.h"
#include "store/internal.h"

/* migrations[n] brings a database of schema n to n + 1. They are never changed, only added to. */
static const char *const migrations[] = {
	"CREATE TABLE meta(key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE sandboxes("
	" id TEXT PRIMARY KEY NOT NULL, image TEXT NOT NULL,"
	" mem_bytes INTEGER NOT NULL, cpu_milli INTEGER NOT NULL, pids INTEGER NOT NULL,"
	" created_ms INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,"
	" sleep_after_ms INTEGER NOT NULL, keep_alive INTEGER NOT NULL,"
	" env TEXT NOT NULL, labels TEXT NOT NULL) WITHOUT ROWID;",
	/* box_ms is the sandbox's created_ms: a port of an earlier sandbox of the same name is none of this one's. */
	"CREATE TABLE ports("
	" id TEXT NOT NULL, port INTEGER NOT NULL, box_ms INTEGER NOT NULL, created_ms INTEGER NOT NULL,"
	" token TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY(id, port)) WITHOUT ROWID;",
	"ALTER TABLE sandboxes ADD COLUMN network TEXT NOT NULL DEFAULT '{}';",
	"ALTER TABLE sandboxes ADD COLUMN settings TEXT NOT NULL DEFAULT '{}';"
	"CREATE TABLE items("
	" kind TEXT NOT NULL, key TEXT NOT NULL, sandbox TEXT NOT NULL, created_ms INTEGER NOT NULL,"
	" value TEXT NOT NULL, PRIMARY KEY(kind, key)) WITHOUT ROWID;",
	"ALTER TABLE sandboxes ADD COLUMN disk_bytes INTEGER NOT NULL DEFAULT 8589934592;",
	/* Before this column, a reason said that files were being made. */
	("ALTER TABLE sandboxes ADD COLUMN filling INTEGER NOT NULL DEFAULT 0;"
	 "UPDATE sandboxes SET filling=1 WHERE state='creating' AND reason='its files are being made';"),
};
enum { SCHEMA = ARRAY_LEN(migrations) };

static const char *const sql[DB_STATEMENTS] = {
	[DB_PUT] = "INSERT OR REPLACE INTO sandboxes VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16)",
	[DB_SET_STATE] = "UPDATE sandboxes SET state=?2, reason=?3, filling=0 WHERE id=?1",
	[DB_DELETE] = "DELETE FROM sandboxes WHERE id=?1",
	[DB_PORTS_DELETE] = "DELETE FROM ports WHERE id=?1",
	[DB_PORT_PUT] = "INSERT OR REPLACE INTO ports VALUES(?1,?2,?3,?4,?5,?6)",
	[DB_PORT_DELETE] = "DELETE FROM ports WHERE id=?1 AND port=?2",
	[DB_ITEM_PUT] = "INSERT OR REPLACE INTO items VALUES(?1,?2,?3,?4,?5)",
	[DB_ITEM_DELETE] = "DELETE FROM items WHERE kind=?1 AND key=?2",
	[DB_BEGIN] = "BEGIN IMMEDIATE",
	[DB_COMMIT] = "COMMIT",
	[DB_ROLLBACK] = "ROLLBACK",
};

static int db_err(struct db *db, struct err *e, const char *doing)
{
	int code = sqlite3_errcode(db->handle), os = sqlite3_system_errno(db->handle);
	if (code == SQLITE_FULL || os == ENOSPC || os == EDQUOT)
		return err_set(e, ERRC_NO_SPACE, "%s: no space left for %s", doing, db->path);
	if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
		return err_set(e, ERRC_INTERNAL_ERROR,
			"%s: %s is damaged; move it away to start with an empty one (boxes that live are found again)",
			doing, db->path);
	return err_set(e, ERRC_INTERNAL_ERROR, "%s: %s: %s%s%s", doing, db->path, sqlite3_errmsg(db->handle),
		os ? ": " : "", os ? strerror(os) : "");
}

static int db_exec(struct db *db, const char *text, const char *doing, struct err *e)
{
	return sqlite3_exec(db->handle, text, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_err(db, e, doing);
}

/* The first column of the first row, as text; "" when there is none. */
static int db_ask(struct db *db, const char *text, char *ret, size_t cap, struct err *e)
{
	sqlite3_stmt *st = NULL;
	if (sqlite3_prepare_v2(db->handle, text, -1, &st, NULL) != SQLITE_OK)
		return db_err(db, e, "open the state");
	int r = sqlite3_step(st), result = 0;
	ret[0] = 0;
	if (r == SQLITE_ROW)
		snprintf(ret, cap, "%s", (const char *)sqlite3_column_text(st, 0));
	else if (r != SQLITE_DONE)
		result = db_err(db, e, "open the state");
	sqlite3_finalize(st);
	return result;
}

static int db_schema(struct db *db, uint64_t *ret, struct err *e)
{
	char text[64];
	if (db_ask(db, "SELECT count(*) FROM sqlite_schema", text, sizeof text, e) < 0)
		return -1;
	*ret = 0;
	if (strcmp(text, "0") == 0)
		return 0;
	if (db_ask(db, "SELECT value FROM meta WHERE key='schema'", text, sizeof text, e) < 0)
		return err_wrap(e, "%s is not a state of atolld", db->path);
	if (!str_to_u64(str_of(text), INT32_MAX, ret) || *ret == 0)
		return err_set(
			e, ERRC_INTERNAL_ERROR, "%s has no schema number: it is not a state of atolld", db->path);
	if (*ret > SCHEMA)
		return err_set(e, ERRC_INTERNAL_ERROR,
			"%s was written by a newer atolld (schema %llu, this one knows %d); start that version, or "
			"move the "
			"file away",
			db->path, (unsigned long long)*ret, (int)SCHEMA);
	return 0;
}

static int db_migrate(struct db *db, struct err *e)
{
	uint64_t have = 0;
	if (db_schema(db, &have, e) < 0)
		return -1;
	for (; have < SCHEMA; have++) {
		auto_free char *step =
			xasprintf("BEGIN IMMEDIATE;%sINSERT OR REPLACE INTO meta VALUES('schema','%llu');COMMIT;",
				migrations[have], (unsigned long long)have + 1);
		if (db_exec(db, step, "bring the state to this version", e) < 0) {
			sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
			return -1;
		}
	}
	return 0;
}

static int db_check(struct db *db, struct err *e)
{
	char text[128];
	if (db_ask(db, "PRAGMA quick_check(1)", text, sizeof text, e) < 0)
		return -1;
	return strcmp(text, "ok") == 0 ? 0
				       : err_set(e, ERRC_INTERNAL_ERROR,
						 "%s is damaged (%s); move it away to start with an empty one (boxes "
						 "that live are found again)",
						 db->path, text);
}

static int db_prepare(struct db *db, struct err *e)
{
	for (int i = 0; i < DB_STATEMENTS; i++)
		if (sqlite3_prepare_v3(db->handle, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &db->stmt[i], NULL) !=
			SQLITE_OK)
			return db_err(db, e, "open the state");
	return 0;
}

/* The daemon is the only user of the file (it holds a lock of its own): exclusive mode saves the lock calls of every
 * transaction and the shared-memory file. The journal is cut back to 4 MiB after it has grown. */
static const char pragmas[] =
	"PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
	"PRAGMA journal_size_limit=4194304; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;";

int db_open(struct db *db, const char *dir, struct err *e)
{
	if (snprintf(db->path, sizeof db->path, "%s/state.db", dir) >= (int)sizeof db->path)
		return err_set(e, ERRC_INTERNAL_ERROR, "the path %s is too long for a state file", dir);
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
	int r = sqlite3_open_v2(db->path, &db->handle, flags, NULL) == SQLITE_OK ? 0 : db_err(db, e, "open the state");
	if (r < 0 || db_exec(db, pragmas, "open the state", e) < 0 || db_check(db, e) < 0 || db_migrate(db, e) < 0 ||
		db_prepare(db, e) < 0) {
		db_close(db);
		return -1;
	}
	return 0;
}

void db_close(struct db *db)
{
	for (int i = 0; i < DB_STATEMENTS; i++)
		sqlite3_finalize(db->stmt[i]);
	sqlite3_close(db->handle);
	*db = (struct db){0};
}

static void bind_text(sqlite3_stmt *st, int column, const char *text)
{
	sqlite3_bind_text(st, column, text, -1, SQLITE_STATIC);
}

static bool copy_text(sqlite3_stmt *st, int column, char *ret, size_t cap)
{
	const char *text = (const char *)sqlite3_column_text(st, column);
	if (!text || strlen(text) >= cap || strlen(text) != (size_t)sqlite3_column_bytes(st, column))
		return false;
	memcpy(ret, text, strlen(text) + 1);
	return true;
}

static bool row_read(sqlite3_stmt *st, struct store_row *r)
{
	*r = (struct store_row){
		.limits.mem_bytes = (uint64_t)sqlite3_column_int64(st, 2),
		.limits.cpu_milli = (uint32_t)sqlite3_column_int64(st, 3),
		.limits.pids = (uint32_t)sqlite3_column_int64(st, 4),
		.limits.disk_bytes = (uint64_t)sqlite3_column_int64(st, 14),
		.created_ms = sqlite3_column_int64(st, 5),
		.sleep_after_ms = (uint64_t)sqlite3_column_int64(st, 8),
		.keep_alive = sqlite3_column_int(st, 9) != 0,
		.filling = sqlite3_column_int(st, 15) != 0,
		.env = (const char *)sqlite3_column_text(st, 10),
		.labels = (const char *)sqlite3_column_text(st, 11),
		.network = (const char *)sqlite3_column_text(st, 12),
		.settings = (const char *)sqlite3_column_text(st, 13),
	};
	return copy_text(st, 0, r->id, sizeof r->id) && copy_text(st, 1, r->image, sizeof r->image) &&
	       copy_text(st, 6, r->state, sizeof r->state) && copy_text(st, 7, r->reason, sizeof r->reason) && r->env &&
	       r->labels && r->network && r->settings && box_id_check(str_of(r->id), NULL) == 0;
}

static int bad_row(struct db *db, struct err *e)
{
	return err_set(e, ERRC_INTERNAL_ERROR, "%s has a row that no atolld wrote; move the file away", db->path);
}

/* Ids of dots alone were valid once. The warden ends their boxes; their rows go here, and their files stay on the disk.
 */
static int drop_dots(struct db *db, struct err *e)
{
	if (db_exec(db, "DELETE FROM sandboxes WHERE id <> '' AND id NOT GLOB '*[^.]*'", "read the state", e) < 0)
		return -1;
	int n = sqlite3_changes(db->handle);
	if (n > 0)
		log_event(LOG_WARN, "sandboxes forgotten: an id must not consist of dots alone", "count=%d", n);
	return 0;
}

/* The caller's function for each row of a table. */
struct row_taker {
	store_on_row on_row;
	store_on_port on_port;
	store_on_item on_item;
	void *arg;
	int (*take)(struct db *db, sqlite3_stmt *st, const struct row_taker *to, struct err *e);
};

/* `only` is the text of the query's parameter, or NULL. */
static int each_row(struct db *db, const char *query, const char *only, const struct row_taker *to, struct err *e)
{
	sqlite3_stmt *st = NULL;
	if (sqlite3_prepare_v2(db->handle, query, -1, &st, NULL) != SQLITE_OK)
		return db_err(db, e, "read the state");
	if (only)
		bind_text(st, 1, only);
	int result = 0, r = SQLITE_DONE;
	while (result == 0 && (r = sqlite3_step(st)) == SQLITE_ROW)
		result = to->take(db, st, to, e);
	if (result == 0 && r != SQLITE_DONE)
		result = db_err(db, e, "read the state");
	sqlite3_finalize(st);
	return result;
}

static int take_row(struct db *db, sqlite3_stmt *st, const struct row_taker *to, struct err *e)
{
	struct store_row row;
	return row_read(st, &row) ? to->on_row(to->arg, &row, e) : bad_row(db, e);
}

int db_load(struct db *db, store_on_row on_row, void *arg, struct err *e)
{
	const struct row_taker to = {.on_row = on_row, .arg = arg, .take = take_row};
	if (drop_dots(db, e) < 0)
		return -1;
	return each_row(db, "SELECT * FROM sandboxes ORDER BY id", NULL, &to, e);
}

static bool port_read(sqlite3_stmt *st, struct store_port *p)
{
	*p = (struct store_port){
		.port = (uint16_t)sqlite3_column_int(st, 1),
		.box_ms = sqlite3_column_int64(st, 2),
		.created_ms = sqlite3_column_int64(st, 3),
	};
	return sqlite3_column_int64(st, 1) == p->port && p->port && copy_text(st, 0, p->id, sizeof p->id) &&
	       copy_text(st, 4, p->token, sizeof p->token) && copy_text(st, 5, p->name, sizeof p->name);
}

static int take_port(struct db *db, sqlite3_stmt *st, const struct row_taker *to, struct err *e)
{
	struct store_port port;
	return port_read(st, &port) ? to->on_port(to->arg, &port, e) : bad_row(db, e);
}

/* First deletes ports of a sandbox whose row was replaced before its ports could be deleted. */
int db_load_ports(struct db *db, store_on_port on_port, void *arg, struct err *e)
{
	const struct row_taker to = {.on_port = on_port, .arg = arg, .take = take_port};
	if (db_exec(db,
		    "DELETE FROM ports WHERE NOT EXISTS"
		    " (SELECT 1 FROM sandboxes s WHERE s.id=ports.id AND s.created_ms=ports.box_ms)",
		    "read the state", e) < 0)
		return -1;
	return each_row(db, "SELECT * FROM ports ORDER BY id, port", NULL, &to, e);
}

static int take_item(struct db *db, sqlite3_stmt *st, const struct row_taker *to, struct err *e)
{
	struct store_item item = {
		.kind = (const char *)sqlite3_column_text(st, 0),
		.key = (const char *)sqlite3_column_text(st, 1),
		.sandbox = (const char *)sqlite3_column_text(st, 2),
		.created_ms = sqlite3_column_int64(st, 3),
		.value = (const char *)sqlite3_column_text(st, 4),
	};
	bool whole = item.kind && item.key && item.sandbox && item.value;
	return whole ? to->on_item(to->arg, &item, e) : bad_row(db, e);
}

int db_load_items(struct db *db, const char *kind, store_on_item on_item, void *arg, struct err *e)
{
	const struct row_taker to = {.on_item = on_item, .arg = arg, .take = take_item};
	return each_row(db, "SELECT * FROM items WHERE kind=?1 ORDER BY key", kind, &to, e);
}

int db_sync(struct db *db, bool on, struct err *e)
{
	return db_exec(db, on ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", "write the state", e);
}

int db_run(struct db *db, enum db_statement which, struct err *e)
{
	sqlite3_stmt *st = db->stmt[which];
	int r = sqlite3_step(st), result = 0;
	if (r != SQLITE_DONE)
		result = db_err(db, e, "write the state");
	sqlite3_reset(st);
	return result;
}

int db_put(struct db *db, const struct store_row *row, struct err *e)
{
	sqlite3_stmt *st = db->stmt[DB_PUT];
	bind_text(st, 1, row->id);
	bind_text(st, 2, row->image);
	sqlite3_bind_int64(st, 3, (sqlite3_int64)row->limits.mem_bytes);
	sqlite3_bind_int64(st, 4, row->limits.cpu_milli);
	sqlite3_bind_int64(st, 5, row->limits.pids);
	sqlite3_bind_int64(st, 6, row->created_ms);
	bind_text(st, 7, row->state);
	bind_text(st, 8, row->reason);
	sqlite3_bind_int64(st, 9, (sqlite3_int64)row->sleep_after_ms);
	sqlite3_bind_int(st, 10, row->keep_alive);
	bind_text(st, 11, row->env);
	bind_text(st, 12, row->labels);
	bind_text(st, 13, row->network);
	bind_text(st, 14, row->settings);
	sqlite3_bind_int64(st, 15, (sqlite3_int64)row->limits.disk_bytes);
	sqlite3_bind_int(st, 16, row->filling);
	return db_run(db, DB_PUT, e);
}

int db_set_state(struct db *db, const char *id, const char *state, const char *reason, struct err *e)
{
	sqlite3_stmt *st = db->stmt[DB_SET_STATE];
	bind_text(st, 1, id);
	bind_text(st, 2, state);
	bind_text(st, 3, reason);
	return db_run(db, DB_SET_STATE, e);
}

/* Ports first: run outside of a transaction and cut in the middle, the sandbox is still there to be deleted again. */
int db_delete(struct db *db, const char *id, struct err *e)
{
	bind_text(db->stmt[DB_PORTS_DELETE], 1, id);
	if (db_run(db, DB_PORTS_DELETE, e) < 0)
		return -1;
	bind_text(db->stmt[DB_DELETE], 1, id);
	return db_run(db, DB_DELETE, e);
}

int db_port_put(struct db *db, const struct store_port *p, struct err *e)
{
	sqlite3_stmt *st = db->stmt[DB_PORT_PUT];
	bind_text(st, 1, p->id);
	sqlite3_bind_int(st, 2, p->port);
	sqlite3_bind_int64(st, 3, p->box_ms);
	sqlite3_bind_int64(st, 4, p->created_ms);
	bind_text(st, 5, p->token);
	bind_text(st, 6, p->name);
	return db_run(db, DB_PORT_PUT, e);
}

int db_port_delete(struct db *db, const char *id, uint16_t port, struct err *e)
{
	sqlite3_stmt *st = db->stmt[DB_PORT_DELETE];
	bind_text(st, 1, id);
	sqlite3_bind_int(st, 2, port);
	return db_run(db, DB_PORT_DELETE, e);
}

int db_item_put(struct db *db, const struct store_item *item, struct err *e)
{
	sqlite3_stmt *st = db->stmt[DB_ITEM_PUT];
	bind_text(st, 1, item->kind);
	bind_text(st, 2, item->key);
	bind_text(st, 3, item->sandbox);
	sqlite3_bind_int64(st, 4, item->created_ms);
	bind_text(st, 5, item->value);
	return db_run(db, DB_ITEM_PUT, e);
}

int db_item_delete(struct db *db, const char *kind, const char *key, struct err *e)
{
	sqlite3_stmt *st = db->stmt[DB_ITEM_DELETE];
	bind_text(st, 1, kind);
	bind_text(st, 2, key);
	return db_run(db, DB_ITEM_DELETE, e);
}

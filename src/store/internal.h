/*
 * internal.h - shared by the two halves of the store: db.c (file, schema, statements) and store.c (queue, thread).
 */
#pragma once

#include <sqlite3.h>

#include "store/item.h"
#include "store/store.h"

enum db_statement {
	DB_PUT,
	DB_SET_STATE,
	DB_DELETE,
	DB_PORTS_DELETE,
	DB_PORT_PUT,
	DB_PORT_DELETE,
	DB_ITEM_PUT,
	DB_ITEM_DELETE,
	DB_BEGIN,
	DB_COMMIT,
	DB_ROLLBACK,
	DB_STATEMENTS
};

struct db {
	sqlite3 *handle;
	sqlite3_stmt *stmt[DB_STATEMENTS];
	char path[512];
};

int db_open(struct db *db, const char *dir, struct err *e);
void db_close(struct db *db);
int db_load(struct db *db, store_on_row on_row, void *arg, struct err *e);
/* Whether commits wait for the disk from now on. Not inside of a transaction. */
int db_sync(struct db *db, bool on, struct err *e);
/* Run a prepared statement that returns no rows. */
int db_run(struct db *db, enum db_statement which, struct err *e);
int db_put(struct db *db, const struct store_row *row, struct err *e);
int db_set_state(struct db *db, const char *id, const char *state, const char *reason, struct err *e);
int db_load_ports(struct db *db, store_on_port on_port, void *arg, struct err *e);
int db_port_put(struct db *db, const struct store_port *p, struct err *e);
int db_port_delete(struct db *db, const char *id, uint16_t port, struct err *e);
int db_load_items(struct db *db, const char *kind, store_on_item on_item, void *arg, struct err *e);
int db_item_put(struct db *db, const struct store_item *item, struct err *e);
int db_item_delete(struct db *db, const char *kind, const char *key, struct err *e);
/* With its ports. */
int db_delete(struct db *db, const char *id, struct err *e);

#include "daemon/op/audit.h"

#include "base/clock.h"
#include "daemon/daemon.h"

struct audit {
	char *records[AUDIT_MAX]; /* record id at id % AUDIT_MAX */
	uint64_t last;		  /* id of the newest; 0: none */
};

struct audit *audit_new(void)
{
	return xcalloc(1, sizeof(struct audit));
}

static void write_caller(struct json_writer *w, const struct caller *c)
{
	json_member_cstr(w, "by", caller_by_name(c->by));
	json_member_cstr(w, "door", caller_door_name(c->door));
	if (*c->token)
		json_member_cstr(w, "token", c->token);
	if (c->uid != CALLER_NO_UID)
		json_member_u64(w, "uid", c->uid);
	if (*c->address)
		json_member_cstr(w, "address", c->address);
}

void audit_operation(struct daemon *d, const struct caller *c, const struct audit_entry *entry)
{
	struct audit *a = d->audit;
	char iso[CLOCK_ISO_LEN];
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (caller_is_own(c))
		return; /* the image service makes and deletes boxes all the time, which no client sees */
	json_object_begin(&w);
	json_member_u64(&w, "id", a->last + 1);
	json_member_cstr(&w, "time", clock_iso(clock_wall_ms(), iso));
	write_caller(&w, c);
	json_member_cstr(&w, "method", entry->method);
	json_member_cstr(&w, "route", entry->route);
	if (*entry->sandbox)
		json_member_cstr(&w, "sandbox", entry->sandbox);
	json_member_i64(&w, "status", entry->status);
	json_object_end(&w);
	a->last++;
	free(a->records[a->last % AUDIT_MAX]);
	a->records[a->last % AUDIT_MAX] = str_dup(buf_str(&out));
}

void audit_write(const struct audit *a, struct json_writer *w)
{
	for (uint64_t id = a->last > AUDIT_MAX ? a->last - AUDIT_MAX + 1 : 1; id <= a->last; id++)
		json_raw(w, str_of(a->records[id % AUDIT_MAX]));
}

#include "daemon/admit/tokens.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "daemon/admit/secret_text.h"
#include "store/item.h"

static const char kind[] = "token";
static const struct str prefix = STR("atoll_");

struct named {
	char name[TOKEN_NAME_MAX + 1];
	char made_by[TOKEN_NAME_MAX + 1]; /* "": by no named token */
	char hash[SECRET_HASH_LEN + 1];
	int64_t created, expires, used; /* wall clock; 0: never */
	int64_t written;		/* `used` as the store has it */
};

struct tokens {
	struct token file;
	struct store *store;
	struct named v[TOKENS_MAX]; /* oldest first */
	size_t n;
};

/* ---- what a client asks for ---- */

bool token_name_ok(struct str name)
{
	if (!name.n || name.n > TOKEN_NAME_MAX)
		return false;
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		bool word = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
		if (!word && !(i && (c == '.' || c == '_' || c == '-')))
			return false;
	}
	return true;
}

/* 3600 (seconds), "90s", "30m", "12h", "30d". */
static bool read_ttl(const struct json *j, uint64_t *ret_ms)
{
	static const struct {
		char letter;
		uint64_t ms;
	} units[] = {{'s', 1000}, {'m', 60000}, {'h', 3600000}, {'d', 86400000}};
	struct str text = j->text;
	uint64_t unit = j->type == JSON_T_NUMBER ? 1000 : 0, n;
	for (size_t i = 0; j->type == JSON_T_STRING && text.n && i < ARRAY_LEN(units); i++)
		if (text.p[text.n - 1] == units[i].letter) {
			unit = units[i].ms;
			text.n--;
			break;
		}
	if (!unit || !str_to_u64(text, TOKEN_TTL_MAX / unit, &n) || !n)
		return false;
	*ret_ms = n * unit;
	return true;
}

static int check_fields(const struct json *o, struct err *e)
{
	if (o->type != JSON_T_OBJECT)
		return err_set(e, ERRC_VALIDATION_FAILED, "the body must be a JSON object");
	json_each(it, o)
	{
		if (!str_eq_c(it->key, "name") && !str_eq_c(it->key, "ttl"))
			return err_set(e, ERRC_VALIDATION_FAILED, "field '%.*s' is not known",
				(int)(it->key.n < 40 ? it->key.n : 40), it->key.p);
	}
	return 0;
}

int token_wish_read(struct str body, struct token_wish *ret, struct err *e)
{
	struct str name = STR_NULL;
	struct token_wish wish = {0};
	auto_json struct json_doc *doc = json_parse(body, e);
	const struct json *o = doc ? json_root(doc) : NULL;
	if (!doc)
		return -1;
	if (check_fields(o, e) < 0)
		return -1;
	if (json_read_str(o, "name", &name, e) < 0 || !name.p || !token_name_ok(name))
		return err_field(e, "name",
			"field 'name' must be 1 to %d letters, digits, '.', '_' and '-', and begin with a letter or "
			"digit",
			TOKEN_NAME_MAX);
	const struct json *ttl = json_get(o, "ttl");
	if (!json_is_null(ttl) && !read_ttl(ttl, &wish.ttl_ms))
		return err_field(e, "ttl",
			"field 'ttl' must be a number of seconds or a text like \"30m\", \"12h\" or \"30d\", from 1 s "
			"to "
			"%llu days",
			TOKEN_TTL_MAX / 86400000);
	memcpy(wish.name, name.p, name.n);
	*ret = wish;
	return 0;
}

/* ---- the table ---- */

struct tokens *tokens_new(const struct token *file)
{
	struct tokens *t = xcalloc(1, sizeof *t);
	t->file = *file;
	return t;
}

static void write_row(struct tokens *t, struct named *k, store_on_done on_done, void *arg)
{
	auto_buf struct buf value = {0};
	struct json_writer w = json_writer(&value);
	json_object_begin(&w);
	json_member_cstr(&w, "hash", k->hash);
	json_member_cstr(&w, "madeBy", k->made_by);
	json_member_i64(&w, "expires", k->expires);
	json_member_i64(&w, "used", k->used);
	json_object_end(&w);
	const struct store_item item = {
		.kind = kind, .key = k->name, .sandbox = "", .created_ms = k->created, .value = buf_cstr(&value)};
	k->written = k->used;
	store_item_put(t->store, &item, on_done, arg);
}

/* Keeps the table in the order in which its tokens were made. */
static void insert(struct tokens *t, const struct named *k)
{
	size_t at = t->n++;
	for (; at && t->v[at - 1].created > k->created; at--)
		t->v[at] = t->v[at - 1];
	t->v[at] = *k;
}

static int take_item(void *arg, const struct store_item *item, struct err *e)
{
	struct tokens *t = arg;
	struct named k = {.created = item->created_ms};
	struct str hash = STR_NULL, made_by = STR("");
	uint64_t expires = 0, used = 0;
	auto_json struct json_doc *doc = json_parse(str_of(item->value), e);
	const struct json *o = doc ? json_root(doc) : NULL;
	if (!o || json_read_str(o, "hash", &hash, e) < 0 || hash.n != SECRET_HASH_LEN ||
		json_read_str(o, "madeBy", &made_by, e) < 0 || made_by.n > TOKEN_NAME_MAX ||
		json_read_u64(o, "expires", 0, INT64_MAX, &expires, e) < 0 ||
		json_read_u64(o, "used", 0, INT64_MAX, &used, e) < 0 || !token_name_ok(str_of(item->key)) ||
		t->n == TOKENS_MAX)
		return err_set(e, ERRC_INTERNAL_ERROR, "the row of token '%.64s' is damaged", item->key);
	snprintf(k.name, sizeof k.name, "%s", item->key);
	snprintf(k.made_by, sizeof k.made_by, "%.*s", STR_ARG(made_by));
	memcpy(k.hash, hash.p, hash.n);
	k.expires = (int64_t)expires;
	k.used = k.written = (int64_t)used;
	insert(t, &k);
	return 0;
}

int tokens_load(struct tokens *t, struct store *s, struct err *e)
{
	t->store = s;
	return store_load_items(s, kind, take_item, t, e);
}

static const struct named *by_name(const struct tokens *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->v[i].name, name) == 0)
			return &t->v[i];
	return NULL;
}

static bool is_over(const struct named *k)
{
	return k->expires && k->expires <= clock_wall_ms();
}

/* Only a text of the right form is hashed: a header may have thousands of words. */
static const struct named *by_value(const struct tokens *t, struct str given)
{
	const struct named *found = NULL;
	char hash[SECRET_HASH_LEN + 1];
	if (given.n != NAMED_TOKEN_LEN || !str_starts(given, prefix))
		return NULL;
	secret_hash(given, hash);
	for (size_t i = 0; i < t->n; i++)
		if (str_eq_secret(str_of(t->v[i].hash), str_of(hash)))
			found = &t->v[i];
	return found && !is_over(found) ? found : NULL;
}

struct str tokens_bearer(struct str authorization)
{
	struct str given;
	if (!authorization.p || !str_eq_nocase(str_split(authorization, ' ', &given), STR("Bearer")))
		return STR_NULL;
	return str_trim(given);
}

bool tokens_has(const struct tokens *t, struct str given)
{
	return given.p && (token_equals(&t->file, given) || by_value(t, given));
}

const char *tokens_use(struct tokens *t, struct str given)
{
	if (!given.p)
		return NULL;
	if (token_equals(&t->file, given))
		return "";
	const struct named *found = by_value(t, given);
	if (!found)
		return NULL;
	struct named *k = &t->v[found - t->v];
	k->used = clock_wall_ms();
	if (k->used - k->written > TOKEN_USE_WRITTEN)
		write_row(t, k, NULL, NULL);
	return k->name;
}

bool tokens_has_name(const struct tokens *t, const char *name)
{
	return by_name(t, name);
}

int64_t tokens_expiry(const struct tokens *t, const char *name)
{
	const struct named *k = by_name(t, name);
	return k ? k->expires : 0;
}

int64_t tokens_next_expiry(const struct tokens *t)
{
	int64_t next = 0;
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].expires && (!next || t->v[i].expires < next))
			next = t->v[i].expires;
	return next;
}

const char *tokens_expired(const struct tokens *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (is_over(&t->v[i]))
			return t->v[i].name;
	return NULL;
}

const char *tokens_made_by(const struct tokens *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->v[i].made_by, name) == 0)
			return t->v[i].name;
	return NULL;
}

/* ---- changes ---- */

static void make_value(char ret[NAMED_TOKEN_LEN + 1])
{
	unsigned char bytes[(NAMED_TOKEN_LEN - 6) / 2];
	INVARIANT(getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes);
	memcpy(ret, prefix.p, prefix.n);
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(ret + prefix.n + 2 * i, 3, "%02x", bytes[i]);
	explicit_bzero(bytes, sizeof bytes);
}

int tokens_make(struct tokens *t, const struct token_wish *wish, char ret_value[NAMED_TOKEN_LEN + 1],
	store_on_done on_done, void *arg, struct err *e)
{
	struct named k = {.created = clock_wall_ms()};
	if (by_name(t, wish->name))
		return err_set(e, ERRC_TOKEN_ALREADY_EXISTS, "there is a token '%s' already", wish->name);
	if (t->n == TOKENS_MAX)
		return err_set(e, ERRC_LIMIT_REACHED, "there are %d tokens already; delete some", TOKENS_MAX);
	snprintf(k.name, sizeof k.name, "%s", wish->name);
	snprintf(k.made_by, sizeof k.made_by, "%s", wish->made_by);
	k.expires = wish->ttl_ms ? k.created + (int64_t)wish->ttl_ms : 0;
	make_value(ret_value);
	secret_hash(str_of(ret_value), k.hash);
	insert(t, &k);
	write_row(t, &k, on_done, arg);
	return 0;
}

void tokens_remove(struct tokens *t, const char *name, store_on_done on_done, void *arg)
{
	const struct named *k = by_name(t, name);
	if (!k)
		return;
	store_item_delete(t->store, kind, k->name, on_done, arg);
	size_t at = (size_t)(k - t->v);
	memmove(&t->v[at], &t->v[at + 1], (--t->n - at) * sizeof t->v[0]);
}

static void member_time(struct json_writer *w, const char *key, int64_t ms)
{
	char iso[CLOCK_ISO_LEN];
	json_member_cstr(w, key, ms ? clock_iso(ms, iso) : NULL);
}

void tokens_show(const struct tokens *t, const char *name, struct json_writer *w)
{
	const struct named *k = by_name(t, name);
	if (!k)
		return;
	json_member_cstr(w, "name", k->name);
	json_member_cstr(w, "madeBy", *k->made_by ? k->made_by : NULL);
	member_time(w, "createdAt", k->created);
	member_time(w, "expiresAt", k->expires);
	member_time(w, "lastUsedAt", k->used);
}

void tokens_list(const struct tokens *t, struct json_writer *w)
{
	json_array_begin(w);
	for (size_t i = 0; i < t->n; i++) {
		json_object_begin(w);
		tokens_show(t, t->v[i].name, w);
		json_object_end(w);
	}
	json_array_end(w);
}

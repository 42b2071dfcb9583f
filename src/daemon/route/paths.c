#include "daemon/route/paths.h"

#include <stdio.h>
#include <string.h>

#include "daemon/admit/tokens.h"
#include "daemon/network/secrets.h"
#include "proto/id.h"
#include "proto/limits.h"

/* ---- parameters ---- */

enum parameter { P_ID, P_PORT, P_SECRET, P_TOKEN, P_VOLUME, P_SNAPSHOT, P_BACKUP, P_APPROVAL, P_SESSION, PARAMETERS };

/* What a path has in the places of its pattern's parameters; p == NULL: the pattern has none of this name. */
struct path_values {
	struct str v[PARAMETERS];
	struct str rest;
};

static int not_found(struct str path, struct err *e)
{
	return err_set(e, ERRC_NOT_FOUND, "no route %.*s", (int)(path.n < 120 ? path.n : 120), path.p);
}

/* An id of BOX_ID_MAX bytes takes three times as many when all of it is escaped. */
static int decode_id(struct str segment, char ret[BOX_ID_MAX + 1], struct err *e)
{
	auto_buf struct buf id = {0};
	if (segment.n > 3 * BOX_ID_MAX)
		return err_set(
			e, ERRC_INVALID_SANDBOX_ID_LENGTH, "sandbox id must be 1-%d characters long", BOX_ID_MAX);
	if (http_percent_decode(segment, &id, e) < 0)
		return err_set(e, ERRC_INVALID_SANDBOX_ID_CHARACTERS,
			"sandbox id '%.*s' is not percent-encoded correctly", STR_ARG(segment));
	struct str s = buf_str(&id);
	if (box_id_check(s, e) < 0)
		return -1;
	memcpy(ret, s.p, s.n);
	ret[s.n] = 0;
	return 0;
}

/* One to five digits without a leading zero, 1 to 65535. */
static int read_port(struct str text, struct api_match *ret, struct err *e)
{
	uint64_t port;
	if (!text.n || text.p[0] == '0' || !str_to_u64(text, 65535, &port))
		return err_set(e, ERRC_INVALID_PORT_NUMBER, "'%.*s' is not a port number",
			(int)(text.n < 20 ? text.n : 20), text.p);
	ret->port = (uint16_t)port;
	return 0;
}

static int read_secret(struct str name, struct api_match *ret, struct err *e)
{
	if (!secrets_name_ok(name)) {
		err_set(e, ERRC_VALIDATION_FAILED,
			"the name of a secret is 1 to %d letters, digits, '.', '_' and '-', and begins with a letter "
			"or digit",
			SECRET_NAME_MAX);
		return err_about(e, "name");
	}
	memcpy(ret->secret, name.p, name.n);
	return 0;
}

static int read_token(struct str name, struct api_match *ret, struct err *e)
{
	if (!token_name_ok(name)) {
		err_set(e, ERRC_VALIDATION_FAILED,
			"the name of a token is 1 to %d letters, digits, '.', '_' and '-', and begins with a letter or "
			"digit",
			TOKEN_NAME_MAX);
		return err_about(e, "name");
	}
	memcpy(ret->token, name.p, name.n);
	return 0;
}

static int read_volume(struct str name, struct api_match *ret, struct err *e)
{
	if (!volume_name_ok(name)) {
		err_set(e, ERRC_VALIDATION_FAILED,
			"the name of a volume is 1 to %d of a-z, 0-9, '.', '_' and '-', and begins with a letter or "
			"digit",
			VOLUME_NAME_MAX);
		return err_about(e, "name");
	}
	memcpy(ret->volume, name.p, name.n);
	return 0;
}

/* Ids of approvals are the gate's: letters and digits. */
static bool approval_ok(struct str id)
{
	return id.n && id.n <= BOX_ID_MAX && !memchr(id.p, '%', id.n);
}

/* What is wrong with a port comes before what is wrong with the sandbox's id. */
static int read_values(struct str path, const struct path_values *f, struct api_match *ret, struct err *e)
{
	const struct str *v = f->v, *copy = v[P_BACKUP].p ? &v[P_BACKUP] : &v[P_SNAPSHOT];
	if ((copy->p && !snapshot_name_ok(*copy)) || (v[P_APPROVAL].p && !approval_ok(v[P_APPROVAL]))) {
		ret->row = &route_table[ROUTE_UNKNOWN];
		return not_found(path, e);
	}
	if (copy->p)
		snprintf(ret->snapshot, sizeof ret->snapshot, "%.*s", STR_ARG(*copy));
	if (v[P_APPROVAL].p)
		snprintf(ret->id, sizeof ret->id, "%.*s", STR_ARG(v[P_APPROVAL]));
	ret->session = v[P_SESSION];
	ret->rest = ret->row->app && !f->rest.n ? STR("/") : f->rest;
	if (((ret->row->app || v[P_PORT].p) && read_port(v[P_PORT], ret, e) < 0) ||
		(v[P_SECRET].p && read_secret(v[P_SECRET], ret, e) < 0) ||
		(v[P_TOKEN].p && read_token(v[P_TOKEN], ret, e) < 0) ||
		(v[P_VOLUME].p && read_volume(v[P_VOLUME], ret, e) < 0))
		return -1;
	return v[P_ID].p ? decode_id(v[P_ID], ret->id, e) : 0;
}

/* ---- patterns ---- */

/* Takes a segment for the parameter at *pattern, which is left behind its '}'. */
static void take(const char **pattern, struct str *path, struct path_values *ret)
{
	static const char *const names[PARAMETERS] = {[P_ID] = "{id}",
		[P_PORT] = "{port}",
		[P_SECRET] = "{secret}",
		[P_TOKEN] = "{token}",
		[P_VOLUME] = "{volume}",
		[P_SNAPSHOT] = "{snapshot}",
		[P_BACKUP] = "{backup}",
		[P_APPROVAL] = "{approval}",
		[P_SESSION] = "{session}"};
	ssize_t slash = str_index(*path, '/');
	struct str value = slash < 0 ? *path : str_n(path->p, (size_t)slash);
	for (int i = 0; i < PARAMETERS; i++) {
		size_t n = strlen(names[i]);
		if (strncmp(*pattern, names[i], n) != 0)
			continue;
		*pattern += n;
		ret->v[i] = value;
		ret->rest = *path = str_skip(*path, value.n);
		return;
	}
	base_bug(__FILE__, __LINE__, "a pattern with an unknown parameter");
}

/* Compares with the pattern up to a blank or its end. */
static bool fits(const char *pattern, struct str path, struct path_values *ret)
{
	*ret = (struct path_values){0};
	for (; *pattern && *pattern != ' ';) {
		if (strncmp(pattern, "/**", 3) == 0)
			return !path.n || *path.p == '/';
		if (*pattern == '{') {
			take(&pattern, &path, ret);
			continue;
		}
		if (!path.n || *path.p != *pattern)
			return false;
		path = str_skip(path, 1);
		pattern++;
	}
	return !path.n;
}

static bool row_fits(const struct route_row *row, struct str path, struct path_values *ret)
{
	if (!row->path)
		return false;
	if (fits(row->path, path, ret))
		return true;
	for (const char *p = row->also; p; p = strchr(p, ' ')) {
		p += *p == ' ';
		if (fits(p, path, ret))
			return true;
	}
	return false;
}

int api_route_match(struct str path, struct api_match *ret, struct err *e)
{
	struct path_values f;
	*ret = (struct api_match){.row = &route_table[ROUTE_UNKNOWN]};
	for (size_t i = 0; i < route_rows; i++)
		if (row_fits(&route_table[i], path, &f)) {
			ret->row = &route_table[i];
			return read_values(path, &f, ret, e);
		}
	return not_found(path, e);
}

/* ---- methods ---- */

static bool names_have(const char *names, struct str method)
{
	struct str rest = str_of(names);
	while (rest.n)
		if (str_eq(str_trim(str_split(rest, ',', &rest)), method))
			return true;
	return false;
}

const struct route_method *api_route_method(const struct route_row *row, struct str method)
{
	for (const struct route_method *m = row->methods; m < row->methods + ROUTE_METHODS_MAX && m->handle; m++)
		if (!m->names || names_have(m->names, method))
			return m;
	return NULL;
}

void api_route_allow(const struct route_row *row, struct buf *ret)
{
	for (const struct route_method *m = row->methods; m < row->methods + ROUTE_METHODS_MAX && m->handle; m++)
		buf_printf(ret, "%s%s", m == row->methods ? "" : ", ", m->names ? m->names : "");
}

void api_query_put(struct buf *target, struct str query, api_query_drops drops, const void *arg)
{
	char before = '?';
	while (query.n) {
		struct str parameter = str_split(query, '&', &query);
		if (drops && drops(arg, parameter))
			continue;
		buf_add_byte(target, before);
		buf_add_str(target, parameter);
		before = '&';
	}
}

/*
 * client_error.c - answers that are errors, and answers that are not Atoll's, in words for people.
 */
#include <stdio.h>
#include <string.h>

#include "cli/client.h"

static enum errc errc_by_name(struct str name)
{
	for (int i = 1; i < ERRC_MAX; i++)
		if (str_eq_c(name, errc_info((enum errc)i)->code))
			return (enum errc)i;
	return ERRC_UNKNOWN_ERROR;
}

/* Some other server, or a proxy in front of the daemon. */
static int not_atoll(struct client *cl, int status, struct err *e)
{
	cli_hint(cl->cli,
		getenv("ATOLL_URL")
			? "Another program listens there, or a proxy answers in the daemon's place: check ATOLL_URL."
			: "Another program listens there: set ATOLL_URL to the address of the daemon.");
	return err_set(e, ERRC_BAD_GATEWAY, "%s answered %d %s, and not as Atoll does", cl->where, status,
		http_status_text(status));
}

/* Something that a verb names and the daemon does not have: a volume, a secret, a bucket. */
static void hint_not_found(struct cli *c, struct str message)
{
	if (str_starts(message, STR("there is no volume")))
		cli_hint(c, "'%s volume create NAME' makes one; '%s volume ls' lists the volumes.", c->self, c->self);
	else if (str_starts(message, STR("there is no secret")))
		cli_hint(c, "'%s secret set NAME' makes one; '%s secret list' lists the secrets.", c->self, c->self);
	else if (str_starts(message, STR("there is no token")))
		cli_hint(c, "'%s token create NAME' makes one; '%s token list' lists the tokens.", c->self, c->self);
	else if (strcmp(c->verb->name, "unmount") == 0)
		cli_hint(c, "'%s mounts ID' lists the buckets of a box.", c->self);
	else
		cli_hint(c, "'%s volume ls' lists the volumes, '%s secret list' the secrets.", c->self, c->self);
}

static void hint_state(struct cli *c, struct str message)
{
	if (str_ends(message, STR(" exists already")))
		cli_hint(c, "Choose another name, or remove that box with '%s rm NAME'.", c->self);
	else if (memmem(message.p, message.n, "; destroy it to ", 16))
		cli_hint(c, "'%s rm ID' removes a box and its files.", c->self);
	else if (str_ends(message, STR("; stop it first")))
		cli_hint(c, "'%s stop ID' ends its processes and keeps its files.", c->self);
}

/* The daemon's own advice for these codes is for HTTP clients. */
static void hint_for_people(struct cli *c, const struct err *e)
{
	struct str message = str_of(e->msg);
	if (e->code == ERRC_SANDBOX_NOT_FOUND)
		cli_hint(c, "'%s list' lists the boxes; '%s create NAME' makes one.", c->self, c->self);
	else if (e->code == ERRC_APPROVAL_NOT_FOUND)
		cli_hint(c, "'%s approve --list' shows what waits now.", c->self);
	else if (e->code == ERRC_BACKUP_NOT_FOUND)
		cli_hint(c, "'%s backups' lists the backups.", c->self);
	else if (e->code == ERRC_SNAPSHOT_NOT_FOUND)
		cli_hint(c, "'%s snapshots ID' lists the snapshots of a box.", c->self);
	else if (e->code == ERRC_NOT_FOUND && !str_starts(message, STR("no route ")))
		hint_not_found(c, message);
	else if (e->code == ERRC_INVALID_STATE)
		hint_state(c, message);
	else if (e->code == ERRC_VALIDATION_FAILED)
		cli_hint(c, "'%s help %s' shows what it takes.", c->self, c->verb->name);
}

int client_api_error(struct client *cl, int status, struct str body, struct err *e)
{
	struct json_doc *d = json_parse(body, NULL);
	const struct json *j = d ? json_root(d) : NULL;
	struct str code = STR("UNKNOWN_ERROR"), message = STR_NULL, hint = STR_NULL;
	json_read_str(j, "code", &code, NULL);
	json_read_str(j, "error", &message, NULL); /* of the interpreter's routes */
	json_read_str(j, "message", &message, NULL);
	json_read_str(j, "suggestion", &hint, NULL);
	if (!message.n) {
		json_free(d);
		return not_atoll(cl, status, e);
	}
	if (str_starts(message, STR("field '"))) /* of a request, which a person does not see */
		message = str_skip(message, strlen("field "));
	err_set(e, errc_by_name(code), "%.*s", STR_ARG(message));
	cli_hint(cl->cli, "%.*s", STR_ARG(hint));
	hint_for_people(cl->cli, e);
	if (status == 401)
		cli_hint(cl->cli,
			cl->token_unreadable ? "Only root and the daemon's user may read %s/token: use sudo, or "
					       "set ATOLL_TOKEN."
					     : "Set ATOLL_TOKEN to the content of %s/token on the daemon's machine.",
			cli_data_dir());
	json_free(d);
	return -1;
}

int client_failure(struct client *cl, const struct http_failure *f, struct err *e)
{
	*e = f->err;
	bool no_answer = f->fail == HTTP_FAIL_CLOSED || f->fail == HTTP_FAIL_PROTOCOL;
	if (no_answer && cl->endpoint.sa.sa_family != AF_UNIX)
		cli_hint(cl->cli, "If that daemon uses TLS, set ATOLL_URL to https://host:port, or " CLIENT_BY_SSH);
	if (f->fail == HTTP_FAIL_TIMEOUT)
		cli_hint(cl->cli, CLIENT_LOOK_THERE);
	if (f->fail != HTTP_FAIL_CONNECT)
		return err_wrap(e, "%s", cl->where);
	if (e->os == EACCES) {
		cli_hint(cl->cli, "Use sudo, join the daemon's group, or use http://… with ATOLL_TOKEN.");
		return err_set(e, ERRC_PERMISSION_DENIED, "you may not use %s", cl->where);
	}
	cli_hint(cl->cli,
		getenv("ATOLL_URL") ? "Check ATOLL_URL, or start the daemon there with 'sudo %s up'."
				    : "Start it with 'sudo %s up'.",
		cl->cli->self);
	return err_wrap(e, "no daemon at %s", cl->where);
}

/* Whether a daemon of another version could have made this error. */
static bool may_be_old(const struct err *e)
{
	return e->code == ERRC_NOT_FOUND || e->code == ERRC_METHOD_NOT_ALLOWED || e->code == ERRC_VALIDATION_FAILED ||
	       e->code == ERRC_INVALID_LIMITS;
}

void client_explain_version(struct client *cl, const struct err *e)
{
	auto_buf struct buf body = {0};
	struct err why;
	struct str version = STR_NULL;
	if (!may_be_old(e) || client_ask(cl, "GET", "/v1/health", STR(""), &body, &why) != 200)
		return;
	auto_json struct json_doc *d = json_parse(buf_str(&body), NULL);
	if (d && json_read_str(json_root(d), "version", &version, NULL) == 0 && version.n &&
		!str_eq_c(version, ATOLL_VERSION))
		cli_hint(cl->cli, "The daemon at %s has version %.*s, this program %s: update the older one.",
			cl->where, (int)(version.n < 40 ? version.n : 40), version.p, ATOLL_VERSION);
}

void client_refused(struct client *cl, struct str reason, struct err *e)
{
	err_set(e, cl->silent ? ERRC_GATEWAY_TIMEOUT : ERRC_BAD_GATEWAY, "%s: %.*s", cl->where, STR_ARG(reason));
}

bool client_explain_refusal(struct client *cl, const char *id, struct err *e)
{
	auto_buf struct buf path = {0}, body = {0};
	struct err why;
	if (cl->silent)
		return false;
	client_box_path(&path, id, "");
	if (client_call(cl, "PUT", buf_cstr(&path), STR("{}"), &body, &why) >= 0)
		return true;
	*e = why;
	return false;
}

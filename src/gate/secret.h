/*
 * secret.h - the secrets of one sandbox: which placeholder stands for which value, and where that may go.
 *
 * A box knows only placeholders. On its way to one of a secret's hosts, over TLS that the gate has verified, a
 * placeholder becomes the value in the places of the head that the secret's `in` names (proto/secret_in.h): in header
 * values, inside of Basic credentials, and in the target, percent-encoded, where parts of the placeholder may be
 * percent-encoded as well. Anywhere else a placeholder is misplaced, and the request is refused. Bodies are not looked
 * at. In the heads of responses the value becomes the placeholder again (secret_hide.c).
 *
 * Values live here and in the head that is being sent, and are wiped from both (buf.h's `wipe`). They are in no error
 * and no log record. Pure but for the time of the last note. Thread: the loop's.
 */
#pragma once

#include "base/json.h"
#include "gate/limits.h"
#include "http/http.h"
#include "proto/rule.h"
#include "proto/secret_in.h"

struct secret_aws {
	char *id, *region, *service, *token; /* region, service, token may be "" */
};

struct secret {
	char name[SECRET_NAME_MAX + 1];
	char placeholder[SECRET_PLACEHOLDER + 1];
	char *value; /* owned; wiped when it is freed */
	size_t value_n;
	struct rule *hosts;
	size_t hosts_n;
	struct secret_in *in; /* names are owned */
	size_t in_n;
	bool anywhere;		     /* set by a daemon that knew no `in`: in all of the head */
	char *header, *header_value; /* a header to set, "{}" stands for the value; or NULL */
	bool is_aws;
	struct secret_aws aws;
	uint64_t noted; /* loop time of the last note to the daemon */
};

struct secrets {
	struct secret *v;
	size_t n;
};

/* Reads {"secrets": [{"name", "placeholder", "value", "hosts", "in", "header", "aws"}]}; without `in`: anywhere.
 * VALIDATION_FAILED. NULL when empty. */
int secrets_read(const struct json *object, struct secrets **ret, struct err *e);
void secrets_free(struct secrets *s); /* NULL is fine */

/* Whether TLS to this name is intercepted for them. */
bool secrets_want(const struct secrets *s, const char *name, uint16_t port);
bool secret_goes_to(const struct secret *s, const char *name, uint16_t port);
/* The first secret whose placeholder stands in the text. */
struct secret *secrets_find(const struct secrets *s, struct str text);
/* The same for a target, where characters may be percent-encoded, … */
struct secret *secrets_in_target(const struct secrets *s, struct str target);
/* … for the value of a header, also inside of Basic credentials, */
struct secret *secrets_in_value(const struct secrets *s, struct str value);
/* … and for the raw head of a request: all of these. */
struct secret *secrets_in_head(const struct secrets *s, struct str head);

/* Where a request goes. `name` is NULL when the way there is not TLS that the gate has verified. */
struct secret_way {
	const char *name;
	uint16_t port;
};

/* A placeholder that stands where it may not. */
struct secret_fault {
	const struct secret *secret;   /* NULL: there is none */
	char member[GATE_SECRET_TOLD]; /* of `in`, which would allow it; "": none would */
};
/* The first in the head of a request. */
struct secret_fault secrets_misplaced(
	const struct secrets *s, const struct http_request *rq, const struct secret_way *way);

/* Appends the text with the values of the secrets that go there and may stand there. True: something was replaced.
 * `noted` is called for each secret that was used. */
typedef void (*secret_used)(void *arg, struct secret *s);
struct secret_writer {
	const struct secrets *secrets;
	struct secret_way way;
	secret_used used;
	void *arg;
};
bool secret_put_target(const struct secret_writer *w, struct str target, struct buf *out);
bool secret_put_value(const struct secret_writer *w, const struct http_header *h, struct buf *out);
/* Appends the value of the secret's own header. */
void secret_put_header(const struct secret *s, struct buf *out);

/* ---- secret_hide.c ---- */
/* Appends a text of a response with placeholders in the place of the values of secrets that go there, also where
 * characters are percent-encoded and inside of Basic credentials. True: something was replaced. */
bool secrets_hide(const struct secrets *s, const struct secret_way *way, struct str text, struct buf *out);
/* The credentials of "Basic …", decoded, as lenient as servers are: any case, blanks and tabs, padding or none. False:
 * it is something else. */
bool secret_decode_basic(struct str value, struct buf *out);
/* One character, also as %XX. How many bytes it takes, or 0. */
size_t secret_read_escaped(struct str text, char *ret);

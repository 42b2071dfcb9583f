/*
 * head.h - reads one request or response head, strictly. Internal to src/http.
 *
 * Two readers must agree. The scanner walks every byte once, in pieces as they arrive, and refuses at the first byte
 * that has no business there: it is what makes garbage fail at once, before the head is complete, and what closes the
 * places where llhttp is lenient (bare LF, bare CR, folded lines, controls in values, blanks before the colon). A
 * complete head then goes through llhttp, which splits it; what the headers mean together (framing, Host, upgrade) is
 * decided here afterwards.
 */
#pragma once

#include "http/http.h"

enum head_kind { HEAD_REQUEST, HEAD_RESPONSE };

struct head_scan {
	size_t at;	/* bytes that have been looked at */
	size_t token;	/* where the current word or line begins */
	uint16_t lines; /* header lines begun */
	uint8_t state;
	bool version_odd; /* well-formed, but neither 1.0 nor 1.1 */
};

/* Looks at what is new in `in`, which begins with the head's first byte and grows from call to call.
 * > 0: the head is complete and so many bytes long. 0: not yet. -1: refused, *e says why (its code has the status). */
ssize_t head_scan(struct head_scan *s, enum head_kind kind, struct str in, struct err *e);

/* Owns the memory that a parsed head's spans point into; reused from head to head. */
struct head_mem {
	char *p;
	size_t cap;
};
void head_mem_free(struct head_mem *m);

/* A head that head_scan has found complete (`lines` from the scan). -1: refused. */
int head_parse_request(
	struct head_mem *m, const struct head_scan *s, struct str head, struct http_request *ret, struct err *e);
/* `to_head`: the request was HEAD, so no body follows. Errors are BAD_GATEWAY. */
int head_parse_response(struct head_mem *m, const struct head_scan *s, struct str head, bool to_head,
	struct http_response *ret, struct err *e);

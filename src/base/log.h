/*
 * log.h - structured logs: one line per event on stderr, logfmt by default, JSON with ATOLL_LOG=json.
 *
 *	log_event(LOG_INFO, "box created", "id=%s ms=%.1f", id, ms);
 *	→ ts=2026-11-15T07:57:41.404Z level=info program=atolld msg="box created" id=user-123 ms=2.9
 *	→ {"ts":"…","level":"info","program":"atolld","msg":"box created","id":"user-123","ms":"2.9"}
 *
 * The format string is a row of key=value pairs separated by blanks; a value that may hold blanks, or that others
 * chose, is written as key=%s with LOG_Q(value), which quotes it. Whatever the values hold, an event is one line of at
 * most LOG_LINE_MAX bytes of printable UTF-8 and, in JSON, a valid object (pairs that do not fit are left out).
 * Thread-safe: a line is one write(). Allocates nothing; keeps errno.
 *
 * A line that a box or a client can cause at will is written with log_limited: each place in the code has a bucket of
 * LOG_BURST lines that fills at LOG_RATE a second. Lines that do not fit are counted. The count is written as a line of
 * its own, "lines suppressed", before the next line of that place, or before any line once the place has been quiet
 * for LOG_SETTLED.
 */
#pragma once

#include "base/base.h"
#include "base/limits.h"
#include "base/str.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum { LOG_LINE_MAX = 2048, LOG_QUOTED_MAX = 512 };

/* Reads ATOLL_LOG ("json", "text") and ATOLL_LOG_LEVEL ("error", "warn", "info", "debug"). */
void log_init(const char *program);
/* Whether a line of this level would be written: for callers that would work to make one. */
bool log_wants(enum log_level level);
void log_event(enum log_level level, const char *msg, const char *fmt, ...) PRINTF_LIKE(3, 4);

struct log_limit {
	const char *msg;
	enum log_level level;
	uint64_t tokens, at_ms; /* thousandths of a line; when they were counted, 0 at first */
	uint64_t suppressed;
	struct log_limit *next; /* of all that have ever suppressed a line */
	bool listed;
};
#define log_limited(level, msg, ...)                                                                                   \
	do {                                                                                                           \
		static struct log_limit limit_;                                                                        \
		log_limited_by(&limit_, level, msg, __VA_ARGS__);                                                      \
	} while (0)
/* `l` lives as long as the program. */
void log_limited_by(struct log_limit *l, enum log_level level, const char *msg, const char *fmt, ...) PRINTF_LIKE(4, 5);

struct log_quoted {
	char text[LOG_QUOTED_MAX];
};
/* A value in double quotes with escapes; cut with "…" when long. Lives until the end of the full expression's block. */
#define LOG_Q(c)  (log_quote(&(struct log_quoted){0}, str_of(c)))
#define LOG_QS(s) (log_quote(&(struct log_quoted){0}, (s)))
const char *log_quote(struct log_quoted *q, struct str s);

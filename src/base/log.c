#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"

static enum log_level threshold = LOG_INFO;
static bool as_json;
static const char *program_name = "atoll";
static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_init(const char *program)
{
	program_name = program;
	const char *format = getenv("ATOLL_LOG");
	as_json = format && strcmp(format, "json") == 0;
	const char *level = getenv("ATOLL_LOG_LEVEL");
	bool known = !level || !*level;
	for (size_t i = 0; level && i < ARRAY_LEN(level_names); i++) {
		if (strcmp(level, level_names[i]) != 0)
			continue;
		threshold = (enum log_level)i;
		known = true;
	}
	if (!known)
		log_event(LOG_WARN, "ATOLL_LOG_LEVEL is none of error, warn, info and debug", "value=%s", LOG_Q(level));
	if (format && *format && !as_json && strcmp(format, "text") != 0)
		log_event(LOG_WARN, "ATOLL_LOG is none of json and text", "value=%s", LOG_Q(format));
}

/* U+0000-1F, 7F and 80-9F steer terminals. Returns the length of such a character at the start of s, else 0. */
static size_t control_len(struct str s)
{
	unsigned char c = (unsigned char)s.p[0];
	if (c < 0x20 || c == 0x7f)
		return 1;
	return c == 0xc2 && s.n > 1 && (unsigned char)s.p[1] >= 0x80 && (unsigned char)s.p[1] < 0xa0 ? 2 : 0;
}

const char *log_quote(struct log_quoted *q, struct str s)
{
	size_t n = 0;
	q->text[n++] = '"';
	while (s.n) {
		char *at = q->text + n;
		size_t control = control_len(s), room = sizeof q->text - n;
		int len = str_utf8_len(s);
		if (room < 12) {
			n += (size_t)snprintf(at, room, "…");
			break;
		}
		if (len <= 0)
			n += (size_t)snprintf(at, room, "\xef\xbf\xbd");
		else if (s.p[0] == '\n')
			n += (size_t)snprintf(at, room, "\\n");
		else if (control)
			n += (size_t)snprintf(at, room, "\\u%04x", (unsigned char)s.p[control - 1]);
		else
			n += (size_t)snprintf(
				at, room, "%s%.*s", s.p[0] == '"' || s.p[0] == '\\' ? "\\" : "", len, s.p);
		s = str_skip(s, len > 0 ? (size_t)len : 1);
	}
	q->text[n++] = '"';
	q->text[n] = 0;
	return q->text;
}

/* Also a value that a caller forgot to quote must not break the line, nor steer a terminal. */
static void make_printable(char *p, size_t n)
{
	while (n) {
		struct str s = str_n(p, n);
		int len = str_utf8_len(s);
		size_t step = len > 0 ? (size_t)len : 1;
		if (len <= 0 || control_len(s))
			memset(p, '?', step);
		p += step;
		n -= step;
	}
}

/* \uXXXX as log_quote writes it, at the u: one byte, or two of UTF-8 from 80 on. Returns how many, 0 for anything else.
 */
static size_t take_code(const char *p, char ret[2])
{
	char hex[5] = {0}, *end;
	if (*p != 'u' || strlen(p) < 5)
		return 0;
	memcpy(hex, p + 1, 4);
	unsigned long code = strtoul(hex, &end, 16);
	if (end != hex + 4 || code >= 0xa0)
		return 0;
	ret[0] = code < 0x80 ? (char)code : (char)0xc2;
	ret[1] = (char)code;
	return code < 0x80 ? 1 : 2;
}

/* The value at *at: a word, or a text that log_quote made. Moves *at behind it. */
static struct str take_value(const char **at, char scratch[LOG_LINE_MAX])
{
	const char *p = *at;
	if (*p != '"') {
		*at = strchrnul(p, ' ');
		return str_n(p, (size_t)(*at - p));
	}
	size_t n = 0;
	for (p++; *p && *p != '"'; p++) {
		bool escaped = *p == '\\' && p[1];
		p += escaped;
		size_t code = escaped ? take_code(p, scratch + n) : 0;
		if (code) {
			n += code;
			p += 4;
		} else {
			scratch[n++] = escaped && *p == 'n' ? '\n' : *p;
		}
	}
	*at = *p ? p + 1 : p;
	return str_n(scratch, n);
}

/* All or nothing, so that a line that is full stays valid JSON. */
static bool put_member(struct buf *line, struct str key, struct str value)
{
	size_t before = line->len;
	buf_add_c(line, before ? "," : "{");
	json_put_str(line, key);
	buf_add_byte(line, ':');
	json_put_str(line, value);
	if (!line->failed)
		return true;
	line->len = before;
	line->failed = false;
	return false;
}

static size_t write_json(char *to, enum log_level level, const char *ts, const char *msg, const char *pairs)
{
	/* On the caller's memory: a buffer that holds its maximum already does not grow. */
	struct buf line = {.p = to, .cap = LOG_LINE_MAX - 2, .max = LOG_LINE_MAX - 2};
	put_member(&line, STR("ts"), str_of(ts));
	put_member(&line, STR("level"), str_of(level_names[level]));
	put_member(&line, STR("program"), str_of(program_name));
	put_member(&line, STR("msg"), str_n(msg, strnlen(msg, LOG_QUOTED_MAX)));
	char scratch[LOG_LINE_MAX];
	for (const char *eq; (eq = strchr(pairs, '=')) != NULL;) {
		struct str key = str_n(pairs, (size_t)(eq - pairs));
		const char *at = eq + 1;
		if (!put_member(&line, key, take_value(&at, scratch)))
			break;
		pairs = *at == ' ' ? at + 1 : at;
	}
	make_printable(to, line.len); /* DEL and U+0080-9F, which JSON leaves as they are */
	memcpy(to + line.len, "}\n", 2);
	return line.len + 2;
}

static size_t write_text(char *to, enum log_level level, const char *ts, const char *msg, const char *pairs)
{
	int want = snprintf(to, LOG_LINE_MAX, "ts=%s level=%s program=%s msg=%s%s%s", ts, level_names[level],
		program_name, LOG_Q(msg), *pairs ? " " : "", pairs);
	size_t n = want < LOG_LINE_MAX ? (size_t)want : LOG_LINE_MAX - 1;
	make_printable(to, n);
	to[n] = '\n';
	return n + 1;
}

bool log_wants(enum log_level level)
{
	return level <= threshold;
}

static void PRINTF_LIKE(3, 0) write_line(enum log_level level, const char *msg, const char *fmt, va_list ap)
{
	char pairs[LOG_LINE_MAX], line[LOG_LINE_MAX], ts[CLOCK_ISO_LEN];
	vsnprintf(pairs, sizeof pairs, fmt, ap);
	clock_iso(clock_wall_ms(), ts);
	size_t n = (as_json ? write_json : write_text)(line, level, ts, msg, pairs);
	ssize_t ignored = write(STDERR_FILENO, line, n);
	(void)ignored;
}

static void PRINTF_LIKE(3, 4) write_fields(enum log_level level, const char *msg, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	write_line(level, msg, fmt, ap);
	va_end(ap);
}

/* ---- lines that others can cause ---- */

static pthread_mutex_t limits_lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_limit *limits;       /* every place that has ever suppressed a line */
static _Atomic uint64_t limits_unsaid; /* places whose count has not been written */

static void say_suppressed(struct log_limit *l)
{
	if (!l->suppressed)
		return;
	write_fields(
		l->level, "lines suppressed", "of=%s count=%llu", LOG_Q(l->msg), (unsigned long long)l->suppressed);
	l->suppressed = 0;
	limits_unsaid--;
}

static void count_suppressed(struct log_limit *l)
{
	if (!l->listed) {
		l->next = limits;
		limits = l;
		l->listed = true;
	}
	if (l->suppressed++ == 0)
		limits_unsaid++;
}

static void say_settled(void)
{
	if (!limits_unsaid)
		return;
	uint64_t now = clock_ms();
	pthread_mutex_lock(&limits_lock);
	for (struct log_limit *l = limits; l; l = l->next)
		if (now - l->at_ms >= LOG_SETTLED)
			say_suppressed(l);
	pthread_mutex_unlock(&limits_lock);
}

static bool take_token(struct log_limit *l)
{
	const uint64_t now = clock_ms(), full = LOG_BURST * 1000;
	uint64_t have = l->at_ms ? l->tokens + (now - l->at_ms) * LOG_RATE : full;
	l->tokens = have < full ? have : full;
	l->at_ms = now;
	if (l->tokens < 1000)
		return false;
	l->tokens -= 1000;
	return true;
}

void log_limited_by(struct log_limit *l, enum log_level level, const char *msg, const char *fmt, ...)
{
	if (level > threshold)
		return;
	int saved = errno;
	pthread_mutex_lock(&limits_lock);
	l->msg = msg;
	l->level = level;
	bool fits = take_token(l);
	if (fits)
		say_suppressed(l);
	else
		count_suppressed(l);
	pthread_mutex_unlock(&limits_lock);
	say_settled();
	if (fits) {
		va_list ap;
		va_start(ap, fmt);
		write_line(level, msg, fmt, ap);
		va_end(ap);
	}
	errno = saved;
}

void log_event(enum log_level level, const char *msg, const char *fmt, ...)
{
	if (level > threshold)
		return;
	int saved = errno;
	va_list ap;
	say_settled();
	va_start(ap, fmt);
	write_line(level, msg, fmt, ap);
	va_end(ap);
	errno = saved;
}

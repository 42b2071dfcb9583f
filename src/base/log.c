#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

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
	for (size_t i = 0; level && i < ARRAY_LEN(level_names); i++)
		if (strcmp(level, level_names[i]) == 0)
			threshold = (enum log_level)i;
}

const char *log_quote(struct log_quoted *q, struct str s)
{
	size_t n = 0;
	q->text[n++] = '"';
	for (size_t i = 0; i < s.n; i++) {
		if (n + 12 > sizeof q->text) {
			n += (size_t)snprintf(q->text + n, sizeof q->text - n, "…");
			break;
		}
		unsigned char c = (unsigned char)s.p[i];
		if (c == '"' || c == '\\') {
			q->text[n++] = '\\';
			q->text[n++] = (char)c;
		} else if (c == '\n') {
			q->text[n++] = '\\';
			q->text[n++] = 'n';
		} else if (c < 0x20 || c == 0x7f) {
			n += (size_t)snprintf(q->text + n, sizeof q->text - n, "\\u%04x", c);
		} else {
			q->text[n++] = (char)c;
		}
	}
	q->text[n++] = '"';
	q->text[n] = 0;
	return q->text;
}

/* key=value pairs as JSON members; values that are not quoted yet become strings. */
static size_t pairs_to_json(char *out, size_t cap, const char *pairs)
{
	size_t n = 0;
	while (*pairs && n + 8 < cap) {
		const char *eq = strchr(pairs, '=');
		if (!eq)
			break;
		const char *v = eq + 1, *end;
		bool quoted = *v == '"';
		if (quoted)
			for (end = v + 1; *end && *end != '"'; end++)
				end += *end == '\\' && end[1];
		else
			end = strchrnul(v, ' ');
		if (quoted && *end)
			end++;
		int w = snprintf(out + n, cap - n, quoted ? ",\"%.*s\":%.*s" : ",\"%.*s\":\"%.*s\"", (int)(eq - pairs),
			pairs, (int)(end - v), v);
		if (w < 0 || (size_t)w >= cap - n)
			break;
		n += (size_t)w;
		pairs = *end == ' ' ? end + 1 : end;
	}
	out[n] = 0;
	return n;
}

void log_event(enum log_level level, const char *msg, const char *fmt, ...)
{
	if (level > threshold)
		return;
	char pairs[LOG_LINE_MAX], line[2 * LOG_LINE_MAX], json[LOG_LINE_MAX], ts[CLOCK_ISO_LEN];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(pairs, sizeof pairs, fmt, ap);
	va_end(ap);
	clock_iso(clock_wall_ms(), ts);
	int n;
	if (as_json) {
		pairs_to_json(json, sizeof json, pairs);
		n = snprintf(line, sizeof line,
			"{\"ts\":\"%s\",\"level\":\"%s\",\"program\":\"%s\",\"msg\":\"%s\"%s}\n", ts,
			level_names[level], program_name, msg, json);
	} else {
		n = snprintf(line, sizeof line, "ts=%s level=%s program=%s msg=\"%s\"%s%s\n", ts, level_names[level],
			program_name, msg, *pairs ? " " : "", pairs);
	}
	if (n > (int)sizeof line - 1) {
		n = (int)sizeof line - 1;
		line[n - 1] = '\n';
	}
	ssize_t ignored = write(STDERR_FILENO, line, (size_t)n);
	(void)ignored;
}

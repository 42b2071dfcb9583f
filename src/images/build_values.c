/*
 * The values of EXPOSE, HEALTHCHECK and STOPSIGNAL: checked here, since a box of the image does not use them and would
 * not notice.
 */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "images/build_impl.h"

/* ---- EXPOSE ---- */

/* "8000" or "8000-8010". */
static bool read_range(struct str text, uint64_t *from, uint64_t *to)
{
	struct str last, first = str_split(text, '-', &last);
	if (!str_to_u64(first, 65535, from) || !*from)
		return false;
	*to = *from;
	return !memchr(text.p, '-', text.n) || (str_to_u64(last, 65535, to) && *to >= *from);
}

static const char *read_kind(struct str text)
{
	static const char *const kinds[] = {"tcp", "udp", "sctp"};
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_eq_nocase(text, str_of(kinds[i])))
			return kinds[i];
	return text.n ? NULL : "tcp";
}

static int add_ports(const struct df_step *s, const char *word, struct words *list, struct err *e)
{
	struct str kind, number = str_split(str_of(word), '/', &kind);
	const char *name = read_kind(kind);
	uint64_t from, to;
	if (!name || !read_range(number, &from, &to))
		return dockerfile_error(s, e, "'%.40s' is not a port", word);
	for (uint64_t port = from; port <= to; port++) {
		char text[32];
		snprintf(text, sizeof text, "%u/%s", (unsigned)port, name);
		if (list->n >= SERVICE_LIST_MAX)
			return dockerfile_error(s, e, "more than %u ports", SERVICE_LIST_MAX);
		words_add_once(list, str_of(text));
	}
	return 0;
}

int step_expose(struct build *b, const struct df_step *s, struct words *list, struct err *e)
{
	struct words w = {0};
	int r = build_words(b, s, &w, e);
	for (size_t i = 0; r == 0 && i < w.n; i++)
		r = add_ports(s, w.v[i], list, e);
	words_free(&w);
	return r;
}

/* ---- HEALTHCHECK ---- */

/* "1m30s", "500ms", "1.5h": numbers with units, as Go writes durations. */
static bool read_duration(const char *text, uint64_t *ret)
{
	static const struct {
		const char *name;
		double nanoseconds;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
	double total = 0;
	if (strcmp(text, "0") == 0) {
		*ret = 0;
		return true;
	}
	while (*text) {
		size_t digits = strspn(text, "0123456789."), letters = strcspn(text + digits, "0123456789.");
		double unit = 0;
		for (size_t i = 0; i < ARRAY_LEN(units); i++)
			if (strlen(units[i].name) == letters && memcmp(units[i].name, text + digits, letters) == 0)
				unit = units[i].nanoseconds;
		if (!isdigit((unsigned char)*text) || digits > 12 || unit == 0)
			return false;
		total += strtod(text, NULL) * unit;
		text += digits + letters;
	}
	if (total < 1e6 || total > 1e18)
		return false;
	*ret = (uint64_t)total;
	return true;
}

static int put_times(struct json_writer *w, const struct df_step *s, struct err *e)
{
	static const char *const known[][2] = {{"interval", "Interval"}, {"timeout", "Timeout"},
		{"start-period", "StartPeriod"}, {"start-interval", "StartInterval"}};
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		const char *text = dockerfile_flag(s, known[i][0]);
		uint64_t n;
		if (!text)
			continue;
		if (!read_duration(text, &n))
			return dockerfile_error(
				s, e, "--%s needs a duration such as 30s or 1m30s, not '%.40s'", known[i][0], text);
		json_member_u64(w, known[i][1], n);
	}
	const char *retries = dockerfile_flag(s, "retries");
	uint64_t n = 0;
	if (retries && !str_to_u64(str_of(retries), INT32_MAX, &n))
		return dockerfile_error(s, e, "--retries needs a number, not '%.40s'", retries);
	if (retries)
		json_member_u64(w, "Retries", n);
	return 0;
}

int step_healthcheck(struct build *b, const struct df_step *s, struct err *e)
{
	static const char *const flags[] = {
		"--interval=", "--timeout=", "--start-period=", "--start-interval=", "--retries=", NULL};
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	bool none = strcasecmp(s->text, "NONE") == 0;
	size_t n = strcspn(s->text, " \t");
	struct str rest = str_trim(str_of(s->text + n));
	if (!none && (!str_eq_nocase(str_n(s->text, n), STR("CMD")) || !rest.n))
		return dockerfile_error(s, e, "HEALTHCHECK needs CMD and a command, or NONE");
	if (build_flags(s, flags, e) < 0)
		return -1;
	auto_json struct json_doc *doc = rest.n && rest.p[0] == '[' ? json_parse(rest, NULL) : NULL;
	json_object_begin(&w);
	json_key(&w, "Test");
	json_array_begin(&w);
	json_cstr(&w, none ? "NONE" : doc ? "CMD" : "CMD-SHELL");
	json_each(it, doc ? json_root(doc) : NULL) json_str(&w, it->text);
	if (!none && !doc)
		json_str(&w, rest);
	json_array_end(&w);
	if (put_times(&w, s, e) < 0)
		return -1;
	json_object_end(&w);
	config_set(&build_config(b)->healthcheck, buf_str(&out));
	return 0;
}

/* ---- STOPSIGNAL ---- */

int check_signal(const struct df_step *s, const char *name, struct err *e)
{
	uint64_t n;
	const char *bare = strncasecmp(name, "SIG", 3) == 0 ? name + 3 : name;
	bool known = str_to_u64(str_of(name), 64, &n)
			     ? n > 0
			     : strncasecmp(bare, "RTMIN", 5) == 0 || strncasecmp(bare, "RTMAX", 5) == 0;
	for (int i = 1; i < 32 && !known; i++)
		known = sigabbrev_np(i) && strcasecmp(sigabbrev_np(i), bare) == 0;
	return known ? 0 : dockerfile_error(s, e, "'%.40s' is not a signal", name);
}

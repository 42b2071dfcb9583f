#include "gate/connect_head.h"

#include <string.h>

#include "proto/rule.h"

static bool is_token(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		bool alnum = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
		if (!alnum && (!c || !strchr("!#$%&'*+-.^_`|~", c)))
			return false;
	}
	return s.n > 0;
}

/* Takes the next line without its CRLF. False: it does not end so, or has other control characters. */
static bool take_line(struct str *rest, struct str *ret)
{
	size_t n = 0;
	while (n < rest->n && ((unsigned char)rest->p[n] >= ' ' || rest->p[n] == '\t') && rest->p[n] != 0x7f)
		n++;
	if (rest->n - n < 2 || rest->p[n] != '\r' || rest->p[n + 1] != '\n')
		return false;
	*ret = str_n(rest->p, n);
	*rest = str_skip(*rest, n + 2);
	return true;
}

/* "CONNECT name:port HTTP/1.1" */
static bool read_request(struct str line, struct str *ret_target, char name[NET_NAME_MAX + 1], uint16_t *ret_port)
{
	struct str version, port;
	uint64_t n = 0;
	if (!str_eq_c(str_split(line, ' ', &line), "CONNECT"))
		return false;
	*ret_target = str_split(line, ' ', &version);
	if (!str_eq_c(version, "HTTP/1.1") && !str_eq_c(version, "HTTP/1.0"))
		return false;
	struct str host = str_split(*ret_target, ':', &port);
	if (!rule_name(host, name) || !str_to_u64(port, 65535, &n) || !n)
		return false;
	*ret_port = (uint16_t)n;
	return true;
}

bool connect_head_read(struct str head, char name[NET_NAME_MAX + 1], uint16_t *ret_port)
{
	struct str line, target, value;
	if (!take_line(&head, &line) || !read_request(line, &target, name, ret_port))
		return false;
	while (take_line(&head, &line)) {
		if (!line.n)
			return head.n == 0;
		struct str key = str_split(line, ':', &value);
		if (key.n == line.n || !is_token(key))
			return false;
		if (str_eq_nocase(key, STR("host")) && !str_eq_nocase(str_trim(value), target))
			return false;
	}
	return false;
}

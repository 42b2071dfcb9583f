#include "daemon/ports/ports.h"

#include <ctype.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/core/sandbox.h"
#include "daemon/limits.h"
#include "store/limits.h"

int port_check_number(uint16_t number, struct err *e)
{
	if (number >= PORT_MIN)
		return 0;
	return err_set(e, ERRC_INVALID_PORT, "Invalid port number: %u. Must be %d-65535.", (unsigned)number, PORT_MIN);
}

static bool token_char(char c)
{
	return islower((unsigned char)c) || isdigit((unsigned char)c) || c == '_';
}

int port_check_token(struct str token, struct err *e)
{
	if (token.n == 0)
		return err_set(e, ERRC_VALIDATION_FAILED, "Custom token cannot be empty.");
	if (token.n > PORT_TOKEN_MAX)
		return err_set(e, ERRC_VALIDATION_FAILED,
			"Custom token too long. Maximum %d characters allowed. Received: %zu characters.",
			PORT_TOKEN_MAX, token.n);
	for (size_t i = 0; i < token.n; i++)
		if (!token_char(token.p[i]))
			return err_set(e, ERRC_VALIDATION_FAILED,
				"Custom token must contain only lowercase letters (a-z), numbers (0-9), and "
				"underscores (_).");
	return 0;
}

int port_check_name(struct str name, struct err *e)
{
	if (name.n > PORT_NAME_MAX)
		return err_set(e, ERRC_VALIDATION_FAILED, "name must be at most %d bytes long, it has %zu",
			PORT_NAME_MAX, name.n);
	for (size_t i = 0; i < name.n; i++)
		if (iscntrl((unsigned char)name.p[i]))
			return err_set(e, ERRC_VALIDATION_FAILED, "name must not hold control characters");
	return 0;
}

int port_check_id(const char *id, uint16_t number, size_t token_n, struct err *e)
{
	for (const char *c = id; *c; c++)
		if (!token_char(*c) && *c != '-')
			return err_set(e, ERRC_INVALID_SANDBOX_ID_CHARACTERS,
				"Preview URLs require sandbox ids of lowercase letters, digits, '-' and '_', since "
				"host names know no others. This id is '%s'.",
				id);
	size_t n = (size_t)snprintf(NULL, 0, "%u-%s-", (unsigned)number, id) + token_n;
	if (n > PREVIEW_LABEL_MAX)
		return err_set(e, ERRC_INVALID_SANDBOX_ID_LENGTH,
			"The preview's host name would begin with %zu characters and %d are allowed: use a shorter id, "
			"or a token of your own that is shorter.",
			n, PREVIEW_LABEL_MAX);
	return 0;
}

int port_make_token(char ret[PORT_TOKEN_MAX + 1], struct err *e)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	enum { LETTERS = sizeof letters - 1, FAIR = 256 / LETTERS * LETTERS };
	size_t n = 0;
	while (n < PORT_TOKEN_MAX) {
		unsigned char bytes[32];
		if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
			return err_os(e, ERRC_PORT_OPERATION_ERROR, errno, "make a token");
		for (size_t i = 0; i < sizeof bytes && n < PORT_TOKEN_MAX; i++)
			if (bytes[i] < FAIR)
				ret[n++] = letters[bytes[i] % LETTERS];
	}
	ret[n] = 0;
	return 0;
}

struct port *port_find(struct sandbox *s, uint16_t number)
{
	list_each(it, &s->ports)
	{
		struct port *p = list_entry(it, struct port, node);
		if (p->number == number)
			return p;
	}
	return NULL;
}

struct port *port_find_token(struct sandbox *s, const char *token)
{
	list_each(it, &s->ports)
	{
		struct port *p = list_entry(it, struct port, node);
		if (str_eq_secret(str_of(p->token), str_of(token)))
			return p;
	}
	return NULL;
}

struct port *port_alone(uint16_t number)
{
	struct port *p = xcalloc(1, sizeof *p);
	p->refs = 1;
	list_init(&p->previews);
	p->number = number;
	p->created_ms = clock_wall_ms();
	return p;
}

struct port *port_add(struct sandbox *s, uint16_t number, const char *token, const char *name, struct err *e)
{
	if (s->ports_n >= PORTS_MAX) {
		err_set(e, ERRC_LIMIT_REACHED, "sandbox '%s' has %d exposed ports, more are not kept", s->id,
			PORTS_MAX);
		return NULL;
	}
	struct port *p = port_alone(number);
	snprintf(p->token, sizeof p->token, "%s", token);
	snprintf(p->name, sizeof p->name, "%s", name);
	struct list *behind = &s->ports;
	list_each(it, &s->ports)
	{
		if (behind == &s->ports && list_entry(it, struct port, node)->number > number)
			behind = it;
	}
	list_push(behind, &p->node);
	s->ports_n++;
	return p;
}

void port_ref(struct port *p)
{
	p->refs++;
}

void port_unref(struct port *p)
{
	INVARIANT(p->refs > 0);
	if (--p->refs > 0)
		return;
	port_log_free(p);
	free(p);
}

void port_cut(struct port *p)
{
	if (p->cut)
		p->cut(p);
}

void port_remove(struct sandbox *s, struct port *p)
{
	INVARIANT(!p->gone);
	p->gone = true;
	list_del(&p->node);
	s->ports_n--;
	s->daemon->metrics.ports_counted -= p->counted;
	p->counted = false;
	port_unref(p);
}

void ports_clear(struct sandbox *s)
{
	list_each(it, &s->ports) port_remove(s, list_entry(it, struct port, node));
}

static int take_port(void *arg, const struct store_port *row, struct err *e)
{
	struct daemon *d = arg;
	struct sandbox *s = sandbox_find(d, row->id);
	struct err bad;
	if (!s || port_check_number(row->port, &bad) < 0 || port_check_token(str_of(row->token), &bad) < 0 ||
		port_check_name(str_of(row->name), &bad) < 0)
		return err_set(e, ERRC_INTERNAL_ERROR, "the state has a port %u of sandbox '%s' that no atolld wrote",
			(unsigned)row->port, row->id);
	struct port *p = port_add(s, row->port, row->token, row->name, e);
	if (!p)
		return -1;
	p->created_ms = row->created_ms;
	return 0;
}

int ports_load(struct daemon *d, struct err *e)
{
	return store_load_ports(d->store, take_port, d, e);
}

void port_url(struct buf *out, const struct config *c, const char *id, const struct port *p)
{
	buf_printf(out, "%s://%u-%s-%s.%s/", c->preview_scheme, (unsigned)p->number, id, p->token, c->preview_domain);
}

void port_view(struct json_writer *w, const struct sandbox *s, const struct port *p)
{
	auto_buf struct buf url = {0};
	char iso[CLOCK_ISO_LEN];
	bool active = s->state == SB_RUNNING || s->state == SB_ASLEEP;
	port_url(&url, &s->daemon->config, s->id, p);
	json_object_begin(w);
	json_member_str(w, "url", buf_str(&url));
	json_member_u64(w, "port", p->number);
	json_member_cstr(w, "name", *p->name ? p->name : NULL);
	json_member_cstr(w, "token", p->token);
	json_member_cstr(w, "status", active ? "active" : "inactive");
	json_member_cstr(w, "createdAt", clock_iso(p->created_ms, iso));
	json_object_end(w);
}

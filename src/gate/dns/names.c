#include "gate/dns/names.h"

void names_init(struct names *s)
{
	*s = (struct names){0};
	list_init(&s->order);
}

static void drop(struct names *s, struct names_entry *t)
{
	map_del(&s->map, str_n(t->ip.b, sizeof t->ip.b));
	list_del(&t->node);
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].name);
	free(t);
}

void names_free(struct names *s)
{
	while (!list_empty(&s->order))
		drop(s, list_entry(s->order.next, struct names_entry, node));
	map_free(&s->map);
}

static struct names_entry *entry(struct names *s, const struct ip *ip)
{
	struct str key = str_n(ip->b, sizeof ip->b);
	struct names_entry *t = map_get(&s->map, key);
	if (!t) {
		if (s->map.count >= GATE_NAMES_MAX)
			drop(s, list_entry(s->order.next, struct names_entry, node));
		t = xcalloc(1, sizeof *t);
		t->ip = *ip;
		map_put(&s->map, key, t);
	}
	list_del(&t->node);
	list_push(&s->order, &t->node);
	return t;
}

void names_add(struct names *s, const struct ip *ip, const char *name, uint64_t ttl_ms, uint64_t now)
{
	struct names_entry *t = entry(s, ip);
	size_t i = 0;
	while (i < t->n && strcmp(t->v[i].name, name) != 0)
		i++;
	char *copy = NULL;
	if (i < t->n) {
		copy = t->v[i].name;
	} else {
		copy = xstrdup(name);
		if (t->n < GATE_NAMES_PER_IP)
			t->n++;
		else
			free(t->v[--i].name);
	}
	memmove(&t->v[1], &t->v[0], i * sizeof t->v[0]);
	t->v[0].name = copy;
	t->v[0].until = now + ttl_ms + GATE_NAMES_KEEP;
}

const char *names_get(const struct names *s, const struct ip *ip, size_t i, uint64_t now)
{
	const struct names_entry *t = map_get(&s->map, str_n(ip->b, sizeof ip->b));
	for (size_t k = 0; t && k < t->n; k++)
		if (t->v[k].until > now && i-- == 0)
			return t->v[k].name;
	return NULL;
}

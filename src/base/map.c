#include "base/map.h"

#include <sys/random.h>

static uint64_t seed;

/* FNV-1a over a secret start, finished with a multiply-xor: short keys, no adversary who can see the hashes. */
static uint32_t map_hash(struct str key)
{
	while (!seed)
		if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
			seed = 0;
	uint64_t h = seed;
	for (size_t i = 0; i < key.n; i++)
		h = (h ^ (unsigned char)key.p[i]) * 0x100000001b3ull;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ull;
	return (uint32_t)(h >> 32);
}

static struct map_slot *map_find(const struct map *m, struct str key, uint32_t hash)
{
	for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
		struct map_slot *s = &m->slots[i];
		if (!s->key || (s->hash == hash && str_eq(str_n(s->key, s->key_len), key)))
			return s;
	}
}

static void map_grow(struct map *m)
{
	struct map bigger = {.cap = m->cap ? m->cap * 2 : 16};
	bigger.slots = xcalloc(bigger.cap, sizeof *bigger.slots);
	for (size_t i = 0; i < m->cap; i++)
		if (m->slots[i].key)
			*map_find(&bigger, str_n(m->slots[i].key, m->slots[i].key_len), m->slots[i].hash) = m->slots[i];
	bigger.count = m->count;
	free(m->slots);
	*m = bigger;
}

void map_free(struct map *m)
{
	for (size_t i = 0; i < m->cap; i++)
		free(m->slots[i].key);
	free(m->slots);
	*m = (struct map){0};
}

void *map_get(const struct map *m, struct str key)
{
	return m->cap ? map_find(m, key, map_hash(key))->value : NULL;
}

void *map_put(struct map *m, struct str key, void *value)
{
	INVARIANT(value);
	if ((m->count + 1) * 4 > m->cap * 3)
		map_grow(m);
	uint32_t hash = map_hash(key);
	struct map_slot *s = map_find(m, key, hash);
	void *old = s->value;
	if (!s->key) {
		*s = (struct map_slot){str_dup(key), (uint32_t)key.n, hash, NULL};
		m->count++;
	}
	s->value = value;
	return old;
}

void *map_del(struct map *m, struct str key)
{
	if (!m->cap)
		return NULL;
	struct map_slot *s = map_find(m, key, map_hash(key));
	if (!s->key)
		return NULL;
	void *old = s->value;
	free(s->key);
	*s = (struct map_slot){0};
	m->count--;
	/* Close the gap: whatever stands behind it may have been pushed past it. */
	for (size_t i = ((size_t)(s - m->slots) + 1) & (m->cap - 1); m->slots[i].key; i = (i + 1) & (m->cap - 1)) {
		struct map_slot moved = m->slots[i];
		m->slots[i] = (struct map_slot){0};
		*map_find(m, str_n(moved.key, moved.key_len), moved.hash) = moved;
	}
	return old;
}

bool map_next(const struct map *m, size_t *it, struct str *ret_key, void **ret_value)
{
	for (; *it < m->cap; (*it)++) {
		struct map_slot *s = &m->slots[*it];
		if (!s->key)
			continue;
		*ret_key = str_n(s->key, s->key_len);
		*ret_value = s->value;
		(*it)++;
		return true;
	}
	return false;
}

#include "base/map.h"

#include <sys/random.h>

static uint64_t rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], int rounds)
{
	for (; rounds > 0; rounds--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

static void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_rounds(v, 2);
	v[0] ^= word;
}

uint64_t map_hash(const uint64_t secret[2], struct str key)
{
	uint64_t v[4] = {secret[0] ^ 0x736f6d6570736575ull, secret[1] ^ 0x646f72616e646f6dull,
		secret[0] ^ 0x6c7967656e657261ull, secret[1] ^ 0x7465646279746573ull};
	uint64_t last = (uint64_t)key.n << 56;
	for (; key.n >= 8; key = str_skip(key, 8)) {
		uint64_t word;
		memcpy(&word, key.p, sizeof word);
		sip_word(v, word);
	}
	for (size_t i = 0; i < key.n; i++)
		last |= (uint64_t)(unsigned char)key.p[i] << 8 * i;
	sip_word(v, last);
	v[2] ^= 0xff;
	sip_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static void draw_secret(uint64_t secret[2])
{
	ssize_t r;
	do
		r = getrandom(secret, 16, 0);
	while (r < 0 && errno == EINTR);
	INVARIANT(r == 16);
}

static struct map_slot *map_find(const struct map *m, struct str key, uint64_t hash)
{
	for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
		struct map_slot *s = &m->slots[i];
		if (!s->key || (s->hash == hash && str_eq(str_n(s->key, s->key_len), key)))
			return s;
	}
}

static void map_grow(struct map *m)
{
	struct map bigger = *m;
	bigger.cap = m->cap ? m->cap * 2 : 16;
	if (!m->cap)
		draw_secret(bigger.secret);
	bigger.slots = xcalloc(bigger.cap, sizeof *bigger.slots);
	for (size_t i = 0; i < m->cap; i++)
		if (m->slots[i].key)
			*map_find(&bigger, str_n(m->slots[i].key, m->slots[i].key_len), m->slots[i].hash) = m->slots[i];
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
	return m->cap ? map_find(m, key, map_hash(m->secret, key))->value : NULL;
}

void *map_put(struct map *m, struct str key, void *value)
{
	INVARIANT(value);
	if ((m->count + 1) * 4 > m->cap * 3)
		map_grow(m);
	uint64_t hash = map_hash(m->secret, key);
	struct map_slot *s = map_find(m, key, hash);
	void *old = s->value;
	if (!s->key) {
		*s = (struct map_slot){str_dup(key), key.n, hash, NULL};
		m->count++;
	}
	s->value = value;
	return old;
}

void *map_del(struct map *m, struct str key)
{
	if (!m->cap)
		return NULL;
	struct map_slot *s = map_find(m, key, map_hash(m->secret, key));
	if (!s->key)
		return NULL;
	void *old = s->value;
	free(s->key);
	*s = (struct map_slot){0};
	m->count--;
	/* Close the gap: entries behind it may have been pushed past it. */
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

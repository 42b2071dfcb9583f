#include "cage/steer.h"

#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "proto/gate.h"

static int bpf(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof *attr);
}

static int fail(struct err *e, const char *what)
{
	return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "%s", what);
}

static int new_map(uint32_t type, uint32_t entries)
{
	union bpf_attr a = {.map_type = type, .key_size = 4, .value_size = 4, .max_entries = entries};
	return bpf(BPF_MAP_CREATE, &a);
}

static int put(int map, uint32_t key, uint32_t value)
{
	union bpf_attr a = {.map_fd = (uint32_t)map};
	a.key = (uint64_t)(uintptr_t)&key;
	a.value = (uint64_t)(uintptr_t)&value;
	return bpf(BPF_MAP_UPDATE_ELEM, &a);
}

static int load_program(const struct steer_maps *maps, const struct steer_slot *slot, struct err *e)
{
	struct bpf_insn code[STEER_PROGRAM_MAX];
	union bpf_attr a = {.prog_type = BPF_PROG_TYPE_SK_LOOKUP,
		.expected_attach_type = BPF_SK_LOOKUP,
		.insn_cnt = (uint32_t)steer_program(maps, slot, code),
		.insns = (uint64_t)(uintptr_t)code,
		.license = (uint64_t)(uintptr_t) "Apache-2.0"};
	memcpy(a.prog_name, "atoll_steer", sizeof "atoll_steer");
	int fd = bpf(BPF_PROG_LOAD, &a);
	if (fd >= 0)
		return fd;
	/* The verifier's last lines say which instruction it does not like. Only a bug of ours gets here. */
	static char text[16384];
	int os = errno;
	a.log_buf = (uint64_t)(uintptr_t)text;
	a.log_size = sizeof text;
	a.log_level = 1;
	*text = 0;
	bpf(BPF_PROG_LOAD, &a);
	size_t n = strnlen(text, sizeof text);
	return err_os(e, ERRC_HOST_UNSUPPORTED, os, "load the sk_lookup program (%s)", text + (n > 120 ? n - 120 : 0));
}

#define DROPS_NAME "drops"

static void name_of(char ret[STEER_NAME], uint32_t slot, const char *what)
{
	snprintf(ret, STEER_NAME, "%u-%s", slot, what);
}

/* The kernel takes a path: through the descriptor's entry in /proc, so that it needs no name of the directory. Paths
 * relative to a descriptor came with Linux 6.5 only. */
static void path_of(char ret[64], int dir, const char *name)
{
	snprintf(ret, 64, "/proc/self/fd/%d/%s", dir, name);
}

static int pin_name(int dir, const char *name, int fd)
{
	char path[64];
	path_of(path, dir, name);
	unlinkat(dir, name, 0);
	union bpf_attr a = {.bpf_fd = (uint32_t)fd};
	a.pathname = (uint64_t)(uintptr_t)path;
	return bpf(BPF_OBJ_PIN, &a);
}

static int pin(int dir, uint32_t slot, const char *what, int fd)
{
	char name[STEER_NAME];
	name_of(name, slot, what);
	return pin_name(dir, name, fd);
}

static int open_name(int dir, const char *name)
{
	char path[64];
	path_of(path, dir, name);
	union bpf_attr a = {0};
	a.pathname = (uint64_t)(uintptr_t)path;
	return bpf(BPF_OBJ_GET, &a);
}

static int open_pinned(int dir, uint32_t slot, const char *what)
{
	char name[STEER_NAME];
	name_of(name, slot, what);
	return open_name(dir, name);
}

/* The program and its maps. */
struct made {
	struct steer_maps maps;
	int program;
};
#define MADE_NONE                                                                                                      \
	{                                                                                                              \
		.maps = {-1, -1, -1}, .program = -1                                                                    \
	}

static void made_close(struct made *m)
{
	fd_close(&m->maps.socks);
	fd_close(&m->maps.flags);
	fd_close(&m->maps.drops);
	fd_close(&m->program);
}

static int new_ring(struct err *e)
{
	union bpf_attr a = {.map_type = BPF_MAP_TYPE_RINGBUF, .max_entries = GATE_DROPS_RING};
	int fd = bpf(BPF_MAP_CREATE, &a);
	return fd < 0 ? fail(e, "make the ring of refused connections") : fd;
}

/* Beside m->maps.drops, which is there. */
static int make(struct made *m, const struct steer_slot *slot, struct err *e)
{
	struct steer_maps *p = &m->maps;
	p->socks = new_map(BPF_MAP_TYPE_SOCKMAP, STEER_KEYS);
	if (p->socks < 0)
		return fail(e, "make the map of sockets");
	p->flags = new_map(BPF_MAP_TYPE_ARRAY, 1);
	if (p->flags < 0 || put(p->flags, 0, slot->flags) < 0)
		return fail(e, "make the map of flags");
	m->program = load_program(p, slot, e);
	return m->program < 0 ? -1 : 0;
}

int steer_check(struct err *e)
{
	struct made m = MADE_NONE;
	m.maps.drops = new_ring(e);
	int r = m.maps.drops < 0 ? -1 : make(&m, &(struct steer_slot){0}, e);
	made_close(&m);
	return r;
}

int steer_drops(int dir, struct err *e)
{
	int fd = open_name(dir, DROPS_NAME);
	if (fd >= 0)
		return fd;
	auto_fd int made = new_ring(e);
	if (made < 0)
		return -1;
	return pin_name(dir, DROPS_NAME, made) < 0 ? fail(e, "pin the ring of refused connections") : take_fd(&made);
}

static int attach(int dir, uint32_t slot, int netns, struct made *m, struct err *e)
{
	union bpf_attr a = {0};
	a.link_create.prog_fd = (uint32_t)m->program;
	a.link_create.target_fd = (uint32_t)netns;
	a.link_create.attach_type = BPF_SK_LOOKUP;
	auto_fd int link = bpf(BPF_LINK_CREATE, &a);
	if (link < 0)
		return fail(e, "attach the sk_lookup program");
	if (pin(dir, slot, "socks", m->maps.socks) < 0 || pin(dir, slot, "flags", m->maps.flags) < 0 ||
		pin(dir, slot, "link", link) < 0) {
		int r = fail(e, "pin the sk_lookup program");
		steer_forget(dir, slot);
		return r;
	}
	return 0;
}

int steer_attach(int dir, const struct steer_slot *slot, int netns, struct err *e)
{
	struct made m = MADE_NONE;
	m.maps.drops = steer_drops(dir, e);
	int r = m.maps.drops < 0 || make(&m, slot, e) < 0 ? -1 : attach(dir, slot->number, netns, &m, e);
	made_close(&m);
	return r;
}

bool steer_attached(int dir, uint32_t slot)
{
	auto_fd int link = open_pinned(dir, slot, "link");
	return link >= 0;
}

int steer_put(int dir, uint32_t slot, const struct steer_sockets *s, struct err *e)
{
	auto_fd int map = open_pinned(dir, slot, "socks");
	if (map < 0)
		return fail(e, "open the map of sockets");
	if ((s->tcp >= 0 && put(map, STEER_TCP, (uint32_t)s->tcp) < 0) ||
		(s->udp >= 0 && put(map, STEER_UDP, (uint32_t)s->udp) < 0))
		return fail(e, "put the sockets into their map");
	return 0;
}

void steer_clear(int dir, uint32_t slot)
{
	auto_fd int map = open_pinned(dir, slot, "socks");
	for (uint32_t key = 0; map >= 0 && key < STEER_KEYS; key++) {
		union bpf_attr a = {.map_fd = (uint32_t)map};
		a.key = (uint64_t)(uintptr_t)&key;
		bpf(BPF_MAP_DELETE_ELEM, &a);
	}
}

int steer_flags(int dir, uint32_t slot, uint32_t flags, struct err *e)
{
	auto_fd int map = open_pinned(dir, slot, "flags");
	return map < 0 || put(map, 0, flags) < 0 ? fail(e, "set the flags of the sk_lookup program") : 0;
}

void steer_forget(int dir, uint32_t slot)
{
	static const char *const whats[] = {"link", "socks", "flags"};
	for (size_t i = 0; i < ARRAY_LEN(whats); i++) {
		char name[STEER_NAME];
		name_of(name, slot, whats[i]);
		unlinkat(dir, name, 0);
	}
}

/*
 * The sk_lookup program, assembled here so that neither clang nor libbpf is needed. The kernel runs it for each TCP SYN
 * and each datagram that belongs to no connected socket. In C it would read:
 *
 *	if loopback or the box's own address: return SK_PASS          (the kernel goes on as if we were not there)
 *	if multicast, broadcast, 0/8: return SK_DROP
 *	if UDP and port != 53 and !(flags & STEER_DATAGRAMS): return SK_DROP
 *	if port != 53 and private and !(flags & STEER_PRIVATE): return SK_DROP
 *	sk = socks[UDP ? STEER_UDP : STEER_TCP]; return sk && assign(sk) ? SK_PASS : SK_DROP
 *
 * where the drops by address and protocol leave a struct gate_drop in the ring first.
 */
#include <linux/bpf.h>
#include <string.h>
#include <sys/socket.h>

#include "cage/steer.h"
#include "proto/gate.h"

enum label { L_END, L_SIX, L_PORT, L_PRIVATE, L_PASS, L_REFUSE, L_REFUSE6, L_TELL, L_DROP, L_GO, L_PICK, LABELS };

struct assembly {
	struct bpf_insn *v;
	size_t n;
	size_t at[LABELS];	       /* where a label stands */
	uint8_t to[STEER_PROGRAM_MAX]; /* which label a jump goes to; L_END: it is none */
};

/* Registers: the context, the address or its highest word, the port, the flags. */
enum { CTX = BPF_REG_6, ADDR = BPF_REG_7, PORT = BPF_REG_8, FLAGS = BPF_REG_9 };

static void put(struct assembly *a, uint8_t code, int dst, int src, int off, int imm)
{
	INVARIANT(a->n < STEER_PROGRAM_MAX);
	a->v[a->n++] = (struct bpf_insn){.code = code,
		.dst_reg = (unsigned)dst & 15,
		.src_reg = (unsigned)src & 15,
		.off = (int16_t)off,
		.imm = imm};
}

static void label(struct assembly *a, enum label l)
{
	a->at[l] = a->n;
}

static void move(struct assembly *a, int dst, int src)
{
	put(a, BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0);
}

static void set(struct assembly *a, int dst, uint32_t value)
{
	put(a, BPF_ALU | BPF_MOV | BPF_K, dst, 0, 0, (int)value);
}

/* 32 bits of the context. */
static void load(struct assembly *a, int dst, size_t off)
{
	put(a, BPF_LDX | BPF_MEM | BPF_W, dst, CTX, (int)off, 0);
}

static void load_net(struct assembly *a, int dst, size_t off)
{
	load(a, dst, off);
	put(a, BPF_ALU | BPF_END | BPF_TO_BE, dst, 0, 0, 32);
}

/* Jumps compare 32 bits without sign. */
static void jump(struct assembly *a, uint8_t op, int reg, uint32_t value, enum label l)
{
	a->to[a->n] = (uint8_t)l;
	put(a, BPF_JMP32 | op | BPF_K, reg, 0, 0, (int)value);
}

static void go(struct assembly *a, enum label l)
{
	a->to[a->n] = (uint8_t)l;
	put(a, BPF_JMP | BPF_JA, 0, 0, 0, 0);
}

/* To `l` when the first `bits` bits of ADDR are those of `range`. */
static void jump_range(struct assembly *a, uint32_t range, int bits, enum label l)
{
	set(a, BPF_REG_1, 0);
	move(a, BPF_REG_1, ADDR);
	put(a, BPF_ALU | BPF_AND | BPF_K, BPF_REG_1, 0, 0, (int)(~0u << (32 - bits)));
	jump(a, BPF_JEQ, BPF_REG_1, range, l);
}

static void map_fd(struct assembly *a, int dst, int fd)
{
	put(a, BPF_LD | BPF_DW, dst, BPF_PSEUDO_MAP_FD, 0, fd); /* BPF_IMM is 0 */
	put(a, 0, 0, 0, 0, 0);
}

static void call(struct assembly *a, int function)
{
	put(a, BPF_JMP | BPF_CALL, 0, 0, 0, function);
}

/* r0 = the value of the key that lies in FLAGS' place on the stack, or NULL. */
static void look_up(struct assembly *a, int map)
{
	map_fd(a, BPF_REG_1, map);
	move(a, BPF_REG_2, BPF_REG_10);
	put(a, BPF_ALU64 | BPF_ADD, BPF_REG_2, 0, 0, -4); /* BPF_K is 0 */
	call(a, BPF_FUNC_map_lookup_elem);
}

static void begin(struct assembly *a, int flags)
{
	move(a, CTX, BPF_REG_1);
	put(a, BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, -4, 0);
	look_up(a, flags);
	a->to[a->n] = L_DROP;
	put(a, BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 0, 0);
	put(a, BPF_LDX | BPF_MEM | BPF_W, FLAGS, BPF_REG_0, 0, 0);
	load(a, PORT, offsetof(struct bpf_sk_lookup, local_port));
	load(a, BPF_REG_0, offsetof(struct bpf_sk_lookup, family));
	jump(a, BPF_JEQ, BPF_REG_0, AF_INET6, L_SIX);
	jump(a, BPF_JNE, BPF_REG_0, AF_INET, L_DROP);
}

static void four(struct assembly *a)
{
	static const struct {
		uint32_t range;
		int bits;
	} private_ranges[] = {{0x0a000000, 8}, {0xac100000, 12}, {0xc0a80000, 16}, {0xa9fe0000, 16}, {0x64400000, 10},
		{0xc0000000, 24}};
	load_net(a, ADDR, offsetof(struct bpf_sk_lookup, local_ip4));
	jump_range(a, 0x7f000000, 8, L_PASS);
	jump(a, BPF_JEQ, ADDR, STEER_BOX4, L_PASS);
	jump(a, BPF_JGE, ADDR, 0xe0000000, L_REFUSE);
	jump(a, BPF_JLT, ADDR, 0x01000000, L_REFUSE);
	jump(a, BPF_JEQ, PORT, 53, L_GO);
	for (size_t i = 0; i < ARRAY_LEN(private_ranges); i++)
		jump_range(a, private_ranges[i].range, private_ranges[i].bits, L_PRIVATE);
	go(a, L_PORT);
}

/* The lower words decide only about ::1 and the box's own address. */
static void six(struct assembly *a)
{
	static const uint8_t own[16] = STEER_BOX6;
	uint32_t word[4];
	for (int i = 0; i < 4; i++)
		word[i] = (uint32_t)own[4 * i] << 24 | (uint32_t)own[4 * i + 1] << 16 | (uint32_t)own[4 * i + 2] << 8 |
			  own[4 * i + 3];
	const size_t ip6 = offsetof(struct bpf_sk_lookup, local_ip6);
	label(a, L_SIX);
	load_net(a, ADDR, ip6);
	load_net(a, BPF_REG_2, ip6 + 4);
	load_net(a, BPF_REG_3, ip6 + 8);
	load_net(a, BPF_REG_4, ip6 + 12);
	/* r5: 0 exactly for ::1, r1: 0 exactly for the box's own. */
	move(a, BPF_REG_5, BPF_REG_4);
	put(a, BPF_ALU | BPF_XOR | BPF_K, BPF_REG_5, 0, 0, 1);
	for (int r = BPF_REG_2; r <= BPF_REG_3; r++)
		put(a, BPF_ALU | BPF_OR | BPF_X, BPF_REG_5, r, 0, 0);
	put(a, BPF_ALU | BPF_OR | BPF_X, BPF_REG_5, ADDR, 0, 0);
	jump(a, BPF_JEQ, BPF_REG_5, 0, L_PASS);
	move(a, BPF_REG_1, ADDR);
	put(a, BPF_ALU | BPF_XOR | BPF_K, BPF_REG_1, 0, 0, (int)word[0]);
	for (int i = 1; i < 4; i++) {
		put(a, BPF_ALU | BPF_XOR | BPF_K, BPF_REG_1 + i, 0, 0, (int)word[i]);
		put(a, BPF_ALU | BPF_OR | BPF_X, BPF_REG_1, BPF_REG_1 + i, 0, 0);
	}
	jump(a, BPF_JEQ, BPF_REG_1, 0, L_PASS);
	jump(a, BPF_JGE, ADDR, 0xff000000, L_REFUSE);
	jump(a, BPF_JEQ, PORT, 53, L_GO);
	jump_range(a, 0xfe800000, 10, L_PRIVATE);
	jump_range(a, 0xfc000000, 7, L_PRIVATE);
	go(a, L_PORT);
}

static void end(struct assembly *a, int socks)
{
	label(a, L_PRIVATE);
	move(a, BPF_REG_1, FLAGS);
	put(a, BPF_ALU | BPF_AND | BPF_K, BPF_REG_1, 0, 0, STEER_PRIVATE);
	jump(a, BPF_JEQ, BPF_REG_1, 0, L_REFUSE);
	label(a, L_PORT);
	load(a, BPF_REG_0, offsetof(struct bpf_sk_lookup, protocol));
	jump(a, BPF_JEQ, BPF_REG_0, IPPROTO_TCP, L_GO);
	put(a, BPF_ALU | BPF_AND | BPF_K, FLAGS, 0, 0, STEER_DATAGRAMS);
	jump(a, BPF_JEQ, FLAGS, 0, L_REFUSE);
	label(a, L_GO);
	load(a, BPF_REG_0, offsetof(struct bpf_sk_lookup, protocol));
	put(a, BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, -4, STEER_TCP);
	jump(a, BPF_JEQ, BPF_REG_0, IPPROTO_TCP, L_PICK);
	put(a, BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, -4, STEER_UDP);
	jump(a, BPF_JNE, BPF_REG_0, IPPROTO_UDP, L_DROP);
	label(a, L_PICK);
	look_up(a, socks);
	a->to[a->n] = L_DROP;
	put(a, BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 0, 0);
	move(a, ADDR, BPF_REG_0);
	move(a, BPF_REG_1, CTX);
	move(a, BPF_REG_2, ADDR);
	set(a, BPF_REG_3, 0);
	call(a, BPF_FUNC_sk_assign);
	move(a, PORT, BPF_REG_0);
	move(a, BPF_REG_1, ADDR);
	call(a, BPF_FUNC_sk_release);
	jump(a, BPF_JNE, PORT, 0, L_DROP);
	label(a, L_PASS);
	set(a, BPF_REG_0, SK_PASS);
	put(a, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

/* The record is put together on the stack, below the keys of look_up. */
enum { DROP = -8 - (int)sizeof(struct gate_drop), DROP_ADDRESS = DROP + (int)offsetof(struct gate_drop, address) };

static void store(struct assembly *a, uint8_t size, int at, int src)
{
	put(a, BPF_STX | BPF_MEM | size, BPF_REG_10, src, at, 0);
}

static void store_number(struct assembly *a, int at, uint32_t value)
{
	put(a, BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, at, (int)value);
}

static void address(struct assembly *a)
{
	load(a, BPF_REG_0, offsetof(struct bpf_sk_lookup, family));
	jump(a, BPF_JEQ, BPF_REG_0, AF_INET6, L_REFUSE6);
	store_number(a, DROP_ADDRESS, 0);
	store_number(a, DROP_ADDRESS + 4, 0);
	store_number(a, DROP_ADDRESS + 8, htonl(0xffff));
	load(a, BPF_REG_1, offsetof(struct bpf_sk_lookup, local_ip4));
	store(a, BPF_W, DROP_ADDRESS + 12, BPF_REG_1);
	go(a, L_TELL);
	label(a, L_REFUSE6);
	for (int i = 0; i < 16; i += 4) {
		load(a, BPF_REG_1, offsetof(struct bpf_sk_lookup, local_ip6) + (size_t)i);
		store(a, BPF_W, DROP_ADDRESS + i, BPF_REG_1);
	}
	label(a, L_TELL);
}

static void refuse(struct assembly *a, int drops, const struct steer_slot *slot)
{
	label(a, L_REFUSE);
	store_number(a, DROP + (int)offsetof(struct gate_drop, generation), (uint32_t)slot->generation);
	store_number(a, DROP + (int)offsetof(struct gate_drop, generation) + 4, (uint32_t)(slot->generation >> 32));
	store_number(a, DROP + (int)offsetof(struct gate_drop, slot), slot->number);
	load(a, BPF_REG_1, offsetof(struct bpf_sk_lookup, local_port));
	store(a, BPF_H, DROP + (int)offsetof(struct gate_drop, port), BPF_REG_1);
	load(a, BPF_REG_1, offsetof(struct bpf_sk_lookup, protocol));
	store(a, BPF_H, DROP + (int)offsetof(struct gate_drop, protocol), BPF_REG_1);
	address(a);
	map_fd(a, BPF_REG_1, drops);
	move(a, BPF_REG_2, BPF_REG_10);
	put(a, BPF_ALU64 | BPF_ADD, BPF_REG_2, 0, 0, DROP); /* BPF_K is 0 */
	set(a, BPF_REG_3, sizeof(struct gate_drop));
	set(a, BPF_REG_4, 0);
	call(a, BPF_FUNC_ringbuf_output); /* a full ring is no reason to let it pass */
	label(a, L_DROP);
	set(a, BPF_REG_0, SK_DROP);
	put(a, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

size_t steer_program(const struct steer_maps *maps, const struct steer_slot *slot, struct bpf_insn *ret)
{
	struct assembly a = {.v = ret};
	begin(&a, maps->flags);
	four(&a);
	six(&a);
	end(&a, maps->socks);
	refuse(&a, maps->drops, slot);
	for (size_t i = 0; i < a.n; i++)
		if (a.to[i] != L_END)
			ret[i].off = (int16_t)(a.at[a.to[i]] - i - 1);
	return a.n;
}

/*
 * noshare.h - the filter of boxes with several volumes: copies that share blocks answer EXDEV.
 *
 * All volumes are one file system for the kernel, which charges a shared block to the volume that wrote it: a volume
 * could hold many times its size in blocks that other volumes pay for, or that no volume pays for any more when those
 * are deleted. Programs copy the bytes instead, as they do between file systems. A filter cannot see which files a call
 * means, so a box with several volumes shares no blocks at all; one with a single volume shares those of that volume.
 *
 * Loaded besides the box's own filter, before it. Also included by code without a C library (src/worker/join.c), hence
 * the numbers.
 */
#pragma once

#include <asm/unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/types.h>

enum { NOSHARE_VOLUMES = 2, NOSHARE_REFUSED = 18 /* EXDEV */ };
#define NOSHARE_FICLONE	     0x40049409u
#define NOSHARE_FICLONERANGE 0x4020940du

/* clang-format off */
static const struct sock_filter noshare_filter[] = {
	/* 0 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (__u32) __builtin_offsetof(struct seccomp_data, nr)),
	/* 1 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_copy_file_range, 4, 0),
	/* 2 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_ioctl, 0, 4),
	/* 3 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (__u32) __builtin_offsetof(struct seccomp_data, args[1])),
	/* 4 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NOSHARE_FICLONE, 1, 0),
	/* 5 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NOSHARE_FICLONERANGE, 0, 1),
	/* 6 */ BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | NOSHARE_REFUSED),
	/* 7 */ BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
/* clang-format on */

/*
 * doctor_network.c - what the network of boxes needs of the host, and what of the host boxes could reach.
 */
#include <ifaddrs.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "cli/doctor/doctor.h"
#include "proto/ip.h"

/* The smallest sk_lookup program: lets everything pass, and is attached to nothing. */
static int probe_sk_lookup(void *arg)
{
	(void)arg;
	struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = SK_PASS},
		{.code = BPF_JMP | BPF_EXIT}};
	union bpf_attr a = {.prog_type = BPF_PROG_TYPE_SK_LOOKUP,
		.expected_attach_type = BPF_SK_LOOKUP,
		.insn_cnt = ARRAY_LEN(code),
		.insns = (uint64_t)(uintptr_t)code,
		.license = (uint64_t)(uintptr_t) "Apache-2.0"};
	return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof a) < 0 ? errno : 0;
}

static bool has_bpffs(void)
{
	char text[4096];
	return doctor_read("/proc/filesystems", text, sizeof text) && strstr(text, "\tbpf\n");
}

static void check_sk_lookup(struct cli *c, struct doctor_row *r)
{
	(void)c;
	int err = doctor_try(probe_sk_lookup, NULL);
	if (err == 0 && has_bpffs())
		doctor_set(r, DOCTOR_OK, NULL, "sk_lookup and bpffs: connections of boxes can be steered to the gate");
	else if (err == EPERM && geteuid() != 0)
		doctor_set(r, DOCTOR_UNKNOWN, "Run it as root.", "this user may not load BPF programs");
	else
		doctor_set(r, DOCTOR_NOTE, "Run Linux 5.9 or newer with CONFIG_BPF_SYSCALL, where root may use bpf(2).",
			"boxes start without a network: %s", err ? strerror(err) : "there is no bpffs");
}

/* "10.0.0.5 private, 203.0.113.7 public": none of them can be reached, unless an address rule says so. */
static void check_host_addresses(struct cli *c, struct doctor_row *r)
{
	struct ifaddrs *all = NULL;
	char list[160] = "";
	size_t n = 0;
	(void)c;
	if (getifaddrs(&all) < 0)
		return doctor_set(r, DOCTOR_UNKNOWN, NULL, "%s", strerror(errno));
	for (struct ifaddrs *a = all; a && n < sizeof list; a = a->ifa_next) {
		struct ip ip;
		uint16_t port;
		char text[IP_TEXT];
		if (!a->ifa_addr || !ip_from_sockaddr((union ip_sockaddr *)a->ifa_addr, &ip, &port) ||
			ip_kind(&ip) == IP_LOOPBACK)
			continue;
		n += (size_t)snprintf(list + n, sizeof list - n, "%s%s %s", n ? ", " : "", ip_format(&ip, text),
			ip_kind_name(ip_kind(&ip)));
	}
	freeifaddrs(all);
	doctor_set(r, DOCTOR_OK, NULL, "%s%s", *list ? list : "none but loopback",
		*list ? ": only an address rule in allow opens them" : "");
}

const struct doctor_check doctor_network_checks[] = {
	{"network", "steering", check_sk_lookup},
	{"network", "host addresses", check_host_addresses},
};
const size_t doctor_network_checks_count = ARRAY_LEN(doctor_network_checks);

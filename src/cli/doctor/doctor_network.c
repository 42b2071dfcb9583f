/*
 * doctor_network.c - what the network of boxes needs of the host, and what of the host boxes could reach.
 */
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor/doctor.h"
#include "proto/ip.h"

static bool has_bpffs(void)
{
	char text[4096];
	return doctor_read("/proc/filesystems", text, sizeof text) && strstr(text, "\tbpf\n");
}

static void check_sk_lookup(struct cli *c, struct doctor_row *r)
{
	(void)c;
	char why[DOCTOR_WHY];
	enum doctor_state state = doctor_ask_warden("steering", why);
	if (state == DOCTOR_OK && has_bpffs())
		doctor_set(r, DOCTOR_OK, NULL, "sk_lookup and bpffs: connections of boxes can be steered to the gate");
	else if (state == DOCTOR_UNKNOWN)
		doctor_set(r, DOCTOR_UNKNOWN, "Run it as root.", "%s", why);
	else
		doctor_set(r, DOCTOR_NOTE, "Run Linux 5.9 or newer with CONFIG_BPF_SYSCALL, where root may use bpf(2).",
			"boxes start without a network: %s", state == DOCTOR_OK ? "there is no bpffs" : why);
}

/* How many bits of a netmask are set. */
static int bits_of(const struct sockaddr *mask)
{
	struct ip ip;
	uint16_t port;
	int n = 0;
	if (!mask || !ip_from_sockaddr((const union ip_sockaddr *)mask, &ip, &port))
		return mask && mask->sa_family == AF_INET6 ? 128 : 32;
	for (int i = mask->sa_family == AF_INET ? 96 : 0; i < 128 && ip.b[i / 8] >> (7 - i % 8) & 1; i++)
		n++;
	return n;
}

struct ranges {
	char text[200];
	size_t n;
};

/* "10.0.0.5/24 (eth0)" */
static void add_range(struct ranges *r, const struct ifaddrs *a, const struct ip *ip)
{
	char text[IP_TEXT];
	if (r->n < sizeof r->text)
		r->n += (size_t)snprintf(r->text + r->n, sizeof r->text - r->n, "%s%s/%d (%s)", r->n ? ", " : "",
			ip_format(ip, text), bits_of(a->ifa_netmask), a->ifa_name);
}

/* The host's own addresses are never reachable. Of their ranges, mode open reaches the public ones. */
static void look_at_ranges(bool is_public, struct doctor_row *r)
{
	struct ifaddrs *all = NULL;
	struct ranges found = {0};
	if (getifaddrs(&all) < 0)
		return doctor_set(r, DOCTOR_UNKNOWN, NULL, "%s", strerror(errno));
	for (struct ifaddrs *a = all; a; a = a->ifa_next) {
		struct ip ip;
		uint16_t port;
		if (a->ifa_addr && ip_from_sockaddr((union ip_sockaddr *)a->ifa_addr, &ip, &port) &&
			ip_kind(&ip) != IP_LOOPBACK && (ip_kind(&ip) == IP_PUBLIC) == is_public)
			add_range(&found, a, &ip);
	}
	freeifaddrs(all);
	if (!found.n)
		return doctor_set(r, DOCTOR_OK, NULL, "none");
	doctor_set(r, DOCTOR_OK, NULL, "%s: %s", found.text,
		is_public ? "boxes of mode open reach all but the host's own address"
			  : "no box reaches it unless an address range in allow names it");
}

static void check_public_ranges(struct cli *c, struct doctor_row *r)
{
	(void)c;
	look_at_ranges(true, r);
}

static void check_private_ranges(struct cli *c, struct doctor_row *r)
{
	(void)c;
	look_at_ranges(false, r);
}

const struct doctor_check doctor_network_checks[] = {
	{"network", "steering", check_sk_lookup},
	{"network", "public ranges", check_public_ranges},
	{"network", "private ranges", check_private_ranges},
};
const size_t doctor_network_checks_count = ARRAY_LEN(doctor_network_checks);

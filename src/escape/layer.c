/*
 * A hostile layer: symbolic links where the warden mounts and masks at the next start (CVE-2025-31133 /dev/null,
 * CVE-2025-52565 /dev/console and /dev/pts, CVE-2025-52881 and CVE-2019-19921 /proc, CVE-2026-41579 /dev).
 *
 * phase=prepare plants them, as far as the running box lets us; then the caller ends the box's init and starts the box
 * again; phase=verify looks whether masks, devices and read-only parts are where they belong. A directory of the host's
 * (canary=PATH) is the target of some links: the caller looks whether any file was made in it. A running box cannot
 * rename a mount point; tests/security/test_layer.py plants such links from outside.
 */
#include "escape/escape.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *const mount_points[] = {"/dev", "/proc", "/sys", "/tmp", "/run", "/workspace", "/dev/shm",
	"/dev/pts", "/mnt", "/etc/hosts", "/etc/resolv.conf", "/etc/hostname", "/root"};

/* Checks that hold after a start on any layer. */
static const char *const must_hold[] = {"proc-sys-write", "core-pattern-write", "sysrq-trigger", "kcore-read",
	"keys-read", "kernel-secrets-read", "devices", "devices-shared", "sysfs-absent", "foreign-terminals",
	"mountinfo-host-paths", "fd-leak", "cwd-outside"};

/* One way up that is long enough from anywhere, then down to the canary. */
static void hostile_target(char *ret, size_t n, int way)
{
	const char *canary = arg_get("canary");
	if (way == 0)
		snprintf(ret, n, "%s", canary ? canary : "/proc/sys/kernel");
	else if (way == 1)
		snprintf(ret, n, "../../../../../../../../../../..%s", canary ? canary : "/proc/sys");
	else
		snprintf(ret, n, "/proc/1/root%s", canary ? canary : "/proc/sys");
}

static void plant(struct outcome *o, const char *path, int way)
{
	char target[300], away[128];
	hostile_target(target, sizeof(target), way);
	snprintf(away, sizeof(away), "%s.atoll-away", path);
	if (rename(path, away) < 0 && errno != ENOENT) {
		refused(o, "%s stays: %s", path, errno_name(errno));
		return;
	}
	if (symlink(target, path) < 0)
		errored(o, "symlink %s: %s", path, errno_name(errno));
	else
		refused(o, "%s now leads to %s", path, target);
}

static void hostile_layer(const struct check *c, struct outcome *o)
{
	const char *phase = arg_get("phase");
	if (phase && strcmp(phase, "prepare") == 0) {
		for (size_t i = 0; i < ARRAY_LEN(mount_points); i++)
			plant(o, mount_points[i], *(const int *)c->data);
	} else if (phase && strcmp(phase, "verify") == 0) {
		for (size_t i = 0; i < ARRAY_LEN(must_hold); i++) {
			const struct check *again = check_find(must_hold[i]);
			if (!again)
				errored(o, "no check %s", must_hold[i]);
			else
				again->run(again, o);
		}
	} else {
		errored(o, "the argument phase=prepare or phase=verify is missing");
	}
}

static const int ways[] = {0, 1, 2};
static const struct check checks[] = {
	{"layer-links-absolute",
		"CVE-2025-31133, CVE-2025-52565, CVE-2019-19921: absolute links where the next start mounts",
		"mounts by descriptor", hostile_layer, &ways[0], CHECK_RESTART | CHECK_OWN_BOX},
	{"layer-links-relative", "CVE-2026-41579: relative links that climb out of the layer", "mounts by descriptor",
		hostile_layer, &ways[1], CHECK_RESTART | CHECK_OWN_BOX},
	{"layer-links-magic", "CVE-2025-52881: links through /proc/1/root", "mounts by descriptor", hostile_layer,
		&ways[2], CHECK_RESTART | CHECK_OWN_BOX},
};
const struct check_group group_layer = {"layer", checks, ARRAY_LEN(checks)};

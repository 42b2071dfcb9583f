/*
 * Steps that fail: a sentence comes back and nothing stays behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cage/cgroup.h"
#include "warden/limits.h"
#include "warden_rig.h"

static struct warden_reply create(struct rig *r, const char *id)
{
	struct warden_request rq = {.op = WARDEN_CREATE, .image = "default"};
	snprintf(rq.id, sizeof rq.id, "%s", id);
	return rig_call(r, rq);
}

static void check_error(const struct warden_reply *reply, const char *part)
{
	CHECK_INT(reply->err.code, ERRC_BOX_CREATE_FAILED);
	CHECK(!reply->has_info);
	if (!strstr(reply->err.msg, part))
		test_fail(__FILE__, __LINE__, "'%s' does not name '%s'", reply->err.msg, part);
}

TEST(a_full_disk_is_named)
{
	struct rig r = {0};
	char data[128], filler[192];
	rig_make_dirs(&r);
	/* In a mount namespace of our own: the mount goes with the test. */
	CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	snprintf(data, sizeof data, "%s/data", r.dir);
	CHECK(mount("tmpfs", data, "tmpfs", 0, "size=1m,nr_inodes=1000") == 0);
	rig_boot(&r);
	rig_check_clean(&r);
	for (int i = 0; i < 1000; i++) {
		snprintf(filler, sizeof filler, "%s/filler-%d", data, i);
		int fd = open(filler, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0)
			break;
		close(fd);
	}
	CHECK_INT(errno, ENOSPC);
	char id[16];
	/* What was prepared before still works; the first create behind that has no room. */
	struct warden_reply reply;
	int made = 0;
	for (; made < 64; made++) {
		snprintf(id, sizeof id, "box-%d", made);
		reply = create(&r, id);
		if (reply.err.code)
			break;
	}
	check_error(&reply, "No space left on device");
	check_error(&reply, id);
	CHECK_INT(rig_list(&r, NULL, 0), made);
	for (int i = 0; i < 1000; i++) {
		snprintf(filler, sizeof filler, "%s/filler-%d", data, i);
		unlink(filler);
	}
	for (int i = 0; i < made; i++) {
		snprintf(id, sizeof id, "box-%d", i);
		rig_destroy(&r, id, 0);
	}
	rig_check_clean(&r);
	rig_destroy(&r, (rig_create(&r, "again"), "again"), 0);
	rig_stop_clean(&r);
	umount2(data, MNT_DETACH);
}

TEST(cgroups_that_cannot_be_made_are_named)
{
	struct rig r = {0};
	struct cgroups c;
	char id[16];
	rig_start(&r);
	rig_check_clean(&r);
	CHECK(cgroup_open(&c, r.instance, NULL) == 0);
	int fd = openat(c.v2, "cgroup.max.descendants", O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0 && dprintf(fd, "%u", WARDEN_POOL) > 0);
	struct warden_reply reply;
	int made = 0;
	for (; made < 64; made++) {
		snprintf(id, sizeof id, "box-%d", made);
		reply = create(&r, id);
		if (reply.err.code)
			break;
	}
	CHECK_INT(made, WARDEN_POOL);
	check_error(&reply, "make cgroup");
	CHECK_INT(rig_list(&r, NULL, 0), made);
	CHECK(dprintf(fd, "max") > 0);
	close(fd);
	cgroup_close(&c);
	for (int i = 0; i < made; i++) {
		snprintf(id, sizeof id, "box-%d", i);
		rig_destroy(&r, id, 0);
	}
	rig_stop_clean(&r);
}

TEST(an_agent_that_cannot_run_is_named)
{
	struct rig r = {0};
	char path[128];
	rig_make_dirs(&r);
	snprintf(path, sizeof path, "%s/agent", r.dir);
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	CHECK(fd >= 0 && dprintf(fd, "this is no program") > 0);
	close(fd);
	r.agent = path;
	rig_boot(&r);
	rig_check_clean(&r);
	for (int i = 0; i < 3; i++) {
		struct warden_reply reply = create(&r, "a");
		check_error(&reply, "execute the agent: Exec format error");
	}
	CHECK_INT(rig_list(&r, NULL, 0), 0);
	rig_stop_clean(&r);
}

static void upper(struct rig *r, const char *id, const char *name, char ret[256])
{
	snprintf(ret, 256, "%s/data/boxes/%s/upper%s", r->dir, id, name);
}

/* The box that wrote these files comes back: nothing of the host may be mounted over or opened through its links. */
TEST(a_layer_with_links_for_directories_is_refused_and_kept)
{
	static const char *const names[] = {"/proc", "/dev"};
	struct rig r = {0};
	char path[256];
	struct stat st;
	rig_start(&r);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		rig_create(&r, "a");
		rig_destroy(&r, "a", WARDEN_KEEP_FILES);
		upper(&r, "a", names[i], path);
		rmdir(path);
		CHECK(symlink("/tmp", path) == 0);
		struct warden_reply reply = create(&r, "a");
		check_error(&reply, names[i]);
		CHECK(lstat(path, &st) == 0 && S_ISLNK(st.st_mode));
		rig_destroy(&r, "a", 0);
		rig_check_clean(&r);
	}
	rig_stop(&r);
}

TEST(links_inside_a_layer_lead_nowhere_outside)
{
	struct rig r = {0};
	char path[256];
	rig_start(&r);
	rig_create(&r, "a");
	rig_destroy(&r, "a", WARDEN_KEEP_FILES);
	upper(&r, "a", "/workspace", path);
	rmdir(path);
	CHECK(symlink("/proc/self/root/outside", path) == 0);
	upper(&r, "a", "/outside", path);
	CHECK(mkdir(path, 0755) == 0);
	struct box_info b = rig_create(&r, "a");
	CHECK_CSTR(rig_ask(&r, b.slot, "id"), "1 0 0 a /outside");
	rig_destroy(&r, "a", 0);
	rig_stop_clean(&r);
}

TEST(a_start_that_cannot_work_says_why)
{
	struct rig r = {0};
	char path[128];
	rig_make_dirs(&r);
	r.agent = "/nonexistent/agent";
	CHECK(strstr(rig_refused(&r), "/nonexistent/agent"));
	r.agent = NULL;
	setenv("ATOLL_LOG", "text", 1);
	snprintf(path, sizeof path, "%s/images", r.dir);
	char away[128];
	snprintf(away, sizeof away, "%s/images-away", r.dir);
	CHECK(rename(path, away) == 0);
	CHECK(strstr(rig_refused(&r), "there is no image directory"));
	CHECK(rename(away, path) == 0);
	r.data = "data";
	CHECK(strstr(rig_refused(&r), "must be absolute paths"));
}

TEST_MAIN()

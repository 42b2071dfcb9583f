/*
 * What a daemon that was taken over could send.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "warden_rig.h"

/* Sends bytes; true when the warden hangs up on them. */
static bool hangs_up_on(struct rig *r, const void *p, size_t n)
{
	char byte;
	CHECK_INT(send(r->sock, p, n, MSG_NOSIGNAL), n);
	struct pollfd f = {.fd = r->sock, .events = POLLIN};
	CHECK_INT(poll(&f, 1, 10000), 1);
	bool up = recv(r->sock, &byte, 1, 0) == 0;
	close(r->sock);
	rig_connect(r);
	return up;
}

TEST(records_of_another_size_or_magic_end_the_connection)
{
	struct rig r = {0};
	rig_start(&r);
	rig_create(&r, "a");
	struct warden_request rq[2] = {0};
	rq[0].magic = WARDEN_MAGIC;
	rq[0].op = WARDEN_HELLO;
	CHECK(hangs_up_on(&r, rq, 1));
	CHECK(hangs_up_on(&r, rq, sizeof *rq - 1));
	CHECK(hangs_up_on(&r, rq, sizeof *rq + 1));
	CHECK(hangs_up_on(&r, rq, sizeof rq));
	rq[0].magic ^= 1;
	CHECK(hangs_up_on(&r, rq, sizeof *rq));
	CHECK_INT(rig_list(&r, NULL, 0), 1);
	rig_destroy(&r, "a", 0);
	rig_stop(&r);
}

TEST(every_field_is_checked)
{
	struct rig r = {0};
	rig_start(&r);
	struct warden_request rq = rig_request(WARDEN_CREATE, "a");
	memset(rq.id, 'a', sizeof rq.id); /* not terminated */
	CHECK_INT(rig_call(&r, rq).err.code, ERRC_INVALID_REQUEST);
	rq = rig_request(WARDEN_CREATE, "a");
	rq.id[sizeof rq.id - 1] = 'x'; /* not padded */
	CHECK_INT(rig_call(&r, rq).err.code, ERRC_INVALID_REQUEST);
	rq = rig_request(WARDEN_CREATE, "a");
	memset(rq.image, 'a', sizeof rq.image);
	CHECK_INT(rig_call(&r, rq).err.code, ERRC_INVALID_REQUEST);
	rq = rig_request(WARDEN_CREATE, "a");
	rq.flags = WARDEN_KEEP_FILES; /* means nothing here */
	CHECK_INT(rig_call(&r, rq).err.code, ERRC_INVALID_REQUEST);
	rq = rig_request(WARDEN_DESTROY, "a");
	rq.flags = 2;
	CHECK_INT(rig_call(&r, rq).err.code, ERRC_INVALID_REQUEST);
	rq = rig_request(WARDEN_CREATE, "a");
	rq.steer = WARDEN_STEER_ALL + 1;
	CHECK_INT(rig_call(&r, rq).err.code, ERRC_INVALID_REQUEST);
	rq = rig_request(WARDEN_INSPECT, "a");
	rq.steer = WARDEN_STEER_PRIVATE; /* means nothing here */
	CHECK_INT(rig_call(&r, rq).err.code, ERRC_INVALID_REQUEST);
	static const uint32_t no_ops[] = {0, WARDEN_IMAGES + 1, WARDEN_BOX_DIED, UINT32_MAX};
	for (size_t i = 0; i < ARRAY_LEN(no_ops); i++)
		CHECK_INT(rig_call(&r, rig_request(no_ops[i], "a")).err.code, ERRC_INVALID_REQUEST);
	static const uint32_t ops[] = {WARDEN_CREATE, WARDEN_DESTROY, WARDEN_SIGNAL, WARDEN_FREEZE, WARDEN_THAW,
		WARDEN_INSPECT, WARDEN_SET_LIMITS, WARDEN_SOCKETS, WARDEN_NETWORK, WARDEN_DISK, WARDEN_FUSE,
		WARDEN_TRUST};
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		CHECK_INT(rig_call(&r, rig_request(ops[i], "")).err.code, ERRC_INVALID_SANDBOX_ID_LENGTH);
		CHECK_INT(rig_call(&r, rig_request(ops[i], "a/b")).err.code, ERRC_INVALID_SANDBOX_ID_CHARACTERS);
		CHECK_INT(rig_call(&r, rig_request(ops[i], "../../etc")).err.code, ERRC_INVALID_SANDBOX_ID_CHARACTERS);
		CHECK_INT(rig_call(&r, rig_request(ops[i], "-a")).err.code, ERRC_INVALID_SANDBOX_ID_HYPHENS);
		CHECK_INT(rig_call(&r, rig_request(ops[i], "..")).err.code, ERRC_INVALID_SANDBOX_ID_CHARACTERS);
		if (ops[i] != WARDEN_CREATE)
			CHECK_INT(rig_call(&r, rig_request(ops[i], "nobody")).err.code, ERRC_SANDBOX_NOT_FOUND);
	}
	static const uint32_t files[] = {WARDEN_SNAPSHOT, WARDEN_CLONE, WARDEN_REPLACE, WARDEN_DIFF};
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		CHECK_INT(rig_call(&r, rig_request(files[i], "../a")).err.code, ERRC_INVALID_SANDBOX_ID_CHARACTERS);
		rq = rig_request(files[i], "a");
		memset(rq.snapshot, 'a', sizeof rq.snapshot); /* not terminated */
		CHECK_INT(rig_call(&r, rq).err.code, ERRC_INVALID_REQUEST);
		/* This warden has plain directories. */
		CHECK_INT(rig_call(&r, rig_request(files[i], "a")).err.code, ERRC_HOST_UNSUPPORTED);
	}
	CHECK_INT(rig_list(&r, NULL, 0), 0);
	rig_stop_clean(&r);
}

TEST(an_image_is_a_name_in_the_image_directory)
{
	struct rig r = {0};
	char path[256];
	rig_start(&r);
	snprintf(path, sizeof path, "%s/images/outside", r.dir);
	CHECK(symlink("../data", path) == 0);
	snprintf(path, sizeof path, "%s/images/root", r.dir);
	CHECK(symlink("/", path) == 0);
	snprintf(path, sizeof path, "%s/images/nothing", r.dir);
	CHECK(symlink("nowhere", path) == 0);
	snprintf(path, sizeof path, "%s/images/empty", r.dir);
	CHECK(mkdir(path, 0755) == 0);
	snprintf(path, sizeof path, "%s/images/alias", r.dir);
	CHECK(symlink("default", path) == 0);
	static const char *const bad[] = {
		"outside", "root", "nothing", "empty", "missing", "..", ".", "", "/", "Default", "default/rootfs"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct warden_request rq = rig_request(WARDEN_CREATE, "a");
		memset(rq.image, 0, sizeof rq.image);
		snprintf(rq.image, sizeof rq.image, "%s", bad[i]);
		CHECK_INT(rig_call(&r, rq).err.code, ERRC_IMAGE_NOT_FOUND);
	}
	struct warden_request rq = rig_request(WARDEN_CREATE, "a");
	memset(rq.image, 0, sizeof rq.image);
	snprintf(rq.image, sizeof rq.image, "alias");
	struct warden_reply made = rig_call(&r, rq);
	CHECK_INT(made.err.code, ERRC_OK);
	CHECK_CSTR(made.info.image, "default");
	rig_destroy(&r, "a", 0);
	rig_stop(&r);
}

TEST(a_daemon_that_does_not_read_is_cut_off)
{
	struct rig r = {0};
	rig_start(&r);
	rig_create(&r, "a");
	fcntl(r.sock, F_SETFL, O_NONBLOCK);
	struct warden_request rq = {.magic = WARDEN_MAGIC, .op = WARDEN_INSPECT, .id = "a"};
	/* It stops reading requests when its replies are not taken; nothing grows. */
	for (int i = 0; i < 100000; i++)
		if (send(r.sock, &rq, sizeof rq, MSG_NOSIGNAL) < 0)
			break;
	CHECK_INT(errno, EAGAIN);
	int stuck = r.sock;
	rig_connect(&r);
	CHECK_INT(rig_list(&r, NULL, 0), 1);
	close(stuck);
	rig_destroy(&r, "a", 0);
	rig_stop(&r);
}

TEST(only_the_daemons_user_may_connect)
{
	struct rig r = {0};
	rig_start(&r);
	pid_t pid = fork();
	if (pid == 0) {
		struct sockaddr_un sa = {.sun_family = AF_UNIX};
		snprintf(sa.sun_path, sizeof sa.sun_path, "%s/run/warden.sock", r.dir);
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		if (setresuid(65534, 65534, 65534) < 0)
			_exit(1);
		_exit(connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0 && errno == EACCES ? 0 : 2);
	}
	int status;
	waitpid(pid, &status, 0);
	CHECK_INT(status, 0);
	/* Also when somebody opens the file to all: the kernel says who it is. */
	char path[128];
	snprintf(path, sizeof path, "%s/run/warden.sock", r.dir);
	CHECK(chmod(path, 0777) == 0);
	pid = fork();
	if (pid == 0) {
		struct sockaddr_un sa = {.sun_family = AF_UNIX};
		memcpy(sa.sun_path, path, sizeof sa.sun_path - 1);
		char byte;
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		if (setresuid(65534, 65534, 65534) < 0 || connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0)
			_exit(1);
		_exit(recv(fd, &byte, 1, 0) == 0 ? 0 : 2);
	}
	waitpid(pid, &status, 0);
	CHECK_INT(status, 0);
	CHECK_INT(rig_list(&r, NULL, 0), 0); /* the daemon's own connection stands */
	rig_stop(&r);
}

TEST_MAIN()

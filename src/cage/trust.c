#include "cage/trust.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "cage/fs.h"
#include "cage/limits.h"

/* Debian, Alpine, Arch; Fedora; SUSE. Other names of them are links to these. */
static const char *const bundles[] = {"etc/ssl/certs/ca-certificates.crt",
	"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "etc/pki/tls/certs/ca-bundle.crt",
	"var/lib/ca-certificates/ca-bundle.pem", "etc/ssl/cert.pem"};

enum { BUNDLES = ARRAY_LEN(bundles) };

/* Detached mounts of the tmpfs and of its file. They are made in our own namespace: in a box's, whose user namespace
 * may have no mount namespaces, the kernel makes none. */
struct copies {
	int dir, files[BUNDLES];
};

static const uint64_t strict = RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_BENEATH;

/* ---- in the box's mount namespace ---- */

/* The first bundle that the image has; nothing when it has none. */
static void read_bundle(int root, struct buf *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(bundles); i++) {
		struct stat st;
		auto_fd int fd = sys_openat2(root, bundles[i], O_RDONLY | O_NONBLOCK, strict);
		if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > TRUST_BUNDLE_MAX)
			continue;
		char *p = buf_room(ret, (size_t)st.st_size);
		ssize_t n = p ? fd_read_full(fd, p, (size_t)st.st_size) : -1;
		if (n <= 0)
			continue;
		buf_commit(ret, (size_t)n);
		if (buf_str(ret).p[buf_size(ret) - 1] != '\n')
			buf_add_byte(ret, '\n');
		return;
	}
}

static bool is_there(int root)
{
	auto_fd int fd = sys_openat2(root, "dev/atoll/" TRUST_FILE, O_PATH, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
	return fd >= 0;
}

static int cover(int root, const char *path, int bundle, struct err *e)
{
	auto_fd int at = sys_openat2(root, path, O_PATH, strict);
	struct stat st;
	if (at < 0 || fstat(at, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return sys_move_mount(bundle, at) < 0 ? err_os(e, ERRC_INTERNAL_ERROR, errno, "mount the bundle over /%s", path)
					      : 0;
}

static int place(int root, const struct copies *c, struct err *e)
{
	auto_fd int at = sys_openat2(root, "dev/atoll", O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
	if (at < 0)
		return err_set(e, ERRC_INVALID_STATE,
			"the sandbox was started by an older version: start it again to give it secrets");
	for (size_t i = 0; i < BUNDLES; i++)
		if (cover(root, bundles[i], c->files[i], e) < 0)
			return -1;
	/* Last: it says that all is done. */
	return sys_move_mount(c->dir, at) < 0 ? err_os(e, ERRC_INTERNAL_ERROR, errno, "mount " TRUST_DIR) : 0;
}

/* ---- in our own ---- */

static int make_tmpfs(struct str bundle, struct err *e)
{
	const struct fs_option options[] = {{"mode", "0755"}, {"size", "5m"}, {"nr_inodes", "4"}};
	auto_fd int fs = fs_make("tmpfs", options, ARRAY_LEN(options), 0, "make a tmpfs for certificates", e);
	if (fs < 0)
		return -1;
	auto_fd int fd = openat(fs, TRUST_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	int r = fd < 0 ? -errno : fd_write_full(fd, bundle.p, bundle.n);
	if (r >= 0 && fchmod(fd, 0644) < 0)
		r = -errno;
	if (r < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "write the bundle of certificates");
	/* A mount with open writers cannot become read-only. */
	fd_close(&fd);
	if (fs_set(fs, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, -1, e) < 0)
		return -1;
	return take_fd(&fs);
}

static int enter(int pidfd, int *ret_root, struct err *e)
{
	if (setns(pidfd, CLONE_NEWNS) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "enter the sandbox's mounts");
	*ret_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

static void leave(int own_mounts)
{
	INVARIANT(setns(own_mounts, CLONE_NEWNS) == 0);
}

static void close_copies(struct copies *c)
{
	fd_close(&c->dir);
	for (size_t i = 0; i < BUNDLES; i++)
		fd_close(&c->files[i]);
}

/* A file is cloned by its path: the tmpfs stands at TRUST_STAND for a moment. */
static int clone_all(int tmpfs, struct copies *c, struct err *e)
{
	auto_fd int stand = open(TRUST_STAND, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (stand < 0 || sys_move_mount(tmpfs, stand) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "mount " TRUST_STAND);
	c->dir = fs_clone(AT_FDCWD, TRUST_STAND, 0, e);
	for (size_t i = 0; i < BUNDLES && c->dir >= 0; i++)
		c->files[i] = fs_clone(AT_FDCWD, TRUST_STAND "/" TRUST_FILE, 0, e);
	sys_umount(TRUST_STAND, MNT_DETACH);
	return c->dir < 0 || c->files[BUNDLES - 1] < 0 ? -1 : 0;
}

/* The image's bundle with `pem` behind it; 1: it is mounted already. */
static int find_bundle(int pidfd, int own_mounts, struct buf *bundle, struct err *e)
{
	auto_fd int root = -1;
	if (enter(pidfd, &root, e) < 0)
		return -1;
	bool done = root >= 0 && is_there(root);
	if (root >= 0 && !done)
		read_bundle(root, bundle);
	leave(own_mounts);
	return done;
}

static int mount_copies(int pidfd, int own_mounts, const struct copies *c, struct err *e)
{
	auto_fd int root = -1;
	if (enter(pidfd, &root, e) < 0)
		return -1;
	int r = root < 0 ? err_os(e, ERRC_INTERNAL_ERROR, errno, "open the sandbox's root") : place(root, c, e);
	leave(own_mounts);
	return r;
}

int trust_mount(int pidfd, int own_mounts, struct str pem, struct err *e)
{
	auto_buf struct buf bundle = {.max = TRUST_BUNDLE_MAX + 65536};
	struct copies c;
	memset(&c, -1, sizeof c);
	int r = find_bundle(pidfd, own_mounts, &bundle, e);
	if (r != 0)
		return r < 0 ? -1 : 0;
	buf_add_str(&bundle, pem);
	auto_fd int tmpfs = make_tmpfs(buf_str(&bundle), e);
	r = tmpfs < 0 || clone_all(tmpfs, &c, e) < 0 ? -1 : mount_copies(pidfd, own_mounts, &c, e);
	close_copies(&c);
	return r;
}

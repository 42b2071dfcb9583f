#include "cage/program.h"

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "cage/limits.h"
#include "cage/sys.h"

static int copy(int from, int to, size_t n)
{
	while (n) {
		ssize_t r = sendfile(to, from, NULL, n);
		if (r <= 0)
			return r < 0 ? -errno : -EIO;
		n -= (size_t)r;
	}
	return 0;
}

int program_load(const char *path, const char *name, struct err *e)
{
	auto_fd int file = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (file < 0 || fstat(file, &st) < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "open the program '%s'", path);
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > WARDEN_AGENT_MAX)
		return err_set(e, ERRC_HOST_UNSUPPORTED, "'%s' is not a program", path);
	auto_fd int mem = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	if (mem < 0 && errno == EINVAL) /* before 6.3 there was no flag: all were executable */
		mem = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (mem < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "make a memory file for '%s'", path);
	int r = copy(file, mem, (size_t)st.st_size);
	if (r < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, -r, "copy the program '%s'", path);
	const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	if (fchmod(mem, 0555) < 0 ||
		(fcntl(mem, F_ADD_SEALS, seals | F_SEAL_EXEC) < 0 && fcntl(mem, F_ADD_SEALS, seals) < 0))
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "seal the program '%s'", path);
	return take_fd(&mem);
}

#include "cage/caps.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { CAPS_ALL = 64 };

int caps_bound(uint64_t keep, struct err *e)
{
	for (unsigned cap = 0; cap < CAPS_ALL; cap++) {
		if (keep >> cap & 1)
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL) /* past the kernel's last capability */
			return 0;
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "drop capability %u", cap);
	}
	return 0;
}

int caps_limit(uint64_t keep, struct err *e)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "clear ambient capabilities");
	if (syscall(SYS_capget, &head, data) < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "read capabilities");
	for (int i = 0; i < 2; i++) {
		data[i].permitted &= (uint32_t)(keep >> (32 * i));
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &head, data) < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "set capabilities");
	return 0;
}

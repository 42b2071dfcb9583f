#include "base/sig.h"

#include <signal.h>
#include <sys/syscall.h>

#include "base/base.h"

void sig_default_all(void)
{
	/* The kernel's struct sigaction, which is not the C library's: four words, all zero for the default. */
	const unsigned long action[4] = {0};
	int saved = errno;
	for (int signo = 1; signo < _NSIG; signo++)
		syscall(SYS_rt_sigaction, signo, action, NULL, (size_t)_NSIG / 8);
	errno = saved;
}

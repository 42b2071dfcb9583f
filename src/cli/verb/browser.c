#include "cli/verb/browser.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The opener gets no terminal, because browsers print a lot, and is not waited for, because some openers become the
 * browser. */
void browser_open(const char *url)
{
	if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
		return;
	if (fork() != 0)
		return;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	setsid();
	execlp("xdg-open", "xdg-open", url, (char *)NULL);
	_exit(127);
}

#include "agent/proc/oom.h"

#include <fcntl.h>
#include <string.h>

static int counter = -1;

static uint64_t parse(const char *text)
{
	static const char key[] = "oom_kill ";
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, sizeof key - 1) == 0)
			return strtoull(line + sizeof key - 1, NULL, 10);
	}
	return 0;
}

uint64_t oom_kills(void)
{
	char text[512];
	ssize_t n = counter < 0 ? -1 : pread(counter, text, sizeof text - 1, 0);
	if (n <= 0)
		return 0;
	text[n] = 0;
	return parse(text);
}

void oom_init(int fd)
{
	static const char *const files[] = {"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"};
	counter = fd;
	for (size_t i = 0; counter < 0 && i < ARRAY_LEN(files); i++)
		counter = open(files[i], O_RDONLY | O_CLOEXEC);
}

/*
 * Archives of images: every member that is reported lies inside of the file.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "images/images.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct members m;
	struct err e;
	auto_fd int fd = memfd_create("fuzz", 0);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size || members_read(fd, &m, &e) < 0)
		return 0;
	for (size_t i = 0; i < m.n; i++)
		MUST(m.v[i].offset <= size && m.v[i].size <= size - m.v[i].offset);
	members_free(&m);
	return 0;
}

#include "cage/pool/diff.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cage/limits.h"
#include "dir_rig.h"
#include "test.h"

/* Plain directories play the layers: whoever compares looks at numbers and times only. A hard link is a file that did
 * not change; a copy with another time did. */
static int layer, snapshot, image;

static void scene(void)
{
	static const char why[] = "not root: cannot make whiteouts";
	layer = dir_rig("layer", why);
	snapshot = dir_rig("snapshot", why);
	image = dir_rig("image", why);
	CHECK_INT(mkdirat(layer, "upper", 0755), 0);
	CHECK_INT(mkdirat(snapshot, "upper", 0755), 0);
}

static void put(int dir, const char *name)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK(fd >= 0);
	close(fd);
}

static void whiteout(int dir, const char *name)
{
	CHECK_INT(mknodat(dir, name, S_IFCHR | 0600, makedev(0, 0)), 0);
}

/* The records with '\n' for the NUL. Static memory. */
static const char *compare(void)
{
	static char text[1 << 22];
	int out = memfd_create("diff", MFD_CLOEXEC);
	CHECK_INT(diff_write(layer, snapshot, image, out), 0);
	ssize_t n = pread(out, text, sizeof text - 1, 0);
	CHECK(n > 0);
	for (ssize_t i = 0; i < n; i++)
		text[i] = text[i] ? text[i] : '\n';
	text[n] = 0;
	close(out);
	return text;
}

static bool has(const char *text, const char *line)
{
	char whole[300];
	snprintf(whole, sizeof whole, "\n%s\n", line);
	return strncmp(text, whole + 1, strlen(whole + 1)) == 0 || strstr(text, whole);
}

TEST(equal_layers_have_no_difference)
{
	scene();
	put(layer, "upper/same");
	CHECK_INT(linkat(layer, "upper/same", snapshot, "upper/same", 0), 0);
	CHECK_CSTR(compare(), "E\n");
}

TEST(files_are_added_changed_and_deleted)
{
	scene();
	put(image, "old");
	put(image, "gone");
	put(layer, "upper/new");
	put(layer, "upper/old"); /* of the image */
	put(snapshot, "upper/removed");
	put(layer, "upper/both");
	put(snapshot, "upper/both"); /* another file of the same name */
	whiteout(layer, "upper/gone");
	CHECK_INT(mkdirat(layer, "upper/d", 0755), 0);
	put(layer, "upper/d/x");
	const char *text = compare();
	CHECK(has(text, "A/new") && has(text, "C/old") && has(text, "D/removed") && has(text, "C/both"));
	CHECK(has(text, "D/gone") && has(text, "A/d") && has(text, "A/d/x"));
	CHECK(has(text, "E"));
}

TEST(a_file_of_the_image_that_came_back_is_added)
{
	scene();
	put(image, "f");
	whiteout(snapshot, "upper/f");
	put(layer, "upper/f");
	CHECK_CSTR(compare(), "A/f\nE\n");
}

TEST(the_most_entries_are_listed_and_one_more_is_told)
{
	dir_rig_in_memory();
	scene();
	char name[32];
	for (unsigned i = 0; i < DIFF_ENTRIES_MAX; i++) {
		snprintf(name, sizeof name, "upper/%u", i);
		put(layer, name);
	}
	const char *text = compare();
	CHECK_CSTR(text + strlen(text) - 2, "E\n");
	put(layer, "upper/more");
	text = compare();
	CHECK_CSTR(text + strlen(text) - 2, "T\n");
}

TEST(the_deepest_directory_is_listed_and_one_deeper_is_told)
{
	scene();
	int at = openat(layer, "upper", O_RDONLY | O_DIRECTORY);
	for (unsigned i = 0; i < DIFF_DEPTH_MAX; i++) {
		CHECK_INT(mkdirat(at, "d", 0755), 0);
		int next = openat(at, "d", O_RDONLY | O_DIRECTORY);
		close(at);
		at = next;
	}
	const char *text = compare();
	CHECK_CSTR(text + strlen(text) - 2, "E\n");
	CHECK_INT(mkdirat(at, "d", 0755), 0);
	text = compare();
	CHECK_CSTR(text + strlen(text) - 2, "T\n");
	close(at);
}

TEST_MAIN()

#include "cage/pool/diff.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cage/limits.h"
#include "dir_rig.h"
#include "test.h"

/* Plain directories play the layers: whoever compares looks at numbers and times only. A hard link is a file that did
 * not change; a copy with another time did. */
static int layer, snapshot, image, above; /* the image has two layers */

static void scene(void)
{
	static const char why[] = "not root: cannot make whiteouts";
	layer = dir_rig("layer", why);
	snapshot = dir_rig("snapshot", why);
	image = dir_rig("image", why);
	above = dir_rig("above", why);
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
	const int roots[] = {above, image};
	CHECK_INT(diff_write(layer, snapshot, &(struct diff_image){roots, 2}, out), 0);
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

static void make_dir(int dir, const char *name, bool opaque)
{
	CHECK_INT(mkdirat(dir, name, 0755), 0);
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	if (opaque && fsetxattr(fd, "trusted.overlay.opaque", "y", 1, 0) < 0)
		TEST_SKIP("no trusted attributes here");
	close(fd);
}

TEST(every_layer_of_the_image_counts)
{
	scene();
	make_dir(above, "d", false);
	make_dir(image, "d", false);
	make_dir(layer, "upper/d", false);
	put(image, "d/low");
	put(above, "d/high");
	put(image, "d/gone");
	whiteout(above, "d/gone");
	put(layer, "upper/d/low");
	put(layer, "upper/d/high");
	put(layer, "upper/d/gone");
	const char *text = compare();
	CHECK(has(text, "C/d/low") && has(text, "C/d/high") && has(text, "A/d/gone") && !has(text, "A/d"));
}

TEST(a_layer_of_the_image_hides_those_below)
{
	scene();
	make_dir(image, "d", false);
	make_dir(image, "d/e", false);
	make_dir(above, "d", true);
	make_dir(layer, "upper/d", false);
	make_dir(layer, "upper/d/e", false);
	put(image, "d/e/f");
	put(layer, "upper/d/e/f");
	put(image, "file");
	make_dir(above, "file", false);
	make_dir(layer, "upper/file", false);
	put(layer, "upper/file/x");
	const char *text = compare();
	CHECK(has(text, "A/d/e") && has(text, "A/d/e/f") && has(text, "A/file/x") && !has(text, "A/d"));
}

TEST(a_directory_that_was_made_again_hides_what_the_image_has)
{
	scene();
	make_dir(image, "d", false);
	make_dir(image, "d/sub", false);
	make_dir(above, "d", false);
	put(image, "d/low");
	put(above, "d/low");
	put(above, "d/high");
	put(image, "d/sub/f");
	put(image, "d/before");
	make_dir(snapshot, "upper/d", false);
	whiteout(snapshot, "upper/d/before");
	make_dir(layer, "upper/d", true);
	make_dir(layer, "upper/d/sub", false);
	put(layer, "upper/d/new");
	const char *text = compare();
	CHECK(has(text, "D/d/low") && has(text, "D/d/high") && has(text, "D/d/sub/f") && has(text, "A/d/new"));
	CHECK(!has(text, "D/d/before") && !has(text, "C/d/sub") && !has(text, "A/d/sub"));
	char *second = strstr(strstr(text, "D/d/low") + 1, "D/d/low");
	CHECK(!second);
}

TEST(what_was_hidden_before_the_snapshot_is_no_news)
{
	scene();
	make_dir(image, "d", false);
	put(image, "d/f");
	put(image, "d/g");
	make_dir(snapshot, "upper/d", true);
	make_dir(layer, "upper/d", true);
	put(layer, "upper/d/g");
	CHECK_CSTR(compare(), "A/d/g\nE\n");
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

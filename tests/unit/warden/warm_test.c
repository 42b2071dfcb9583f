/*
 * Which slot with a waiting worker a new box may have.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"
#include "warden/limits.h"
#include "warden/warden.h"

static struct warden w;

static struct warden_slot *warm(void)
{
	struct warden_slot *c = warden_slot_new(&w, SLOT_READY);
	c->slot.overlay = w.boxes_dir;
	c->warm = true;
	return c;
}

static struct box new_box(void)
{
	struct box b = {.w = &w};
	snprintf(b.info.id, sizeof b.info.id, "new");
	b.info.limits.mem_bytes = WARM_BOX_MEM_MIN;
	b.info.limits.pids = WARM_BOX_PIDS;
	return b;
}

TEST(a_slot_that_is_being_ended_serves_no_box)
{
	char dir[] = "/tmp/warm-XXXXXX";
	CHECK(mkdtemp(dir) != NULL);
	w.boxes_dir = w.plain_boxes = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w.pool.kind = POOL_FILE;
	list_init(&w.slots);
	struct warden_slot *first = warm();
	struct box b = new_box();
	CHECK(warm_slot(&b) == first);
	/* No image is prepared for: it is killed, and stays in the pool until its process is gone. */
	warm_end_unwanted(&w);
	CHECK_INT(first->stage, SLOT_READY);
	CHECK(warm_slot(&b) == NULL);
	struct warden_slot *second = warm();
	CHECK(warm_slot(&b) == second);
	free(first);
	free(second);
	close(w.boxes_dir);
	rmdir(dir);
}

TEST_MAIN()

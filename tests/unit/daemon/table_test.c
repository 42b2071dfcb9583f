#include "daemon/core/sandbox.h"
#include "daemon/core/uses.h"
#include "daemon/limits.h"
#include "test.h"

static struct daemon *daemon_of_its_own(void)
{
	static struct daemon d;
	d.loop = loop_new();
	d.client = http_client_new(d.loop);
	list_init(&d.running);
	return &d;
}

TEST(states_are_counted)
{
	struct daemon *d = daemon_of_its_own();
	struct sandbox *s = sandbox_add(d, "a", SB_CREATING, NULL);
	CHECK(s && sandbox_find(d, "a") == s && !sandbox_find(d, "A"));
	CHECK_INT(d->by_state[SB_CREATING], 1);
	sandbox_move(s, SB_RUNNING, NULL);
	CHECK_INT(d->by_state[SB_CREATING], 0);
	CHECK_INT(d->by_state[SB_RUNNING], 1);
	sandbox_move(s, SB_STOPPED, "because");
	CHECK_CSTR(s->reason, "because");
	sandbox_ref(s);
	sandbox_move(s, SB_DESTROYED, NULL);
	CHECK(!sandbox_find(d, "a"));
	for (int i = 0; i < SB_STATES; i++)
		CHECK_INT(d->by_state[i], 0);
	sandbox_unref(s);
}

TEST(boxes_of_builds_are_counted_apart)
{
	struct daemon *d = daemon_of_its_own();
	struct sandbox *s = sandbox_add(d, "a", SB_CREATING, NULL);
	sandbox_set_work(s, true);
	CHECK_INT(d->by_state[SB_CREATING], 0);
	CHECK_INT(d->work_n, 1);
	sandbox_move(s, SB_RUNNING, NULL);
	CHECK_INT(d->by_state[SB_RUNNING], 0);
	CHECK_INT(d->work_n, 1);
	sandbox_ref(s);
	sandbox_move(s, SB_DESTROYED, NULL);
	CHECK_INT(d->work_n, 0);
	CHECK(list_empty(&d->running));
	sandbox_unref(s);
}

static bool has_even_digit(const void *arg, const struct sandbox *s)
{
	(void)arg;
	return (s->id[strlen(s->id) - 1] - '0') % 2 == 0;
}

static bool any(const void *arg, const struct sandbox *s)
{
	(void)arg;
	(void)s;
	return true;
}

TEST(the_list_is_sorted)
{
	struct daemon *d = daemon_of_its_own();
	static const char *const ids[] = {"b", "a", "c", "B", "a.1"};
	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		sandbox_add(d, ids[i], SB_STOPPED, NULL);
	size_t n;
	auto_free struct sandbox **all = sandbox_sorted(d, &n);
	CHECK_INT(n, 5);
	static const char *const want[] = {"B", "a", "a.1", "b", "c"};
	for (size_t i = 0; i < n; i++)
		CHECK_CSTR(all[i]->id, want[i]);
	auto_free struct sandbox **rest =
		sandbox_page(d, &(struct sandbox_page){.after = "a.1", .limit = 9, .pick = any}, &n);
	CHECK_INT(n, 2);
	CHECK_CSTR(rest[0]->id, "b");
}

enum { COUNT = 500 };

static void check_id(const struct sandbox *s, size_t number)
{
	char want[16];
	snprintf(want, sizeof want, "b%03zu", number);
	CHECK_CSTR(s->id, want);
}

/* Takes all pages of this length: what is picked is every other id, in order. Returns how many there were. */
static size_t read_pages(struct daemon *d, size_t limit)
{
	char after[BOX_ID_MAX + 1] = "";
	size_t n, seen = 0;
	do {
		const struct sandbox_page page = {.after = after, .limit = limit, .pick = has_even_digit};
		auto_free struct sandbox **v = sandbox_page(d, &page, &n);
		for (size_t j = 0; j < n; j++)
			check_id(v[j], 2 * seen++);
		if (n)
			snprintf(after, sizeof after, "%s", v[n - 1]->id);
	} while (n == limit);
	return seen;
}

/* All pages of any length together are the sorted list of what is picked. */
TEST(pages_of_any_length_make_the_list)
{
	struct daemon *d = daemon_of_its_own();
	char id[16];
	for (unsigned i = 0; i < COUNT; i++) {
		snprintf(id, sizeof id, "b%03u", i * 7919 % COUNT);
		sandbox_add(d, id, SB_STOPPED, NULL);
	}
	static const size_t limits[] = {1, 2, 3, 7, 64, 249, 250, 251, COUNT, COUNT + 1};
	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		CHECK_INT(read_pages(d, limits[i]), COUNT / 2);
}

static bool next_user(void *arg, const struct sandbox *s)
{
	struct buf *seen = arg;
	buf_printf(seen, "%s ", s->id);
	return true;
}

static void set_volumes(struct sandbox *s, const char *settings)
{
	free(s->spec.settings);
	s->spec.settings = xstrdup(settings);
	uses_note(s);
}

TEST(users_of_volumes_follow_the_settings)
{
	struct daemon *d = daemon_of_its_own();
	auto_buf struct buf seen = {0};
	struct sandbox *s = sandbox_add(d, "a", SB_STOPPED, NULL), *t = sandbox_add(d, "b", SB_STOPPED, NULL);
	set_volumes(s, "{\"volumes\":[{\"name\":\"x\",\"path\":\"/1\"},{\"name\":\"x\",\"path\":\"/2\"},"
		       "{\"name\":\"y\",\"path\":\"/3\"}]}");
	set_volumes(t, "{\"fuse\":false,\"volumes\":[{\"name\":\"x\",\"path\":\"/1\"}]}");
	CHECK_INT(uses_count(d, "x"), 2);
	CHECK_INT(uses_count(d, "y"), 1);
	CHECK_INT(uses_count(d, "z"), 0);
	uses_each(d, "x", next_user, &seen);
	CHECK_CSTR(buf_cstr(&seen), "a b ");
	set_volumes(s, "{\"volumes\":[{\"name\":\"z\",\"path\":\"/1\"}]}");
	CHECK_INT(uses_count(d, "x"), 1);
	CHECK_INT(uses_count(d, "y"), 0);
	CHECK_INT(uses_count(d, "z"), 1);
	sandbox_ref(t);
	sandbox_move(t, SB_DESTROYED, NULL);
	sandbox_unref(t);
	set_volumes(s, "{\"volumes\":[]}");
	CHECK_INT(d->volume_users.count, 0);
}

TEST(the_table_has_a_limit)
{
	struct daemon *d = daemon_of_its_own();
	struct err e = {0};
	char id[16];
	for (int i = 0; i < BOX_TABLE_MAX; i++) {
		snprintf(id, sizeof id, "b%d", i);
		CHECK(sandbox_add(d, id, SB_STOPPED, &e));
	}
	CHECK(!sandbox_add(d, "one-more", SB_STOPPED, &e));
	CHECK_INT(e.code, ERRC_LIMIT_REACHED);
}

TEST_MAIN()

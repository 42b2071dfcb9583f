#include "daemon/core/sandbox.h"
#include "daemon/limits.h"
#include "test.h"

static struct daemon *daemon_of_its_own(void)
{
	static struct daemon d;
	d.loop = loop_new();
	d.client = http_client_new(d.loop);
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

TEST(the_list_is_sorted_and_goes_on_after_an_id)
{
	struct daemon *d = daemon_of_its_own();
	static const char *const ids[] = {"b", "a", "c", "B", "a.1"};
	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		sandbox_add(d, ids[i], SB_STOPPED, NULL);
	size_t n;
	auto_free struct sandbox **all = sandbox_sorted(d, "", &n), **rest = NULL;
	CHECK_INT(n, 5);
	static const char *const want[] = {"B", "a", "a.1", "b", "c"};
	for (size_t i = 0; i < n; i++)
		CHECK_CSTR(all[i]->id, want[i]);
	rest = sandbox_sorted(d, "a.1", &n);
	CHECK_INT(n, 2);
	CHECK_CSTR(rest[0]->id, "b");
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

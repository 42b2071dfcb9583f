/* The table of routes: what one fact of a row says, the others do not contradict. */
#include "agent/request/route.h"
#include "agent/rpc/rpc.h"
#include "test.h"

static bool holds(const char *names, struct str name)
{
	for (struct str rest = str_of(names); rest.n;)
		if (str_eq(str_split(rest, ' ', &rest), name))
			return true;
	return false;
}

TEST(a_method_of_a_path_has_one_row)
{
	for (size_t i = 0; i < routes_n; i++)
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(routes[i].pattern, routes[k].pattern) != 0 ||
				strcmp(routes[i].method, routes[k].method) != 0);
}

TEST(fields_belong_to_bodies_that_are_read_before_the_handler)
{
	for (const struct route *r = routes; r < routes + routes_n; r++)
		CHECK(!r->fields || r->body == ROUTE_JSON || r->body == ROUTE_LENIENT);
}

TEST(fields_that_may_wait_for_a_server_are_fields_of_the_route)
{
	for (const struct route *r = routes; r < routes + routes_n; r++) {
		CHECK(!r->aside.fields || r->aside.waits);
		CHECK(!r->aside.own_max || holds(r->fields, STR("timeoutMs")));
		for (struct str rest = str_of(r->aside.fields && r->fields ? r->aside.fields : ""); rest.n;)
			CHECK(holds(r->fields, str_split(rest, ' ', &rest)));
	}
}

/* How many routes have a method of this name, files that are read as bytes aside. */
static int count(const char *name)
{
	int n = 0;
	for (const struct route *r = routes; r < routes + routes_n; r++)
		for (const struct rpc_method *m = r->rpc; m && m->name; m++)
			n += strcmp(m->name, name) == 0 && m->kind != RPC_FILE;
	return n;
}

TEST(a_method_of_the_rpc_transport_has_one_route)
{
	int all = 0;
	for (const struct route *r = routes; r < routes + routes_n; r++) {
		for (const struct rpc_method *m = r->rpc; m && m->name; m++, all++) {
			CHECK_INT(count(m->name), 1);
			/* A body for a route that throws it away would be lost. */
			CHECK(!m->body || r->body != ROUTE_NO_BODY);
		}
	}
	CHECK(all > 30);
}

TEST_MAIN()

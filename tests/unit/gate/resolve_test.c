#include "gate/dns/resolve.h"

#include "test.h"

/* Addresses are names that c-ares answers by itself. */
static struct resolver *resolver;

struct asked {
	struct resolve_wait wait;
	int answers;
};

static void on_answer(struct resolve_wait *w, const struct dns_answer *a, uint32_t age)
{
	struct ip ip;
	container_of(w, struct asked, wait)->answers++;
	CHECK(a->n == 1 && dns_record_ip(&a->v[0], &ip));
	CHECK_INT(age, 0);
}

/* As somebody does who dials: looks at other names, too. */
static void on_first(struct resolve_wait *w, const struct dns_answer *a, uint32_t age)
{
	uint32_t other;
	on_answer(w, a, age);
	resolver_get(resolver, "192.0.2.2", DNS_A, &other);
}

TEST(an_answer_that_looks_at_another_name_keeps_none_from_its_own)
{
	struct err e;
	uint32_t age;
	struct loop *l = loop_new();
	struct asked first = {0}, known = {0}, last = {0};
	resolver = resolver_new(l, &e);
	CHECK(resolver);
	resolver_ask(resolver, "192.0.2.2", DNS_A, &known.wait, on_answer);
	loop_turn(l, 0);
	CHECK_INT(known.answers, 1);
	/* In the order of their last use. */
	resolver_ask(resolver, "192.0.2.1", DNS_A, &first.wait, on_first);
	resolver_get(resolver, "192.0.2.2", DNS_A, &age);
	resolver_ask(resolver, "192.0.2.3", DNS_A, &last.wait, on_answer);
	loop_turn(l, 0);
	CHECK_INT(first.answers, 1);
	CHECK_INT(last.answers, 1);
	resolver_free(resolver);
	loop_free(l);
}

TEST(a_name_that_is_known_is_told_later_and_once)
{
	struct err e;
	struct loop *l = loop_new();
	struct asked one = {0}, two = {0}, gone = {0};
	resolver = resolver_new(l, &e);
	CHECK(resolver);
	resolver_ask(resolver, "192.0.2.1", DNS_A, &one.wait, on_answer);
	loop_turn(l, 0);
	resolver_ask(resolver, "192.0.2.1", DNS_A, &two.wait, on_answer);
	resolver_ask(resolver, "192.0.2.1", DNS_A, &gone.wait, on_answer);
	resolver_cancel(&gone.wait);
	CHECK_INT(two.answers, 0);
	loop_turn(l, 0);
	loop_turn(l, 0);
	CHECK_INT(one.answers, 1);
	CHECK_INT(two.answers, 1);
	CHECK_INT(gone.answers, 0);
	resolver_free(resolver);
	loop_free(l);
}

TEST_MAIN()

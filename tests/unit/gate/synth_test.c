#include "gate/dns/synth.h"

#include <stdio.h>

#include "test.h"

TEST(a_name_keeps_its_address)
{
	struct synth s;
	synth_init(&s);
	struct ip a = synth_address(&s, "a.example"), b = synth_address(&s, "b.example");
	CHECK(synth_is(&a) && synth_is(&b) && !ip_eq(&a, &b));
	CHECK_CSTR(synth_name(&s, &a), "a.example");
	CHECK_CSTR(synth_name(&s, &b), "b.example");
	struct ip again = synth_address(&s, "a.example");
	CHECK(ip_eq(&a, &again));
	struct ip before = ip_v4(0xc611ffff), after = ip_v4(0xc6140000), last = ip_v4(0xc613ffff);
	CHECK(!synth_is(&before) && !synth_is(&after) && synth_is(&last));
	CHECK(synth_name(&s, &last) == NULL);
	synth_free(&s);
}

TEST(the_name_asked_for_longest_ago_makes_room)
{
	struct synth s;
	char name[32];
	synth_init(&s);
	struct ip first = synth_address(&s, "first"), second = synth_address(&s, "second");
	for (int i = 2; i < GATE_SYNTH_MAX; i++) {
		snprintf(name, sizeof name, "n%d", i);
		synth_address(&s, name);
	}
	CHECK_INT(s.by_name.count, GATE_SYNTH_MAX);
	synth_address(&s, "first");
	synth_address(&s, "one more");
	CHECK_INT(s.by_name.count, GATE_SYNTH_MAX);
	CHECK_CSTR(synth_name(&s, &first), "first");
	CHECK(synth_name(&s, &second) == NULL);
	/* Round the whole range: addresses in use are passed over, .0 and .255 are never given. */
	for (int i = 0; i < 140000; i++) {
		snprintf(name, sizeof name, "m%d", i);
		struct ip ip = synth_address(&s, name);
		CHECK(synth_is(&ip) && ip.b[15] != 0 && ip.b[15] != 255);
		synth_address(&s, "first");
	}
	CHECK_CSTR(synth_name(&s, &first), "first");
	CHECK_INT(s.by_ip.count, GATE_SYNTH_MAX);
	synth_free(&s);
}

TEST_MAIN()

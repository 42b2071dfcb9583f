#include "http_rig.h"
#include "test.h"

TEST(server_answers_and_keeps_the_connection)
{
	struct rig r = {0};
	struct peer p;
	rig_start(&r);
	peer_tcp(&p, &r);
	for (int i = 1; i <= 3; i++) {
		buf_clear(&p.got);
		peer_say(&p, "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n");
		peer_until(&p, "\r\n\r\npong");
		CHECK_INT(peer_status(&p), 200);
		CHECK_INT(r.requests, i);
	}
	CHECK_INT(r.completes, 3);
	CHECK(peer_has(&p, "Content-Length: 4\r\n"));
	CHECK(!peer_has(&p, "Connection:"));
	peer_close(&p);
	RIG_UNTIL(&r, http_server_stats(r.s).conns == 0);
	rig_stop(&r);
}

TEST_MAIN()

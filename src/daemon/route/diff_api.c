#include "daemon/route/request.h"

void handle_diff(struct daemon_request *r)
{
	struct err e;
	err_set(&e, ERRC_NOT_IMPLEMENTED, "later");
	daemon_request_error(r, &e);
}

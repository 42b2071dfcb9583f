/*
 * api.h - the handlers of every API area, for the table in routes.c. One file per area: api_NAME.c.
 */
#pragma once

#include "agent/route.h"

/* api_misc.c */
void api_root(struct request *r);
void api_ping(struct request *r);
void api_version(struct request *r);

/* api_execute.c */
void api_execute(struct request *r);

/* ws_exec.c */
void ws_exec(struct request *r);

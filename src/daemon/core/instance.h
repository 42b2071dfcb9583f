/*
 * instance.h - instance types by upstream's names: limits under one name. Limits that a request gives itself win.
 */
#pragma once

#include "base/json.h"
#include "proto/errc.h"
#include "proto/warden.h"

struct instance {
	const char *name;
	struct box_limits limits; /* pids 0: the default's */
	uint64_t disk_bytes;
};

/* NULL: no type has that name. */
const struct instance *instance_find(struct str name);
/* The check of the setting `instance` (settings.c). */
int instance_check(const struct json *value, struct err *e);

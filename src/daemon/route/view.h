/*
 * view.h - sandboxes and the host as JSON, in the shapes of api/openapi.yaml.
 */
#pragma once

#include "base/json.h"
#include "daemon/core/sandbox.h"

/* `info` has the live usage, or is NULL. */
void view_sandbox(struct json_writer *w, const struct sandbox *s, const struct box_info *info);
void view_host(struct json_writer *w, const struct warden_host *h);

/*
 * spec_json.h - the settings of a sandbox as members of a JSON object: in the rows of snapshots, in the manifests of
 * backups.
 */
#pragma once

#include "daemon/core/spec.h"

void spec_json_write(struct json_writer *w, const struct api_spec *spec);
/* Sets the members that are there and well-formed. `spec` holds defaults. */
void spec_json_read(const struct json *root, struct api_spec *spec);

/*
 * openapi.h - api/openapi.yaml as JSON, put into the program by the build (src/daemon/serve/openapi_embed.py).
 */
#pragma once

#include <stddef.h>

extern const char openapi_json[];
extern const size_t openapi_json_len;

/* api/bridge.yaml */
extern const char bridge_openapi_json[];
extern const size_t bridge_openapi_json_len;

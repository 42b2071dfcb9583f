/*
 * sha1.h - SHA-1 and base64, for the WebSocket handshake only (RFC 6455 asks for it; nothing here is a secret).
 * Internal to src/http.
 */
#pragma once

#include "base/str.h"

void sha1(struct str s, unsigned char ret[20]);
/* Standard alphabet with padding; ret has room for 4 * ceil(n / 3) + 1 characters. */
void base64(struct str s, char *ret);

/*
 * connect_head.h - the head of a CONNECT request, from a program in a box to a proxy.
 *
 * The head comes from a box and goes on to the proxy as it is. So the proxy must not read another one out of the same
 * bytes: lines end in CRLF, no other control characters stand in them, no line is folded, no field name has a blank,
 * and a Host must say the same as the request line. Pure functions.
 */
#pragma once

#include "base/str.h"
#include "proto/limits.h"

/* `head` ends in its empty line. The name in lower case and the port that the proxy is asked for. False: refuse it. */
bool connect_head_read(struct str head, char name[NET_NAME_MAX + 1], uint16_t *ret_port);

/*
 * assets.h - the files of the web console, embedded by web/build.mjs, and the routes that serve them.
 *
 * Names below /assets/ have a hash of their content and never change. The page itself is asked for again each time, and
 * answered 304 when it is the same.
 */
#pragma once

#include <stddef.h>

struct console_asset {
	const char *path, *type, *etag; /* etag: a hash of the plain form */
	const unsigned char *plain;
	size_t plain_n;
	const unsigned char *packed; /* gzip */
	size_t packed_n;
};

/* Ends with a row without a path; the first row is the page. */
extern const struct console_asset console_assets[];

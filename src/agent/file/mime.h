/*
 * mime.h - what kind of file this is: by the extension of its name, else by its first bytes.
 *
 * The answers are those that upstream's server gives (a browser's table for extensions, then what file(1) would say),
 * without starting a process. Text or binary decides whether a read answers in UTF-8 or base64.
 */
#pragma once

#include "base/str.h"

enum { MIME_SNIFF = 4096 }; /* how many first bytes mime_of_file wants; fewer at the end of the file */

/* `head`: the first bytes of the content; `whole` when that is all of it. Never NULL. */
const char *mime_of_file(struct str name, struct str head, bool whole);

/* The same by the content alone: what file(1) says of the kinds that are common. */
const char *mime_of_content(struct str head, bool whole);

/* text/…, …+json, …+xml and the application types that are text by nature. */
bool mime_is_text(const char *mime);

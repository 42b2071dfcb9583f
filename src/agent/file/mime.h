/*
 * mime.h - the MIME type of a file: by the extension of its name, else by its first bytes.
 *
 * The types are those of upstream's server (a browser's table for extensions, then the result of file(1)), without
 * starting a process. A text is read as UTF-8, all other files as base64.
 */
#pragma once

#include "base/str.h"

enum { MIME_SNIFF = 4096 }; /* how many first bytes mime_of_file wants; fewer at the end of the file */

/* `head`: the first bytes of the content; `whole`: they are the whole content. Never NULL. */
const char *mime_of_file(struct str name, struct str head, bool whole);

/* The same by the content alone: the result of file(1) for common kinds. */
const char *mime_of_content(struct str head, bool whole);

/* text/…, …+json, …+xml and the application types that are text by nature. */
bool mime_is_text(const char *mime);

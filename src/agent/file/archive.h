/*
 * archive.h - GET /api/file?path=DIRECTORY&archive=tar: a directory as a tar, while it is made.
 *
 * The box's own tar reads the files, so an image without tar has no archives. A slow client holds tar back; a client
 * that leaves ends it. A tar that fails in the middle cuts the connection: the client never takes half an archive for
 * a whole one. Files that change while they are read are no failure. Thread: the loop's.
 */
#pragma once

#include "agent/request/route.h"

/* Whether the request asks for an archive. */
bool archive_wanted(const struct agent_request *r);
void archive_send(struct agent_request *r);

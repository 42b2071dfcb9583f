/*
 * path.h - paths in requests. Any path is allowed: the box's own mount namespace is the jail.
 *
 * A relative path starts at the working directory of the request's session. A path must not be empty, must not have
 * NUL, and has at most AGENT_PATH_MAX bytes.
 */
#pragma once

#include "agent/limits.h"
#include "agent/request/route.h"

/* Member `key` of the body as an absolute path on the heap. VALIDATION_FAILED names the field. */
int agent_request_path(const struct agent_request *r, const char *key, char **ret, struct err *e);
/* The same for the query parameter "path"; *ret_given is the parameter as it was sent (on the heap). */
int agent_request_query_path(const struct agent_request *r, char **ret, char **ret_given, struct err *e);
/* The same for a path from any source; errors name it `key`. `session` may be empty. */
int path_absolute(struct str path, struct str session, const char *key, char **ret, struct err *e);
/* For struct route_aside: the first path among `fields` that may wait for a FUSE server; the same with what is in that
 * directory; the same for the query parameter "path". */
char *path_waits(const struct agent_request *r, const char *fields);
char *path_waits_below(const struct agent_request *r, const char *fields);
char *path_waits_query(const struct agent_request *r, const char *fields);
/* Member `key` as the client wrote it, "" when it is not a string. Answers repeat this text, not the resolved path. */
const char *agent_request_given(const struct agent_request *r, const char *key);

/* The absolute path for answers: without "//", "." and a '/' at the end, and without ".." if it exists. "" for "/". On
 * the heap. */
char *path_clean(const char *path);
/* Last component; "/" has none. */
struct str path_basename(struct str path);
/* Everything before the last component, without '/' at its end; "/" for entries of the root. On the heap. */
char *path_dirname(const char *path);
/* mkdir -p with mode 0777 under the umask. 0 or -errno. */
int path_make_dirs(const char *path);
/* One directory, of the box's user. 0 or -errno. */
int path_make_dir(const char *path);

/* Opens a regular file. Never blocks, and never touches a device: EISDIR for directories, EINVAL for FIFOs, sockets and
 * devices. An fd or -errno. */
int path_open_regular(const char *path, int flags);

/* The error of a path that cannot be used: "what 'shown': why". A symbolic link that leads nowhere is named as such.
 * -1.
 */
int path_fail(struct err *e, int os, const char *what, const char *path, const char *shown);

/* agent_request_fail_file for an errno: its code, and the message "what 'path': No such file or directory". */
void agent_request_fail_errno(const struct agent_request *r, int os, const char *what, const char *path);
/* {"success":true,"path":…,"timestamp":…}, with one more member when `key` is not NULL. */
void agent_request_done(const struct agent_request *r, const char *path, const char *key, const char *value);

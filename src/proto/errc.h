/*
 * errc.h - every way an operation can fail: the code that clients see, its HTTP status, and what to do about it.
 *
 * `code` of a struct err is one of these numbers.
 *
 * The API codes and statuses are upstream's (docs/api). A daemon needs some more than a server in a container
 * (UNAUTHORIZED, METHOD_NOT_ALLOWED, …); those are ours. Upstream's client takes 503 for "not ready yet" and repeats
 * the request for two minutes: only *_NOT_READY and CONTAINER_UNAVAILABLE may have it.
 */
#pragma once

#include <assert.h>

#include "base/err.h"
#include "base/str.h"

/* X(name, HTTP status, suggestion or ""); the API code is the name itself. The JSON reader's two codes come first. */
#define ERRC_TABLE(X)                                                                                                  \
	X(INVALID_JSON, 400, "Send one JSON object, UTF-8 encoded.")                                                   \
	X(VALIDATION_FAILED, 400, "Correct the named field and send the request again.")                               \
	X(UNKNOWN_ERROR, 500, "")                                                                                      \
	X(INTERNAL_ERROR, 500, "Look into the daemon's log for the same time.")                                        \
	X(NOT_FOUND, 404, "Check the path; GET /openapi.json lists every route.")                                      \
	X(METHOD_NOT_ALLOWED, 405, "Use one of the methods in the Allow header.")                                      \
	X(UNAUTHORIZED, 401, "Send 'Authorization: Bearer <token>'; the token is in the daemon's data directory.")     \
	X(FORBIDDEN, 403, "")                                                                                          \
	X(INVALID_REQUEST, 400, "")                                                                                    \
	X(REQUEST_TIMEOUT, 408, "Send the whole request without long pauses.")                                         \
	X(PAYLOAD_TOO_LARGE, 413, "Send less at once, or use the streaming route.")                                    \
	X(HEADERS_TOO_LARGE, 431, "Send fewer or shorter headers.")                                                    \
	X(URI_TOO_LONG, 414, "Send a shorter path or query.")                                                          \
	X(EXPECTATION_FAILED, 417, "The only expectation known is 100-continue.")                                      \
	X(UPGRADE_REQUIRED, 426, "Use WebSocket version 13.")                                                          \
	X(MISDIRECTED_REQUEST, 421, "Use localhost or an address, or add the name to ATOLL_HOSTS.")                    \
	X(NOT_IMPLEMENTED, 501, "")                                                                                    \
	X(BAD_GATEWAY, 502, "The server behind gave no acceptable answer.")                                            \
	X(GATEWAY_TIMEOUT, 504, "The server behind took too long.")                                                    \
	X(HTTP_VERSION_NOT_SUPPORTED, 505, "Use HTTP/1.1.")                                                            \
	X(INVALID_SANDBOX_ID_LENGTH, 400, "Use 1 to 63 characters.")                                                   \
	X(INVALID_SANDBOX_ID_HYPHENS, 400, "Do not begin or end the id with a hyphen.")                                \
	X(INVALID_SANDBOX_ID_CHARACTERS, 400, "Use letters, digits, '-', '_' and '.' only.")                           \
	X(RESERVED_SANDBOX_ID, 400, "Choose another id.")                                                              \
	X(SANDBOX_NOT_FOUND, 404, "Create it with PUT, or send it any request under /api/.")                           \
	X(SNAPSHOT_NOT_FOUND, 404, "List the snapshots of the sandbox to see which there are.")                        \
	X(BACKUP_NOT_FOUND, 404, "GET /v1/backups lists the backups.")                                                 \
	X(INVALID_LIMITS, 400, "GET /v1/health shows what the host has.")                                              \
	X(INVALID_STATE, 409, "Wait for the sandbox to settle, then ask again.")                                       \
	X(LIMIT_REACHED, 429, "Wait for what is under way, or free what is not needed, then ask again.")               \
	X(APPROVAL_NOT_FOUND, 404, "GET /v1/approvals lists what waits now.")                                          \
	X(TOKEN_ALREADY_EXISTS, 409, "Choose another name, or delete that token first.")                               \
	X(IMAGE_NOT_FOUND, 404, "Check the name; 'atoll images' lists all, 'make image' builds 'default'.")            \
	X(HOST_UNSUPPORTED, 500, "Run 'atoll doctor' to see what this host lacks.")                                    \
	X(BOX_CREATE_FAILED, 500, "Run 'atoll doctor'; the message names the step that failed.")                       \
	X(CONTAINER_UNAVAILABLE, 503, "The sandbox is not reachable yet; ask again.")                                  \
	X(CONTAINER_LOST, 500, "The sandbox ended while it worked on this; the result is not known.")                  \
	X(FILE_NOT_FOUND, 404, "Check the path, or create the file first.")                                            \
	X(FILE_EXISTS, 409, "Choose another name or delete the existing file first.")                                  \
	X(FILE_TOO_LARGE, 413, "Read it with the streaming route.")                                                    \
	X(PERMISSION_DENIED, 403, "Check the owner and mode of the path.")                                             \
	X(IS_DIRECTORY, 400, "Name a file, not a directory.")                                                          \
	X(NOT_DIRECTORY, 400, "Name a directory, not a file.")                                                         \
	X(NOT_REGULAR_FILE, 400, "Name a file: pipes, sockets and devices have no content to read or replace.")        \
	X(NAME_TOO_LONG, 400, "Use a shorter path.")                                                                   \
	X(READ_ONLY, 403, "Write somewhere else: this file system is read-only.")                                      \
	X(RESOURCE_BUSY, 409, "Try again when nothing uses it.")                                                       \
	X(NO_SPACE, 500, "Free space on the disk that is named, or delete files in the sandbox.")                      \
	X(TOO_MANY_FILES, 500, "Close files or processes in the sandbox.")                                             \
	X(TOO_MANY_LINKS, 500, "The path runs through too many symbolic links.")                                       \
	X(FILESYSTEM_ERROR, 500, "")                                                                                   \
	X(COMMAND_NOT_FOUND, 404, "Check that the program is installed in the sandbox.")                               \
	X(INVALID_COMMAND, 400, "Send a command that is not empty.")                                                   \
	X(COMMAND_EXECUTION_ERROR, 500, "")                                                                            \
	X(PROCESS_NOT_FOUND, 404, "List the processes to see which ids exist.")                                        \
	X(PROCESS_ERROR, 500, "")                                                                                      \
	X(SESSION_ALREADY_EXISTS, 409, "Use the existing session or choose another id.")                               \
	X(SESSION_DESTROYED, 410, "Create the session again.")                                                         \
	X(SESSION_TERMINATED, 410, "The next command starts a fresh shell.")                                           \
	X(INVALID_PORT, 400, "Use a port from 1024 to 65535.")                                                         \
	X(INVALID_PORT_NUMBER, 400, "Use a port from 1 to 65535.")                                                     \
	X(PORT_ALREADY_EXPOSED, 409, "Unexpose it first, or use the URL it has.")                                      \
	X(TUNNEL_NOT_FOUND, 404, "List the tunnels to see which exist.")                                               \
	X(TUNNEL_RUN_CONFLICT, 409, "Destroy the tunnel that is in the way first.")                                    \
	X(PORT_NOT_EXPOSED, 404, "GET /v1/sandboxes/{id}/ports lists the exposed ports.")                              \
	X(PORT_IN_USE, 409, "Choose another port.")                                                                    \
	X(SERVICE_NOT_RESPONDING, 502, "Start the server in the sandbox, or wait until it listens.")                   \
	X(PORT_OPERATION_ERROR, 500, "")                                                                               \
	X(GIT_REPOSITORY_NOT_FOUND, 404, "Check the repository's URL and that it may be read.")                        \
	X(GIT_AUTH_FAILED, 401, "Check the credentials.")                                                              \
	X(GIT_BRANCH_NOT_FOUND, 404, "Check the branch's name.")                                                       \
	X(GIT_NETWORK_ERROR, 502, "Check that the host can be reached from the sandbox.")                              \
	X(GIT_CLONE_FAILED, 500, "")                                                                                   \
	X(GIT_CHECKOUT_FAILED, 500, "")                                                                                \
	X(INVALID_GIT_URL, 400, "Use an https, http, git, ssh or file URL.")                                           \
	X(GIT_OPERATION_FAILED, 500, "")                                                                               \
	X(BACKUP_CREATE_FAILED, 500, "Look at `stderr` in the context.")                                               \
	X(BACKUP_RESTORE_FAILED, 500, "Look at `stderr` in the context.")                                              \
	X(BUCKET_MOUNT_FAILED, 502, "Check bucket, endpoint, keys and hosts of the secret, and the network policy.")   \
	X(INTERPRETER_NOT_READY, 503, "Ask again after the named delay.")                                              \
	X(CONTEXT_NOT_FOUND, 404, "List the contexts, or create one.")                                                 \
	X(CODE_EXECUTION_ERROR, 500, "")                                                                               \
	X(PYTHON_NOT_AVAILABLE, 501, "Use an image that has python3.")                                                 \
	X(JAVASCRIPT_NOT_AVAILABLE, 501, "Use an image that has node.")                                                \
	X(WATCH_START_ERROR, 500, "")

enum errc {
	ERRC_OK = 0,
#define X(name, status, suggestion) ERRC_##name,
	ERRC_TABLE(X)
#undef X
		ERRC_MAX
};

/* src/base reports mistakes in JSON with codes of its own; they are the same numbers. */
static_assert((int)ERRC_INVALID_JSON == ERR_BAD_JSON, "base/err.h and the table disagree");
static_assert((int)ERRC_VALIDATION_FAILED == ERR_BAD_FIELD, "base/err.h and the table disagree");

struct errc_info {
	const char *code;	/* what clients see */
	int status;		/* HTTP status */
	const char *suggestion; /* one sentence, may be "" */
};

/* Any value is accepted; an unknown one reads as UNKNOWN_ERROR. */
const struct errc_info *errc_info(int code);

/* The code that a file operation's errno stands for (ENOENT: FILE_NOT_FOUND …). */
enum errc errc_from_file_errno(int os);
/* ERRC_INTERNAL_ERROR for a text that is no code. */
enum errc errc_from_name(struct str name);

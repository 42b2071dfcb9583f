/*
 * message.h - JSON-RPC errors of the protocol.
 */
#pragma once

#include "base/buf.h"

enum mcp_error {
	MCP_PARSE_ERROR = -32700,
	MCP_INVALID_REQUEST = -32600,
	MCP_METHOD_NOT_FOUND = -32601,
	MCP_INVALID_PARAMS = -32602,
	MCP_RESOURCE_NOT_FOUND = -32002,
};

/* {"jsonrpc":"2.0","id":ID,"error":{…}}; `id` is a JSON text. */
void mcp_error_write(struct buf *out, struct str id, enum mcp_error code, const char *text);

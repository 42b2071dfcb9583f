/*
 * call.h - one request of a client while it runs: the questions it asks the API, its progress, its result.
 *
 * A call is made by message.c and frees itself after mcp_call_finish, mcp_call_fail or a cancel. It asks one question
 * at a time; the answer comes to the function that was named. Nothing is called back from inside mcp_ask.
 */
#pragma once

#include "doors/mcp/mcp.h"
#include "http/sse.h"

struct mcp_call;
/* status 0: there was no answer, and body says why. Other statuses than 2xx have the API's error as body. */
typedef void (*mcp_on_reply)(struct mcp_call *c, int status, struct str body);
typedef void (*mcp_on_event)(struct mcp_call *c, const struct json *event);

struct mcp_call {
	struct mcp_session *session;	/* referenced */
	struct daemon_request *request; /* held; its x is NULL when the client has gone */
	struct list node;		/* of session->calls */
	struct json_doc *message;	/* owned */
	const struct json *arguments;	/* of the tool, or the params */
	char *id, *progress_token;	/* JSON texts, owned; the token may be NULL */
	bool stream;			/* the answer is an event stream that has begun */
	bool resource;			/* the result is of resources/read */

	struct http_call *http; /* the question under way */
	mcp_on_reply on_reply;
	mcp_on_event on_event; /* NULL: the answer is taken whole */
	struct sse_reader events;
	struct buf body; /* of an answer that is no event stream */
	int status;
	struct loop_timer tick;	    /* keep-alive */
	struct loop_timer deadline; /* of the tool itself */
	uint64_t progress_at, progress;

	struct buf content; /* of the result: members of a JSON array */
	bool is_error;
	size_t images;
	struct buf out; /* what the program printed */
	uint64_t out_bytes;
	char box[BOX_ID_MAX + 1];
	char *path; /* of the tool, owned */
	char language[16];
	uint64_t number;
};

/* Asks this daemon's API. `target` is a whole path. */
void mcp_ask(struct mcp_call *c, const char *method, struct str target, struct str body, mcp_on_reply on_reply);
/* The same for an event stream; on_reply comes at its end. */
void mcp_follow(struct mcp_call *c, const char *method, struct str target, struct str body, mcp_on_event on_event,
	mcp_on_reply on_reply);
/* Ends the question under way; on_reply does not come. */
void mcp_ask_stop(struct mcp_call *c);

/* "/v1/sandboxes/<c->box, percent-encoded><rest>" */
void mcp_box_path(struct buf *ret, const struct mcp_call *c, const char *rest);
void mcp_percent_encode(struct buf *ret, struct str text);

/* Parts of the result. */
void mcp_text(struct mcp_call *c, struct str text);
void mcp_printf(struct mcp_call *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
void mcp_image(struct mcp_call *c, struct str base64, const char *mime);
void mcp_page(struct mcp_call *c, struct str html);
/* What was gathered in c->out, cut to what may be shown, with a way to read the rest. */
void mcp_show_output(struct mcp_call *c);
/* Gathers output of a program. */
void mcp_output(struct mcp_call *c, struct str text);
/* Tells the client how far it is, at most every MCP_PROGRESS_EVERY. */
void mcp_progress(struct mcp_call *c, struct str message);

/* The answer with the result so far. */
void mcp_call_finish(struct mcp_call *c);
/* The same with a message that the caller has written. */
void mcp_call_answer(struct mcp_call *c, struct str message);
/* A result that is an error: what went wrong, for the model to read. */
void mcp_call_fail(struct mcp_call *c, const struct err *e);
/* The same from an answer of the API that is no 2xx. */
void mcp_call_fail_api(struct mcp_call *c, int status, struct str body);
/* Ends without an answer: the client does not want it any more. */
void mcp_call_cancel(struct mcp_call *c);

/* tools.c */
void mcp_tools_write(struct json_writer *w);
bool mcp_tool_exists(struct str name);
void mcp_tool_run(struct mcp_call *c, struct str name);
/* Copies a text argument; -1 with *e when it is missing and must be there. *ret is NULL when it is missing. */
int mcp_argument(const struct mcp_call *c, const char *name, bool needed, struct str *ret, struct err *e);
/* A file as the API reads it; the texts are parts of the document. */
struct mcp_file {
	struct str content, mime; /* base64 when it is binary; the type may be missing */
	bool binary;
};
/* Asks for a file. */
void mcp_ask_file(struct mcp_call *c, struct str path, mcp_on_reply on_reply);
/* Its answer; NULL: that is an error. */
struct json_doc *mcp_file_of(int status, struct str body, struct mcp_file *ret);
/* resources.c */
void mcp_resource_list(struct mcp_call *c);
void mcp_resource_read(struct mcp_call *c);
void mcp_resource_templates(struct json_writer *w);

/* The tools that are more than one question: tools_run.c, tools_file.c, tools_box.c */
void mcp_run_command(struct mcp_call *c);
void mcp_run_code(struct mcp_call *c);
void mcp_read_output(struct mcp_call *c);
void mcp_process_output(struct mcp_call *c);
void mcp_read_file(struct mcp_call *c);
void mcp_write_file(struct mcp_call *c);
void mcp_edit_file(struct mcp_call *c);
void mcp_list_files(struct mcp_call *c);
void mcp_search_files(struct mcp_call *c);
void mcp_request_network(struct mcp_call *c);

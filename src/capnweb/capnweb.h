/*
 * capnweb.h - one session of the capnweb protocol (the npm package `capnweb`), in either role.
 *
 * The transport carries frames: JSON arrays, one a message. This module reads and writes frames and keeps the two
 * tables of a session; it knows neither sockets nor an event loop.
 *
 *	frame			meaning
 *	["push",expr]		evaluate; the result gets the next positive id of the sender
 *	["stream",expr]		the same, pulled and released by itself; the answer is the acknowledgement of a write
 *	["pipe"]		the next id is the writable end of a pipe; ["readable",id] in a value is its other end
 *	["pull",id]		send the result: ["resolve",id,expr] or ["reject",id,error]
 *	["release",id,n]	forget n references
 *	["abort",error]		the session is over
 *
 *	expression		value
 *	[[…]]			an array; strings, numbers, booleans, null and objects stand for themselves
 *	["undefined"] ["inf"] ["-inf"] ["nan"] ["bigint",s] ["date",ms] ["bytes",base64]
 *	["error",name,message,stack?,{own properties}?]
 *	["pipeline",id,path?,args?]	property or call of one of the receiver's ids, also of a result that is not
 *					there yet
 *	["import",id]			that id itself
 *	["remap",id,path,captures,instructions]	a function, recorded, over a value or over every element of an array
 *	["export",id] ["promise",id] ["writable",id]	an object of the sender
 *	["readable",id]			the end of a pipe
 *
 * Headers, Request, Response and Blob values are refused.
 *
 * Calling sequence
 *
 *	capnweb_new → capnweb_frame for each message of the peer → capnweb_free
 *
 * Every call of the peer on an object of ours comes as on_call with a struct capnweb_call. Its arguments are read with
 * capnweb_arg_* inside on_call; after that they are gone. It is answered once, now or later, with capnweb_resolve or
 * capnweb_reject. Arguments that are promises have been replaced by their values before.
 *
 * An answer is an expression in text, made with the capnweb_put_* writers. References (objects, streams) are put into
 * it with capnweb_answer_*. An answer is kept until the peer releases it: properties of it can be asked for, and calls
 * can be sent to objects in it.
 *
 * The end: a frame that is not valid, a limit that is passed, or an `abort` of the peer ends the session: on_end is
 * called once with the reason, no frame is sent after it, and every function does nothing. capnweb_free must not be
 * called from inside a callback.
 *
 * Streams to the peer: capnweb_stream_new, capnweb_answer_stream, then on_ready says when to write. Write until
 * capnweb_stream_write answers false, then wait for on_ready: at most CAPNWEB_WINDOW bytes are on their way. on_cancel
 * says that the peer does not want it any more or that the session is over. After on_cancel or capnweb_stream_end the
 * stream is not the caller's any more.
 *
 * Streams from the peer: capnweb_take_pipe inside on_call, then capnweb_pipe_start. on_chunk answers whether the next
 * chunk may come; capnweb_pipe_resume asks for it. Only chunks that were taken are acknowledged. After on_done or
 * capnweb_pipe_stop the pipe is not the caller's any more.
 *
 * Objects of the peer: capnweb_take_stub inside on_call, or id 0 for its main object; capnweb_call_peer calls them;
 * capnweb_release_stub lets go.
 *
 * Bounds are in limits.h. Memory is bounded by them and by the longest frame that the transport lets through. Nothing
 * here recurses deeper than JSON_DEPTH_MAX or CAPNWEB_HOOKS_MAX levels. Thread: the caller's.
 */
#pragma once

#include "base/json.h"

struct capnweb;
struct capnweb_call;
struct capnweb_stream;
struct capnweb_pipe;

struct capnweb_ops {
	/* False: the transport is full. The frame was taken; streams wait until capnweb_writable. */
	bool (*send)(void *arg, struct str frame);
	/* `object` is what capnweb_answer_object got, or NULL for the main object; `method` is the path, joined with
	 * dots.
	 */
	void (*on_call)(void *arg, struct capnweb_call *c, void *object, const char *method);
	/* Is there an object (not a method) under this path of the main object? NULL: nowhere. */
	bool (*has_object)(void *arg, const char *path);
	/* The last reference to an object is gone. May be NULL. */
	void (*on_drop)(void *arg, void *object);
	void (*on_end)(void *arg, const char *reason);
};

struct capnweb *capnweb_new(const struct capnweb_ops *ops, void *arg);
void capnweb_free(struct capnweb *s);
void *capnweb_arg(const struct capnweb *s);
void capnweb_frame(struct capnweb *s, struct str text);
/* The transport takes frames again. */
void capnweb_writable(struct capnweb *s);
/* Ends the session from our side. */
void capnweb_abort(struct capnweb *s, const char *reason);
/* Calls that are not answered. */
size_t capnweb_calls(const struct capnweb *s);
/* How many ids both tables hold, without the main objects. */
size_t capnweb_live(const struct capnweb *s);

/* ---- reading values: nodes in the form of the wire ---- */

/* The i-th argument; NULL when it is missing or undefined. */
const struct json *capnweb_call_arg(const struct capnweb_call *c, size_t i);
void *capnweb_call_session_arg(const struct capnweb_call *c);
struct capnweb *capnweb_call_session(const struct capnweb_call *c);
/* A value as plain JSON: arrays unwrapped, undefined members left out, dates as milliseconds, bytes as an empty object,
 * which nothing takes for text, and null for everything that JSON does not have. */
void capnweb_plain(struct buf *out, const struct json *value);
/* The members of an object as `,"key":value`, for an object that is being written. */
void capnweb_plain_members(struct buf *out, const struct json *object);
bool capnweb_is_bytes(const struct json *value);
/* False: not the base64 of bytes. */
bool capnweb_bytes(struct buf *out, const struct json *value);
bool capnweb_is_undefined(const struct json *value);
/* The children of an array value; NULL for any other value. */
const struct json *capnweb_array(const struct json *value);

/* ---- writing expressions ---- */

/* Plain JSON text (well-formed, from a writer that is trusted) as an expression: its arrays are wrapped. */
void capnweb_put_json(struct buf *out, struct str json);
void capnweb_put_bytes(struct buf *out, struct str bytes);
void capnweb_put_date(struct buf *out, int64_t ms);
#define CAPNWEB_UNDEFINED STR("[\"undefined\"]")

struct capnweb_answer {
	struct buf text;
	struct capnweb_ref *refs;
	size_t n;
};
/* Writes a reference at the end of the text. */
void capnweb_answer_object(struct capnweb_answer *a, struct capnweb *s, void *object);
void capnweb_answer_stream(struct capnweb_answer *a, struct capnweb_stream *st);

void capnweb_resolve(struct capnweb_call *c, struct str expression);
/* Takes text and references; the answer is empty afterwards. */
void capnweb_resolve_answer(struct capnweb_call *c, struct capnweb_answer *a);
/* `properties` is an expression: an object of the error's own properties, or empty. */
void capnweb_reject(struct capnweb_call *c, const char *name, struct str message, struct str properties);

/* ---- streams to the peer ---- */

struct capnweb_stream_ops {
	void (*on_ready)(void *arg);
	void (*on_cancel)(void *arg);
};
struct capnweb_stream *capnweb_stream_new(struct capnweb *s, const struct capnweb_stream_ops *ops, void *arg);
bool capnweb_stream_write(struct capnweb_stream *st, struct str bytes);
/* The same for a value that is no bytes. */
bool capnweb_stream_put(struct capnweb_stream *st, struct str expression);
/* Closes the stream, or with a message breaks it off. */
void capnweb_stream_end(struct capnweb_stream *st, const char *error);

/* ---- streams from the peer ---- */

struct capnweb_pipe_ops {
	bool (*on_chunk)(void *arg, struct str bytes);
	void (*on_done)(void *arg, bool complete); /* false: aborted, or the session is over */
};
/* NULL: the argument is no stream, or was taken before. Start or stop it before the session ends. */
struct capnweb_pipe *capnweb_take_pipe(struct capnweb_call *c, const struct json *value);
void capnweb_pipe_start(struct capnweb_pipe *p, const struct capnweb_pipe_ops *ops, void *arg);
void capnweb_pipe_resume(struct capnweb_pipe *p);
/* Nothing more is wanted: writes are refused with this message. */
void capnweb_pipe_stop(struct capnweb_pipe *p, const char *why);

/* ---- calls to the peer ---- */

/* 0: the argument is no object of the peer. */
int64_t capnweb_take_stub(struct capnweb_call *c, const struct json *value);
void capnweb_release_stub(struct capnweb *s, int64_t id);
/* `value` is the result or, when not ok, the error; NULL when the session ended. References in it are gone after the
 * call. */
typedef void (*capnweb_on_reply)(void *arg, bool ok, const struct json *value);
/* `path` is NULL to call the object itself, else names with dots; `args` are expressions with commas. */
void capnweb_call_peer(
	struct capnweb *s, int64_t id, const char *path, struct str args, capnweb_on_reply on_reply, void *arg);

/*
 * gate.h - the program as a whole: boxes, their connections, who tells it what.
 *
 * docs/design/011-network.md has the story. The files, from outside to inside:
 *
 *	main.c      start, signals                       control.c  atolld: policies in, log out
 *	intake.c    the warden: boxes and their sockets  box.c      a box: listeners, policy, what it owns
 *	passage.c      one TCP connection: decide, dial     peek.c     what its first bytes say
 *	web.c       HTTP, request by request: web.h      dnsd.c     questions over UDP and TCP
 *	web_decide.c  what the policy says of a request
 *	udp.c       datagrams into a box; udp:// flows   record.c   log records
 *	drops.c     what the kernel refused in boxes        places.c   how many connections, and whose
 *	windows.c   memory that connections fill
 *	ask.c       what waits for an approval           hold.c     a connection that does
 *	connect.c   a proxy that a program in a box uses: connect_head.h
 *	synth.c     addresses that stand for names       egress.c, tunnel.c  the host's own proxy
 *	worker.c    workerd decides                      worker_passage.c  its connections and requests
 *
 * One thread, one loop; everything belongs to struct gate, boxes own their connections. Objects are freed by deferred
 * tasks or from their own timers, never inside of a callback that still walks over them.
 */
#pragma once

#include "base/map.h"
#include "gate/ask.h"
#include "gate/dial.h"
#include "gate/dns/names.h"
#include "gate/dns/resolve.h"
#include "gate/dns/synth.h"
#include "gate/egress.h"
#include "gate/hook.h"
#include "gate/peer.h"
#include "gate/places.h"
#include "gate/reach.h"
#include "gate/relay.h"
#include "gate/secret.h"
#include "gate/tls/ca.h"
#include "gate/tls/hello.h"
#include "gate/tls/tls_dial.h"
#include "gate/windows.h"
#include "gate/worker.h"
#include "http/client/client.h"
#include "http/server/server.h"
#include "proto/policy.h"

struct gate_box;
struct passage;

/* A policy that atolld has sent, or the name that the warden gave to a box; the other one may be still to come. */
struct gate_sandbox {
	char id[BOX_ID_MAX + 1];
	struct policy *policy;
	struct secrets *secrets; /* or NULL */
	struct hooks *hooks;	 /* or NULL */
	struct worker *worker;	 /* workerd that decides, or NULL */
	struct gate_box *box;	 /* the one that has this name now, or NULL */
	bool seen;		 /* since atolld connected */
	bool asleep;		 /* its box is being frozen or is: the next byte is reported at once */
	uint64_t told;		 /* loop time of the last report of activity */
};

/* The ring of drops.c, mapped while io.loop. */
struct drops {
	struct loop_io io;
	unsigned long *taken;	    /* up to here we have read */
	const unsigned long *given; /* up to here the kernel has written */
	const char *data;
};

/* One refused connection or datagram. */
struct drop {
	struct ip ip;
	uint16_t port;
	bool udp;
};

struct gate {
	struct loop *loop;
	struct ip_host host;
	struct resolver *resolver;
	struct http_server *http;
	struct http_client *http_client;
	struct ca *ca;
	struct tls_trust *trust;
	struct http_endpoint hook_socket; /* of atolld */
	struct map boxes;		  /* slot → struct gate_box */
	struct map sandboxes;		  /* id → struct gate_sandbox */
	struct map webs;		  /* descriptor of the inner end → struct web */
	size_t conns;
	struct places places;
	struct windows windows;
	struct list asks; /* struct ask */
	struct egress egress;

	struct {
		struct loop_io listen, io;
		struct buf in, out;
		struct loop_task flush; /* of the records of one turn */
		uint64_t lost;
		uid_t uid;
	} control;
	struct {
		struct loop_io listen, io;
		uint64_t seq; /* counts connections of the warden */
	} intake;
	struct drops drops;
	struct loop_timer look; /* at the host's addresses */
};

/* ---- main.c ---- */
/* Addresses of the host that are at most IP_HOST_LOOK old. */
struct ip_host *gate_host(struct gate *g);

/* ---- box.c ---- */

struct gate_box {
	struct gate *gate;
	uint32_t slot;
	uint64_t generation;
	uint64_t seen;		      /* intake.seq of the last record about it */
	struct gate_sandbox *sandbox; /* NULL: not named yet */
	struct loop_io tcp, udp;
	int tcp_fd, udp_fd, raw4, diag, raw6;
	bool full;		   /* has as many connections as it may: not accepted from */
	struct list conns;	   /* struct passage, longest idle first */
	size_t conns_n;		   /* and streams of DNS */
	struct tcp_owner memory;   /* windows.h */
	struct list holder, waits; /* places.h */
	struct names names;
	struct synth synth;
	struct list asks; /* struct ask */
	size_t asks_n;
	struct relay_bucket bucket;
	struct {
		uint32_t tokens;
		uint64_t filled;
		size_t pending;
	} dns;
	struct list questions; /* struct question: wait for the resolver */
	struct list streams;   /* struct dns_stream */
	struct list flows;     /* struct flow, least recently used first */
	size_t flows_n;
	struct {
		struct loop_timer timer; /* until the second is over */
		uint32_t told;		 /* lines in it */
		uint64_t rest;		 /* refused beyond them */
		struct drop last;
	} drops;
	struct loop_task free_task;
	bool gone;
};

/* Takes the descriptors. NULL: no room. */
struct gate_box *box_new(struct gate *g, uint32_t slot, uint64_t generation, const int fds[]);
struct gate_box *box_find(struct gate *g, uint32_t slot);
/* Closes what it has; freed at the end of the turn. */
void box_drop(struct gate_box *b);
void box_name(struct gate_box *b, const char *id);
/* NULL while its name or policy is not known. */
const struct policy *box_policy(const struct gate_box *b);
const char *box_id(const struct gate_box *b);
/* A new policy: counts at once, for open connections as well. */
void box_policy_changed(struct gate_box *b);
/* Bytes have moved between the box and the world: atolld is told, at most once in GATE_ACTIVITY. */
void box_active(struct gate_box *b);
/* Count connections, of TCP to a program in the box. When one has ended, boxes that waited for room are accepted from
 * again. */
void box_conn_begins(struct gate_box *b);
void box_conn_ends(struct gate_box *b);
/* It loses its longest idle connection. */
void box_shed(struct gate_box *b);

struct gate_sandbox *sandbox_find(struct gate *g, const char *id, bool make);
void sandbox_set_policy(struct gate *g, const char *id, struct policy *p);
/* Takes them; NULL: none. */
void sandbox_set_secrets(struct gate *g, const char *id, struct secrets *secrets);
void sandbox_set_hooks(struct gate *g, const char *id, struct hooks *hooks);
void sandbox_set_worker(struct gate *g, const char *id, struct worker *worker);
/* atolld knows it no longer. A box that has the name already, and whose policy is still to come, keeps it. */
void sandbox_forget(struct gate *g, const char *id);
void sandbox_set_asleep(struct gate *g, const char *id, bool asleep);

/* ---- passage.c ---- */

/* The states of a connection, and what may follow. */
enum passage_state {
	PASSAGE_WAITING,  /* for the policy → PEEKING, DIALLING */
	PASSAGE_PEEKING,  /* for the client's first bytes → DIALLING, REFUSING, MOVING, HELD */
	PASSAGE_HELD,	  /* until somebody approves it → PEEKING, DIALLING, REFUSING */
	PASSAGE_DIALLING, /* resolving and connecting → MOVING, REFUSING */
	PASSAGE_MOVING,	  /* relay → DEAD */
	PASSAGE_REFUSING, /* why has been said; lingers → DEAD */
	PASSAGE_DEAD,
};

struct passage {
	struct list node;
	struct gate *gate;
	struct gate_box *box;
	enum passage_state state;
	struct loop_io io;	  /* of the client, before the relay has it */
	struct turn_seat seat;	  /* of peek.c */
	struct loop_io server_io; /* of a server that was dialled ahead, while we look at the client */
	int client, server;
	struct peer_end from;
	struct ip wanted, reached;
	uint16_t port;
	enum policy_speech speech;
	bool by_name;	 /* a name decides: only its own addresses are dialled */
	bool settled;	 /* allowed by address alone: looked at only because the box has secrets */
	bool looked;	 /* its first bytes have been seen, or the server spoke first */
	bool begun;	 /* some of its first bytes have come, and they do not decide yet */
	bool named;	 /* `name` is what the TLS hello says */
	bool unread;	 /* the TLS hello could not be read */
	bool tls;	 /* intercepted: we are the server of the client's TLS */
	bool refuse;	 /* decided: we only look how to say it */
	bool connecting; /* CONNECT: the head of the request goes first, and the proxy's answer decides */
	bool synthetic;	 /* `wanted` stands for a name of box->synth */
	bool logged;	 /* nothing but refused requests so far, and each has its record */
	bool passed;	 /* HTTP: a request was allowed */
	/* Bytes that are in the records of earlier hosts of a kept HTTP connection. */
	uint64_t told_sent, told_received;
	bool by_worker; /* workerd decides: worker.h */
	struct ask_wait asking;
	char *approved; /* the host that somebody approved for this connection, or NULL */
	char name[NET_NAME_MAX + 1];
	char target[NET_NAME_MAX + 1]; /* what CONNECT asked the box's own proxy for, or "" */
	uint16_t target_port;
	char why[GATE_WHY_MAX];
	struct reach *reach;
	struct worker_ask *worker_ask;
	struct relay relay;
	struct web *web;
	int unreachable;	/* errno: the destination does not answer */
	struct tcp_conn memory; /* windows.h */
	struct loop_timer timer;
	struct loop_task free_task;
	uint64_t started;
	int64_t wall;
};

void passage_new(struct gate_box *b, int fd, const struct peer_end *from);
/* The policy is there, or has changed. */
void passage_policy(struct passage *c);
/* Cut by us: resets both sides. `end` goes into the log. */
void passage_cut(struct passage *c, const char *end);
/* The same for one that was allowed, for want of something. */
void passage_shed(struct passage *c, const char *end);
/* For peek.c: what the first bytes say. `name` is what TLS names; NULL: its hello cannot be read. */
void passage_spoke(struct passage *c, enum policy_speech how, const char *name);
/* No first bytes will come: the client ended, or took too long (`late`). */
void passage_silent(struct passage *c, const char *end, bool late);
/* Decides from the beginning: its policy has come, or it was approved. */
void passage_decide(struct passage *c);
void passage_deny(struct passage *c, const char *why);
/* What the policy says about a name, and somebody who approved it for this connection. */
struct verdict passage_name_ok(struct passage *c, const char *name, enum policy_speech how);
/* A name has to decide, and there is none: somebody may approve it in mode list. `why` is for that mode. */
struct verdict passage_no_name(const struct passage *c, const char *why);
const char *passage_protocol(enum policy_speech how);

/* Both sides stand: moves bytes from now on. */
void passage_move(struct passage *c);

/* What one record tells of: a connection, or the part of a kept HTTP connection that went to one host. */
struct passage_leg {
	const char *name, *why;
	uint64_t sent, received; /* since the connection began */
};
void passage_log(const struct passage *c, const struct passage_leg *leg, const char *decision, const char *end);

/* ---- connect.c ---- */
/* The first bytes are a CONNECT request. */
bool connect_is(struct passage *c);
struct verdict connect_decide(struct passage *c);
/* What the policy says about the name that the proxy is asked for. */
struct verdict connect_target(const struct passage *c);
/* The proxy is reached. */
void connect_reached(struct passage *c);

/* ---- hold.c ---- */
/* Waits for somebody to approve c->name, or the address when there is no name. */
void passage_hold(struct passage *c);
/* The policy has changed: it may be decided now. */
void passage_held_policy(struct passage *c);
/* What a host without a name is called in questions and rules. */
const char *passage_host(const struct passage *c, char text[IP_TEXT]);
bool passage_is_approved(const struct passage *c, const char *host);
void passage_approve(struct passage *c, const char *host);

/* ---- peek.c ---- */
/* Waits for the client's first bytes, `ms` at most, and tells passage_spoke or passage_silent. */
void peek_start(struct passage *c, uint64_t ms);
void peek_stop(struct passage *c);

/* ---- web.c ---- */
int web_init(struct gate *g, struct err *e);
/* Takes over the connection: its bytes go through the strict proxy. 0 or -errno. */
int web_start(struct passage *c);
void web_free(struct web *w);
/* The socket that requests went over last, while it is open; else -1. */
int web_server(const struct web *w);
/* Name and rule of the host that requests went to last. */
void web_leg(const struct web *w, struct passage_leg *ret);

/* ---- passage_end.c: how a connection ends that was not allowed, or leads nowhere ---- */
/* Says why in the client's own protocol, and ends. */
void passage_refuse(struct passage *c);
/* The last words to the client. What it still sends is thrown away. */
void passage_say(struct passage *c, struct str text);
/* The destination does not answer; `os` is the errno. */
void passage_unreachable(struct passage *c, int os);
/* The policy allows the name, and none of its addresses. */
void passage_forbidden(struct passage *c, const char *why);
/* Writes the record and frees. `decision`: "allow" or "deny". */
void passage_end(struct passage *c, const char *decision, const char *end);

/* The policy has changed: requests under way that are now denied are cut. False: the connection must go. */
bool web_policy(struct web *w);
/* A request waits for an approval. */
bool web_is_held(const struct web *w);

/* ---- dnsd.c ---- */
void dnsd_datagram(struct gate_box *b, struct str in, const struct ip *from, uint16_t from_port, const struct ip *to);
/* A TCP connection to port 53. Takes the descriptor. */
void dnsd_stream(struct gate_box *b, int fd);
void dnsd_drop(struct gate_box *b);
/* Ends its oldest stream. */
void dnsd_shed(struct gate_box *b);
/* The policy is there, or has changed: questions that waited for it are read. */
void dnsd_policy(struct gate_box *b);

/* ---- udp.c ---- */
void udp_on_ready(struct loop_io *io, uint32_t events);
/* A datagram from anywhere to a program in the box. */
void udp_send(struct gate_box *b, const struct ip *from, uint16_t from_port, const struct ip *to, uint16_t to_port,
	struct str data);
void udp_drop_flows(struct gate_box *b, bool denied_only);
/* Whether a datagram may go there: by address, if no name that the box was told for it is denied, or by one of those
 * names. `name` is the one that decided, or "". */
struct verdict udp_verdict(struct gate_box *b, const struct ip *to, uint16_t port, const char **name);

/* ---- drops.c ---- */
/* Takes the descriptor of the kernel's ring, in the place of an earlier one. */
void drops_open(struct gate *g, int fd);
/* Reads what is there: before a box goes, and whenever the ring has something. */
void drops_take(struct gate *g);
/* Refused: a line in the log, or counted for one. */
void drops_add(struct gate_box *b, const struct drop *d);
/* The box goes: tells what is counted. */
void drops_end(struct gate_box *b);

/* ---- control.c ---- */
int control_listen(struct gate *g, int fd, uid_t uid, struct err *e);
/* Takes what the daemon has said by now: before connections are decided, so that a policy counts for all that come
 * after it was sent. */
void control_take(struct gate *g);
/* One line to atolld, with its line feed; dropped and counted when too much waits. */
void control_send(struct gate *g, struct str line);

/* ---- intake.c ---- */
int intake_listen(struct gate *g, int fd, struct err *e);

/* ---- record.c ---- */
struct gate_log {
	const char *id; /* of the sandbox */
	int64_t time;	/* wall clock, ms */
	const char *name, *protocol, *decision, *why, *end;
	const struct ip *ip; /* or NULL */
	uint16_t port;
	uint64_t sent, received, ms;
	uint64_t times; /* how many it stands for; 0 is 1 */
};
void record_send(struct gate *g, const struct gate_log *l);

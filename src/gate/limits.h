/*
 * limits.h - every quantity that a box, a server or a daemon can drive in the gate, by name.
 *
 * Sizes are bytes, times are milliseconds.
 */
#pragma once

#include "proto/limits.h"

/* What atolld and the warden tell */
#define GATE_POLICIES_MAX 16384
#define GATE_POLICY_WAIT  5000	       /* a connection of a box whose policy has not come yet */
#define GATE_LINE_MAX	  (512u * KIB) /* from the daemon */
#define GATE_LOG_PENDING  (512u * KIB) /* log records that wait for a daemon that does not read */
#define GATE_WHY_MAX	  160	       /* characters of the rule or reason in a log record */

/* Boxes and their connections */
#define GATE_BOXES_MAX	      8192u	  /* with prepared slots */
#define GATE_PLACES_RESERVE   16	  /* one place in so many is kept for boxes that hold few (places.h) … */
#define GATE_PLACES_FEW	      8		  /* … which is fewer than so many */
#define GATE_HOLDERS_LOOK     64	  /* boxes among which the one with the most connections is looked for */
#define GATE_ORDER_SLICE      100	  /* connections are in the order of their last byte, give or take this */
#define GATE_FIRST_BYTES      10000	  /* until a client has said enough to be decided */
#define GATE_ACTIVITY	      250	  /* between two reports that a box's connections move bytes */
#define GATE_IDLE	      7200000	  /* no byte in either direction */
#define GATE_HALF_IDLE	      600000	  /* the same when one side has ended */
#define GATE_LEFT_LOOK	      5000	  /* so often: is a client that says no more still there? */
#define GATE_REFUSAL_WAIT     500	  /* for the first bytes of a client that is refused: they tell how to say it */
#define GATE_UNREACHABLE_WAIT 100	  /* the same when the destination does not answer */
#define GATE_REFUSAL_LINGER   1000	  /* for the client to read why */
#define GATE_SMALL	      (16u * KIB) /* a read shorter than that is copied, a longer one makes the way a pipe */
#define GATE_PIPE_SIZE	      (256u * KIB)
#define GATE_PIPES_IDLE	      64	 /* empty pipes that are kept */
#define GATE_TURN_MAX	      (1u * MIB) /* moved for one connection before others have their turn */
#define GATE_RATE_SLICE	      50	 /* how often a limited box gets its share */

/* What clients say first */
#define GATE_HELLO_MAX (16u * KIB + 512u) /* a TLS hello over all its records */
#define GATE_PEEK_MAX  (20u * KIB)

#define GATE_WEB_IDLE 30000 /* a kept connection to a server, for the next request of the same client */

#define GATE_WORKER_HEAD_MAX (4u * KIB) /* of workerd's answer to CONNECT */

/* Interception */
#define GATE_LEAVES_MAX	  1024	     /* certificates that are kept … */
#define GATE_LEAF_KEEP	  604800000  /* … for a week; they are valid for a month */
#define GATE_TLS_TIMEOUT  10000	     /* for the handshake with a server */
#define GATE_TRUST_LOOK	  5000	     /* how often the host's trust store is looked at */
#define GATE_SECRET_NOTE  1000	     /* a use of a secret is told to the daemon this often */
#define GATE_SECRET_HIDE  8	     /* a value that is shorter is not looked for in responses: it is a word of many */
#define GATE_SECRET_TOLD  40	     /* characters of a place that a refusal names */
#define GATE_AWS_BODY_MAX (8u * MIB) /* of a request that must be hashed before it is signed */

/* Dialling */
#define GATE_DIAL_MAX	  16	/* addresses of a name that are tried */
#define GATE_DIAL_STAGGER 250	/* before the next one is tried beside it */
#define GATE_DIAL_TIMEOUT 10000 /* for all of them together */

#define EGRESS_WORD_MAX 255 /* user, password of the host's proxy: SOCKS has a byte for their length */

/* DNS */
#define GATE_DNS_UDP_MAX     1232	 /* of an answer over UDP */
#define GATE_DNS_MAX	     (16u * KIB) /* of an answer over TCP */
#define GATE_DNS_QUERY_MAX   512
#define GATE_DNS_RECORDS_MAX 128  /* in one answer */
#define GATE_DNS_RATE	     500  /* questions a second of one box that leave the host or are refused … */
#define GATE_DNS_BURST	     1000 /* … and at once */
#define GATE_DNS_PENDING     256  /* questions of one box that wait for the host's servers */
#define GATE_DNS_TIMEOUT     5000
#define GATE_DNS_CACHE_MAX   8192 /* names, over all boxes */
#define GATE_DNS_TTL_MIN     1000
#define GATE_DNS_TTL_MAX     3600000
#define GATE_DNS_NEGATIVE    5000
#define GATE_DNS_TCP_IDLE    10000
#define GATE_DNS_TCP_OUT     (256u * KIB) /* answers of one connection, and room for those that wait */
#define GATE_NAMES_MAX	     4096	  /* addresses whose names are remembered for one box */
#define GATE_NAMES_PER_IP    8
#define GATE_NAMES_KEEP	     3600000 /* past the record's own time */

/* Approvals */
#define GATE_ASKS_MAX	64   /* questions of one box that wait for somebody */
#define GATE_ASK_SILENT 1000 /* a client that says nothing may wait for the server to speak first: then ask */
#define GATE_SYNTH_MAX	1024 /* names of one box that have a synthetic address */
#define GATE_SYNTH_TTL	1    /* seconds */

/* What the kernel refuses in a box */
#define GATE_DROPS_RATE 64   /* lines in the log of one box … */
#define GATE_DROPS_SPAN 1000 /* … in this time; more of them share one */

/* Datagrams by udp:// rules */
#define GATE_FLOWS_MAX	    256 /* of one box */
#define GATE_FLOW_IDLE	    60000
#define GATE_DATAGRAM_MAX   (64u * KIB)
#define GATE_DATAGRAM_BURST 64

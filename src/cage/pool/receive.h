/*
 * receive.h - applies the streams of BTRFS_IOC_SEND to a directory: the files of a backup come back.
 *
 * The input is one stream or several, a whole one first and each later one against the state that the one before left.
 * The marker RECEIVE_END must follow the last stream: input that ends without it is not complete. All streams are
 * applied to the same tree, so no parent has to be found in the file system: what `btrfs receive` searches the whole
 * pool for is never needed here.
 *
 * The input has been made by a box's files and stored elsewhere: it is hostile. receive_life runs it in a process that
 * sees the empty subvolume as its root and has nothing else: own mount namespace, no network, the capabilities that
 * setting owners and attributes takes, a short list of system calls, Landlock where the kernel has it. Paths never
 * follow a link. The only device that is made is the overlay's whiteout (0:0). Commands are at most RECEIVE_COMMAND_MAX
 * bytes.
 */
#pragma once

#include "proto/warden.h"

#define RECEIVE_END WARDEN_RECEIVE_END

/* Reads from `in` until RECEIVE_END and applies everything below `root`, a directory. 0 or -errno; -EBADMSG: the input
 * is not well-formed or ends early. */
int receive_streams(int in, int root);

/* The same in this process, which confines itself first, and ends with an errno as its exit status. `keep` is a
 * descriptor that stays open (a lock), or -1. */
_Noreturn void receive_life(int in, int root, int keep);

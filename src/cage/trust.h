/*
 * trust.h - an authority that the programs of one box trust, without a byte in its layer.
 *
 * The bundle of certificates (the image's, with ours behind it) is a file of a small read-only tmpfs, mounted at
 * TRUST_DIR in the box's mount namespace and over each bundle that the image has in a known place. The box runs already
 * and may be hostile: its files are opened without following links and without leaving its root file system, read up to
 * TRUST_BUNDLE_MAX, and only as regular files. Mounting again is a success and changes nothing.
 */
#pragma once

#include "base/str.h"
#include "proto/errc.h"

#define TRUST_DIR  "/dev/atoll"
#define TRUST_FILE "ca-certificates.crt"

/* An empty directory of the warden's own root. */
#define TRUST_STAND "/trust"

/* `own_mounts` is the caller's mount namespace. One thread: nothing else happens in between. */
int trust_mount(int pidfd, int own_mounts, struct str pem, struct err *e);

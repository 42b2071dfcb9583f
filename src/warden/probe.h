/*
 * probe.h - `atoll-warden --probe`, for `atoll doctor`: whether the warden's own code works on this host, in the
 * warden's root, with the warden's capabilities and filter.
 *
 * Prints a line for each probe: its name, a tab, "ok" or the error. Everything happens in a child in namespaces of its
 * own, on a trial directory that is removed; no box is made and no running warden is touched.
 */
#pragma once

/* `data` is the data directory, whose file system is tried; another directory stands in while it is not there. Returns
 * the exit code of the program: 1 when it could not try at all. */
int probe_run(const char *data);

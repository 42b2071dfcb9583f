/*
 * carry.h - copies the layer of a box from a plain directory into the pool, exactly: owners, modes, times, links,
 * extended attributes (the overlay's marks are some), whiteouts, holes.
 *
 * The files are what a box has made of them: any names, any depth, millions. Nothing is followed: every name is opened
 * below its directory, links are copied as links. Only for layers that are not mounted.
 */
#pragma once

#include "proto/errc.h"

/* Copies the directory `from` onto the empty directory `to`, with all that is in it. 0 or -errno. */
int carry_tree(int from, int to);

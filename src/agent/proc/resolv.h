/*
 * resolv.h - /etc/resolv.conf and /etc/hosts of a box.
 */
#pragma once

/* Names the box's resolver where the image, or the box's own files, name none: the file is missing, empty, or a link
 * that leads nowhere. What the box's owner has written stays. Adds localhost and the box's own name to /etc/hosts where
 * they are missing. Times of files and of /etc stay: what is written here must not make an image of the box another
 * one. */
void resolv_init(void);

/*
 * resolv.h - /etc/resolv.conf of a box.
 */
#pragma once

/* Names the box's resolver where the image, or the box's own files, name none: the file is missing, empty, or a link
 * that leads nowhere. What the box's owner has written stays. */
void resolv_init(void);

/*
 * browser.h - opens a URL in the desktop's browser.
 */
#pragma once

/* Starts the desktop's opener, if there is one; only for http and https. Does not wait for it. */
void browser_open(const char *url);

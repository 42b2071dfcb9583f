/*
 * vault.h - texts encrypted at rest: AES-256-GCM with the daemon's own key.
 *
 * The key lies in secrets.key of the daemon's directory, which only its user can enter (0600, made when it is first
 * needed). Each text has a random nonce and is bound to its name, so that a sealed text in another row's place does not
 * open. Keep the key apart from backups of the database.
 */
#pragma once

#include "base/buf.h"
#include "proto/errc.h"

enum { VAULT_KEY = 32 };

struct vault {
	unsigned char key[VAULT_KEY];
};

int vault_open(const char *dir, struct vault **ret, struct err *e);
/* Appends the sealed text as base64. */
int vault_seal(const struct vault *v, const char *name, struct str text, struct buf *ret, struct err *e);
/* Appends the text. INTERNAL_ERROR: it is damaged, or was sealed with another key or for another name. */
int vault_unseal(const struct vault *v, const char *name, struct str sealed, struct buf *ret, struct err *e);
/* 32 hexadecimal characters that only this daemon can tell from the texts, always the same for the same. */
void vault_derive(const struct vault *v, struct str text, char ret[33]);

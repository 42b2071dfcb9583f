/* secrets_impl.h - what secrets.c and secrets_box.c share. */
#pragma once

#include "daemon/daemon.h"
#include "daemon/network/secrets.h"
#include "daemon/network/vault.h"

struct known_secret {
	char name[SECRET_NAME_MAX + 1];
	char *about;  /* JSON object: hosts, in, env, header, aws; without `in`: anywhere in the head */
	char *sealed; /* of {"value": …, "sessionToken": …} */
	int64_t created_ms, used_ms, written_ms;
};

struct secrets {
	struct vault *vault;
	struct map map; /* name → struct known_secret */
};

struct known_secret *secrets_get(const struct daemon *d, struct str name);

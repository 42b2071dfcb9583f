#include "daemon/network/vault.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "test.h"

TEST(sealed_texts_open_with_the_same_key_and_name_only)
{
	char dir[] = "/tmp/atoll-vault-XXXXXX", path[64];
	struct vault *v = NULL, *again = NULL;
	struct stat st = {0};
	struct err e;
	auto_buf struct buf sealed = {0}, other = {0}, out = {0};
	CHECK(mkdtemp(dir) && vault_open(dir, &v, &e) == 0 && vault_open(dir, &again, &e) == 0);
	snprintf(path, sizeof path, "%s/secrets.key", dir);
	CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600 && st.st_size == VAULT_KEY);
	CHECK(vault_seal(v, "a", STR("value"), &sealed, &e) == 0 && vault_seal(v, "a", STR("value"), &other, &e) == 0);
	CHECK(!str_eq(buf_str(&sealed), buf_str(&other)));
	CHECK(vault_unseal(again, "a", buf_str(&sealed), &out, &e) == 0);
	CHECK_CSTR(buf_cstr(&out), "value");
	CHECK(vault_unseal(v, "b", buf_str(&sealed), &out, &e) < 0 && !strstr(e.msg, "value"));
	CHECK(vault_unseal(v, "a", STR("AAAA"), &out, &e) < 0 && vault_unseal(v, "a", STR("%"), &out, &e) < 0);
	sealed.p[sealed.off + 20] ^= 1;
	CHECK(vault_unseal(v, "a", buf_str(&sealed), &out, &e) < 0);
	char one[33], two[33];
	vault_derive(v, STR("x"), one);
	vault_derive(again, STR("x"), two);
	CHECK_CSTR(one, two);
	vault_derive(v, STR("y"), two);
	CHECK(strcmp(one, two) != 0);
	CHECK(truncate(path, 5) == 0 && vault_open(dir, &again, &e) < 0 && strstr(e.msg, "not a key"));
	unlink(path);
	rmdir(dir);
	free(v); /* a daemon keeps it for good */
	free(again);
}

TEST_MAIN()

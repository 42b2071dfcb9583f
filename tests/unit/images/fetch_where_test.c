#include "images/fetch.h"
#include "test.h"

static struct places places;

static const char *where(const char *ref, const char *conf)
{
	static char text[4096];
	struct err e;
	size_t n = 0;
	if (places_find(str_of(ref), str_of(conf), &places, &e) < 0) {
		snprintf(text, sizeof text, "%s", e.msg);
		return text;
	}
	*text = 0;
	for (size_t i = 0; i < places.n; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%s/%s%s", i ? " " : "", places.v[i].host,
			places.v[i].repo, places.v[i].insecure ? "!" : "");
	return text;
}

TEST(references_name_a_host_and_a_version)
{
	CHECK_CSTR(where("alpine", ""), "registry-1.docker.io/library/alpine");
	CHECK_CSTR(places.version, "latest");
	CHECK_CSTR(where("docker.io/team/app:2", ""), "registry-1.docker.io/team/app");
	CHECK_CSTR(places.version, "2");
	CHECK_CSTR(where("docker.io/alpine", ""), "registry-1.docker.io/library/alpine");
	CHECK_CSTR(where("r.example:5000/a/b:1@sha256:12", ""), "r.example:5000/a/b");
	CHECK_CSTR(places.version, "sha256:12");
	CHECK_CSTR(where("r.example/a@sha256-12", ""), "r.example/a");
	CHECK_CSTR(places.version, "sha256:12");
	CHECK_CSTR(where("r.example/a:sha256-12", ""), "r.example/a");
	CHECK_CSTR(places.version, "sha256-12");
	CHECK_CSTR(where("localhost/x", ""), "localhost/x!");
	CHECK_CSTR(where("127.0.0.1:5000/x", ""), "127.0.0.1:5000/x!");
	CHECK_CSTR(where("127.1.2.3/x", ""), "127.1.2.3/x!");
	CHECK_CSTR(where("[::1]:5000/x", ""), "[::1]:5000/x!");
	CHECK_CSTR(where("127.evil.example/x", ""), "127.evil.example/x");
	CHECK_CSTR(where("127.0.0.1.evil.example:5000/x", ""), "127.0.0.1.evil.example:5000/x");
	CHECK_CSTR(where("localhost.evil.example/x", ""), "localhost.evil.example/x");
}

TEST(mirrors_come_first_and_the_longest_prefix_counts)
{
	static const char conf[] =
		"unqualified-search-registries = [\"docker.io\"]\n"
		"[[registry]]\nlocation = \"far.example\"\n"
		"[[registry]]\nprefix = \"far.example/team\" # ours\nlocation = \"other.example/t\"\ninsecure = true\n"
		"[[registry.mirror]]\nlocation = \"near.example/m\"\n"
		"[[registry.mirror]]\nlocation = 'local.example'\ninsecure = true\n"
		"[[registry]]\nprefix = \"*.evil.example\"\nlocation = \"x\"\nblocked = true\n";
	CHECK_CSTR(where("far.example/team/app:1", conf), "near.example/m/app local.example/app! other.example/t/app!");
	CHECK_CSTR(where("far.example/teams/app:1", conf), "far.example/teams/app");
	CHECK(strstr(where("a.evil.example/x", conf), "blocks this registry"));
	CHECK_CSTR(where("near.example/app", conf), "near.example/app");
	CHECK(strstr(where("far.example/team/app", "[[registry]]\nprefix = \"far.example\"\nlocation = \"u@h\"\n"),
		"a registry's name has"));
}

static const char *secret(const char *config, const char *ref)
{
	static struct buf pair, token;
	buf_clear(&pair);
	buf_clear(&token);
	auto_json struct json_doc *doc = json_parse(str_of(config), NULL);
	where(ref, "");
	return place_credentials(json_root(doc), &places.v[0], &pair, &token) ? buf_cstr(&pair) : "none";
}

TEST(credentials_belong_to_a_host)
{
	static const char config[] =
		"{\"auths\": {\"r.example:5000\": {\"auth\": \"YTpiOmM=\"}, \"r.example:5000/team\": {\"username\": "
		"\"u\", \"password\": "
		"\"p\"}, \"https://index.docker.io/v1/\": {\"auth\": \"ZDpk\"}, \"bad.example\": {\"auth\": \"%%%\"}}}";
	CHECK_CSTR(secret(config, "r.example:5000/x"), "a:b:c");
	CHECK_CSTR(secret(config, "r.example:5000/team/x"), "u:p");
	CHECK_CSTR(secret(config, "r.example:5000/teams/x"), "a:b:c");
	CHECK_CSTR(secret(config, "r.example:50001/x"), "none");
	CHECK_CSTR(secret("{\"auths\": {\"r.example\": {\"auth\": \"YTpi\"}}}", "r.example/x"), "a:b");
	CHECK_CSTR(secret("{\"auths\": {\"r.example\": {\"auth\": \"YTpi\"}}}", "r.example:5000/x"), "none");
	CHECK_CSTR(secret(config, "evil-r.example:5000/x"), "none");
	CHECK_CSTR(secret(config, "alpine"), "d:d");
	CHECK_CSTR(secret(config, "bad.example/x"), "none");
}

TEST_MAIN()

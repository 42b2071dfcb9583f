/*
 * rights.c - refuses containers that ask for more rights than a box has: to ignore the wish would be a promise.
 *
 * workerd sends two such wishes with every container, which nothing depends on here: NET_ADMIN for the sidecar, which
 * is the daemon itself, and PidMode "host" for projects with a compatibility date before 2026-04-01.
 */
#include "base/json.h"
#include "doors/docker/docker.h"

static bool is_empty(const struct json *v)
{
	return json_is_null(v) || (v->type == JSON_T_ARRAY && !v->first);
}

static bool only_net_admin(const struct json *list)
{
	if (list->type != JSON_T_ARRAY)
		return false;
	json_each(it, list)
	{
		if (it->type != JSON_T_STRING ||
			(!str_eq_c(it->text, "NET_ADMIN") && !str_eq_c(it->text, "CAP_NET_ADMIN")))
			return false;
	}
	return true;
}

static bool is_word(const struct json *v, const char *word)
{
	return v->type == JSON_T_STRING && str_eq_c(v->text, word);
}

static int refuse(struct err *e, const char *name)
{
	return err_set(e, ERRC_VALIDATION_FAILED,
		"HostConfig.%s is not supported: a container has the rights of a sandbox", name);
}

int docker_rights_check(const struct json *root, bool sidecar, struct err *e)
{
	static const char *const lists[] = {"Devices", "DeviceRequests", "DeviceCgroupRules", "SecurityOpt"};
	const struct json *host = json_get(root, "HostConfig"), *privileged = json_get(host, "Privileged");
	const struct json *caps = json_get(host, "CapAdd"), *pid = json_get(host, "PidMode");
	if (!json_is_null(privileged) && !(privileged->type == JSON_T_BOOL && !privileged->boolean))
		return refuse(e, "Privileged");
	if (!is_empty(caps) && !(sidecar && only_net_admin(caps)))
		return refuse(e, "CapAdd");
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		if (!is_empty(json_get(host, lists[i])))
			return refuse(e, lists[i]);
	if (!json_is_null(pid) && !is_word(pid, "") && !is_word(pid, "private") && !is_word(pid, "host"))
		return refuse(e, "PidMode");
	return 0;
}

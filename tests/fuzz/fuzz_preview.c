/*
 * Names of previews: what is accepted has a number, an id and a token that their own checks accept, and spells the
 * name again; and no name is both a preview and one that the daemon answers for itself.
 */
#include <ctype.h>

#include "daemon/config.h"
#include "daemon/pass/preview.h"
#include "daemon/ports/hosts.h"
#include "daemon/ports/ports.h"
#include "fuzz.h"
#include "proto/id.h"

static void check_label(struct str label)
{
	struct preview_name name;
	auto_buf struct buf again = {0}, low = {0};
	if (!preview_parse(label, &name))
		return;
	MUST(box_id_check(str_of(name.id), NULL) == 0);
	MUST(port_check_token(str_of(name.token), NULL) == 0);
	MUST(port_check_number(name.port, NULL) == 0);
	buf_printf(&again, "%u-%s-%s", name.port, name.id, name.token);
	for (size_t i = 0; i < label.n; i++)
		buf_add_byte(&low, (char)tolower((unsigned char)label.p[i]));
	must_agree("name and spelling", buf_str(&low), buf_str(&again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct config config;
	struct str host = str_n(data, size), label;
	if (!config.preview_domain[0])
		config_listening(&config, "127.0.0.1:8700");
	bool preview = host_is_preview(&config, host, &label);
	MUST(!preview || !host_allowed(&config, host));
	check_label(preview ? label : host);
	return 0;
}

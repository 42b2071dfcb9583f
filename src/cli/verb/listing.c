#include "cli/verb/listing.h"

#include "cli/api.h"

void listing_print(const struct listing *l, const struct json *answer)
{
	struct table t = {.columns = l->columns, .heads = l->heads};
	json_each(it, json_get(answer, l->key)) l->add_row(&t, it);
	table_print(&t, l->empty);
	table_free(&t);
	if (l->foot)
		l->foot(answer);
}

int listing_ask(struct cli *c, const char *path, const struct listing *l, struct err *e)
{
	auto_json struct json_doc *d = api_once(c, "GET", path, STR(""), e);
	if (!d)
		return -1;
	if (!c->json)
		listing_print(l, json_root(d));
	return 0;
}

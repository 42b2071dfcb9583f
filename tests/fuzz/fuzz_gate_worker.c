/* What atolld tells of workerd: any JSON is a worker, none, or refused with a reason; and its names are asked for. */
#include "base/json.h"
#include "fuzz.h"
#include "gate/worker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest, text = str_split(str_n(data, size), '\n', &rest);
	struct err e = {0};
	struct json_doc *doc = json_parse(text, &e);
	struct worker *w = NULL;
	if (!doc)
		return 0;
	if (worker_read(json_root(doc), &w, &e) < 0)
		MUST(!w && e.msg[0]);
	else
		MUST(!w || w->port > 0);
	char *name = str_dup(rest);
	bool known = worker_names(w, name);
	MUST(w || !known);
	free(name);
	worker_free(w);
	json_free(doc);
	return 0;
}

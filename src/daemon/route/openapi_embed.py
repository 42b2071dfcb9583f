"""Turns api/openapi.yaml into a C file with its JSON text: openapi_embed.py IN OUT."""
import json
import sys

import yaml

with open(sys.argv[1], encoding="utf-8") as f:
    text = json.dumps(yaml.safe_load(f), separators=(",", ":"), ensure_ascii=True)
lines = [text[i:i + 2000] for i in range(0, len(text), 2000)]
quoted = "\n".join("\t" + json.dumps(line) for line in lines)
with open(sys.argv[2], "w", encoding="ascii") as f:
    f.write('#include "daemon/route/openapi.h"\n\nconst char openapi_json[] =\n' + quoted + ";\n")
    f.write("const size_t openapi_json_len = sizeof openapi_json - 1;\n")

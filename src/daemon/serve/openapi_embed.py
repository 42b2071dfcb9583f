"""Turns api/openapi.yaml, or another contract, into a C file with its JSON text: openapi_embed.py IN OUT [NAME]."""
import json
import sys

import yaml

with open(sys.argv[1], encoding="utf-8") as f:
    text = json.dumps(yaml.safe_load(f), separators=(",", ":"), ensure_ascii=True)
lines = [text[i:i + 2000] for i in range(0, len(text), 2000)]
quoted = "\n".join("\t" + json.dumps(line) for line in lines)
name = sys.argv[3] if len(sys.argv) > 3 else "openapi_json"
with open(sys.argv[2], "w", encoding="ascii") as f:
    f.write('#include "daemon/serve/openapi.h"\n\nconst char ' + name + '[] =\n' + quoted + ";\n")
    f.write(f"const size_t {name}_len = sizeof {name} - 1;\n")

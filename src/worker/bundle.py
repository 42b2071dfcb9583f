"""Joins the interpreter workers into one text each.

    bundle.py OUT_PYTHON OUT_NODE python/*.py … node/worker.cjs [node/OTHER …]

What the texts look like from the inside is in docs/design/008-interpreter.md.
"""
import os
import sys

PYTHON_HEAD = '''\
import importlib.abc, importlib.util, sys
class _Loader(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports the package atoll_worker from memory."""
    def find_spec(self, name, path=None, target=None):
        if name in _SOURCES:
            spec = importlib.util.spec_from_loader(name, self, origin=_FILES[name], is_package=name == "atoll_worker")
            spec.has_location = True
            return spec
    def get_source(self, name):
        return _SOURCES[name]
    def get_filename(self, name):
        return _FILES[name]
    def is_package(self, name):
        return name == "atoll_worker"
    def get_code(self, name):
        return compile(_SOURCES[name], _FILES[name], "exec", dont_inherit=True)
    def exec_module(self, module):
        exec(self.get_code(module.__name__), module.__dict__)
'''


def python_text(paths):
    sources = {"atoll_worker": ""}
    files = {"atoll_worker": "<atoll_worker/__init__.py>"}
    for path in paths:
        stem = os.path.basename(path)[:-3]
        name = "atoll_worker" if stem == "__init__" else "atoll_worker." + stem
        with open(path, encoding="utf-8") as f:
            sources[name] = f.read()
        files[name] = f"<atoll_worker/{stem}.py>"
    lines = [PYTHON_HEAD, "_SOURCES = {"]
    lines += [f"{name!r}: {ascii(text)}," for name, text in sorted(sources.items())]
    lines += ["}", f"_FILES = {files!r}", "sys.meta_path.insert(0, _Loader())", ""]
    return "\n".join(lines)


NODE_HEAD = """\
'use strict';
const files = { __proto__: null };
const loaded = { __proto__: null };
function load(name) {
	if (!(name in files)) return require(name);
	if (!(name in loaded)) {
		loaded[name] = { exports: {} };
		files[name](loaded[name], load);
	}
	return loaded[name].exports;
}
"""


def node_text(paths):
    """CommonJS modules in one text: each a function, which V8 compiles when it is first called."""
    parts = [NODE_HEAD]
    for path in sorted(paths):
        with open(path, encoding="utf-8") as f:
            parts.append(f"files['./{os.path.basename(path)}'] = (module, require) => {{\n{f.read()}}};\n")
    return "".join(parts) + "load('./worker.cjs');\n"


def main(out_python, out_node, *inputs):
    texts = {
        out_python: python_text(sorted(p for p in inputs if p.endswith(".py"))),
        out_node: node_text([p for p in inputs if not p.endswith(".py")]),
    }
    for path, text in texts.items():
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


main(*sys.argv[1:])

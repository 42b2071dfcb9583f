// TypeScript → JavaScript with Node's own compiler (module.stripTypeScriptTypes). Types are blanked out where they stand, so lines and
// columns stay; only syntax with a meaning at run time (enums, namespaces, parameter properties) needs the second mode, which
// moves lines and gives a source map. Numbers: docs/design/009-js-worker.md.
'use strict';

const Module = require('node:module');
const { quietly } = require('./safe.cjs');

const strip = Module.stripTypeScriptTypes;

/** A SyntaxError with the place that the compiler names only in the text in front of the stack. */
function placed(error) {
	const [head = '', ...rest] = `${error.stack}`.split('\n');
	const line = /^[^\s]*:(\d+)$/.exec(head);
	const caret = rest.findIndex((text) => /^\s*\^+\s*$/.test(text));
	const out = new SyntaxError(error.message);
	out.place = line ? { line: Number(line[1]), column: caret < 0 ? 1 : rest[caret].indexOf('^') + 1 } : undefined;
	return out;
}

// An enum that is declared again in a later run starts anew, and does not get in the way of another kind of declaration.
const freshEnums = (code) => code
	.replace(/^(?:export )?var (\w+) = (?=\/\*#__PURE__\*\/ function\(\1\) \{$)/gm, 'let $1 = ')
	.replace(/^\}\((\w+) \|\| \{\}\);$/gm, '}({});');

/** @returns {{code: string, map?: Module.SourceMap}} */
function transpile(source) {
	try {
		return { code: strip(source, { mode: 'strip' }) };
	} catch (error) {
		if (error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw placed(error);
	}
	let text;
	try {
		text = strip(source, { mode: 'transform', sourceMap: true });
	} catch (error) {
		throw placed(error);
	}
	const at = text.lastIndexOf('\n//# sourceMappingURL=');
	const payload = Buffer.from(text.slice(text.indexOf(',', at) + 1), 'base64').toString();
	return { code: freshEnums(text.slice(0, at)), map: new Module.SourceMap(JSON.parse(payload)) };
}

let isWarm = false;

/** Loads the compiler: the first use takes 40 ms, all later ones well under one. */
function warm() {
	if (isWarm || typeof strip !== 'function') return;
	isWarm = true;
	quietly(() => {
		transpile('let a: number = 1');
		transpile('enum A { B }');
	});
}

module.exports = { transpile, warm, available: typeof strip === 'function' };

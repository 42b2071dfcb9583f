// Syntax that V8's REPL mode does not know: module syntax in a cell, and a name that changes its kind from one run to the
// next (`function f` and then `const f`). Rewriting keeps every line where it is, so that errors point to the user's own lines.
'use strict';

const { scan, closing } = require('./scan.cjs');

/** Name of the global function that stands for `import(…)`; also `import.meta` as a property of it. */
const IMPORT = '__import__';

const lines = (text) => '\n'.repeat(text.split('\n').length - 1);

/** Puts edits `{start, end, text}` into `code`, keeping its line breaks and, where the new text is shorter, its columns. */
function apply(code, edits) {
	let out = '';
	let at = 0;
	for (const { start, end, text } of edits) {
		const old = code.slice(start, end);
		out += code.slice(at, start) + (old.includes('\n') ? text + lines(old) : text.padEnd(old.length));
		at = end;
	}
	return out + code.slice(at);
}

/** `{ a, b as c, default as d }` → the names that must be there, and the pattern that takes them. */
function named(tokens) {
	const names = [];
	const pattern = [];
	for (let i = 0; i < tokens.length; i++) {
		if (tokens[i].text === ',') continue;
		const name = tokens[i].kind === 'string' ? tokens[i].text : JSON.stringify(tokens[i].text);
		const as = tokens[i + 1]?.text === 'as' ? tokens[(i += 2)]?.text : tokens[i].text;
		names.push(name);
		pattern.push(`${name}: ${as}`);
	}
	return { names, pattern };
}

/** The tokens between `import` and `from`, as declarations. */
function clause(tokens, call) {
	let names = [];
	let pattern = [];
	let space = '';
	for (let i = 0; i < tokens.length; i++) {
		const { text } = tokens[i];
		if (text === '*') space = tokens[(i += 2)]?.text ?? '';
		else if (text === '{') {
			const end = closing(tokens, i);
			const more = named(tokens.slice(i + 1, end));
			names = names.concat(more.names);
			pattern = pattern.concat(more.pattern);
			i = end;
		} else if (text !== ',') {
			names.push('"default"');
			pattern.push(`default: ${text}`);
		}
	}
	const value = `await ${call(names)}`;
	if (!space) return `let {${pattern.join(', ')}} = ${value};`;
	return `let ${space} = ${value}${pattern.length ? `, {${pattern.join(', ')}} = ${space}` : ''};`;
}

/** An `import` declaration at tokens[i]: the edit for it and the index behind it; null when it is none. */
function importDeclaration(tokens, i) {
	let from = i + 1;
	while (from < tokens.length && tokens[from].kind !== 'string') from++;
	const source = tokens[from];
	if (!source || source.depth !== 0) return null;
	const bare = from === i + 1;
	if (!bare && tokens[from - 1].text !== 'from') return null;
	let end = from;
	let options = 'undefined';
	if (/^(with|assert)$/.test(tokens[end + 1]?.text) && tokens[end + 2]?.text === '{') {
		const close = closing(tokens, end + 2);
		options = `{with: {${tokens.slice(end + 3, close).map((t) => t.text).join('')}}}`;
		end = close;
	}
	if (tokens[end + 1]?.text === ';') end++;
	const call = (names) => `${IMPORT}(${source.text}, ${options}, [${names.join(', ')}])`;
	const text = bare ? `void await ${call([])};` : clause(tokens.slice(i + 1, from - 1), call);
	return { edit: { start: tokens[i].start, end: tokens[end].end, text }, next: end };
}

/** An `export` at tokens[i]: only its words go away; the exported declaration stays as a plain one. */
function exportDeclaration(tokens, i) {
	const { start } = tokens[i];
	const next = tokens[i + 1]?.text;
	if (next === 'default') {
		const declares = /^(class|function|async)$/.test(tokens[i + 2]?.text) && tokens[i + 3]?.kind === 'word';
		return { edit: { start, end: tokens[i + 1].end, text: declares ? '' : '0, ' }, next: i + 1 };
	}
	if (next !== '{' && next !== '*') return { edit: { start, end: tokens[i].end, text: '' }, next: i };
	let end = next === '{' ? closing(tokens, i + 1) : i + 1;
	while (next === '*' && end + 1 < tokens.length && tokens[end].kind !== 'string') end++;
	if (tokens[end + 1]?.text === 'from') end += 2;
	if (tokens[end + 1]?.text === ';') end++;
	return { edit: { start, end: tokens[end].end, text: ';' }, next: end };
}

/** `import(…) {` in a class or an object is a method of that name. */
const isMethod = (tokens, i) => tokens[i].depth > 0 && tokens[i + 1].text === '(' && tokens[closing(tokens, i + 1) + 1]?.text === '{';

/**
 * Module syntax → script syntax: `import` declarations become `let … = await`, `import(…)` a call. And `const` at the top
 * level becomes `let`: V8 never lets a `const` become anything else in a later run.
 */
function prepare(code) {
	if (!/\b(?:import|export|const)\b/.test(code)) return code;
	const tokens = scan(code);
	const edits = [];
	for (let i = 0; i < tokens.length; i++) {
		const { kind, text, start, end, depth } = tokens[i];
		if (kind !== 'word' || tokens[i - 1]?.text === '.') continue;
		const next = tokens[i + 1]?.text;
		let found = null;
		if (text === 'import' && (next === '(' || next === '.')) {
			if (!isMethod(tokens, i)) edits.push({ start, end, text: IMPORT });
		} else if (text === 'import' && depth === 0 && next !== ':') found = importDeclaration(tokens, i);
		else if (text === 'const' && depth === 0 && next !== ':') edits.push({ start, end, text: 'let' });
		else if (text === 'export' && depth === 0 && next !== ':') found = exportDeclaration(tokens, i);
		if (found) {
			edits.push(found.edit);
			i = found.next;
		}
	}
	return apply(code, edits);
}

/** The edit that lets the declaration at tokens[i] stand beside the earlier declaration of `name`; null when it does not declare it. */
function redeclaration(tokens, i, name, isProperty) {
	const { text, start, end } = tokens[i];
	const declares = (at) => tokens[at]?.text === name;
	if (text === 'class' && declares(i + 1)) return isProperty ? { start, end, text: `var ${name} = class` } : null;
	if (text === 'function' && !isProperty) {
		const at = tokens[i + 1]?.text === '*' ? i + 2 : i + 1;
		const begin = tokens[i - 1]?.text === 'async' ? tokens[i - 1].start : start;
		return declares(at) ? { start: begin, end: begin, text: `let ${name} = ` } : null;
	}
	if (text === 'var' && !isProperty) return { start, end, text: 'let' };
	if (text === 'let' && isProperty) {
		for (let at = i + 1; at < tokens.length && !(tokens[at].depth === 0 && /^[=;]$/.test(tokens[at].text)); at++) {
			if (declares(at)) return { start, end, text: 'var' };
		}
	}
	return null;
}

/**
 * The cell with its top-level declaration of `name` changed so that V8 takes it, or null when there is none to change.
 * @param {boolean} isProperty  the older `name` is a `var` or `function` (a property of the global object that cannot be
 *   deleted): the new one becomes a `var` too. Else it is `let` or `class`, which REPL mode lets be declared again.
 */
function redeclare(code, name, isProperty) {
	const tokens = scan(code);
	for (let i = 0; i < tokens.length; i++) {
		if (tokens[i].kind !== 'word' || tokens[i].depth !== 0) continue;
		const edit = redeclaration(tokens, i, name, isProperty);
		if (edit === null) continue;
		const edits = [edit];
		if (edit.text.startsWith('let ') && edit.start === edit.end) {
			let body = i;
			while (body < tokens.length && !(tokens[body].text === '{' && tokens[body].depth === 0)) body++;
			const { end } = tokens[closing(tokens, body)] ?? tokens.at(-1);
			edits.push({ start: end, end, text: ';' });
		}
		return apply(code, edits);
	}
	return null;
}

module.exports = { prepare, redeclare, IMPORT };

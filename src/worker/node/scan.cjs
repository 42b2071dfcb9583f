// Tokens of JavaScript, as far as rewriting a cell needs them: where words, strings, brackets and the rest begin and end and
// how deep in brackets they are. It accepts everything; V8 reports errors in the code.
'use strict';

// After these a slash begins a regular expression; after any other word or a closing bracket it divides.
const BEFORE_REGEX = new Set(['return', 'typeof', 'case', 'in', 'of', 'delete', 'void', 'throw', 'new', 'instanceof', 'do', 'else',
	'yield', 'await']);
const WORD = /[\p{ID_Start}$_#\\][\p{ID_Continue}$\u200c\u200d\\]*/uy;
const NUMBER = /\.?\d(?:[eE][+-]|[\w.])*/y;
const SPACE = /\s+/y;
const REGEX = /\/(?:[^\\/[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[\w$]*/y;
const STRING = /"(?:[^"\\\n]|\\[^])*"?|'(?:[^'\\\n]|\\[^])*'?/y;

function match(pattern, code, at) {
	pattern.lastIndex = at;
	const found = pattern.exec(code);
	return found === null ? at : at + found[0].length;
}

function endOfComment(code, at) {
	const end = code[at + 1] === '/' ? code.indexOf('\n', at) : code.indexOf('*/', at + 2) + 2;
	return end < at + 2 ? code.length : end;
}

/** End of the text part of a template that begins or goes on at `at`: behind its "`" or its "${". */
function endOfTemplate(code, at) {
	for (let i = at; i < code.length; i++) {
		if (code[i] === '\\') i++;
		else if (code[i] === '`') return i + 1;
		else if (code[i] === '$' && code[i + 1] === '{') return i + 2;
	}
	return code.length;
}

/** May a slash behind this token begin a regular expression? */
function regexMayFollow(token) {
	if (!token) return true;
	if (token.kind === 'word') return BEFORE_REGEX.has(token.text);
	return token.kind === 'punct' && token.text !== ')' && token.text !== ']';
}

/**
 * @param {string} code
 * @returns {{kind: 'word'|'number'|'string'|'template'|'regex'|'punct', text: string, start: number, end: number, depth: number}[]}
 *   `depth` counts the brackets around a token; both brackets of a pair have the depth outside.
 */
function scan(code) {
	const tokens = [];
	const open = []; // '(', '[', '{', or '`' for the "${" of a template
	let at = code.startsWith('#!') ? match(/.*/y, code, 0) : 0;

	function push(kind, end, depth = open.length) {
		tokens.push({ kind, text: code.slice(at, end), start: at, end, depth });
		at = end;
	}
	function template(from) {
		const end = endOfTemplate(code, from);
		push('template', end);
		if (code[end - 1] === '{') open.push('`');
	}

	while (at < code.length) {
		const c = code[at];
		const space = match(SPACE, code, at);
		if (space > at) at = space;
		else if (c === '/' && (code[at + 1] === '/' || code[at + 1] === '*')) at = endOfComment(code, at);
		else if (c === '"' || c === "'") push('string', match(STRING, code, at));
		else if (c === '`') template(at + 1);
		else if (c === '}' && open.at(-1) === '`') open.pop(), template(at + 1);
		else if (match(NUMBER, code, at) > at) push('number', match(NUMBER, code, at));
		else if (match(WORD, code, at) > at) push('word', match(WORD, code, at));
		else if (c === '/' && regexMayFollow(tokens.at(-1)) && match(REGEX, code, at) > at) push('regex', match(REGEX, code, at));
		else if (c === '(' || c === '[' || c === '{') push('punct', at + 1), open.push(c);
		else if (c === ')' || c === ']' || c === '}') open.pop(), push('punct', at + 1);
		else if (code.startsWith('=>', at)) push('punct', at + 2);
		else push('punct', at + 1);
	}
	return tokens;
}

/** Index of the bracket that closes the bracket at `index`. */
function closing(tokens, index) {
	for (let i = index + 1; i < tokens.length; i++) {
		if (tokens[i].depth === tokens[index].depth && /^[)\]}]$/.test(tokens[i].text)) return i;
	}
	return tokens.length - 1;
}

module.exports = { scan, closing };

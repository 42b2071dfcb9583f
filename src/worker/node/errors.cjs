// Errors as the client gets them: name, message, a traceback without the worker's own frames, and the line of the cell.
'use strict';

const safe = require('./safe.cjs');
const { inspected } = require('./show.cjs');
const { clean } = require('./stack.cjs');

// In characters, each of which may take six bytes: together well under the megabyte that the agent takes.
const EVALUE_MAX = 32 << 10;
const LINE_MAX = 4 << 10;
const LINES_MAX = 200;
const TRACEBACK_MAX = 64 << 10;

const shorten = (text, max) => (text.length <= max ? text : `${text.slice(0, max)} … ${text.length - max} more characters`);

function get(value, name) {
	try {
		return value[name];
	} catch {
		return undefined;
	}
}

const isError = (value) => typeof value === 'object' && value !== null && typeof get(value, 'stack') === 'string';

/** The line of this cell that the error came through first. */
function lineOf(stack, cell) {
	const found = new RegExp(`\\b${cell.replace('.', '\\.')}:(\\d+):`).exec(stack);
	return found ? Number(found[1]) : undefined;
}

/** The end of the source, for an error of something missing there: behind it is a line of ours. */
function inside(source, place) {
	const lines = source.split('\n');
	return place.line <= lines.length ? place : { line: lines.length, column: lines.at(-1).length + 1 };
}

/** The line of the source with a mark under the place, as Node prints it. */
function excerpt(cell, source, place) {
	const text = source.split('\n')[place.line - 1];
	const from = Math.max(0, place.column - 100);
	const shown = text.slice(from, from + 160);
	const pad = shown.slice(0, Math.max(0, place.column - 1 - from)).replace(/[^\t]/g, ' ');
	return [`${cell}:${place.line}`, shown, `${pad}^`, ''];
}

/** The stack of a syntax error is the worker's alone: only its message counts. */
const firstLine = (text) => text.split('\n    at ')[0];

/**
 * @param {unknown} error  the thrown value
 * @param {{cell: string, source: string, place?: {line: number, column: number}}} at  `place`: of a syntax error
 * @returns {string} the payload of an X frame
 */
function report(error, { cell, source, place: where }) {
	const place = where && inside(source, where);
	const known = isError(error);
	const name = known ? `${get(error, 'name') ?? 'Error'}` : 'Uncaught';
	const message = known ? `${get(error, 'message') ?? ''}` : inspected(error);
	const shown = clean(inspected(error));
	let lines = (place ? firstLine(shown) : shown).split('\n');
	let line = place?.line;
	if (known && line === undefined) line = lineOf(clean(`${get(error, 'stack')}`), cell);
	if (place) lines = excerpt(cell, source, place).concat(lines);
	return payload(name, message, lines, line);
}

/** The first lines, as many as there is room for. */
function bounded(lines) {
	const out = [];
	let room = TRACEBACK_MAX;
	for (let i = 0; i < lines.length && room >= 0; i++) {
		if (i === LINES_MAX || (room < LINE_MAX && lines[i].length > room)) {
			out[i] = `… ${lines.length - i} more lines`;
			break;
		}
		out[i] = shorten(lines[i], LINE_MAX);
		room -= out[i].length;
	}
	return out;
}

/** @param {string[]} traceback */
function payload(name, message, traceback, line) {
	return `{"type":"error","ename":${safe.quote(shorten(name, 256))},"evalue":${safe.quote(shorten(message, EVALUE_MAX))},` +
		`"traceback":${safe.quoteAll(bounded(traceback))}${line === undefined ? '' : `,"lineNumber":${line}`}}`;
}

module.exports = { report, payload };

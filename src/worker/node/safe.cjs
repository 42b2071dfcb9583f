// The functions of JavaScript and Node that the worker needs, taken before any code of the user runs. User code shares this process and
// may replace any function (Array.prototype.push, JSON, fs.writeSync, process.stdout); the worker must go on
// telling the truth to the agent. So everything on the way of a frame is called through these.
'use strict';

const fs = require('node:fs');

const { call } = Function.prototype;
const uncurry = (fn) => call.bind(fn);

const parse = JSON.parse;
const stringify = JSON.stringify;
const { writeSync, readSync } = fs;
const { wait, store, load, notify, add } = Atomics;
const { allocUnsafe, byteLength } = Buffer;

const charCodeAt = uncurry(String.prototype.charCodeAt);
const latin1Slice = uncurry(Buffer.prototype.latin1Slice);
const latin1Write = uncurry(Buffer.prototype.latin1Write);
const writeUInt32LE = uncurry(Buffer.prototype.writeUInt32LE);
const readUInt32LE = uncurry(Buffer.prototype.readUInt32LE);
const utf8Slice = uncurry(Buffer.prototype.utf8Slice);
const copy = uncurry(Buffer.prototype.copy);

const PIECE = 8192;
const scratch = Buffer.allocUnsafe(PIECE * 6);
const HEX = Buffer.from('0123456789abcdef');

/** Up to PIECE characters of `text` from `from`, with all but ASCII as \uXXXX. */
function escaped(text, from) {
	let at = 0;
	const end = from + PIECE < text.length ? from + PIECE : text.length;
	for (let i = from; i < end; i++) {
		const code = charCodeAt(text, i);
		if (code < 0x80) {
			scratch[at++] = code;
			continue;
		}
		scratch[at++] = 0x5c;
		scratch[at++] = 0x75;
		for (let shift = 12; shift >= 0; shift -= 4) scratch[at++] = HEX[(code >> shift) & 15];
	}
	return latin1Slice(scratch, 0, at);
}

/** JSON text in ASCII: the agent may cut it anywhere. `text` is JSON already. */
function ascii(text) {
	if (byteLength(text) === text.length) return text;
	let out = '';
	for (let from = 0; from < text.length; from += PIECE) out += escaped(text, from);
	return out;
}

/** A string as JSON. `toJSON` is never asked for primitives, so nothing of the user's runs here. */
const quote = (text) => ascii(stringify(`${text}`));

/** @param {string[]} list  JSON of an array of strings, without Array.prototype. */
function quoteAll(list) {
	let out = '';
	for (let i = 0; i < list.length; i++) out += (i ? ',' : '') + quote(list[i]);
	return `[${out}]`;
}

const sleeper = new Int32Array(new SharedArrayBuffer(4));

/** Blocks this thread; nothing else of Node waits without running other code meanwhile. */
const sleep = (ms) => wait(sleeper, 0, 0, ms);

/** Runs something of Node's without its notice that it is experimental. */
function quietly(run) {
	const { emitWarning } = process;
	process.emitWarning = () => {};
	try {
		return run();
	} finally {
		process.emitWarning = emitWarning;
	}
}

module.exports = {
	parse, stringify, writeSync, readSync, allocUnsafe, latin1Write, writeUInt32LE, readUInt32LE, utf8Slice, copy,
	ascii, quote, quoteAll, sleep, store, load, notify, wait, add, uncurry, quietly,
};

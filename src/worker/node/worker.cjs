'use strict';
// The Node worker: runs code for one context. Protocol: docs/design/008-interpreter.md.
const fs = require('fs');
const vm = require('vm');
const util = require('util');

const FD = 3;
let pending = Buffer.alloc(0);

function readExact(n) {
	while (pending.length < n) {
		const piece = Buffer.alloc(65536);
		const got = fs.readSync(FD, piece);
		if (got === 0) process.reallyExit(0);
		pending = Buffer.concat([pending, piece.subarray(0, got)]);
	}
	const out = pending.subarray(0, n);
	pending = pending.subarray(n);
	return out;
}

function readFrame() {
	const length = readExact(4).readUInt32LE(0);
	const body = readExact(length);
	return [String.fromCharCode(body[0]), JSON.parse(body.subarray(1).toString())];
}

function ascii(value) {
	return JSON.stringify(value).replace(/[\u007f-\uffff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

function sendFrame(kind, payload) {
	const body = Buffer.from(kind + ascii(payload), 'latin1');
	const head = Buffer.alloc(4);
	head.writeUInt32LE(body.length, 0);
	fs.writeSync(FD, head);
	for (let at = 0; at < body.length;) at += fs.writeSync(FD, body, at);
}

const init = readFrame()[1];
process.chdir(init.cwd);
sendFrame('Y', { language: init.language, version: process.version });
for (let count = 1; ; count++) {
	const [, run] = readFrame();
	try {
		const value = vm.runInThisContext(run.code, { filename: 'cell' });
		if (value !== undefined) sendFrame('E', { type: 'result', text: util.inspect(value), metadata: {} });
	} catch (error) {
		sendFrame('X', { type: 'error', ename: error.name, evalue: error.message, traceback: String(error.stack).split('\n') });
	}
	sendFrame('D', { execution_count: count });
}

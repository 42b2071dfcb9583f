// Frames between the agent and this worker (docs/design/008-interpreter.md) over descriptor 3.
//
// The socket is read by the event loop, so that servers and timers of the user go on between runs. That makes it
// non-blocking; writes are synchronous all the same, because a result must be on its way before the code after it prints. A full
// socket is waited for in short sleeps. Sync frames (barrier) are read here too, while the loop stands still.
'use strict';

const net = require('node:net');
const safe = require('./safe.cjs');

const FD = 3;
const CHUNK = 1 << 16;

const retry = (error) => error.code === 'EAGAIN' || error.code === 'EINTR';

/** Writes all of `bytes`, however full the pipe or socket is. */
function writeAll(fd, bytes) {
	let at = 0;
	let pause = 0.05;
	while (at < bytes.length) {
		try {
			at += safe.writeSync(fd, bytes, at, bytes.length - at);
			pause = 0.05;
		} catch (error) {
			if (!retry(error)) throw error;
			safe.sleep(pause);
			if (pause < 2) pause *= 2;
		}
	}
}

/**
 * @param {(type: string, payload: object) => void} onFrame
 * @param {(run: () => any) => any} critical
 */
function open(onFrame, critical) {
	let held = safe.allocUnsafe(CHUNK);
	let size = 0;

	function take(bytes, count) {
		if (size + count > held.length) {
			const wider = safe.allocUnsafe((size + count) * 2);
			safe.copy(held, wider, 0, 0, size);
			held = wider;
		}
		safe.copy(bytes, held, size, 0, count);
		size += count;
	}

	/** The first whole frame that has come, or null. */
	function shift() {
		if (size < 5) return null;
		const end = 4 + safe.readUInt32LE(held, 0);
		if (size < end) return null;
		const type = safe.utf8Slice(held, 4, 5);
		const payload = safe.parse(safe.utf8Slice(held, 5, end));
		safe.copy(held, held, 0, end, size);
		size -= end;
		if (size === 0 && held.length > CHUNK * 16) held = safe.allocUnsafe(CHUNK);
		return { __proto__: null, type, payload };
	}

	/** Puts a frame into `bytes` at `at`. @param {string} json  the payload, ASCII */
	function put(bytes, at, type, json) {
		safe.writeUInt32LE(bytes, 1 + json.length, at);
		safe.latin1Write(bytes, type, at + 4, 1);
		safe.latin1Write(bytes, json, at + 5, json.length);
		return at + 5 + json.length;
	}

	function write(frames) {
		try {
			critical(() => writeAll(FD, frames));
		} catch {
			gone();
		}
	}

	function send(type, json) {
		const frame = safe.allocUnsafe(5 + json.length);
		put(frame, 0, type, json);
		write(frame);
	}

	/** Two frames at once: the agent wakes up once. */
	function sendBoth(type, json, type2, json2) {
		const frames = safe.allocUnsafe(10 + json.length + json2.length);
		put(frames, put(frames, 0, type, json), type2, json2);
		write(frames);
	}

	const bytes = safe.allocUnsafe(CHUNK);

	function receive() {
		const count = safe.readSync(FD, bytes, 0, CHUNK, null);
		if (count === 0) gone();
		take(bytes, count);
	}

	/** Waits until the agent has passed on all that was written and sent so far. */
	function barrier() {
		send('S', '{}');
		let pause = 0.02;
		for (;;) {
			const frame = shift();
			if (frame) {
				if (frame.type === 'S') return;
				gone();
			}
			try {
				critical(receive);
			} catch (error) {
				if (!retry(error)) gone();
				safe.sleep(pause);
				if (pause < 1) pause *= 1.5;
			}
		}
	}

	function listen() {
		const socket = new net.Socket({
			fd: FD, readable: true, writable: false,
			onread: {
				buffer: safe.allocUnsafe(CHUNK),
				callback(count, buffer) {
					take(buffer, count);
					for (let frame = shift(); frame; frame = shift()) onFrame(frame.type, frame.payload);
					return true;
				},
			},
		});
		socket.on('end', gone);
		socket.on('error', gone);
		socket.read(0);
	}

	return { send, sendBoth, barrier, listen };
}

const kill = process.kill.bind(process);

/** The agent has closed its end: the context was deleted, and the agent kills the remaining processes. */
function gone() {
	kill(process.pid, 'SIGKILL');
}

module.exports = { open, writeAll, FD };

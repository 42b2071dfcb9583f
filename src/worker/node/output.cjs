// Output of user code. process.stdout and process.stderr are streams that write at once to descriptors 1 and 2, and console
// stands on them, so order is the order of the program; a reader that is slow blocks the program, as a pipe does.
//
// Each print belongs to a run: the one whose code, or whose timers and callbacks, it comes from (AsyncLocalStorage). What
// code of an earlier run prints later is withheld from the run under way; the last of it can be read with display.late().
'use strict';

const { Writable } = require('node:stream');
const { Console } = require('node:console');
const { AsyncLocalStorage } = require('node:async_hooks');
const { writeAll } = require('./wire.cjs');
const { clean } = require('./stack.cjs');

const LATE_MAX = 64 * 1024;

const inRun = new AsyncLocalStorage();
const runIn = inRun.run.bind(inRun);
const currentOf = inRun.getStore.bind(inRun);
const { from, isBuffer } = Buffer;

/** @param {() => void} barrier  waits until the agent has passed on the written output */
function open(barrier) {
	let active = null; // the run under way
	let last = 0; // descriptor of the text that was printed last and may not have been read yet
	let late = '';

	function foreign() {
		if (active === null) return true;
		const mine = currentOf();
		return mine !== undefined && mine !== active;
	}

	function keepLate(bytes) {
		late = (late + bytes.toString()).slice(-LATE_MAX);
	}

	function print(fd, bytes) {
		if (bytes.length === 0) return;
		if (foreign()) return keepLate(bytes);
		if (last !== 0 && last !== fd) barrier();
		last = fd;
		writeAll(fd, bytes);
	}

	class Output extends Writable {
		constructor(fd) {
			super({ decodeStrings: false, emitClose: false, autoDestroy: false });
			this.fd = fd;
			this._type = 'pipe';
			this._isStdio = true;
		}
		_write(chunk, encoding, done) {
			print(this.fd, isBuffer(chunk) ? chunk : from(clean(chunk), encoding));
			done();
		}
		// As Node's own: neither end() nor destroy() closes the descriptor.
		_destroy(error, done) {
			done(error);
			this._undestroy?.();
		}
		end(chunk, encoding, done) {
			if (typeof chunk === 'function') return chunk();
			if (chunk !== undefined && chunk !== null) this.write(chunk, encoding);
			if (typeof done === 'function') done();
			return this;
		}
	}

	function install() {
		const stdout = new Output(1);
		const stderr = new Output(2);
		for (const [name, value] of [['stdout', stdout], ['stderr', stderr]]) {
			Object.defineProperty(process, name, { value, writable: true, configurable: true, enumerable: true });
		}
		// Not Node's own console: that one also hands every message to the inspector, which keeps a thousand of them.
		const own = new Console({ stdout, stderr });
		own.Console = Console;
		Object.defineProperty(globalThis, 'console', { value: own, writable: true, configurable: true, enumerable: false });
	}

	return {
		install,
		begin(run) {
			active = run;
			last = 0;
		},
		end() {
			active = null;
		},
		/** After a frame in the middle of a run, later output must not overtake it. */
		fence() {
			barrier();
			last = 0;
		},
		/** Text of the worker itself for the run under way, as an uncaught error of a timer. */
		complain(text) {
			print(2, from(text));
		},
		foreign,
		keepLate: (text) => keepLate(from(text)),
		late: () => late,
	};
}

module.exports = { open, runIn };

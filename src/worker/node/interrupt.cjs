// SIGINT from the agent ends a run and keeps the context. While the event loop turns (the run awaits something) the signal is
// enough. A loop that never ends has to be broken from outside: a second thread reads the number of the run to interrupt from
// descriptor 5, waits whether this thread answers, and if not has V8 terminate what it executes.
//
// shared: [0] number of the run under way, 0 when idle · [1] a frame is being written · [2] count of interrupts answered ·
// [3] the run that the agent wants to end. [0] is -1 when the process is about to exit: the thread must end first.
'use strict';

const fs = require('node:fs');
const safe = require('./safe.cjs');

const FD = 5;
const kill = process.kill.bind(process);

/** Runs in the second thread. Self-contained: it is sent over as text. */
function watch() {
	const { workerData: shared } = require('node:worker_threads');
	const { readSync } = require('node:fs');
	const { Session } = require('node:inspector');
	const bytes = Buffer.alloc(4096);
	const ANSWER_MS = 40;
	const OVER_MS = 1000;

	function terminate(run) {
		if (Atomics.load(shared, 0) !== run) return next();
		if (Atomics.load(shared, 1) !== 0) return setTimeout(terminate, 1, run);
		// Only for this moment: a process that exits would wait for a session that is still there.
		const session = new Session();
		let isOver = false;
		const over = () => {
			if (isOver) return;
			isOver = true;
			session.disconnect();
			next();
		};
		session.connectToMainThread();
		session.post('Runtime.terminateExecution', over);
		setTimeout(over, OVER_MS);
	}

	function next() {
		let count = 0;
		try {
			count = readSync(5, bytes);
		} catch (error) {
			if (error.code === 'EAGAIN' || error.code === 'EINTR') return setTimeout(next, 5);
		}
		// The agent has closed it: the context was deleted, whatever runs.
		if (count === 0) return process.kill(process.pid, 'SIGKILL');
		if (Atomics.load(shared, 0) === -1) return undefined;
		const run = Number(bytes.toString('latin1', 0, count).trim().split('\n').pop());
		Atomics.store(shared, 3, run);
		const answered = Atomics.load(shared, 2);
		const isBusy = Atomics.load(shared, 0) === run && Atomics.wait(shared, 2, answered, ANSWER_MS) === 'timed-out';
		setImmediate(isBusy ? terminate : next, run);
	}
	next();
}

/** Is descriptor 5 the agent's? */
function present() {
	try {
		return fs.fstatSync(FD).isFIFO();
	} catch {
		return false;
	}
}

/**
 * @param {Int32Array} shared
 * @param {() => void} onInterrupt  called when SIGINT has come, also while idle
 */
function open(shared, onInterrupt) {
	const watched = present();
	let thread = null;

	function onSignal() {
		safe.add(shared, 2, 1);
		safe.notify(shared, 2);
		onInterrupt();
	}

	return {
		watched,
		/** Starts the second thread; takes 2 ms here and some 30 ms there, which go on beside the first run. */
		arm() {
			if (thread || !watched) return;
			const { Worker } = require('node:worker_threads');
			thread = new Worker(`(${watch})()`, {
				eval: true, workerData: shared, env: {}, execArgv: [], stdin: false, stdout: false, stderr: false, name: 'atoll-watch',
				resourceLimits: { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 1, codeRangeSizeMb: 4, stackSizeMb: 1 },
			});
			thread.on('error', () => {});
			thread.unref();
		},
		/** Node waits for its threads when it exits, and this one sits in a read: give it something to read. */
		disarm() {
			safe.store(shared, 0, -1);
			if (!thread) return;
			try {
				safe.writeSync(fs.openSync(`/proc/self/fd/${FD}`, 'w'), '0\n');
			} catch {
				kill(process.pid, 'SIGKILL');
			}
		},
		onSignal,
	};
}

module.exports = { open, FD };

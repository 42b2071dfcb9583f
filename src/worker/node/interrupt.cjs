// The agent wants a run to end: it writes the number of the run to descriptor 5 and sends SIGINT. A second thread reads the number and
// raises SIGINT once more. While the event loop turns (the run awaits something) this thread hears it and ends the run with that
// number, no other. A loop that never ends hears nothing: then the second thread has V8 terminate the running code.
//
// shared: [0] number of the run under way, 0 when idle, -1 when the process is about to exit and the thread must end first ·
// [1] the first thread is in a critical part · [2] count of signals heard · [3] the run that is to end · [4] V8 is told to terminate, and
// has not yet done so (critical.cjs) · [5] the second thread is there
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
	const AGAIN_MS = 2;
	const OVER_MS = 100;

	function isHeard() {
		const heard = Atomics.load(shared, 2);
		process.kill(process.pid, 'SIGINT');
		return Atomics.wait(shared, 2, heard, ANSWER_MS) !== 'timed-out';
	}

	/** Until the run is over: a termination may have struck the code that would have ended it. */
	function attempt(run) {
		if (Atomics.load(shared, 0) !== run) next();
		else if (isHeard()) setTimeout(attempt, AGAIN_MS, run);
		else terminate(run);
	}

	function again(run) {
		Atomics.store(shared, 4, 0);
		setTimeout(attempt, AGAIN_MS, run);
	}

	function terminate(run) {
		Atomics.store(shared, 4, 1);
		if (Atomics.load(shared, 0) !== run || Atomics.load(shared, 1) !== 0) return again(run);
		// Only for this moment: a process that exits would wait for a session that is still there.
		const session = new Session();
		let isOver = false;
		const over = () => {
			if (isOver) return;
			isOver = true;
			session.disconnect();
			again(run);
		};
		session.connectToMainThread();
		session.post('Runtime.terminateExecution', over);
		setTimeout(over, OVER_MS); // it does not always answer
	}

	function next() {
		let count = 0;
		try {
			count = readSync(5, bytes);
		} catch (error) {
			if (error.code === 'EAGAIN' || error.code === 'EINTR') return setTimeout(next, 5);
		}
		// The agent has closed it: the context was deleted, also when code runs.
		if (count === 0) return process.kill(process.pid, 'SIGKILL');
		if (Atomics.load(shared, 0) === -1) return undefined;
		const run = Number(bytes.toString('latin1', 0, count).trim().split('\n').pop());
		// In this order: this thread sees that the run has begun, or the other one sees that it is to end.
		Atomics.store(shared, 3, run);
		setImmediate(attempt, run);
	}
	Atomics.store(shared, 5, 1);
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
 * @param {() => void} onInterrupt  SIGINT has come, also while idle
 */
function open(shared, onInterrupt) {
	const hasPipe = present();
	let thread = null;

	return {
		onSignal() {
			safe.add(shared, 2, 1);
			safe.notify(shared, 2);
			onInterrupt();
		},
		/** Is this run meant by a signal? As long as there is no second thread, every signal means the run under way. */
		isMeant: (id) => safe.load(shared, 5) === 0 || safe.load(shared, 3) === id,
		/** Has the agent named this run? */
		isNamed: (id) => safe.load(shared, 3) === id,
		/** Starts the second thread; takes 2 ms here and some 30 ms there, which go on beside the first run. */
		arm() {
			if (thread || !hasPipe) return;
			const { Worker } = require('node:worker_threads');
			thread = new Worker(`(${watch})()`, {
				eval: true, workerData: shared, env: {}, execArgv: [], stdin: false, stdout: false, stderr: false, name: 'atoll-watch',
				resourceLimits: { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 1, codeRangeSizeMb: 4, stackSizeMb: 1 },
			});
			thread.on('error', () => {
				safe.store(shared, 5, 0);
			});
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
	};
}

module.exports = { open, FD };

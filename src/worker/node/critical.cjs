// Parts of the worker that a termination must not cut in two: a frame half written, a run half ended. The second thread
// (interrupt.cjs) has V8 terminate the code that this thread executes, and between its decision and the deed time passes. So both sides announce
// themselves first and look for the other afterwards: this thread in shared[1], the second one in shared[4].
'use strict';

const safe = require('./safe.cjs');

const STRUCK = 100; // looks, half a millisecond apart

/** @param {Int32Array} shared */
function open(shared) {
	let depth = 0;

	/**
	 * Waits while a termination is on its way: it strikes here, where it does no harm. One that has not struck after that time has done so
	 * before, and is only not reported yet because this code is called from what it has ended.
	 */
	function enter() {
		for (let waited = 0; depth === 0; waited++) {
			safe.store(shared, 1, 1);
			if (safe.load(shared, 4) === 0 || waited === STRUCK) break;
			safe.store(shared, 1, 0);
			safe.sleep(0.5);
		}
		depth++;
	}

	function leave() {
		if (--depth === 0) safe.store(shared, 1, 0);
	}

	/** Runs something of the worker as a whole or not at all. Nothing of the user's may run in it. */
	return function critical(run) {
		enter();
		try {
			return run();
		} finally {
			leave();
		}
	};
}

module.exports = { open };

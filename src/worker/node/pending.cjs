// Work that a run has started and not waited for. As a script would, a run goes on until its callbacks have been called: timers, files,
// names, child processes; but no longer than a second, and not for servers and sockets, which are meant to stay.
'use strict';

const timers = require('node:timers');
const util = require('node:util');
const Module = require('node:module');

const WAIT_MAX = 1000;
const STEP = 4;
const LOOKS_MIN = 100; // on a machine that hardly lets us run, a second is nothing
const WAITED = new Set(['Immediate', 'FSReqCallback', 'FSReqPromise', 'GetAddrInfoReqWrap', 'GetNameInfoReqWrap', 'QueryReqWrap', 'ProcessWrap',
	'PBKDF2Job', 'ScryptJob', 'RandomBytesJob', 'WriteStream', 'Zlib']);

const { setTimeout: later, setInterval: every } = timers;
const now = performance.now.bind(performance);
const resources = process.getActiveResourcesInfo?.bind(process) ?? (() => []);

let started = new Set(); // timers of the run under way

/** The same function, but the timer is remembered when it comes due before the wait would be over. */
function remembered(original, name) {
	const own = { [name](callback, ms, ...args) {
		const timer = original(callback, ms, ...args);
		if (!(ms > WAIT_MAX)) started.add(timer);
		return timer;
	} }[name];
	Object.defineProperty(own, util.promisify.custom, { value: original[util.promisify.custom], configurable: true });
	return own;
}

function install() {
	for (const [name, original] of [['setTimeout', later], ['setInterval', every]]) {
		const own = remembered(original, name);
		timers[name] = own;
		Object.defineProperty(globalThis, name, { value: own, writable: true, configurable: true, enumerable: true });
	}
	Module.syncBuiltinESMExports();
}

function count() {
	const counts = new Map();
	for (const name of resources()) {
		if (WAITED.has(name)) counts.set(name, (counts.get(name) ?? 0) + 1);
	}
	return counts;
}

/** Begins a run: work that is pending now belongs to others. */
function begin() {
	started = new Set();
	return count();
}

function left(before) {
	for (const timer of started) {
		if (timer._destroyed || !timer.hasRef()) started.delete(timer);
	}
	if (started.size > 0) return true;
	for (const [name, number] of count()) {
		if (number > (before.get(name) ?? 0)) return true;
	}
	return false;
}

/** Calls `done` when nothing is left of the run that began with `before`, or the second is over. */
function drain(before, isOver, done) {
	if (!left(before)) return done();
	const end = now() + WAIT_MAX;
	let looks = 0;
	const isLate = () => ++looks > LOOKS_MIN && now() > end;
	const look = () => (isOver() || !left(before) || isLate() ? done() : later(look, STEP));
	later(look, 1);
}

module.exports = { install, begin, drain };

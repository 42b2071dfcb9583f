// The JavaScript and TypeScript worker: one process for one context of the code interpreter. It speaks with the agent over
// descriptor 3 (docs/design/008-interpreter.md); why it is made as it is stands in docs/design/009-js-worker.md.
//
//   wire       frames             evaluate    V8's REPL mode     show    values as results
//   output     what is printed    rewrite     module syntax      errors  errors and tracebacks
//   interrupt  SIGINT             scan        tokens             stack   the worker's frames away
//   globals    require, display   typescript  types away         safe    what user code cannot replace
//   pending    what a run has not waited for              critical  what must not be cut in two
'use strict';

const safe = require('./safe.cjs');
const wire = require('./wire.cjs');
const output = require('./output.cjs');
const { evaluate, isObjectLiteral } = require('./evaluate.cjs');
const { prepare } = require('./rewrite.cjs');
const show = require('./show.cjs');
const errors = require('./errors.cjs');
const stack = require('./stack.cjs');
const interrupt = require('./interrupt.cjs');
const globals = require('./globals.cjs');
const pending = require('./pending.cjs');

const shared = new Int32Array(new SharedArrayBuffer(24));
const critical = require('./critical.cjs').open(shared);
const agent = wire.open(onFrame, critical);
const out = output.open(agent.barrier);
const signals = interrupt.open(shared, onInterrupt);

const REHEARSE_MS = 50;

const { reallyExit } = process;
const immediately = setImmediate;
const later = setTimeout;

const aTimer = later(() => {}, 0);
const anImmediate = immediately(() => {});
clearTimeout(aTimer);
clearImmediate(anImmediate);
const Timeout = aTimer.constructor;
const Immediate = anImmediate.constructor;

let typescript = null; // the compiler, in a TypeScript context
let runs = 0; // how many there were
let run = null; // the run under way

function onFrame(type, payload) {
	if (type === 'I') start(payload);
	else if (type === 'R') immediately(begin, payload);
	else if (type === 'W') require('./typescript.cjs').warm();
}

function start(payload) {
	try {
		init(payload);
	} catch (error) {
		refuse('Error', `the worker could not start: ${error?.message}`);
	}
}

function init({ language, cwd, env }) {
	if (env) replaceEnvironment(env);
	if (language === 'typescript') {
		typescript = require('./typescript.cjs');
		if (!typescript.available) {
			return refuse('NotAvailable', `TypeScript needs Node.js 22.13 or later; this image has ${process.version}`);
		}
	}
	try {
		process.chdir(cwd);
	} catch (error) {
		return refuse(error.code ?? 'Error', `cannot enter ${cwd}: ${error.message}`);
	}
	globals.install({ cwd, lenient: typescript !== null, emit, late: out.late, fds: [wire.FD, interrupt.FD] });
	agent.send('Y', `{"language":${safe.quote(language)},"version":${safe.quote(process.versions.node)}}`);
	if (typescript) typescript.warm();
}

function refuse(name, message) {
	agent.send('X', errors.payload(name, message, [`${name}: ${message}`]));
	process.reallyExit(1);
}

function replaceEnvironment(env) {
	for (const name of Object.keys(process.env)) {
		if (!(name in env)) delete process.env[name];
	}
	Object.assign(process.env, env);
}

/** Sets (null: removes) variables and returns the undo. */
function setEnvironment(env) {
	const before = {};
	for (const name of Object.keys(env ?? {})) {
		before[name] = process.env[name] ?? null;
		if (env[name] === null) delete process.env[name];
		else process.env[name] = env[name];
	}
	return before;
}

/** A result in the middle of a run; nothing that is printed after it may overtake it. */
function emit(formats) {
	if (out.foreign()) return;
	agent.send('E', show.event(formats));
	out.fence();
}

function begin({ id, code, env }) {
	signals.arm();
	runs++;
	const cell = `cell-${runs}.${typescript ? 'ts' : 'js'}`;
	run = { id, cell, source: code, env: setEnvironment(env), before: pending.begin(), over: false };
	out.begin(run);
	safe.store(shared, 0, id);
	const mine = run;
	if (signals.isNamed(id)) return fail(mine, null);
	let text;
	try {
		text = prepared(code, cell);
	} catch (error) {
		return settle(mine, { error, place: error.place });
	}
	output.runIn(mine, () => evaluate(text, cell, (outcome) => settle(mine, outcome)));
}

function prepared(code, cell) {
	let text = code;
	if (typescript) {
		const { code: javascript, map } = typescript.transpile(code);
		if (map) stack.maps.set(cell, map);
		text = javascript;
	}
	if (isObjectLiteral(text)) return `(${text}\n)`;
	return prepare(text);
}

/** The code has come to its end, one way or the other. A promise is awaited: its value is the value of the run. */
function settle(mine, outcome) {
	if (mine.over) return;
	if (outcome.interrupted) return stopped(mine);
	if ('error' in outcome) return fail(mine, outcome);
	if (show.isPromise(outcome.value)) return follow(mine, outcome.value);
	pending.drain(mine.before, () => mine.over, () => succeed(mine, outcome.value));
}

/** V8 has terminated the code. The signal comes once more when all of it is unwound, and ends the run. */
function stopped(mine) {
	if (!signals.isNamed(mine.id)) fail(mine, { error: new Error('the code could not be run') });
}

async function follow(mine, promise) {
	let value;
	try {
		value = await promise;
	} catch (error) {
		return fail(mine, { error });
	}
	settle(mine, { value });
}

/** Values that are not shown: of a statement without one, of `"use strict"`, of setTimeout(…). */
function isNothing(value, source) {
	if (value === undefined || value instanceof Timeout || value instanceof Immediate) return true;
	return value === 'use strict' && /^\s*(['"])use strict\1/.test(source);
}

function succeed(mine, value) {
	if (mine.over) return;
	let event = null;
	if (!isNothing(value, mine.source)) {
		try {
			event = show.event(output.runIn(mine, () => show.formats(value)));
		} catch (error) {
			return fail(mine, { error });
		}
	}
	finish(mine, 'E', event);
}

const INTERRUPTED = '{"type":"error","ename":"KeyboardInterrupt","evalue":"the run was interrupted","traceback":["KeyboardInterrupt"]}';
const UNTOLD = '{"type":"error","ename":"Error","evalue":"an error that cannot be shown","traceback":[]}';

/** @param {{error: unknown, place?: object} | null} what  null: it was interrupted */
function fail(mine, what) {
	if (mine.over) return;
	const { cell, source } = mine;
	let event = INTERRUPTED;
	// Its work may have failed because of the signal, which a child process gets too.
	if (what !== null && !signals.isNamed(mine.id)) {
		try {
			event = errors.report(what.error, { cell, source, place: what.place });
		} catch {
			event = UNTOLD;
		}
	}
	finish(mine, 'X', event);
}

/** Ends the run with a last event, if there is one: as a whole, or, when a termination is on its way, not yet. */
function finish(mine, type, event) {
	critical(() => {
		if (mine.over) return;
		mine.over = true;
		safe.store(shared, 0, 0);
		run = null;
		out.end();
		setEnvironment(mine.env);
		listen();
		const done = `{"execution_count":${runs}}`;
		if (event === null) agent.send('D', done);
		else agent.sendBoth(type, event, 'D', done);
	});
}

/** SIGINT has come and the loop turns: the run, if it is meant, waits for something that is given up. */
function onInterrupt() {
	if (run && signals.isMeant(run.id)) fail(run, null);
}

/** An uncaught error, in a callback or a promise: ends the run that it belongs to. The context lives on. */
function onUncaught(error) {
	if (run && !out.foreign()) fail(run, { error });
	else out.keepLate(`Uncaught ${show.inspected(error)}\n`);
}

/** process.exit(): the second thread first; that the context has ended is the agent's to say. */
process.reallyExit = (code) => {
	signals.disarm();
	reallyExit.call(process, code);
};

/** A process without a run for a while was started ahead: it does the slow parts of a first run now. */
function rehearse() {
	signals.arm();
	if (runs > 0) return;
	show.event(show.formats({ a: [1] }));
	prepare('const a = 1');
	evaluate('void 0', 'cell-0.js', () => {});
}

const HANDLERS = [['SIGINT', signals.onSignal], ['uncaughtException', onUncaught], ['unhandledRejection', onUncaught]];
const { removeAllListeners, listeners, on } = process;

/** Without these the process would end; user code that removes them gets them back. */
function listen() {
	for (let i = 0; i < HANDLERS.length; i++) {
		const [name, handler] = HANDLERS[i];
		let isThere = false;
		for (const listener of listeners.call(process, name)) isThere ||= listener === handler;
		if (!isThere) on.call(process, name, handler);
	}
}
process.removeAllListeners = function (...names) {
	removeAllListeners.apply(process, names);
	listen();
	return process;
};

process.execArgv = []; // ours are not for the processes that the user starts
out.install();
pending.install();
listen();
agent.listen();
later(rehearse, REHEARSE_MS);

// Runs cells with V8's own REPL mode, through an inspector session of this thread with itself: `let` and `class` may be
// declared again, `await` stands at the top level, and the value of the last statement comes back, all without a parser here.
//
// A cell in REPL mode is an async function. Its promise, caught as it is made, has the value; the inspector, which would
// describe the value in JSON and hold it, is let go of as soon as the cell has begun. (It must be: when a promise that an
// inspector session waits for is collected, Node calls JavaScript in the middle of the collection and aborts.)
'use strict';

const { Session } = require('node:inspector');
const { promiseHooks } = require('node:v8');
const { Script } = require('node:vm');
const { redeclare } = require('./rewrite.cjs');
const { uncurry } = require('./safe.cjs');

const VALUE = '.repl_result'; // V8's name for it
const DECLARED = /^Identifier '(.+)' has already been declared$/;
const REDECLARATIONS_MAX = 50;

const connect = uncurry(Session.prototype.connect);
const disconnect = uncurry(Session.prototype.disconnect);
const post = uncurry(Session.prototype.post);
const { onInit } = promiseHooks;
const { getOwnPropertyDescriptor, defineProperty, prototype: objects } = Object;
const then = uncurry(Promise.prototype.then);
const { set } = Reflect;

/** The error of a cell that V8 did not take: nothing of it has run. */
function early({ exception, lineNumber, columnNumber }) {
	const [, name, message] = /^(\w+): ([^]*?)(?:\n    at |$)/.exec(exception?.description ?? '') ?? [];
	const error = new (name === 'ReferenceError' ? ReferenceError : SyntaxError)(message ?? 'the code cannot be read');
	return { error, place: { line: lineNumber + 1, column: columnNumber + 1 }, name: DECLARED.exec(error.message)?.[1] };
}

/** Takes Object.prototype.toJSON away, which would change the inspector's messages; returns a function that restores it. */
function withoutToJSON() {
	const odd = getOwnPropertyDescriptor(objects, 'toJSON');
	if (odd === undefined || !delete objects.toJSON) return () => {};
	let isAway = true;
	return () => {
		if (isAway) defineProperty(objects, 'toJSON', odd);
		isAway = false;
	};
}

/** Node makes an error for the answer that does not come any more: without a stack, which would cost more than all the rest. */
function hangUp(session) {
	const limit = Error.stackTraceLimit;
	set(Error, 'stackTraceLimit', 0);
	disconnect(session);
	set(Error, 'stackTraceLimit', limit);
}

/** Runs `code` once; `done` gets {value}, {error, place?, name?} or {interrupted: true}. */
function once(code, cell, done) {
	const session = new Session();
	let promise = null;
	let begun = false;
	let refused = null; // an answer at once, not through the promise: V8 did not begin, or was stopped
	connect(session);
	const putBack = withoutToJSON();
	const stop = onInit((made) => {
		promise ??= made;
		putBack();
	});
	const expression = `${code}\n//# sourceURL=${cell}`;
	post(session, 'Runtime.evaluate', { expression, replMode: true, silent: true }, (failure, answer) => {
		if (begun) return;
		refused = failure ? { interrupted: true } : answer.exceptionDetails && early(answer.exceptionDetails);
	});
	stop();
	putBack();
	begun = true;
	hangUp(session);
	if (refused || promise === null) return done(refused ?? { interrupted: true });
	then(promise, (result) => done({ value: result[VALUE] }), (error) => done({ error }));
}

/**
 * Runs a cell. A name that was `function` or `var` and is now `let` (or the other way round) is refused by V8: the cell is
 * changed for it and run again, which is safe because it was refused before it began.
 */
function evaluate(code, cell, done, tries = 0) {
	once(code, cell, (outcome) => {
		if (!outcome.name || tries >= REDECLARATIONS_MAX) return done(outcome);
		const isProperty = getOwnPropertyDescriptor(globalThis, outcome.name) !== undefined;
		const changed = redeclare(code, outcome.name, isProperty);
		if (changed === null || changed === code) return done(outcome);
		evaluate(changed, cell, done, tries + 1);
	});
}

/** `{a: 1}` is meant as an object, not as a block with a label: true when it can be read so. */
function isObjectLiteral(code) {
	if (!/^\s*\{[^]*\}\s*$/.test(code)) return false;
	try {
		new Script(`(${code}\n)`);
		return true;
	} catch {
		return false;
	}
}

module.exports = { evaluate, isObjectLiteral };

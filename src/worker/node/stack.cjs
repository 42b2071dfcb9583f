// Stacks in text, wherever they are shown: without the frames of the worker, and with the lines of the TypeScript.
'use strict';

/** Source maps of cells whose lines moved, by name of the cell. @type {Map<string, object>} */
const maps = new Map();

const CELL = /\bcell-\d+\.[jt]s:\d+:\d+/g;
const FRAME = /^\s+at /;
const OWN = /[( ](?:node:inspector|atoll:worker|node:vm|node:async_hooks|node:internal\/(?:vm|async_hooks|async_local_storage|timers|process\/task_queues))\b/;

/** `cell-3.ts:7:1` of the JavaScript → of the TypeScript. */
function mapped(place) {
	const [name, line, column] = place.split(':');
	const entry = maps.get(name)?.findEntry(line - 1, column - 1);
	return entry?.originalLine === undefined ? place : `${name}:${entry.originalLine + 1}:${entry.originalColumn + 1}`;
}

/** Does the text have frames that are not the user's business? */
const isDirty = (text) => text.includes('(atoll:worker') || text.includes('at atoll:worker') || text.includes('cell-');

/** Leaves out the frames below a cell (the inspector, this worker, the event loop), to the end of that stack. */
function clean(text) {
	if (!isDirty(text)) return text;
	const out = [];
	let inCell = false; // a frame of a cell was above
	for (const line of text.split('\n')) {
		if (!FRAME.test(line)) inCell = false;
		else if (line.includes('cell-')) inCell = true;
		if (FRAME.test(line) && OWN.test(line) && (inCell || line.includes('atoll:worker'))) {
			// The brace opens the error's own properties.
			if (line.endsWith(' {') && out.length) out[out.length - 1] += ' {';
			continue;
		}
		out.push(line.replace(CELL, mapped));
	}
	return out.join('\n');
}

module.exports = { clean, isDirty, maps };

// Globals of user code beside Node's own: require and import() as of a file in the context's directory, and display().
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');
const Module = require('node:module');
const { pathToFileURL } = require('node:url');
const show = require('./show.cjs');
const { IMPORT } = require('./rewrite.cjs');
const { quietly } = require('./safe.cjs');

const hidden = (name, value) =>
	Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });

/**
 * import() of a cell. V8's REPL mode has none, so calls are rewritten to this function, which was compiled as a script of the
 * context's directory. `names` are those that an import declaration asks for.
 */
function importer(file, lenient) {
	const load = vm.runInThisContext('(specifier, options) => import(specifier, options)', {
		filename: file, importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER,
	});
	const own = async (specifier, options, names) => {
		const missing = names && !lenient ? new SyntaxError() : null; // made here for its stack
		const module = await quietly(() => load(specifier, options));
		for (const name of missing ? names : []) {
			if (name in module) continue;
			missing.message = `The requested module '${specifier}' does not provide an export named '${name}'`;
			if (!missing.stack.includes(missing.message)) missing.stack = missing.stack.replace('SyntaxError', `SyntaxError: ${missing.message}`);
			throw missing;
		}
		return module;
	};
	const url = pathToFileURL(file).href;
	own.meta = { __proto__: null, dirname: path.dirname(file), filename: file, url, resolve: (to) => pathToFileURL(Module.createRequire(url).resolve(to)).href };
	return own;
}

/** Descriptors of the worker are not the user's to close: a loop over all of them would end the context. */
function guardDescriptors(fds) {
	const refuse = () => Object.assign(new Error('EBADF: bad file descriptor, close'), { errno: -9, code: 'EBADF', syscall: 'close' });
	const { close, closeSync } = fs;
	fs.closeSync = function (fd) {
		if (fds.includes(fd)) throw refuse();
		return closeSync(fd);
	};
	fs.close = function (fd, done) {
		if (!fds.includes(fd)) return close(fd, done);
		process.nextTick(done ?? ((error) => { throw error; }), refuse());
	};
	Module.syncBuiltinESMExports();
}

/** @param {(formats: Record<string, string>) => void} emit  sends a result in the middle of a run */
function displayer(emit, late) {
	const display = (...values) => {
		for (const value of values) emit(show.isBundle(value) ? show.bundle(value) : show.formats(value));
	};
	for (const name of ['text', 'html', 'svg', 'png', 'jpeg', 'markdown', 'latex', 'javascript', 'json', 'chart', 'data']) {
		display[name] = (value) => emit({ __proto__: null, [name]: show.format(name, value) });
	}
	display.late = late;
	return display;
}

/** @param {{cwd: string, lenient: boolean, emit: Function, late: () => string, fds: number[]}} options */
function install({ cwd, lenient, emit, late, fds }) {
	const file = path.join(cwd, 'cell.js');
	const require = Module.createRequire(file);
	const module = new Module(file);
	module.filename = file;
	module.paths = require.resolve.paths('x') ?? [];
	hidden('require', require);
	hidden('module', module);
	hidden('exports', module.exports);
	hidden('__filename', file);
	hidden('__dirname', cwd);
	hidden(IMPORT, importer(file, lenient));
	hidden('display', displayer(emit, late));
	guardDescriptors(fds);
}

module.exports = { install };

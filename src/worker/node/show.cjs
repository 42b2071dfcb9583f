// A value as the formats of a result: always `text`, and further formats where it has them. The convention is in docs/interpreter-js.md.
'use strict';

const util = require('node:util');
const safe = require('./safe.cjs');
const { clean } = require('./stack.cjs');

// The agent takes 64 MiB in one frame; a character may take six bytes.
const EVENT_MAX = 60 << 20;
const TEXT_MAX = 32 << 20;
const JSON_MAX = 24 << 20;

// Formats of a result by MIME type. Other types go into `data`, under their names.
const MIME = {
	__proto__: null,
	'text/plain': 'text', 'text/html': 'html', 'image/png': 'png', 'image/jpeg': 'jpeg', 'image/svg+xml': 'svg', 'text/latex': 'latex',
	'text/markdown': 'markdown', 'application/javascript': 'javascript', 'text/javascript': 'javascript', 'application/json': 'json',
};
const METHODS = {
	__proto__: null,
	_repr_html_: 'html', _repr_svg_: 'svg', _repr_png_: 'png', _repr_jpeg_: 'jpeg', _repr_markdown_: 'markdown', _repr_latex_: 'latex',
	_repr_json_: 'json', _repr_javascript_: 'javascript',
};
const BUNDLE = [Symbol.for('Jupyter.display'), '_repr_mimebundle_'];
const INSPECT = { depth: 4, maxArrayLength: 100, maxStringLength: 10000, breakLength: 100 };

const { inspect } = util;
const { isPromise, isProxy, isUint8Array } = util.types;

/** @returns {string} never throws: a value may have getters, proxies and inspectors that do */
function inspected(value, options = INSPECT) {
	try {
		return clean(inspect(value, options));
	} catch (error) {
		return `[cannot be shown: ${error?.message}]`;
	}
}

const shorten = (text, max) =>
	(text.length <= max ? text : `${text.slice(0, max)}\n… ${text.length - max} more characters`);

/** Text as JSON of at most TEXT_MAX bytes. */
function quoted(text) {
	const json = safe.quote(shorten(text, TEXT_MAX));
	return json.length <= TEXT_MAX + 100 ? json : safe.quote(shorten(text, Math.floor(TEXT_MAX / 6)));
}

/** Values that JSON does not have; NaN and Infinity become null by themselves. */
function replacer(key, value) {
	if (typeof value === 'bigint') return value.toString();
	if (value instanceof Map) {
		const entries = [...value];
		return entries.every(([k]) => typeof k === 'string') ? Object.fromEntries(entries) : entries;
	}
	if (value instanceof Set) return [...value];
	if (value instanceof Error) return { name: value.name, message: value.message };
	if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return Array.from(value);
	return value;
}

/** JSON of a value, or undefined when it has none (circular, too large, throws). */
function jsonOf(value) {
	try {
		const text = safe.stringify(value, replacer);
		if (text === undefined || text.length > JSON_MAX) return undefined;
		const plain = safe.ascii(text);
		return plain.length > JSON_MAX ? undefined : plain;
	} catch {
		return undefined;
	}
}

function isPlain(value) {
	if (Array.isArray(value)) return true;
	const proto = Object.getPrototypeOf(value);
	return (proto === Object.prototype || proto === null) && Object.prototype.toString.call(value) === '[object Object]';
}

function base64(value) {
	if ((value?.byteLength ?? 0) > (EVENT_MAX / 4) * 3) throw new RangeError(`the image is too large: ${value.byteLength} bytes`);
	if (typeof value === 'string') return value.replace(/^data:[^,]*;base64,/, '').replace(/\s+/g, '');
	if (isUint8Array(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64');
	if (value instanceof ArrayBuffer) return Buffer.from(value).toString('base64');
	throw new TypeError('an image is a Buffer, a Uint8Array or a string in base64');
}

/** One format as JSON, by its name. */
function format(name, value) {
	if (name === 'png' || name === 'jpeg') return safe.quote(base64(value));
	if (name === 'json' || name === 'data' || name === 'chart') return jsonOf(value) ?? 'null';
	return quoted(String(value));
}

/** A bundle `{mime: value}` as formats. */
function bundle(entries) {
	const formats = { __proto__: null };
	const rest = {};
	for (const [mime, value] of Object.entries(entries)) {
		if (value === undefined || value === null) continue;
		const name = MIME[mime] ?? (mime.startsWith('image/svg') ? 'svg' : undefined);
		if (name) formats[name] = format(name, value);
		else rest[mime] = value;
	}
	if (Object.keys(rest).length) formats.data = format('data', rest);
	return formats;
}

const isBundle = (value) =>
	typeof value === 'object' && value !== null && isPlain(value) && Object.keys(value).length > 0 &&
	Object.keys(value).every((key) => /^[\w.+-]+\/[\w.+-]+$/.test(key));

function image(value) {
	if (!isUint8Array(value) || value.length < 8) return null;
	if (value[0] === 0x89 && value[1] === 0x50 && value[2] === 0x4e && value[3] === 0x47) return 'png';
	return value[0] === 0xff && value[1] === 0xd8 && value[2] === 0xff ? 'jpeg' : null;
}

/** The formats that an object itself offers: its own display methods, an element's markup. */
function own(value) {
	for (const name of BUNDLE) {
		if (typeof value[name] === 'function') return bundle(value[name]());
	}
	const formats = { __proto__: null };
	for (const name in METHODS) {
		if (typeof value[name] !== 'function') continue;
		const shown = value[name]();
		if (shown !== undefined && shown !== null) formats[METHODS[name]] = format(METHODS[name], shown);
	}
	if (typeof value.outerHTML === 'string') formats[/^<svg\b/i.test(value.outerHTML) ? 'svg' : 'html'] = quoted(value.outerHTML);
	return formats;
}

/**
 * All formats of a value, each as JSON text.
 * @returns {Record<string, string>}
 */
function formats(value) {
	if (typeof value === 'string') return { __proto__: null, text: quoted(value) };
	const text = quoted(inspected(value));
	if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return { __proto__: null, text };
	if (isProxy(value)) return { __proto__: null, text }; // would answer to any name
	const kind = image(value);
	if (kind) return { __proto__: null, text, [kind]: format(kind, value) };
	let found = { __proto__: null };
	try {
		found = own(value);
	} catch (error) {
		found.text = quoted(`${inspected(value)}\n[display failed: ${inspected(error)}]`);
	}
	found.text ??= text;
	if (isPlain(value)) {
		const json = jsonOf(value);
		if (json !== undefined) found.json ??= json;
	}
	return found;
}

/** The event of a result. */
function event(found) {
	let out = '{"type":"result"';
	for (const name in found) out += `,"${name}":${found[name]}`;
	if (out.length > EVENT_MAX) throw new RangeError(`the result is too large: ${out.length} bytes of at most ${EVENT_MAX}`);
	return `${out},"metadata":{}}`;
}

module.exports = { formats, bundle, isBundle, format, event, inspected, isPromise };

// TypeScript types of the API's schemas, from the text of api/openapi.yaml. build.mjs writes them into src/schema.ts.
import { parse } from 'yaml';

const DEPTH = 20;
const name = (ref) => ref.split('/').pop();
const key = (k) => (/^[A-Za-z_$][\w$]*$/.test(k) ? k : JSON.stringify(k));
const union = (parts) => [...new Set(parts)].join(' | ') || 'unknown';

function objectType(s, depth) {
  const members = Object.entries(s.properties ?? {}).map(([k, v]) => `${key(k)}${s.required?.includes(k) ? '' : '?'}: ${type(v, depth + 1)}`);
  const more = s.additionalProperties;
  if (!members.length) return `Record<string, ${more && typeof more === 'object' ? type(more, depth + 1) : 'any'}>`;
  if (more === true) members.push('[other: string]: any');
  return `{ ${members.join('; ')} }`;
}

/** The type of a schema, as text. What the generator does not know is `unknown`, so that it cannot be used unseen. */
export function type(s, depth = 0) {
  if (!s || depth > DEPTH) return 'unknown';
  if (s.nullable) return union([type({ ...s, nullable: false }, depth + 1), 'null']);
  if (s.$ref) return name(s.$ref);
  if (s.const !== undefined) return JSON.stringify(s.const);
  if (s.enum) return union(s.enum.map((v) => JSON.stringify(v)));
  if (s.oneOf || s.anyOf) return union((s.oneOf ?? s.anyOf).map((x) => type(x, depth + 1)));
  if (s.allOf) return s.allOf.map((x) => `(${type(x, depth + 1)})`).join(' & ');
  if (Array.isArray(s.type)) return union(s.type.map((t) => type({ ...s, type: t }, depth + 1)));
  if (s.type === 'array') return `(${type(s.items, depth + 1)})[]`;
  if (s.type === 'object' || s.properties) return objectType(s, depth);
  return { string: 'string', integer: 'number', number: 'number', boolean: 'boolean', null: 'null' }[s.type] ?? 'unknown';
}

export function schema(yaml) {
  const { schemas } = parse(yaml, { merge: true }).components;
  const types = Object.entries(schemas).map(([k, s]) => `export type ${k} = ${type(s)};`);
  return `// Made by web/schema.mjs from api/openapi.yaml.\n${types.join('\n')}\n`;
}

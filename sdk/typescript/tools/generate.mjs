// Writes src/generated/openapi.ts from api/openapi.yaml, before every build: the types of the wire are those of the contract.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import openapiTS, { astToString } from 'openapi-typescript';

const contract = new URL('../../../api/openapi.yaml', import.meta.url);
const target = new URL('../src/generated/openapi.ts', import.meta.url);
const head = '/* Made from api/openapi.yaml by tools/generate.mjs: do not edit. */\n\n';

/** The fields that `PUT /v1/sandboxes/{id}` takes, which `getSandbox` passes on. */
function specFields(types) {
  const body = /^ {8}SandboxSpec: \{\n(.*?)^ {8}\};$/ms.exec(types)?.[1] ?? '';
  const names = [...body.matchAll(/^ {12}(\w+)\??:/gm)].map((match) => match[1]);
  if (!names.includes('limits'))
    throw new Error('SandboxSpec and its fields were not found in what openapi-typescript made');
  return `\nexport const sandboxSpecFields: readonly string[] = ${JSON.stringify(names)};\n`;
}

// A field with a default may be left out of a request.
const types = astToString(await openapiTS(contract, { alphabetize: true, defaultNonNullable: false }));
await mkdir(new URL('.', target), { recursive: true });
const { version } = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8'));
const own = `\n/** Of this package. */\nexport const packageVersion: string = ${JSON.stringify(version)};\n`;
await writeFile(target, head + types + specFields(types) + own);

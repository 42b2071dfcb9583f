// Writes src/generated/openapi.ts from api/openapi.yaml, before every build: the types of the wire are those of the contract.
import { mkdir, writeFile } from 'node:fs/promises';
import openapiTS, { astToString } from 'openapi-typescript';

const contract = new URL('../../../api/openapi.yaml', import.meta.url);
const target = new URL('../src/generated/openapi.ts', import.meta.url);
const head = '/* Made from api/openapi.yaml by tools/generate.mjs: do not edit. */\n\n';

await mkdir(new URL('.', target), { recursive: true });
await writeFile(target, head + astToString(await openapiTS(contract, { alphabetize: true })));
